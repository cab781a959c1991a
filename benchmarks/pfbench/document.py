# SPDX-License-Identifier: BSD-3-Clause
"""Writes doc/results.md from its CSV files, and puts results of a run among them."""

from __future__ import annotations

import csv
import shutil
import statistics
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Iterable, Mapping, Optional, Sequence

from . import application_results, bfs, causes, collective_results, goals, measures, overcommit
from . import plot, table
from .application_results import CPU, RESIDENT, TIME, Failure, Row, Run, Setting
from .collective_results import Point as Collective
from .measures import Measure
from .overcommit import FAULT, LOADS, PINNED, WAYS, Point
from .results import Results, Summary
from .suite import KIB, MIB, size_text
from .transports import SUBJECT

# Where results are published.
FOLDER = Path(__file__).resolve().parents[2] / "doc"
NAME = "results"
_MACHINE = "machine"
_APPLICATIONS = "applications"
_COLLECTIVES = "collectives"
_CAUSES = "causes"
# Of a run's environment.txt, for the document.
_FACTS = (
    *("date", "source", "cpu", "cpus usable", "memory", "kernel", "mpirun"),
    *("cache line at the start", "cache line at the end"),
    *("graph", "half of the columns in memory", "overcommitment", "command"),
    "inputs",
)
_WARM, _COLD = "none", "destination"
_BUFFERS = {_COLD: "fresh", _WARM: "reused"}
_SIZES = (4 * KIB, 64 * KIB, MIB, 4 * MIB)
_HANDLING = {
    SUBJECT: "page faults (exanest)",
    "pin": "pinned for each transfer",
    "pin-cache": "pinned, with a cache",
    "prefault": "pre-faulted",
}
_KINDS = {
    "latency, us": measures.COLD_LATENCY,
    "throughput, MB/s": measures.COLD_BANDWIDTH,
    "CPU, s/GB": measures.COLD_CPU,
}
# Published in arXiv 2511.21018: page faults, pinned, pre-faulted.
_PUBLISHED = dict(zip(_KINDS, ((2.9, 3.8, 4.2), (13.3, 12.5, 11.9), (6, 8, 9))))
# PART, IEEE TPDS 33/12, 2022: a minor page fault, us; throughput over that of pinning.
_PART_MINOR, _PART_RATIO = 38, 1.46
_ASPLOS_RATIO = 1.9
_PARTS = {
    "userfaultfd thread that sleeps": measures.PAGER_THREAD,
    "userfaultfd thread that spins": measures.PAGER_SPINNING,
    "forwarded to the pager": measures.PAGER_FORWARDED,
    "... detect, notify: until the pager is called": measures.PAGER_NOTIFY,
    "... supply: in the pager": measures.PAGER_SUPPLY,
    "... install, retransmit: until the get is complete": measures.PAGER_RETRANSMIT,
    "(UFFDIO_COPY of the userfaultfd thread)": measures.PAGER_COPY,
}
_MINOR = (measures.MINOR_COLD, measures.MINOR_WARM, measures.MINOR_TOUCH)
_ABSENT = "\nNot measured: this step was not run, or it failed."
_TITLE = """\
<!-- SPDX-License-Identifier: BSD-3-Clause -->
<!-- Made by benchmarks/papers, applications and collectives: do not edit. -->
# What exanest reaches

Sections 1 to 3 compare with the claims of three papers. The published figures come from other machines
and other programs. So ratios are compared, and a time only where its unit is known. Cells are medians; in
brackets (maximum - minimum) / median of the repetitions. **met**: as good as published (or as stated), or
better, whichever repetitions are compared; **not met**: in no repetition; **undecided**: the spread
includes the limit. [benchmarks/README.md](../benchmarks/README.md) describes the commands. The data is
in the `results-*.csv` beside this file, from which `benchmarks/papers --from DIR` makes it again."""
_EXANEST = f"""
## 1. ExaNeSt: page faults instead of pinning

The claim (arXiv 2511.21018; PART, IEEE TPDS 33/12, 2022): an engine that takes page faults is faster
than pinning for each transfer and than touching all pages before. Published for page faults, pinning
and pre-faulting: latency 2.9, 3.8, 4.2; throughput 13.3, 12.5, 11.9; CPU 6, 8, 9 %. A minor page fault
at the destination takes {_PART_MINOR} us, and a cold transfer of 4 MB is {_PART_RATIO} times as fast as with pinning.

One host, MPI. **fresh**: the destination was never touched; **reused**: source and destination are
warm. Our CPU figure is the time of both ranks for each byte, because ranks that wait poll."""
_OVERCOMMIT = f"""
## 2. Page Fault Support for Network Controllers (ASPLOS'17)

The claim: what is not pinned can be overcommitted, and programs are up to {_ASPLOS_RATIO} times as fast as with
pinning, and a backup ring takes what arrives for cold receive buffers.

### Memory overcommitment

Key-value servers map a file each. A client of each gets records of 1 KiB with `pf_get`: 90 % of the
lookups go to 20 % of the records, the others to all. All are in one memory cgroup. **pinned**
locks the files (`PF_MODE=pin`). A paced client offers at most {LOADS["paced"]:,} lookups a second: so the
limit is memory and not the processors, which the instances share; as the group holds half of the stores,
the paced ratio can be 2 at most. Unpaced clients offer as many as they can."""
_COLD_START = """
### Cold receive buffers between hosts

Two hosts made on this machine; the destination was never touched. **nack** drops a block whose page
is absent and requests it again, **backup** keeps it meanwhile, as the paper's backup ring does. Loss:
1 % of the packets, each of which then crosses separately. To be met: not slower than TCP."""
_UINTR = """
## 3. PFF-UINTR: page faults that user space resolves

The claim: forwarding by a user interrupt removes the handler thread, the wait queue and the locks from
a page fault that user space resolves. libpf does so for transfers, without user interrupts: it calls
the pager on the thread that met the absent page. For loads and stores it still needs userfaultfd."""

_APPLICATIONS_TEXT = f"""
## 4. Applications

Packaged programs over exanest and the other transports of Open MPI, which have their defaults, in
turns. The programs are unmodified; mpi4py and hdf5 are packaged libraries, used by scripts of this
project ([inputs](../benchmarks/inputs)). **ratio** is the median of the ratios of exanest and a
peer in each repetition, in brackets its confidence interval (sign test, 93 %; 0 to inf: fewer than
five repetitions). **best peer** is the peer with the largest ratio. A program that times its parts
is judged by these, if they last {1000 * application_results.SHORT:.0f} ms or longer.
CPU time and resident memory are sums over the ranks, locked memory is the most of any rank; each
first over exanest, then over the best peer.

The goal: no application slower than over its best peer by more than {application_results.SLOWER:.0%}, at least
{application_results.WANTED} faster by {application_results.FASTER:.0%}. A difference counts if the interval does not contain 1."""
_COLLECTIVES_TEXT = """
## 5. Collective operations

MPI's collective operations over exanest and the other transports, in turns, with Open MPI's own choice of
algorithms. **coll-sm** is vader with Open MPI's component coll/sm, which has algorithms for shared memory.
Between hosts tcp and ucx use shared memory inside a host. Cells: the mean time of a call over exanest, us
(spread of the repetitions), and its ratio to the time over the fastest other transport. The size is that of
one rank's block.

The goal: no size slower than over the fastest other transport, beyond the spread of the
repetitions. Noise widens the spread and so hides losses: therefore the sizes that are slower by the
medians are counted, too.

No rules for coll/tuned are used here, and none are shipped, because they hold only for the machine
on which they were measured. `benchmarks/collectives --rules FILE` measures all algorithms and makes
them; [cluster.md](cluster.md) tells how to install them. What they gain is in FILE: beside each
rule is the time of its algorithm over that of Open MPI's choice. No such figures are published."""
_COLLECTIVE_SIZES = (8, 256, 8 * KIB, 64 * KIB, MIB, 4 * MIB)


def data_name(step: str) -> str:
    return f"{NAME}-{step}.csv"


# ---- the files of a folder ----


def steps(folder: Path) -> dict[str, Path]:
    """The files of the steps that have results in the folder."""
    paths = {path.stem.partition("-")[2]: path for path in sorted(folder.glob(data_name("*")))}
    for name in (_MACHINE, _CAUSES):
        paths.pop(name, None)
    return paths


def facts_of(environment: Path) -> dict[str, str]:
    """What the document says about the run that wrote an environment.txt."""
    pairs = [line.partition(": ")[::2] for line in environment.read_text().splitlines()]
    return {name: value for name, value in pairs if name in _FACTS}


def read_facts(folder: Path) -> dict[str, dict[str, str]]:
    """The facts of each step."""
    facts: dict[str, dict[str, str]] = defaultdict(dict)
    machine = folder / data_name(_MACHINE)
    if not machine.exists():
        raise ValueError(f"{machine} does not exist: give a folder with results of papers")
    with open(machine, newline="") as file:
        for row in csv.DictReader(file):
            facts[row["step"]][row["name"]] = row["value"]
    return facts


def _write_facts(folder: Path, facts: Mapping[str, Mapping[str, str]]) -> None:
    rows = [(step, *pair) for step, pairs in facts.items() for pair in pairs.items()]
    with open(folder / data_name(_MACHINE), "w", newline="") as file:
        csv.writer(file).writerows([("step", "name", "value"), *rows])


def add(
    folder: Path, files: Mapping[str, Path], facts: Mapping[str, Mapping[str, str]]
) -> None:
    """Put files and facts of steps into the folder, in place of earlier ones of these steps."""
    for step, path in files.items():
        # The rows of these files are of several settings.
        merges = {
            _APPLICATIONS: application_results.merge,
            _COLLECTIVES: collective_results.merge,
        }
        merges.get(step, shutil.copy)(path, folder / data_name(step))
    known = read_facts(folder) if (folder / data_name(_MACHINE)).exists() else {}
    _write_facts(folder, {**known, **facts})


def remove(folder: Path, step: str) -> None:
    """Remove the step's file and facts from the folder."""
    (folder / data_name(step)).unlink(missing_ok=True)
    if (folder / data_name(_MACHINE)).exists():
        _write_facts(folder, {name: of for name, of in read_facts(folder).items() if name != step})


def publish(files: Mapping[str, Path], facts: Mapping[str, Mapping[str, str]]) -> Path:
    """Add files and facts to what is published, and write the document again; returns its path."""
    add(FOLDER, files, facts)
    return write(FOLDER)


def publish_applications(folder: Path) -> Path:
    """The same with the folder of a run of benchmarks/applications."""
    path, facts = folder / application_results.FILE, facts_of(folder / "environment.txt")
    done, failures = application_results.read(path)
    settings = {one.row.setting for one in (*done, *failures)}
    steps = (_setting_step(_APPLICATIONS, each) for each in sorted(settings))
    return publish({_APPLICATIONS: path}, dict.fromkeys(steps, facts))


def publish_collectives(path: Path, facts: Mapping[Setting, Mapping[str, str]]) -> Path:
    """The same with a file of benchmarks/collectives, and the facts of each setting."""
    steps = {_setting_step(_COLLECTIVES, setting): of for setting, of in facts.items()}
    return publish({_COLLECTIVES: path}, steps)


def _setting_step(step: str, setting: Setting) -> str:
    """The step of the facts about a setting."""
    return f"{step}, {setting}"


# ---- the document ----


class Data:
    """What the steps measured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._summaries: dict[tuple[str, str, str, int], Summary] = {}
        self.facts = read_facts(folder)
        for step in ("faults", "hosts"):
            if (folder / data_name(step)).exists():
                self._read_summary(step)
        path = folder / data_name("overcommit")
        self.points = overcommit.read(path) if path.exists() else []
        self.instances = sorted({point.instances for point in self.points})
        path = folder / data_name("bfs")
        self.searches = bfs.read(path) if path.exists() else []
        path = folder / data_name(_APPLICATIONS)
        runs: tuple[list[Run], list[Failure]] = ([], [])
        self.runs, self.failures = application_results.read(path) if path.exists() else runs
        path = folder / data_name(_COLLECTIVES)
        rows = collective_results.rows(path) if path.exists() else []
        self.collectives = collective_results.points(rows)
        self.causes = causes.read(folder / data_name(_CAUSES))

    def _read_summary(self, step: str) -> None:
        with open(self.folder / data_name(step), newline="") as file:
            rows = [row for row in csv.DictReader(file) if int(row["repetitions"])]
        # Processors close together or far apart: the state in which most was measured.
        weights: dict[str, int] = defaultdict(int)
        for row in rows:
            weights[row["cache_line_ns"]] += int(row["repetitions"])
        state = max(weights, key=lambda name: weights[name], default="")
        self.facts[step]["state"] = state
        for row in rows:
            if row["cache_line_ns"] == state:
                key = (step, row["test"], row["transport"], int(row["size"] or 0))
                figures = [float(row[name]) for name in ("median", "minimum", "maximum")]
                self._summaries[key] = Summary(*figures, int(row["repetitions"]))

    def get(self, step: str, measure: Measure, way: str, size: int = 0) -> Optional[Summary]:
        return self._summaries.get((step, measure.name, way, size))

    def transports(self, step: str) -> list[str]:
        return list(dict.fromkeys(key[2] for key in self._summaries if key[0] == step))

    def points_of(self, load: str, way: str, instances: int) -> list[Point]:
        return [p for p in self.points if (p.load, p.way, p.instances) == (load, way, instances)]

    def total(self, field: str, load: str, way: str, instances: int) -> Optional[Summary]:
        values = [float(getattr(p, field)) for p in self.points_of(load, way, instances)]
        if not values:
            return None
        return Summary(statistics.median(values), min(values), max(values), len(values))

    def best(self, load: str, way: str) -> Optional[tuple[Summary, Summary]]:
        """The most lookups a second, and how many instances ran."""
        totals = [
            tuple(self.total(field, load, way, n) for field in ("lookups", "ran"))
            for n in self.instances
        ]
        return max(filter(all, totals), key=lambda each: each[0].median, default=None)


def write(folder: Path) -> Path:
    """Write the document and its plots into the folder of the CSV files; returns its path."""
    data = Data(folder)
    for reason in dict.fromkeys(filter(None, _plots(data))):
        print(reason, file=sys.stderr)
    path = folder / f"{NAME}.md"
    sections = (_TITLE, *_exanest(data), *_overcommit(data), *_cold_start(data), *_uintr(data))
    sections += (*_bfs(data), *_applications(data), *_collectives(data))
    path.write_text("\n".join(sections) + "\n")
    return path


def _exanest(data: Data) -> list[str]:
    lines = [_EXANEST, *_state(data, "faults")]
    if not data.transports("faults"):
        return [*lines, _ABSENT]
    for name, kind in _KINDS.items():
        rows = [[name, *map(size_text, _SIZES)]]
        for cold, title in _BUFFERS.items():
            for way, text in _HANDLING.items():
                cells = [_cell(data.get("faults", kind[cold], way, size)) for size in _SIZES]
                rows.append([f"{title}: {text}", *cells])
        lines += _table(rows)
    lines += _image(data, "exanest", "Throughput by size of the message")
    cases = [(cold, size) for cold in _BUFFERS for size in (64 * KIB, 4 * MIB)]
    rows = [["page faults, divided by", "published"]]
    rows[0] += [f"{_BUFFERS[cold]}, {size_text(size)}" for cold, size in cases]
    words: list[str] = []
    for name, (own, *others) in _PUBLISHED.items():
        for peer, other in zip(("pin", "prefault"), others):
            row = [f"{name.split(',')[0]}: {_HANDLING[peer]}", f"{own / other:.2f}"]
            for cold, size in cases:
                kind = _KINDS[name][cold]
                mine, theirs = (data.get("faults", kind, way, size) for way in (SUBJECT, peer))
                row.append(_judge(mine, theirs, own / other, kind.lower_is_better))
                words += row[-1].split("**")[1:2]
            rows.append(row)
    count = ", ".join(f"{words.count(word)} {word}" for word in ("met", "undecided", "not met"))
    lines += [*_table(rows), f"\nOf these {len(words)} ratios: {count}.\n"]
    minor = [data.get("faults", measure, SUBJECT, 4 * KIB) for measure in _MINOR]
    if all(minor):
        added = minor[0].median - minor[1].median
        lines.append(
            f"- A get of 4 KiB into an untouched page takes {added:.2f} us longer than a warm one; "
            f"the kernel's own page fault takes {minor[2].median:.2f} us of that. Published: "
            f"{_PART_MINOR} us, on another processor."
        )
    mine, theirs = (
        data.get("faults", measures.COLD_BANDWIDTH[_COLD], way, 4 * MIB) for way in (SUBJECT, "pin")
    )
    ratio = _judge(mine, theirs, _PART_RATIO, False)
    lines.append(f"- Throughput of 4 MiB, fresh, over pinning: {ratio}. Published: {_PART_RATIO}.")
    return lines


def _overcommit(data: Data) -> list[str]:
    lines = [_OVERCOMMIT, *_state(data, "overcommit")]
    if not data.points:
        return [*lines, _ABSENT]
    lines.append(f"\nThis run: {data.facts['overcommit'].get('overcommitment', '?')}.")
    rows = [["load", "instances", "pinned: ran", "lookups/s", "not pinned: ran", "lookups/s"]]
    rows[0] += ["waited for a page", "not pinned / pinned"]
    memory = [["instances", "stores, MiB"]]
    for way in ("pinned", "not pinned"):
        memory[0] += [f"{way}: locked", "resident", "used by lookups"]
    for load in LOADS:
        for n in data.instances:
            row, totals = [load, str(n)], []
            for way in WAYS:
                ran, lookups = (data.total(f, load, way, n) for f in ("ran", "lookups"))
                totals.append(lookups)
                row += [f"{ran.median:.0f}" if ran else "-", _cell(lookups)]
            waited = data.total("waited", load, FAULT, n)
            row += [f"{waited.median:.1%}" if waited else "-", _ratio(*reversed(totals))]
            rows.append(row)
    for n in data.instances:
        fields = [(PINNED, "store_kib")]
        fields += [(way, f"{f}_kib") for way in WAYS for f in ("locked", "resident", "used")]
        sizes = [data.total(field, "paced", way, n) for way, field in fields]
        memory.append([str(n), *(f"{size.median / KIB:.0f}" if size else "-" for size in sizes)])
    lines += [
        *_table(rows),
        "\nMemory of the servers that ran, MiB, paced clients. Resident are pages of files, with "
        "some 2 MiB of libraries in each server.",
        *_table(memory),
        *_image(data, "overcommit", "Lookups a second by the number of instances"),
        "",
    ]
    for load in LOADS:
        pinned, fault = (data.best(load, way) for way in WAYS)
        if pinned and fault:
            ratio = _judge(fault[0], pinned[0], _ASPLOS_RATIO, False)
            lines.append(
                f"- {load.capitalize()}: the most lookups a second are {pinned[0].median:,.0f} "
                f"pinned ({pinned[1].median:.0f} instances ran), {fault[0].median:,.0f} not pinned "
                f"({fault[1].median:.0f} ran): {ratio}. Published: up to {_ASPLOS_RATIO}."
            )
    reasons = sorted({f"{point.reason} ({point.way})" for point in data.points if point.reason})
    return lines + [f"- Why instances did not run: {'; '.join(reasons)}."] * bool(reasons)


def _cold_start(data: Data) -> list[str]:
    lines = [_COLD_START, *_state(data, "hosts")]
    kinds = {
        "warm": measures.COLD_BANDWIDTH[_WARM],
        "cold": measures.COLD_BANDWIDTH[_COLD],
        "cold with loss": measures.COLD_LOSS_BANDWIDTH,
    }
    rows = [["1 MiB, MB/s", *kinds, "cold / warm"]]
    for way in data.transports("hosts"):
        row = [data.get("hosts", measure, way, MIB) for measure in kinds.values()]
        rows.append([way, *map(_cell, row), _ratio(row[1], row[0])])
    if len(rows) == 1:
        return [*lines, _ABSENT]
    lines += [*_table(rows), ""]
    for way in ("nack", "backup"):
        texts = []
        for title in ("cold", "cold with loss"):
            mine, tcp = (data.get("hosts", kinds[title], name, MIB) for name in (way, "tcp"))
            texts.append(f"{title} {_judge(mine, tcp, 1, False)}")
        lines.append(f"- {way}, divided by tcp: {', '.join(texts)}.")
    return lines


def _uintr(data: Data) -> list[str]:
    lines = [_UINTR, *_state(data, "faults")]
    figures = {text: data.get("faults", measure, SUBJECT) for text, measure in _PARTS.items()}
    if not all(figures.values()):
        return [*lines, _ABSENT]
    rows = [["a page fault, from access to resume", "us"]]
    rows += [[text, _cell(figure)] for text, figure in figures.items()]
    thread, spinning, forwarded, *_ = figures.values()
    return [
        *lines,
        *_table(rows),
        f"\nForwarded, divided by a thread that sleeps: {_judge(forwarded, thread, 1, True)}; by one "
        f"that spins: {_judge(forwarded, spinning, 1, True)}. To be met: not slower.",
    ]


def _bfs(data: Data) -> list[str]:
    lines = ["\n### Breadth-first search", *_state(data, "bfs")]
    if not data.searches:
        return [*lines, _ABSENT]
    names = ("graph", "half of the columns in memory")
    facts = {name: data.facts["bfs"][name] for name in names if name in data.facts["bfs"]}
    # The first is whether a run failed, which the CSV file does not tell.
    found = goals.render_findings(bfs.judge(data.searches, False)[1:])
    return [*lines, "\n```text", bfs.render(data.searches, facts), "", found, "```"]


def _applications(data: Data) -> list[str]:
    everything = (*data.runs, *data.failures)
    if not everything:
        return []
    results, rows = application_results.results_and_rows(data.runs, data.failures)
    # One run can have several settings.
    states: dict[str, list[str]] = defaultdict(list)
    for setting in rows:
        step = _setting_step(_APPLICATIONS, setting)
        own = dict.fromkeys(one.transport for one in everything if one.row.setting == setting)
        repetitions = {one.repetition for one in data.runs if one.row.setting == setting}
        text = f"{', '.join(own)}; repetitions: {len(repetitions)}"
        if small_inputs(data.facts[step]):
            text += "; small inputs (--quick): starting is a large part of these times"
        states["".join((text, ".", *_state(data, step)))].append(str(setting))
    cells = [["application", "setting", "exanest, s", "best peer, s", "ratio", "CPU time, s"]]
    cells[0] += ["resident, MiB", "locked, KiB"]
    for those in rows.values():
        cells += [_application(data, results, part) for row in those for part in row.timed()]
    lines = [_APPLICATIONS_TEXT]
    lines += [f"\n**{', '.join(settings)}**: {text}" for text, settings in states.items()]
    lines += _missing(application_results.SETTINGS, rows)
    lines += _table(cells)
    for setting, those in rows.items():
        found = application_results.goal(results, those)
        lines.append(f"\nThe goal with {setting}: **{found.state}**: {found.summary()}.\n")
        for kind, row, ratio in found.lines():
            text = f"- {kind}: {row.name} {ratio}".rstrip()
            if kind == "slower":
                text += f"; {causes.find(data.causes, setting, row.name)}"
            lines.append(f"{text}.")
    costly = application_results.more_cpu(results, [row for those in rows.values() for row in those])
    notes = [*costly, *(f"Failed, and left out: {failure}" for failure in data.failures)]
    return [*lines, *[""] * bool(notes), *(f"- {note}." for note in notes)]


def small_inputs(facts: Mapping[str, str]) -> bool:
    """Of a run of applications. An earlier run's facts have only its command."""
    quick = "--quick" in facts.get("command", "").split()
    return facts.get("inputs", "quick" if quick else "default") == "quick"


def _missing(known: Iterable[Setting], measured: Iterable[Setting]) -> list[str]:
    text = application_results.not_measured(known, measured)
    return [f"\n{text}"] * bool(text)


def _application(data: Data, results: Results, row: Row) -> list[str]:
    """A row of the table. What a part used is not known."""
    compared = application_results.compare(results, row, TIME)
    names = [SUBJECT, *([compared.peer] if compared else [])]

    def pair(quantity: str) -> list[str]:
        measure = row.measure(quantity)
        return [_cell(results.summary(measure, name, row.ranks), measure.scale) for name in names]

    cells = [row.name, str(row.setting), pair(TIME)[0]]
    if compared:
        ratio = compared.ratio
        cells.append(f"{compared.peer} {pair(TIME)[1]}")
        cells.append(f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
    else:
        cells += ["-"] * 2
    if row.part:
        return [*cells, *["-"] * 3]
    locked = [
        application_results.most_locked(
            one for one in data.runs if (one.row, one.transport) == (row, name)
        )
        for name in names
    ]
    return [*cells, *(", ".join(each) for each in (pair(CPU), pair(RESIDENT), locked))]


def _collectives(data: Data) -> list[str]:
    if not data.collectives:
        return []
    lines = [_COLLECTIVES_TEXT, *_missing(collective_results.SETTINGS, data.collectives)]
    for setting, points in data.collectives.items():
        names = dict.fromkeys(name for point in points for name in point.times)
        state = "".join(_state(data, _setting_step(_COLLECTIVES, setting)))
        lines.append(f"\n**{setting}**: {', '.join(names)}.{state}")
        rows = [["", *map(size_text, _COLLECTIVE_SIZES)]]
        for operation in dict.fromkeys(point.operation for point in points):
            own = {point.size: point for point in points if point.operation == operation}
            if 0 in own:
                lines.append(f"\n{operation}: {_collective(own[0])}.")
            else:
                rows.append([operation, *(_collective(own.get(size)) for size in _COLLECTIVE_SIZES)])
        lines += [*_table(rows), f"\n**Compared**: {collective_results.finding(points)}."]
        tell = partial(_cause_of_point, data.causes)
        slower = collective_results.slower(points, tell)
        lines += [""] * bool(slower)
        lines += [f"- slower: {sizes}; {cause}." for sizes, cause in slower]
    return lines


def _cause_of_point(known: Sequence[causes.Cause], point: Collective) -> str:
    return causes.find(known, point.setting, point.operation, point.size)


def _collective(point: Optional[Collective]) -> str:
    if not point or point.ratio is None:
        return "-"
    return f"{_cell(point.times[SUBJECT])}, {point.ratio:.2f} of {point.best}"


def _state(data: Data, step: str) -> list[str]:
    """The command, the machine and its state."""
    facts: Mapping[str, str] = defaultdict(lambda: "?", data.facts[step])
    if "kernel" not in data.facts[step]:
        return []
    line = [facts[f"cache line at the {end}"].partition(" from")[0] for end in ("start", "end")]
    state = data.facts[step].get("state")
    part = f"; the figures are those at {float(state):.0f} ns" if state else ""
    return [
        f"\n`{facts['command']}`, {facts['date']}, source {facts['source']}.\n"
        f"{facts['cpu']}, {facts['cpus usable']} processors, {facts['memory']}; {facts['kernel']}; "
        f"{facts['mpirun']}.\nCache line from one processor to the other: {line[0]} at the start, "
        f"{line[1]} at the end{part}."
    ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *others = rows
    return ["", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *others))]


def _cell(summary: Optional[Summary], scale: float = 1.0) -> str:
    if not summary or not summary.median:
        return "-"
    median = summary.median * scale
    text = f"{median:,.0f}" if median >= 10000 else table.digits(median)
    return f"{text} ({summary.spread:.0%})" if summary.repetitions > 1 else text


def _ratio(mine: Optional[Summary], other: Optional[Summary]) -> str:
    return f"{mine.median / other.median:.2f}" if mine and other and other.median else "-"


def _judge(
    mine: Optional[Summary], other: Optional[Summary], limit: float, lower: bool
) -> str:
    """The ratio of the medians, and whether all repetitions meet the limit, or none, or some."""
    if not mine or not other or not other.minimum:
        return "-"
    ends = (mine.minimum / other.maximum, mine.maximum / other.minimum)
    met = {end <= limit if lower else end >= limit for end in ends}
    word = "undecided" if len(met) > 1 else "met" if met.pop() else "not met"
    return f"{mine.median / other.median:.2f}, **{word}**"


def _image(data: Data, name: str, text: str) -> list[str]:
    path = data.folder / f"{NAME}-{name}.svg"
    return [f"\n![{text}]({path.name})"] if path.exists() else []


def _plots(data: Data) -> list[Optional[str]]:
    """Draw the plots. Returns why there is none, for each."""
    throughput = {
        f"{title}, MB/s": {
            text: {
                size / KIB: figure
                for size in _SIZES
                if (figure := data.get("faults", measures.COLD_BANDWIDTH[cold], way, size))
            }
            for way, text in _HANDLING.items()
        }
        for cold, title in _BUFFERS.items()
    }
    lookups = {
        f"{load}, lookups/s": {
            text: {
                n: figure for n in data.instances if (figure := data.total("lookups", load, way, n))
            }
            for way, text in ((FAULT, "not pinned"), (PINNED, "pinned"))
        }
        for load in LOADS
    }
    title = "Key-value servers in memory for half of them"
    return [
        _panels(data, "exanest", "Throughput, one host", "KiB", throughput),
        _panels(data, "overcommit", title, "instances", lookups),
    ]


def _panels(
    data: Data,
    name: str,
    title: str,
    xlabel: str,
    panels: Mapping[str, Mapping[str, Mapping[float, Summary]]],
) -> Optional[str]:
    """A plot with a panel for each title, with curves by name and x."""
    if not all(points for curves in panels.values() for points in curves.values()):
        return None
    drawn = [
        plot.Panel(text, {
            curve: {x: [s.median, s.minimum, s.maximum] for x, s in points.items()}
            for curve, points in curves.items()
        })
        for text, curves in panels.items()
    ]
    return plot.draw_panels(data.folder / f"{NAME}-{name}.svg", title, xlabel, drawn)

# SPDX-License-Identifier: BSD-3-Clause
"""Writes doc/results.md from its CSV files, and puts results of a run among them."""

from __future__ import annotations

import csv
import statistics
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Iterable, Mapping, Optional, Sequence

from . import application_results, bfs, causes, collective_results, environment, goals, measures
from . import overcommit, plot, table
from .application_results import CPU, RESIDENT, TIME, Failure, Row, Run, Setting
from .collective_results import Point as Collective
from .data import copy_data, open_data
from .measures import Measure
from .overcommit import FAULT, LOADS, PINNED, WAYS, Point
from .results import Results, Sample, Summary
from .suite import KIB, MIB, size_text
from .transports import SUBJECT

# Where results are published.
FOLDER = Path(__file__).resolve().parents[2] / "doc"
NAME = "results"
_MACHINE = "machine"
_APPLICATIONS = "applications"
_COLLECTIVES = "collectives"
_CAUSES = "causes"
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
# Of a run's environment.txt, for the document.
_FACTS = (
    *("date", "source", "cpu", "cpus usable", "memory", "kernel", "mpirun"),
    *("distribution", "ucx", "libfabric", "calibrated", "duration"),
    *("cache line at the start", "cache line at the end", HUGE_PAGES),
    *("graph", "half of the columns in memory", "overcommitment", "command", "exit code"),
    "inputs",
)
_WARM, _COLD = "none", "destination"
_BACKUP = "backup"
_PROCESSOR = "CPU, s/GB"
_BUFFERS = {_COLD: "fresh", _WARM: "reused"}
_SIZES = (4 * KIB, 64 * KIB, MIB, 4 * MIB)
_AHEAD = "ahead"
# The ways of exanest, then peers.
_HANDLING = {
    SUBJECT: "page faults (exanest)",
    "pin": "pinned for each transfer",
    "pin-cache": "pinned, with a cache",
    "prefault": "pre-faulted",
}
_WAYS = {
    **_HANDLING,
    _AHEAD: "page faults, no huge pages",
    **{name: name for name in ("vader", "sm", "ucx")},
}
_KINDS = {
    "latency, us": measures.COLD_LATENCY,
    "throughput, MB/s": measures.COLD_BANDWIDTH,
    _PROCESSOR: measures.COLD_CPU,
}
# Published in arXiv 2511.21018, divided by the figure of page faults.
_PUBLISHED = {
    "latency, us": {"pin": 2.9 / 3.8, "prefault": 2.9 / 4.2},
    "throughput, MB/s": {"pin": 13.3 / 12.5, "prefault": 13.3 / 11.9},
    _PROCESSOR: {"pin": 6 / 8, "prefault": 6 / 9},
}
# PART, IEEE TPDS 33/12, 2022: a minor page fault, us; throughput over that of pinning.
_PART_MINOR, _PART_RATIO = 38, 1.46
_ASPLOS_RATIO = 1.9
# Clients that are paced may be a little late.
_AS_MANY = 0.99
_HOSTS_SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB)
# The sections that a step is shown in.
_SECTIONS = {
    "faults": (1, 3),
    "hosts": (1, 2),
    "overcommit": (2,),
    "bfs": (3,),
    _APPLICATIONS: (4,),
    _COLLECTIVES: (5,),
}
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
_NO_MODES = "\nNot measured: the run had none of the other modes."
_ABSENT = "\nNot measured: this step was not run, or it failed."
_TITLE = """\
<!-- SPDX-License-Identifier: BSD-3-Clause -->
<!-- Made by benchmarks/papers, applications and collectives: do not edit. -->
# What exanest reaches
"""
_ABOUT = """
Sections 1 to 3 compare with the claims of three papers. The published figures come from other machines
and other programs. So ratios are compared, and a time only where its unit is known. Cells are medians; in
brackets (maximum - minimum) / median of the repetitions. **met**: as good as published (or as stated), or
better, whichever repetitions are compared; **not met**: in no repetition; **undecided**: the spread
includes the limit. [benchmarks/README.md](../benchmarks/README.md) describes the commands. The data is
in the `results-*.csv.xz` beside this file, which `xzcat` shows and from which
`benchmarks/papers --from DIR` makes it again."""
_EXANEST = f"""
## 1. ExaNeSt: page faults instead of pinning

The claim (arXiv 2511.21018; PART, IEEE TPDS 33/12, 2022): an engine that takes page faults is faster
than pinning for each transfer and than touching all pages before. Published for page faults, pinning
and pre-faulting: latency 2.9, 3.8, 4.2; throughput 13.3, 12.5, 11.9; CPU 6, 8, 9 %. A minor page fault
at the destination takes {_PART_MINOR} us, and a cold transfer of 4 MB is {_PART_RATIO} times as fast as with pinning.

One host, MPI. **fresh**: the destination was never touched; **reused**: source and destination are
warm. The ways without page faults are exanest itself, with another mode: **pinned** locks the memory of
each transfer (mlock) and unlocks it, or keeps it locked in a cache; **pre-faulted** touches it. mlock is
not the registration with an adapter, whose cost would come in addition. Messages of 4 KiB are copied by way
of the ring, and no mode acts. vader and ucx, where they were measured, are peers with the same buffers.
The CPU time is that of both ranks for each byte. Its ratios are not judged: both ranks poll, so they
repeat those of throughput. What page faults cost the kernel module, in instructions, is in
[driver/README.md](../driver/README.md#what-page-faults-cost-between-nodes). Memory that is larger than the room for it is in sections 2
and 3."""
_EXANEST_HOSTS = """
### The same between hosts

Two hosts made on this machine, one rank on each, over UDP."""
_OVERCOMMIT = f"""
## 2. Page Fault Support for Network Controllers (ASPLOS'17)

The claim: what is not pinned can be overcommitted, and programs are up to {_ASPLOS_RATIO} times as fast as with
pinning, and a backup ring takes what arrives for cold receive buffers.

### Memory overcommitment

Key-value servers map a file each. A client of each gets records of 1 KiB with `pf_get`: 90 % of the
lookups go to 20 % of the records, the others to all. All are in one memory cgroup. **pinned**
locks the files (mlock). **paced** clients offer at most {LOADS["paced"]:,} lookups a second each: so the
limit is memory and not the processors, which the instances share; as the group holds half of the stores,
the paced ratio can be 2 at most. **unpaced** clients offer as many as they can. To be met with each number
of instances: at least {_AS_MANY} as many lookups as pinned."""
_COLD_START = """
### Cold receive buffers between hosts

Two hosts made on this machine. **cold**: the destination was never touched. Its pages are made present at
once, so no block is dropped (NACK) or kept (backup): the figures only show what the page faults cost. To be
met: not slower than the best peer."""
_COLD_FILE = """
**file**: the destination is a mapping of a file none of whose pages is in memory, so blocks wait for
pages that are read. Then exanest requests the block again (NACK, the default), or, as **backup**, keeps it
while there is room, as the paper's backup ring does."""
_LOSS = """
Recovery from random loss, which is not an experiment of the paper: MB/s with 1 % of the packets lost,
the destination cold. Each packet crosses separately."""
_UINTR = """
## 3. PFF-UINTR: page faults that user space resolves

The claim: forwarding by a user interrupt removes the handler thread, the wait queue and the locks from
a page fault that user space resolves. libpf does so for transfers, without user interrupts: it calls
the pager on the thread that met the absent page. For loads and stores it still needs userfaultfd."""
_BFS = """
### Breadth-first search

**MTEPS**: millions of edges searched in a second. **supplied**: pages, or blocks where a way has these,
that a userfaultfd thread or a pager supplied. A pager is judged first by the thread that supplies the same
unit, then by the other one."""

_APPLICATIONS_TEXT = f"""
## 4. Applications

Packaged programs over exanest and the other transports of Open MPI, which have their defaults, in
turns. The programs are unmodified; mpi4py and hdf5 are packaged libraries, used by scripts of this
project ([inputs](../benchmarks/inputs)). **ratio** is the median of the ratios of exanest and a
peer in each repetition, in brackets its confidence interval (sign test, 93 %; 0 to inf: fewer than
five repetitions). **best peer** is the peer with the largest ratio, of those that exanest is certainly
slower than if there are any. With several ranks on a host, tcp and ucx use shared memory in it. A program that times its parts
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
    # People write the causes.
    return f"{NAME}-{step}.csv" if step == _CAUSES else f"{NAME}-{step}.csv.xz"


# ---- the files of a folder ----


def steps(folder: Path) -> dict[str, Path]:
    """The files of the steps that have results in the folder."""
    named = sorted(folder.glob(data_name("*")))
    paths = {path.name.partition(".")[0].partition("-")[2]: path for path in named}
    paths.pop(_MACHINE, None)
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
    with open_data(machine) as file:
        for row in csv.DictReader(file):
            facts[row["step"]][row["name"]] = row["value"]
    return facts


def _write_facts(folder: Path, facts: Mapping[str, Mapping[str, str]]) -> None:
    rows = [(step, *pair) for step, pairs in facts.items() for pair in pairs.items()]
    with open_data(folder / data_name(_MACHINE), "w") as file:
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
        merges.get(step, copy_data)(path, folder / data_name(step))
    known = read_facts(folder) if (folder / data_name(_MACHINE)).exists() else {}
    _write_facts(folder, {**known, **facts})


def remove(folder: Path, step: str) -> None:
    """Remove the step's file and facts from the folder."""
    (folder / data_name(step)).unlink(missing_ok=True)
    if (folder / data_name(_MACHINE)).exists():
        _write_facts(folder, {name: of for name, of in read_facts(folder).items() if name != step})


def publish(files: Mapping[str, Path], facts: Mapping[str, Mapping[str, str]]) -> Path:
    """
    Add files and facts to what is published, and write the document again; returns its path. Raises
    ValueError if a step failed or was measured with sources that no commit has.
    """
    for step, of in facts.items():
        _check_source(f"the source of {step}", of.get("source", ""))
        if of.get("exit code", "0") != "0":
            raise ValueError(f"not published: {step} ended with exit code {of['exit code']}")
    causes.read(FOLDER / data_name(_CAUSES))
    add(FOLDER, files, facts)
    if {"faults", "overcommit"} & files.keys():
        # Not beside other figures, if they cannot be drawn again.
        for path in FOLDER.glob(f"{NAME}-*.svg"):
            path.unlink()
    return write(FOLDER)


def check_source() -> None:
    """Raises ValueError if what is measured now could not be published."""
    _check_source("the source", environment.revision(FOLDER.parent))


def _check_source(what: str, source: str) -> None:
    if source.endswith("-dirty"):
        raise ValueError(
            f"not published: {what} is {source}, which is no commit: commit the changes, then measure"
        )


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
        # Where exanest is slower, a line for each part of the document.
        self.slower: list[str] = []

    def _read_summary(self, step: str) -> None:
        with open_data(self.folder / data_name(step)) as file:
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

    def results(self, step: str, measure: Measure) -> Results:
        """With the minimum, median and maximum in place of the samples."""
        made = Results(self.transports(step))
        for (of, name, way, size), summary in self._summaries.items():
            if (of, name) == (step, measure.name):
                values = (summary.minimum, summary.median, summary.maximum)
                for repetition, value in enumerate(values):
                    made.add(Sample(measure, way, size, repetition, value))
        return made

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
    sections = (*_exanest(data), *_overcommit(data), *_cold_start(data), *_uintr(data))
    sections += (*_bfs(data), *_applications(data), *_collectives(data))
    path.write_text("\n".join([_TITLE, *_summary(data), _ABOUT, *sections]) + "\n")
    return path


def _summary(data: Data) -> list[str]:
    """The machines, and where exanest is slower."""
    machines: dict[str, set[int]] = defaultdict(set)
    for step, facts in data.facts.items():
        if "cpu" in facts:
            text = f"{facts['cpu']} ({facts.get('cpus usable', '?')} processors)"
            machines[text].update(_SECTIONS.get(step.partition(",")[0], ()))
    texts = [
        f"{machine} for section{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"
        for machine, numbers in machines.items()
    ]
    lines = [f"Measured on {' and '.join(texts)}."] * bool(texts)
    if data.slower:
        text = "Where exanest is slower, beyond the spread of the repetitions, or misses a goal:"
        lines.append(f"\n{text}\n")
        lines += [f"- {text}." for text in data.slower]
    return lines


def _exanest(data: Data) -> list[str]:
    lines = [_EXANEST, *_state(data, "faults")]
    handled = _handled(data, "faults", _WAYS, "one host")
    if not handled:
        return [*lines, _ABSENT]
    lines += [*handled, *_image(data, "exanest", "Throughput by size of the message"), ""]
    minor = [data.get("faults", measure, SUBJECT, 4 * KIB) for measure in _MINOR]
    if all(minor):
        added = minor[0].median - minor[1].median
        lines.append(
            f"- A get of 4 KiB into an untouched page takes {added:.2f} us longer than a warm one; "
            f"the kernel's own page fault takes {minor[2].median:.2f} us of that. Published: "
            f"{_PART_MINOR} us, on another processor."
        )
    mine, ahead, theirs = (
        data.get("faults", measures.COLD_BANDWIDTH[_COLD], way, 4 * MIB)
        for way in (SUBJECT, _AHEAD, "pin")
    )
    ratio = _judge(mine, theirs, _PART_RATIO, False)
    lines.append(f"- Throughput of 4 MiB, fresh, over pinning: {ratio}. Published: {_PART_RATIO}.")
    part = f": without them (policy ahead) the ratio is {_ratio(ahead, theirs)}" if ahead else ""
    lines.append(
        "- A part of this comes from huge pages. exanest asks the kernel for them (madvise) where "
        "a fresh destination has whole ranges of 2 MiB; in the other modes small pages are made "
        f"present before the transfer{part}."
    )
    handled = _handled(data, "hosts", _HANDLING, "between hosts")
    return [*lines, _EXANEST_HOSTS, *_state(data, "hosts"), *(handled or [_NO_MODES])]


def _handled(data: Data, step: str, known: Mapping[str, str], where: str) -> list[str]:
    """
    Tables of what the known ways, by name, reached in a step, with verdicts. Empty if exanest has
    only one mode there.
    """
    ways = {way: text for way, text in known.items() if way in data.transports(step)}
    if len(ways.keys() & _HANDLING.keys()) < 2:
        return []
    lines: list[str] = []
    cases = [(cold, size) for cold in _BUFFERS for size in _SIZES]
    for name, kind in _KINDS.items():
        rows = [[name, *map(size_text, _SIZES)]]
        for cold, title in _BUFFERS.items():
            for way, text in ways.items():
                cells = [_cell(data.get(step, kind[cold], way, size)) for size in _SIZES]
                rows.append([f"{title}: {text}", *cells])
        lines += _table(rows)
    rows = [["page faults, divided by", "published"]]
    rows[0] += [f"{_BUFFERS[cold]}, {size_text(size)}" for cold, size in cases]
    words: dict[bool, list[str]] = {True: [], False: []}
    slower: list[str] = []
    for name, published in _PUBLISHED.items():
        title = name.partition(",")[0]
        for peer in (*published, *(way for way in ways if way not in published)):
            if peer in (SUBJECT, _AHEAD):
                continue
            limit = published.get(peer)
            row = [f"{title}: {ways.get(peer, peer)}", f"{limit:.2f}" if limit else "-"]
            for cold, size in cases:
                kind = _KINDS[name][cold]
                mine, theirs = (data.get(step, kind, way, size) for way in (SUBJECT, peer))
                if name == _PROCESSOR:
                    row.append(_ratio(mine, theirs))
                    continue
                row.append(_judge(mine, theirs, limit or 1, kind.lower_is_better))
                words[bool(limit)] += row[-1].split("**")[1:2]
                if _verdict(mine, theirs, 1, kind.lower_is_better) == "not met":
                    ratio = f"{_BUFFERS[cold]} {size_text(size)} {_ratio(mine, theirs)}"
                    slower.append(f"{title}, {ratio} of {ways[peer]}")
            rows.append(row)
    lines += _table(rows)
    for limit, text in (
        (True, "ratios with a published figure"),
        (False, "others, where to be met is: not slower"),
    ):
        lines.append(f"\nOf the {len(words[limit])} {text}: {_counted(words[limit])}.")
    missed = words[True].count("not met")
    if missed:
        slower.insert(0, f"{missed} of {len(words[True])} published ratios not met")
    if slower:
        data.slower.append(f"Section 1, {where}: {'; '.join(slower)}")
    return lines


def _counted(words: Sequence[str]) -> str:
    return ", ".join(f"{words.count(word)} {word}" for word in ("met", "undecided", "not met"))


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
    slower: list[str] = []
    for load in LOADS:
        for n in data.instances:
            row, totals = [load, str(n)], []
            for way in WAYS:
                ran, lookups = (data.total(f, load, way, n) for f in ("ran", "lookups"))
                totals.append(lookups)
                row += [f"{ran.median:.0f}" if ran else "-", _cell(lookups)]
            waited = data.total("waited", load, FAULT, n)
            pinned, fault = totals
            row.append(f"{waited.median:.1%}" if waited else "-")
            row.append(_judge(fault, pinned, _AS_MANY, False))
            if _verdict(fault, pinned, _AS_MANY, False) == "not met":
                slower.append(f"{load}, {n} instances: {_ratio(fault, pinned)} of pinned")
            rows.append(row)
    if slower:
        data.slower.append(f"Section 2, overcommitment: {'; '.join(slower)}")
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
            if load == "paced":
                lines[-1] += " The ratio follows from the number of instances that ran."
    lines += _most_unpaced(data)
    reasons = sorted({f"{point.reason} ({point.way})" for point in data.points if point.reason})
    return lines + [f"- Why instances did not run: {'; '.join(reasons)}."] * bool(reasons)


def _most_unpaced(data: Data) -> list[str]:
    """What limits clients that are not paced with the most instances."""
    n = data.instances[-1]
    fields = [("lookups", PINNED), ("ran", PINNED), ("lookups", FAULT), ("ran", FAULT)]
    totals = [data.total(field, "unpaced", way, n) for field, way in fields]
    waited = data.total("waited", "unpaced", FAULT, n)
    if not all(totals) or not waited:
        return []
    pinned, ran, fault, all_ran = totals
    return [
        f"- Unpaced with {n} instances: {_judge(fault, pinned, _AS_MANY, False)}. Not pinned, "
        f"{all_ran.median:.0f} servers and their clients share the processors, pinned "
        f"{ran.median:.0f}; {waited.median:.1%} of the lookups wait for a page that is read from "
        "the disk."
    ]


def _cold_start(data: Data) -> list[str]:
    file = measures.FILE_BANDWIDTH
    if data.results("hosts", file).sizes(file):
        about = _COLD_START + _COLD_FILE
    else:
        about = f"{_COLD_START} Not measured: a destination in a file."
    lines = [about, *_state(data, "hosts")]
    if not data.transports("hosts"):
        return [*lines, _ABSENT]
    warm, cold = (measures.COLD_BANDWIDTH[which] for which in (_WARM, _COLD))
    slower: list[str] = []
    rows = [["MB/s", *map(size_text, _HOSTS_SIZES)]]
    for title, measure in (("warm", warm), ("cold", cold), ("file", file)):
        rows += _against_peers(data, title, measure, _HOSTS_SIZES, slower)
    for text, measure in (("waited", measures.FILE_WAITS), ("NACKs", measures.FILE_NACKS)):
        for way in (SUBJECT, _BACKUP):
            row = [data.get("hosts", measure, way, size) for size in _HOSTS_SIZES]
            if any(row):
                cells = [f"{figure.median:.1f}" if figure else "-" for figure in row]
                rows.append([f"file: {way}, blocks of a message that {text}", *cells])
    lines += [*_table(rows), ""]
    found = [goal.judge(data.results("hosts", goal.measure)) for goal in goals.HOSTS_COLD]
    words = {True: "met", False: "not met", None: "unknown"}
    lines += [f"- The goal by medians: {f.text}: **{words[f.met]}**: {f.measured}." for f in found]
    slower += [f"misses the goal: {f.text}: {f.measured}" for f in found if f.met is False]
    if slower:
        data.slower.append(f"Section 2, between hosts: {'; '.join(slower)}")
    lost = measures.COLD_LOSS_BANDWIDTH
    sizes = data.results("hosts", lost).sizes(lost)
    if sizes:
        loss = _against_peers(data, "1 % lost", lost, sizes)
        lines += [_LOSS, *_table([["MB/s", *map(size_text, sizes)], *loss])]
    return lines


def _against_peers(
    data: Data,
    title: str,
    measure: Measure,
    sizes: Sequence[int],
    slower: Optional[list[str]] = None,
) -> list[list[str]]:
    """
    Rows of the transports between hosts, and of exanest's ratio to the best peer. With slower, it
    is judged, and sizes at which exanest is slower are appended.
    """
    made = data.results("hosts", measure)
    ways = [SUBJECT, _BACKUP, *goals.NET_PEERS]
    if measure != measures.FILE_BANDWIDTH:
        # No block waits: it is the same.
        ways.remove(_BACKUP)
    rows = []
    for way in ways:
        row = [data.get("hosts", measure, way, size) for size in sizes]
        if any(row):
            rows.append([f"{title}: {way}", *map(_cell, row)])
    cells = []
    for size in sizes:
        ratio = made.ratio(measure, SUBJECT, goals.NET_PEERS, size)
        if not ratio:
            cells.append("-")
            continue
        cells.append(f"{ratio.value:.2f} of {ratio.peer}")
        if slower is not None:
            pair = (data.get("hosts", measure, way, size) for way in (SUBJECT, ratio.peer))
            word = _verdict(*pair, 1, measure.lower_is_better)
            if word == "not met":
                slower.append(f"{title} {size_text(size)} {cells[-1]}")
            cells[-1] += f", **{word}**"
    return [*rows, [f"{title}: exanest / best peer", *cells]] if rows else []


def _uintr(data: Data) -> list[str]:
    lines = [_UINTR, *_state(data, "faults")]
    figures = {text: data.get("faults", measure, SUBJECT) for text, measure in _PARTS.items()}
    if not all(figures.values()):
        return [*lines, _ABSENT]
    rows = [["a page fault, from access to resume", "us"]]
    rows += [[text, _cell(figure)] for text, figure in figures.items()]
    thread, spinning, forwarded, *_ = figures.values()
    for text, other in (("sleeps", thread), ("spins", spinning)):
        if _verdict(forwarded, other, 1, True) == "not met":
            ratio = _ratio(forwarded, other)
            data.slower.append(f"Section 3, a forwarded page fault: {ratio} of a thread that {text}")
    return [
        *lines,
        *_table(rows),
        f"\nForwarded, divided by a thread that sleeps: {_judge(forwarded, thread, 1, True)}; by one "
        f"that spins: {_judge(forwarded, spinning, 1, True)}. To be met: not slower.",
    ]


def _bfs(data: Data) -> list[str]:
    lines = [_BFS, *_state(data, "bfs")]
    if not data.searches:
        return [*lines, _ABSENT]
    names = ("graph", "half of the columns in memory")
    facts = {name: data.facts["bfs"][name] for name in names if name in data.facts["bfs"]}
    failed = data.facts["bfs"].get("exit code", "0") != "0" or bfs.incomplete(data.searches)
    found = bfs.judge(data.searches, failed)
    missed = [f"{finding.text}: {finding.measured}" for finding in found if finding.met is False]
    if missed:
        data.slower.append(f"Section 3, breadth-first search, misses: {'; '.join(missed)}")
    text = goals.render_findings(found)
    return [*lines, "\n```text", bfs.render(data.searches, facts), "", text, "```"]


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
        if found.slower:
            worst = max(found.slower, key=lambda one: one.ratio.median)
            count = f"{len(found.slower)} of {len(found.judged)} applications and parts"
            data.slower.append(f"Section 4, {setting}: {count}, at worst {worst.row.name} {worst}")
        lines.append(f"\nThe goal with {setting}: **{found.state}**: {found.summary()}.\n")
        for kind, row, ratio in found.lines():
            text = f"- {kind}: {row.name} {ratio}".rstrip()
            if kind == "slower":
                text += f"; {causes.find(data.causes, setting, row.name)}"
            lines.append(f"{text}.")
        if found.faster_applications < application_results.WANTED:
            cause = causes.find(data.causes, setting, causes.FEW_FASTER)
            lines.append(f"- fewer than {application_results.WANTED} faster; {cause}.")
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
        _note_slower_collectives(data, setting, points)
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


def _note_slower_collectives(data: Data, setting: Setting, points: Sequence[Collective]) -> None:
    slower = [(point, loss) for point in points if (loss := point.slower)]
    if slower:
        worst, loss = max(slower, key=lambda each: each[1].ratio)
        text = f"{worst.operation} {size_text(worst.size)} {loss}"
        count = f"{len(slower)} of {len(points)} sizes"
        data.slower.append(f"Section 5, {setting}: {count}, at worst {text}")


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
    more = {
        "distribution": "{}",
        "ucx": "UCX {}",
        "libfabric": "libfabric {}",
        HUGE_PAGES: "huge pages: {}",
        "calibrated": "calibrated: {}",
        "duration": "took {}",
    }
    known = {name: facts[name] for name in more if name in data.facts[step]}
    if HUGE_PAGES in known:
        known[HUGE_PAGES] = known[HUGE_PAGES].partition("[")[2].partition("]")[0]
    software = [facts["kernel"], facts["mpirun"], *(more[n].format(v) for n, v in known.items())]
    return [
        f"\n`{facts['command']}`, {facts['date']}, source {facts['source']}.\n"
        f"{facts['cpu']}, {facts['cpus usable']} processors, {facts['memory']}; "
        f"{'; '.join(software)}.\nCache line from one processor to the other: {line[0]} at the "
        f"start, {line[1]} at the end{part}."
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
    """The ratio of the medians, and the verdict."""
    word = _verdict(mine, other, limit, lower)
    return f"{_ratio(mine, other)}, **{word}**" if word else "-"


def _verdict(
    mine: Optional[Summary], other: Optional[Summary], limit: float, lower: bool
) -> str:
    """Whether all repetitions meet the limit, or none, or some; empty: it is not known."""
    if not mine or not other or not other.minimum:
        return ""
    ends = (mine.minimum / other.maximum, mine.maximum / other.minimum)
    met = {end <= limit if lower else end >= limit for end in ends}
    return "undecided" if len(met) > 1 else "met" if met.pop() else "not met"


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

# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/bfs."""

from __future__ import annotations

import argparse
import contextlib
import csv
import re
import statistics
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Callable, Iterator, Optional, Sequence

from . import cli, goals, hosts, launch, streams, table
from .comparison import Measurement, Setup
from .data import open_data
from .goals import Finding
from .memory_group import MemoryGroup
from .progress import Progress

_ABOUT = """\
Measure breadth-first search in a Kronecker graph (Graph500's parameters) whose
columns, the neighbours of all vertices, are brought in several ways:

  memory           all in memory
  mmap             mmap(2) of the file that is not compressed
  userfault        a userfaultfd thread supplies a page for each page fault, from
                   a compressed file
  userfault-block  the same, but the whole compressed block with the page
  pager            a pager of libpf supplies pages for loads, from that file
  pager-ahead      the same, but whole blocks, and ahead of the search
  pager-get        the same for gets: the search gets what it will need next
  remote           the search gets from the memory of another process
  remote-hosts     the same, between two hosts made on this machine (--hosts)

Nothing is resident before a search, except with memory and remote. All ways but
memory, remote and remote-hosts also run in a memory cgroup that holds half of the
columns, where the pagers keep three eighths resident. Every result is verified by
Graph500's rules.

The ways are interleaved and repeated. The results are bfs.csv with every search,
tables.txt and environment.txt, in results/DATE-TIME below the current folder or
where --out says.
"""
_EXIT_CODES = """\
exit codes: 0 done; 1 a run failed, or its result is wrong; 2 nothing could be
run; 130 interrupted, the tables show what was measured until then.
"""
_SCALE, _QUICK_SCALE, _SCALE_LEAST, _SCALE_MOST = 22, 18, 10, 28
_HALF, _ALL = "half", "all"
# Of the columns, in a group that holds half: the rest is for what the kernel keeps of files.
_RESIDENT = 3 / 8
# Bytes for each vertex (offset, parent, two bits), and for everything else, in a group.
_VERTEX_BYTES = 8 + 4 + 0.25
_REST_BYTES = 8 << 20
_COUNTER = re.compile(r"^# (\w+) ([0-9.]+)$", re.M)


@dataclass(frozen=True)
class Way:
    name: str
    # Pages come when they are needed, and not all have to be in memory.
    paged: bool
    # The limit of what is resident is the way's own, not the kernel's.
    limits: bool = False

    @property
    def program(self) -> str:
        return _REMOTE if self.name == _HOSTS else self.name


_REMOTE, _HOSTS = "remote", "remote-hosts"
# Those of libpf.
_PAGERS = ("pager", "pager-ahead", "pager-get")
WAYS = (
    Way("memory", False),
    Way("mmap", True),
    Way("userfault", True, True),
    Way("userfault-block", True, True),
    Way("pager", True, True),
    Way("pager-ahead", True, True),
    Way("pager-get", True, True),
    Way(_REMOTE, False),
    Way(_HOSTS, False),
)


@dataclass(frozen=True)
class Search:
    """One search, as bfs prints it; times in s."""

    root: int
    reached: int
    edges: int
    seconds: float
    user: float
    system: float
    minor: int
    major: int
    supplied: int
    read: int
    evicted: int
    peak_kib: int


_KINDS = [int if "int" in str(field.type) else float for field in fields(Search)]


@dataclass(frozen=True)
class Run:
    """One process: some searches, in one way, with all or half of the columns in memory."""

    way: str
    memory: str
    repetition: int
    searches: tuple[Search, ...]

    @property
    def seconds(self) -> float:
        return statistics.median(search.seconds for search in self.searches)


def parse(output: str, roots: int) -> tuple[Search, ...]:
    """The output of bfs search. Raises ValueError if it is not complete."""
    searches = []
    for line in output.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        words = line.split()
        if len(words) != len(_KINDS):
            raise ValueError(f"invalid line in the output of bfs: {line}")
        searches.append(Search(*(kind(word) for kind, word in zip(_KINDS, words))))
    if len(searches) != roots or f"# verified {roots}" not in output:
        raise ValueError(f"bfs verified {len(searches)} searches instead of {roots}")
    return tuple(searches)


def parser() -> argparse.ArgumentParser:
    parse_ = cli.parser("bfs", _ABOUT, _EXIT_CODES)
    what = parse_.add_argument_group("what to measure")
    cli.add_quick(what, f"scale {_QUICK_SCALE}, 1 repetition")
    cli.add_list(what, "--ways", [way.name for way in WAYS], " (default: all)")
    cli.add_hosts(what, f"{_HOSTS}, too")
    cli.add_mtu(what)
    what.add_argument(
        "--scale",
        type=cli.positive,
        metavar="N",
        help=f"the graph has 2^N vertices and 2^(N+5) columns (default {_SCALE})",
    )
    what.add_argument(
        "--seed", type=cli.positive, default=1, metavar="N", help="default 1"
    )
    what.add_argument(
        "--roots",
        type=cli.positive,
        default=1,
        metavar="N",
        help="searches of one run, each from another vertex (default 1)",
    )
    what.add_argument(
        "--block",
        type=cli.size,
        default=64 << 10,
        metavar="SIZE",
        help="of the columns that are compressed together (default 64K)",
    )
    cli.add_repetitions(what, "3; 1 with --quick")
    how = parse_.add_argument_group("programs and results")
    cli.add_results(how)
    cli.add_goals(how)
    cli.add_timeout(how, "default 600")
    return parse_


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("bfs", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    quick = options.depth == "quick"
    scale = options.scale or (_QUICK_SCALE if quick else _SCALE)
    if not _SCALE_LEAST <= scale <= _SCALE_MOST:
        raise ValueError(f"--scale: give a number from {_SCALE_LEAST} to {_SCALE_MOST}")
    chosen = cli.named("--ways", options.ways, WAYS, WAYS if options.hosts else WAYS[:-1])
    setup = Setup(options.build)
    programs = setup.find("benchmarks/pf/bfs", "libpf/tools/pf_perf")
    measurement = Measurement(setup, options)
    folder = measurement.folder
    runs: list[Run] = []
    facts: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        made = None
        if any(way.name == _HOSTS for way in chosen):
            made = stack.enter_context(hosts.Hosts(options.mtu).made())
        group = _group(stack, facts)
        # Not in /tmp, which can be a tmpfs: what is there is in memory already.
        work = stack.enter_context(tempfile.TemporaryDirectory(dir=folder.resolve()))
        one = _Runs(measurement, programs, Path(work) / "graph", scale, options)
        with measurement.interruptible():
            facts.update(one.make())
            one.made, one.group = made, group
            _measure(measurement, one, chosen, runs)
    text = render(runs, facts)
    if options.goals:
        text += "\n\n" + goals.render_findings(judge(runs, measurement.failed))
    write(runs, folder / "bfs.csv")
    return measurement.finish(text, facts)


def _group(stack: contextlib.ExitStack, facts: dict[str, str]) -> Optional[MemoryGroup]:
    """A memory cgroup; None, with the reason in the facts and on the terminal, without."""
    try:
        return stack.enter_context(MemoryGroup().made())
    except ValueError as error:
        facts["half of the columns in memory"] = f"left out: {error}"
        print(f"half of the columns in memory is left out: {error}", file=sys.stderr)
        return None


class _Runs:
    """Makes the graph, and runs the searches in it."""

    def __init__(
        self,
        measurement: Measurement,
        programs: dict[str, Path],
        graph: Path,
        scale: int,
        options: argparse.Namespace,
    ) -> None:
        self.made: Optional[hosts.Hosts] = None
        self.group: Optional[MemoryGroup] = None
        self._measurement = measurement
        self._env = measurement.setup.env
        self._programs = programs
        self._graph = graph
        self._scale = scale
        self._options = options
        self._timeout = options.timeout or 600
        self._bytes = 0

    def make(self) -> dict[str, str]:
        """Returns facts about the graph. Raises ValueError if it fails."""
        options = self._options
        print(f"making a graph of scale {self._scale}", file=sys.stderr)
        command = [str(self._programs["bfs"]), "make", str(self._graph)]
        command += ["--scale", str(self._scale), "--seed", str(options.seed)]
        output = self._output([*command, "--block", str(options.block)])
        told = dict(_COUNTER.findall(output))
        self._bytes = int(told["bytes"])
        return {
            "graph": f"scale {self._scale}, seed {options.seed}: "
            f"{told['vertices']} vertices, {told['columns']} columns, "
            f"{self._bytes / 1e6:.1f} MB, compressed in blocks of "
            f"{options.block} bytes: {int(told['compressed']) / 1e6:.1f} MB",
            "graph built in": f"{told['build_seconds']} s",
            "graph written in": f"{told['write_seconds']} s",
        }

    def run(self, way: Way, memory: str, repetition: int) -> Run:
        """Raises ValueError if it fails."""
        command = [str(self._programs["bfs"]), "search", str(self._graph)]
        command += ["--way", way.program, "--roots", str(self._options.roots)]
        if memory == _HALF:
            if way.limits:
                resident = max(int(self._bytes * _RESIDENT), 4 * self._options.block)
                command += ["--resident", str(resident)]
            self.group.limit(
                int(self._bytes / 2 + _VERTEX_BYTES * 2**self._scale + _REST_BYTES)
            )
            command = self.group.inside(command)
        if way.name == _HOSTS:
            output = self._between_hosts(command, repetition)
        else:
            output = self._output(command)
        return Run(way.name, memory, repetition, parse(output, self._options.roots))

    def _between_hosts(self, command: list[str], repetition: int) -> str:
        address = str(self._graph.with_name(f"address-{repetition}"))
        listen = [str(self._programs["pf_perf"]), "--cores", "none", "--listen", address]
        # Inside the hosts: what ends the command that enters a host does not reach its processes.
        limit = ["timeout", "--kill-after=5", str(self._timeout)]
        together = [
            self.made.inside("h0", [*limit, *command, "--peer", address]),
            self.made.inside("h1", [*limit, *listen]),
        ]
        for each in together:
            self._measurement.note(each)
        return streams.run_together(together, self._env, self._timeout)[0]

    def _output(self, command: list[str]) -> str:
        self._measurement.note(command)
        return launch.output_of(launch.run(command, self._env, self._timeout))


def _steps(chosen: Sequence[Way], group: bool) -> Iterator[tuple[Way, str]]:
    for way in chosen:
        yield way, _ALL
    for way in chosen:
        if way.paged and group:
            yield way, _HALF


def _measure(
    measurement: Measurement, one: _Runs, chosen: Sequence[Way], runs: list[Run]
) -> None:
    """Each repetition begins with another way."""
    repetitions = measurement.repetitions
    steps = list(_steps(chosen, one.group is not None))
    progress = Progress(sys.stderr, len(steps) * repetitions, repetitions)
    for repetition in range(repetitions):
        first = repetition % len(steps)
        for way, memory in steps[first:] + steps[:first]:
            progress.begin(f"{way.name}, {memory} in memory", repetition)
            start = time.monotonic()
            try:
                runs.append(one.run(way, memory, repetition))
            except (ValueError, OSError) as error:
                progress.say(f"FAILED: {way.name}, {memory} in memory: {error}")
                measurement.failed = True
            progress.done((way.name, memory), time.monotonic() - start)
        progress.repetition_done(repetition)


def _median(runs: Sequence[Run], way: str, memory: str = _ALL) -> Optional[float]:
    """Of the searches' times, s."""
    times = [one.seconds for one in runs if (one.way, one.memory) == (way, memory)]
    return statistics.median(times) if times else None


def _ratio(
    runs: Sequence[Run], text: str, way: str, peer: str, most: float, memory: str = _ALL
) -> Finding:
    """Does the way take at most so many times as long as the peer?"""
    own, other = _median(runs, way, memory), _median(runs, peer, memory)
    if own is None or other is None:
        return Finding(text, "not measured", None)
    return Finding(text, f"{own / other:.3f} of its time", own <= most * other)


# For each pager, the thread that supplies the same unit, a page or a block.
_SAME_UNIT = {
    "pager": ("userfault", "pages"),
    "pager-ahead": ("userfault-block", "blocks"),
    "pager-get": ("userfault-block", "blocks"),
}


def incomplete(runs: Sequence[Run]) -> bool:
    """Is a repetition missing, which means that a run failed? Only correct results are stored."""
    cases = {(one.way, one.memory) for one in runs}
    return len(runs) < len(cases) * len({one.repetition for one in runs})


def judge(runs: Sequence[Run], failed: bool) -> list[Finding]:
    searches = sum(len(one.searches) for one in runs)
    found = [
        Finding(
            "every result is correct by Graph500's rules",
            "a run failed, or is missing" if failed else f"{searches} searches verified",
            None if not runs and not failed else not failed,
        )
    ]
    for way, (peer, unit) in _SAME_UNIT.items():
        text = f"{way} takes at most 0.5 of the time of {peer} (both {unit})"
        found.append(_ratio(runs, text, way, peer, 0.5))
    for way, (same, _) in _SAME_UNIT.items():
        for peer in ("userfault", "userfault-block"):
            if peer != same:
                text = f"{way} takes at most 0.5 of the time of {peer} (other units)"
                found.append(_ratio(runs, text, way, peer, 0.5))
    for way in (_REMOTE, _HOSTS):
        text = f"{way} takes at most 3 times as long as memory"
        found.append(_ratio(runs, text, way, "memory", 3))
    for way in _PAGERS:
        text = f"{way} takes at most as long as mmap, with half of the columns in memory"
        found.append(_ratio(runs, text, way, "mmap", 1, _HALF))
    return found


def _processor_time(runs: Sequence[Run]) -> list[str]:
    """How much more processor time the fastest pager takes than mmap, if both ran."""
    lines = []
    for memory, text in ((_ALL, "room for all columns"), (_HALF, "room for half of them")):
        own, other = (
            [
                search.user + search.system
                for one in runs
                if (one.way, one.memory) == (way, memory)
                for search in one.searches
            ]
            for way in ("pager-ahead", "mmap")
        )
        if own and other:
            ratio = statistics.median(own) / statistics.median(other)
            lines.append(f"{ratio:.2f} with {text}")
    text = f"\nProcessor time of pager-ahead, divided by that of mmap: {', '.join(lines)}"
    return [text] * bool(lines)


_TABLE: tuple[tuple[str, Callable[[Search], float], int], ...] = (
    ("time, s", lambda s: s.seconds, 3),
    ("MTEPS", lambda s: s.edges / s.seconds / 1e6, 1),
    ("user, s", lambda s: s.user, 3),
    ("system, s", lambda s: s.system, 3),
    ("minor", lambda s: s.minor, 0),
    ("major", lambda s: s.major, 0),
    ("supplied", lambda s: s.supplied, 0),
    ("blocks read", lambda s: s.read, 0),
    ("peak, MB", lambda s: s.peak_kib * 1024 / 1e6, 0),
)


def render(runs: Sequence[Run], facts: dict[str, str]) -> str:
    """A table for all and for half of the columns in memory."""
    texts = [f"{name}: {text}" for name, text in facts.items()]
    for memory in (_ALL, _HALF):
        some = [one for one in runs if one.memory == memory]
        lines = [("way", *(head for head, _, _ in _TABLE))]
        for way in WAYS:
            same = [one for one in some if one.way == way.name]
            searches = [search for one in same for search in one.searches]
            if same:
                lines.append((way.name, *_cells(same, searches)))
        if some:
            texts += [f"\n{_TITLES[memory]}", *table.columns(lines)]
    return "\n".join([*texts, *_processor_time(runs)])


_TITLES = {
    _ALL: "Room for all columns: medians of a search; of the time, in brackets, minimum and "
    "maximum of the runs' medians",
    _HALF: "Room for half of the columns (memory cgroup)",
}


def _cells(runs: Sequence[Run], searches: Sequence[Search]) -> list[str]:
    cells = [table.spread([one.seconds for one in runs], _TABLE[0][2])]
    for _, value, digits in _TABLE[1:]:
        median = statistics.median(value(search) for search in searches)
        cells.append(f"{median:.{digits}f}")
    return cells


def write(runs: Sequence[Run], path: Path) -> None:
    names = [field.name for field in fields(Search)]
    with open_data(path, "w") as file:
        out = csv.writer(file)
        out.writerow(["way", "memory", "repetition", *names])
        for one in runs:
            for search in one.searches:
                out.writerow([one.way, one.memory, one.repetition + 1, *astuple(search)])


def read(path: Path) -> list[Run]:
    """The runs of a bfs.csv."""
    searches: dict[tuple[str, str, int], list[Search]] = {}
    with open_data(path) as file:
        rows = csv.reader(file)
        next(rows)
        for way, memory, repetition, *words in rows:
            same = searches.setdefault((way, memory, int(repetition) - 1), [])
            same.append(Search(*(kind(word) for kind, word in zip(_KINDS, words))))
    return [Run(*key, tuple(same)) for key, same in searches.items()]

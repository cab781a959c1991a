# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/applications."""

from __future__ import annotations

import argparse
import contextlib
import csv
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ContextManager, Iterator, Mapping, Optional, Sequence

from . import cli, comparison, environment, hosts, launch, store, table, transports
from .comparison import Setup
from .measures import Measure
from .packaged import APPLICATIONS, Application, Finished, WrongResult
from .progress import Progress
from .results import Paired, Results, Sample
from .transports import KNOWN, SUBJECT, Transport

_ABOUT = f"""\
Run packaged programs, unmodified, over {SUBJECT} and the other transports of
this machine's Open MPI in turns: time, CPU time and memory. Every run is a
sample; its result is checked, and a wrong one is a failure. Programs that are
not installed are listed with the packages that have them.

The results are applications.csv (every run), summary.csv, tables.txt,
environment.txt and, if a run failed, failures.txt, in results/DATE-TIME below
the current folder or where --out says. The last line compares with the goal:
no application slower than over the best peer by more than {{slower:.0%}}, and at
least {{wanted}} faster by {{faster:.0%}}.
"""
_USAGE = Path(__file__).resolve().with_name("rank_usage.py")
# mpirun without a transport between processes, for the run of one rank.
_ALONE = Transport("alone", ("--mca", "pml", "ob1", "--mca", "btl", "self"), ("", ""))

# The goal: how much slower than the best peer is too slow, how much faster is faster,
# and how many applications have to be.
_SLOWER = 0.02
_FASTER = 0.05
_WANTED = 4
# More CPU time than the best peer's by this much is reported.
_MORE_CPU = 0.10


@dataclass(frozen=True)
class Used:
    """What all ranks of a run used together."""

    # Of the rank that took longest.
    seconds: float
    user: float
    system: float
    # Sum of the ranks' peaks, KiB.
    resident: int
    # The most that a rank had locked or pinned, KiB.
    locked: int

    @property
    def cpu(self) -> float:
        return self.user + self.system


def usage(folder: Path, ranks: int) -> Used:
    """Read what rank_usage.py wrote. Raises WrongResult if a rank wrote nothing."""
    rows = []
    for rank in range(ranks):
        try:
            text = (folder / f"usage.{rank}").read_text()
        except FileNotFoundError:
            raise WrongResult(f"rank {rank} did not report what it used") from None
        rows.append([float(part) for part in text.split()])
    seconds, user, system, resident, locked, pinned = zip(*rows)
    return Used(
        max(seconds),
        sum(user),
        sum(system),
        int(sum(resident)),
        int(max(map(sum, zip(locked, pinned)))),
    )


@dataclass(frozen=True)
class Row:
    """An application, or a part of it that it times, with a number of ranks."""

    application: Application
    ranks: int
    part: str = ""

    def __str__(self) -> str:
        part = f" {self.part}" if self.part else ""
        return f"{self.application.name}{part}, {self.ranks} ranks"

    def measure(self, quantity: str) -> Measure:
        name = f"{self.application.name}-{self.part or quantity}"
        unit, shown, scale = _UNITS[quantity]
        # The title tells the number of ranks: a failure with four says nothing of two.
        return Measure(name, str(self), unit, True, shown, scale, "")

    def measures(self) -> list[Measure]:
        times = [part.measure(TIME) for part in self.judged() if part.part]
        return [*(self.measure(quantity) for quantity in _UNITS), *times]

    def judged(self) -> list[Row]:
        """Its parts; or itself, if it times none."""
        return [replace(self, part=part) for part in self.application.parts] or [self]


TIME, CPU, RESIDENT = "time", "cpu", "resident"
_UNITS = {TIME: ("s", "s", 1.0), CPU: ("s", "s", 1.0), RESIDENT: ("KiB", "MiB", 1 / 1024)}
_TITLES = {
    TIME: "Time",
    CPU: "CPU time of all ranks, user and system",
    RESIDENT: "Peak resident memory, sum of all ranks",
}


@dataclass(frozen=True)
class Run:
    """One run that succeeded."""

    row: Row
    transport: str
    repetition: int
    used: Used
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Failure:
    row: Row
    transport: str
    command: tuple[str, ...]
    text: str
    errors: str

    @property
    def step(self) -> str:
        return f"{self.row} {self.transport}"

    def __str__(self) -> str:
        return f"{self.step}: {self.text}"


def parser() -> argparse.ArgumentParser:
    about = _ABOUT.format(slower=_SLOWER, faster=_FASTER, wanted=_WANTED)
    parse = cli.parser("applications", about, comparison.EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    cli.add_quick(what, "small inputs, 2 repetitions")
    cli.add_list(
        what,
        "--applications",
        [application.name for application in APPLICATIONS],
        " (default: those that are installed)",
    )
    what.add_argument(
        "-n",
        default="2",
        metavar="LIST",
        help="numbers of ranks, separated by commas (default 2)",
    )
    cli.add_hosts(what, "each rank on a host of its own, made on this machine (tests/hosts)")
    cli.add_mtu(what)
    cli.add_list(
        what,
        "--transports",
        [known.name for known in KNOWN],
        "; with --hosts: "
        + " ".join(known.name for known in hosts.TRANSPORTS)
        + " (default: those that ompi_info shows)",
    )
    what.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME=ARGUMENTS",
        help="one more transport, with arguments of mpirun; can be repeated",
    )
    cli.add_repetitions(what, "5; 2 with --quick")
    how = parse.add_argument_group("programs and results")
    cli.add_results(how)
    cli.add_timeout(how, "default 300")
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("applications", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    ranks = cli.counts("-n", options.n, 64)
    chosen = cli.named(
        "--applications", options.applications, APPLICATIONS, APPLICATIONS
    )
    setup = Setup(options.build)
    known = hosts.TRANSPORTS if options.hosts else KNOWN
    peers = cli.named("--transports", options.transports, known, setup.default(known))
    peers += [transports.custom(text) for text in options.add]
    if KNOWN[0] in peers and KNOWN[0].component not in setup.components:
        raise cli.Unusable(comparison.SUBJECT_ABSENT)
    missing = [application for application in chosen if not application.path()]
    for line in absent(missing):
        print(line, file=sys.stderr)
    rows = [Row(each, n) for each in chosen if each not in missing for n in ranks]
    if not rows:
        raise cli.Unusable("no application is installed")
    with _made(options, max(ranks)) as made:
        with tempfile.TemporaryDirectory(prefix="applications-") as work:
            runs = Runs(setup, made, Path(work), options)
            return _measure(runs, rows, peers, options)


def absent(missing: Sequence[Application]) -> list[str]:
    """What is not installed, and how to install it."""
    if not missing:
        return []
    packages = dict.fromkeys(
        package for application in missing for package in application.packages.split()
    )
    lines = [f"not installed: {each.name}: package {each.packages}" for each in missing]
    command = "apt-get install --no-install-recommends"
    return [*lines, f"to install them: {command} {' '.join(packages)}"]


def _made(
    options: argparse.Namespace, count: int
) -> ContextManager[Optional[hosts.Hosts]]:
    if options.hosts:
        return hosts.Hosts(options.mtu, count).made()
    return contextlib.nullcontext()


class Runs:
    """Runs an application once."""

    def __init__(
        self,
        setup: Setup,
        made: Optional[hosts.Hosts],
        work: Path,
        options: argparse.Namespace,
    ) -> None:
        self.setup = setup
        # Distinct command lines, in order.
        self.commands: dict[tuple[str, ...], None] = {}
        self._made = made
        self._work = work
        self._depth = options.depth
        self._timeout = options.timeout or 300
        self._cores = launch.cores()
        # Results of one rank, by application.
        self._alone: dict[str, Finished | Failure] = {}
        self._count = 0

    def run(self, row: Row, transport: Transport, repetition: int) -> Run:
        """Raises Failed."""
        alone = self._reference(row, transport)
        with self._folder() as folder:
            command, finished = self._execute(row, transport, folder)
            try:
                used = usage(folder, row.ranks)
                parts = row.application.verify(finished, alone)
            except WrongResult as wrong:
                text = f"wrong result: {wrong}"
                raise Failed(Failure(row, transport.name, command, text, "")) from None
        return Run(row, transport.name, repetition, used, parts)

    def _reference(self, row: Row, transport: Transport) -> Optional[Finished]:
        """The result of one rank, which uses no transport; from one run, not timed.
        Its failure is that of each run that it is for."""
        application = row.application
        if not application.as_one:
            return None
        if application.name not in self._alone:
            folder = self._work / f"alone-{application.name}"
            folder.mkdir(exist_ok=True)
            try:
                _, finished = self._execute(Row(application, 1), _ALONE, folder)
                self._alone[application.name] = finished
            except Failed as error:
                self._alone[application.name] = error.failure
        alone = self._alone[application.name]
        if isinstance(alone, Failure):
            raise Failed(replace(alone, row=row, transport=transport.name))
        return alone

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        self._count += 1
        folder = self._work / str(self._count)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _execute(
        self, row: Row, transport: Transport, folder: Path
    ) -> tuple[tuple[str, ...], Finished]:
        application = row.application
        arguments = application.prepare(folder, self._depth, row.ranks)
        command = [
            *self._mpirun(row.ranks, transport),
            *(sys.executable, "-IS", str(_USAGE), str(folder)),
            *(application.standard_input, str(application.path()), *arguments),
        ]
        shown = tuple("FOLDER" if part == str(folder) else part for part in command)
        self.commands.setdefault(shown)
        outcome = launch.run(command, self.setup.env, self._timeout)
        if outcome.failure:
            errors = outcome.errors or outcome.output
            raise Failed(Failure(row, transport.name, shown, outcome.failure, errors))
        # Some programs print their results to standard error.
        return shown, Finished(outcome.output + outcome.errors, folder)

    def _mpirun(self, ranks: int, transport: Transport) -> list[str]:
        if self._made and transport is not _ALONE:
            names = ",".join(f"h{number}" for number in range(ranks))
            launcher = [*self._made.placement.launcher, "-n", str(ranks), "--host", names]
        else:
            placement = launch.place(ranks, self._cores)
            launcher = [*placement.launcher, "-n", str(ranks), *placement.arguments]
        return [*launcher, *transport.mca(False)]


class Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def plan(
    rows: Sequence[Row], peers: Sequence[Transport], repetitions: int
) -> list[tuple[int, Row, Transport]]:
    """All runs, in order: each repetition begins with another transport."""
    steps = []
    for repetition in range(repetitions):
        first = repetition % len(peers)
        order = [*peers[first:], *peers[:first]]
        steps += [(repetition, row, peer) for row in rows for peer in order]
    return steps


def _measure(
    runs: Runs,
    rows: Sequence[Row],
    peers: Sequence[Transport],
    options: argparse.Namespace,
) -> int:
    repetitions = options.repetitions or (2 if options.depth == "quick" else 5)
    folder = comparison.results_folder(options.out)
    line = runs.setup.line()
    print(f"cache line: {line.text}; repetitions: {repetitions}", file=sys.stderr)
    if environment.busy() > comparison.BUSY:
        print(comparison.BUSY_WARNING, file=sys.stderr)
    done: list[Run] = []
    failures: list[Failure] = []
    start = time.monotonic()
    interrupted = _run_all(runs, plan(rows, peers, repetitions), repetitions, done, failures)
    results = collect(done, failures, [peer.name for peer in peers])
    text = render(results, rows, done)
    facts = {
        "hosts": f"one for each rank, MTU {options.mtu}" if options.hosts else "1",
        "inputs": options.depth,
        "repetitions": str(repetitions),
        "duration": f"{time.monotonic() - start:.0f} s",
        "interrupted": "yes" if interrupted else "no",
    }
    _write_runs(done, folder)
    mtu = options.mtu if options.hosts else None
    _write_summary(results, rows, folder, mtu, line.nanoseconds)
    store.write_failures(failures, folder)
    comparison.write_texts(runs.setup, folder, text, facts, line, runs.commands)
    print(f"\n{text}\n\nResults: {folder}\n{goal(results, rows)}")
    if interrupted:
        return 130
    return 1 if any(failure.transport == SUBJECT for failure in failures) else 0


def _run_all(
    runs: Runs,
    steps: Sequence[tuple[int, Row, Transport]],
    repetitions: int,
    done: list[Run],
    failures: list[Failure],
) -> bool:
    """Returns True if the user interrupted it."""
    progress = Progress(sys.stderr, len(steps), repetitions)
    failed = set()
    try:
        for index, (repetition, row, peer) in enumerate(steps):
            if (row, peer.name) in failed:
                progress.skipped()
            else:
                progress.begin(f"{row} {peer.name}", repetition)
                start = time.monotonic()
                try:
                    done.append(runs.run(row, peer, repetition))
                except Failed as error:
                    failed.add((row, peer.name))
                    failures.append(error.failure)
                    progress.say(f"FAILED: {error}")
                    for line in launch.error_tail(error.failure.errors):
                        progress.say(f"    {line}")
                progress.done((row, peer.name), time.monotonic() - start)
            following = steps[index + 1][0] if index + 1 < len(steps) else None
            if following != repetition:
                progress.repetition_done(repetition)
    except KeyboardInterrupt:
        progress.say("interrupted")
        return True
    return False


def collect(
    done: Sequence[Run], failures: Sequence[Failure], names: Sequence[str]
) -> Results:
    """The samples, with the number of ranks as the size."""
    results = Results(names)
    for one in done:
        values = {
            one.row.measure(TIME): one.used.seconds,
            one.row.measure(CPU): one.used.cpu,
            one.row.measure(RESIDENT): float(one.used.resident),
        }
        for part in one.row.judged():
            if part.part:
                values[part.measure(TIME)] = one.parts[part.part]
        for measure, value in values.items():
            sample = Sample(measure, one.transport, one.row.ranks, one.repetition, value)
            results.add(sample)
    for failure in failures:
        for measure in failure.row.measures():
            results.fail(measure, failure.transport, failure.text)
    return results


# ---- the goal ----


@dataclass(frozen=True)
class Comparison:
    """The subject beside its best peer, in one row."""

    row: Row
    peer: str
    ratio: Paired

    @property
    def clear(self) -> bool:
        """The interval does not contain 1."""
        return not self.ratio.low <= 1 <= self.ratio.high

    def __str__(self) -> str:
        ratio = self.ratio
        return (
            f"{self.row}: {ratio.median:.2f} of {self.peer}, {ratio.low:.2f} to {ratio.high:.2f}"
        )


def compare(results: Results, row: Row, quantity: str) -> Optional[Comparison]:
    """None if one of the two was not measured."""
    measure = row.measure(quantity)
    best = results.ratio(measure, SUBJECT, results.transports, row.ranks)
    ratio = best and results.paired(measure, SUBJECT, best.peer, row.ranks)
    return Comparison(row, best.peer, ratio) if ratio else None


def goal(results: Results, rows: Sequence[Row]) -> str:
    """One line: whether the goal is met, and what does not meet it."""
    judged = [part for row in rows for part in row.judged()]
    compared = [one for row in judged if (one := compare(results, row, TIME))]
    failed = [row for row in rows if results.failed(row.measure(TIME), SUBJECT)]
    over = [one for one in compared if one.ratio.median > 1 + _SLOWER]
    under = [one for one in compared if one.ratio.median < 1 - _FASTER]
    slower = [one for one in over if one.clear]
    faster = [one for one in under if one.clear]
    unclear = [one for one in (*over, *under) if not one.clear]
    possible = [one for one in compared if one.ratio.low < 1 - _FASTER]
    if failed or slower or _applications(possible) < _WANTED:
        state = "not met"
    elif len(slower) < len(over) or _applications(faster) < _WANTED:
        state = "undecided"
    else:
        state = "met"
    parts = [
        f"{len(slower)} of {len(compared)} slower than the best peer by more than "
        f"{_SLOWER:.0%}{_listed(slower)}",
        f"{_applications(faster)} faster by {_FASTER:.0%} (goal: {_WANTED}){_listed(faster)}",
    ]
    if unclear:
        parts.append(
            f"{len(unclear)} may be chance, more repetitions can tell (-r){_listed(unclear)}"
        )
    if failed:
        parts.append(f"{len(failed)} failed{_listed(failed)}")
    return f"goal: {state}: " + "; ".join(parts)


def _applications(items: Sequence[Comparison]) -> int:
    """How many they are of: a row is of one number of ranks, and may be a part."""
    return len({one.row.application.name for one in items})


def _listed(items: Sequence[object]) -> str:
    return f" ({'; '.join(map(str, items))})" if items else ""


# ---- output ----


def render(results: Results, rows: Sequence[Row], done: Sequence[Run]) -> str:
    texts = ["Medians; in brackets (maximum - minimum) / median of the repetitions."]
    for quantity, title in _TITLES.items():
        shown = list(rows)
        if quantity == TIME:
            shown = [part for row in rows for part in dict.fromkeys((row, *row.judged()))]
        lines = [(str(row), row.measure(quantity), row.ranks) for row in shown]
        unit = _UNITS[quantity][1]
        texts.append(table.matrix(results, f"{title}, {unit}", lines, SUBJECT))
    texts.append(_locked(results, done))
    costly = [
        one
        for row in rows
        if (one := compare(results, row, CPU))
        and one.ratio.median > 1 + _MORE_CPU
        and one.clear
    ]
    if costly:
        texts.append(
            f"More CPU time than the best peer by over {_MORE_CPU:.0%}, and not by chance: "
            + "; ".join(map(str, costly))
        )
    return "\n\n".join(texts)


def _locked(results: Results, done: Sequence[Run]) -> str:
    cells = []
    for name in results.transports:
        most = [one.used.locked for one in done if one.transport == name]
        cells.append(f"{name} {max(most)}" if most else f"{name} -")
    return "Locked or pinned memory, the most of any rank, KiB: " + ", ".join(cells)


def _write_runs(done: Sequence[Run], folder: Path) -> None:
    with open(folder / "applications.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["application", "ranks", "transport", "repetition", "seconds", "user_s"]
            + ["system_s", "resident_kib", "locked_kib", "parts_s"]
        )
        for one in done:
            used = one.used
            parts = " ".join(f"{name}={value:.6g}" for name, value in one.parts.items())
            out.writerow(
                [one.row.application.name, one.row.ranks, one.transport]
                + [one.repetition + 1, f"{used.seconds:.4f}", f"{used.user:.4f}"]
                + [f"{used.system:.4f}", used.resident, used.locked, parts]
            )


def _write_summary(
    results: Results,
    rows: Sequence[Row],
    folder: Path,
    mtu: Optional[int],
    line: Optional[float],
) -> None:
    """With the columns of the other commands; "size" is the number of ranks."""
    with open(folder / "summary.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(store.SUMMARY_HEADS)
        for row in rows:
            where = [row.ranks if mtu else 1, mtu, line or ""]
            measures = row.measures()
            out.writerows(store.summary_rows(results, measures, SUBJECT, where))

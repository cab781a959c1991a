# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/promises."""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Optional, Sequence

from . import cli, table
from .comparison import Measurement, Setup
from .promise_runs import RUNS, Run, Runner
from .progress import clock
from .transports import SUBJECT

BOUNDS = Path(__file__).resolve().parents[1] / "promises.csv"
COUNT, TIME = "count", "time"
_ABOUT = f"""\
Check what this project promises: one row for each promise, with its bound, the
figure of {SUBJECT} and that of a peer in the same run, in turns. All rows take at
most 6 minutes on 2 cores. The bounds are in benchmarks/promises.csv, and so is
what each row promises. A row is kept if its figure is at most its bound, or at
most so many times the peer's figure.

Rows of kind {COUNT} (processor time, memory, descriptors, mappings) hold on a
machine that does other work, too; rows of kind {TIME} need an idle one.

The results are promises.csv, tables.txt and environment.txt, in results/DATE-TIME
below the current folder or where --out says.
"""
_EXIT_CODES = """\
exit codes: 0 all rows are kept; 1 a row is broken or could not be measured; 2
nothing could be run; 130 interrupted.
"""


@dataclass(frozen=True)
class Row:
    """A promise. Less is better."""

    name: str
    kind: str
    unit: str
    # Whichever permits more. None: it does not count.
    bound: Optional[float]
    ratio: Optional[float]
    # False: known to be broken today.
    reached: bool
    promise: str

    def limit(self, peer: Optional[float], tolerance: float) -> Optional[float]:
        """None if it depends on a peer that was not measured."""
        limits = [self.bound] if self.bound is not None else []
        if self.ratio is not None and peer is not None:
            limits.append(self.ratio * peer)
        if not limits:
            return None
        return max(limits) * (tolerance if self.kind == TIME else 1)


@dataclass(frozen=True)
class Verdict:
    row: Row
    ours: Optional[float]
    peer: str
    theirs: Optional[float]
    limit: Optional[float]
    # Why there is no figure.
    failure: str = ""
    # This Open MPI does not have the component's framework.
    absent: bool = False

    @property
    def kept(self) -> Optional[bool]:
        """None: it cannot be judged with this Open MPI, which lacks the framework or the peer."""
        if self.absent:
            return None
        if self.ours is None:
            return False
        return None if self.limit is None else self.ours <= self.limit

    @property
    def word(self) -> str:
        words = {True: "kept", False: "broken", None: "no peer"}
        if self.absent:
            return "not in this Open MPI"
        return words[self.kept] if self.ours is not None else "failed"


def read_rows(path: Path = BOUNDS) -> list[Row]:
    """Raises ValueError if the file is wrong."""
    with open(path, newline="") as file:
        lines = [line for line in file if not line.startswith("#")]
    rows = []
    for entry in csv.DictReader(lines):
        row = Row(
            entry["row"],
            entry["kind"],
            entry["unit"],
            float(entry["bound"]) if entry["bound"] else None,
            float(entry["ratio"]) if entry["ratio"] else None,
            entry["mark"] == "reached",
            entry["promise"],
        )
        if row.kind not in (COUNT, TIME) or (row.bound is None and row.ratio is None):
            raise ValueError(f"{path}: {row.name}: no kind, or no bound")
        rows.append(row)
    if {row.name for row in rows} != {name for run in RUNS for name in run.rows.values()}:
        raise ValueError(f"{path} does not have the rows that are measured")
    return rows


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("promises", _ABOUT, _EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    what.add_argument("names", nargs="*", metavar="ROW", help="only these rows (default: all)")
    what.add_argument("--rows", choices=(COUNT, TIME), help="only the rows of this kind")
    what.add_argument("--reached", action="store_true", help="only rows that are marked as reached")
    what.add_argument("--list", action="store_true", help="print the rows and their bounds")
    what.add_argument(
        "--tolerance",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help=f"multiply the bounds of rows of kind {TIME} (default 1)",
    )
    results = parse.add_argument_group("programs and results")
    results.add_argument(
        "--tap",
        action="store_true",
        help="print a test for each row, for prove(1), and write no results; a peer runs only "
        "if the bound depends on it, a row that one repetition keeps has no others, and a "
        "broken row is measured again after all rows: the machine may be in another state",
    )
    cli.add_results(results)
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("promises", lambda: run(options))


def choose(options: argparse.Namespace) -> list[Row]:
    rows = read_rows()
    unknown = set(options.names) - {row.name for row in rows}
    if unknown:
        raise ValueError(f"there is no row {', '.join(sorted(unknown))}: see --list")
    return [
        row
        for row in rows
        if not options.names or row.name in options.names
        if not options.rows or row.kind == options.rows
        if not options.reached or row.reached
    ]


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    rows = choose(options)
    if options.list:
        print("\n".join(table.columns([_LIST_HEADS, *map(_listed, rows)])))
        return 0
    if not rows:
        raise cli.Unusable("no row was chosen")
    setup = Setup(options.build)
    setup.require_subject()
    if options.tap:
        return _print_tap(setup, rows, options.tolerance)
    options.repetitions, options.depth = None, "default"
    measurement = Measurement(setup, options)
    verdicts: list[Verdict] = []
    with measurement.interruptible(), Runner(setup, measurement.note) as runner:
        _measure(runner, rows, options.tolerance, verdicts)
    _write(verdicts, measurement)
    measurement.failed = any(verdict.kept is False for verdict in verdicts)
    return measurement.finish(render(verdicts), {"tolerance": str(options.tolerance)})


def _measure(
    runner: Runner,
    rows: Sequence[Row],
    tolerance: float,
    verdicts: list[Verdict],
    tap: bool = False,
) -> None:
    """tap: as --tap says."""
    start = time.monotonic()
    by_name = {row.name: row for row in rows}
    wanted = [run for run in RUNS if set(run.rows.values()) & set(by_name)]
    for number, one in enumerate(wanted):
        chosen = [by_name[name] for name in one.rows.values() if name in by_name]
        names = ", ".join(row.name for row in chosen)
        passed = clock(time.monotonic() - start)
        print(f"{passed} {number + 1}/{len(wanted)} {names}", file=sys.stderr)
        peer = not tap or any(row.ratio is not None for row in chosen)
        judged = list(_judge(runner, one, chosen, tolerance, peer, 1 if tap else one.repetitions))
        if tap and one.repetitions > 1 and any(verdict.kept is False for verdict in judged):
            judged = list(_judge(runner, one, chosen, tolerance, peer, one.repetitions))
        verdicts += judged


def _judge(
    runner: Runner,
    run: Run,
    rows: Sequence[Row],
    tolerance: float,
    with_peer: bool,
    repetitions: int,
) -> Iterable[Verdict]:
    """Run exanest and its peer in turns."""
    subject, peer = runner.subject(run), runner.peer(run) if with_peer else None
    if not subject:
        for row in rows:
            yield Verdict(row, None, "", None, None, absent=True)
        return
    samples: dict[str, list[dict[str, float]]] = {}
    failures: dict[str, str] = {}
    for repetition in range(repetitions):
        order = [subject, *([peer] if peer else [])]
        for transport in order if repetition % 2 == 0 else reversed(order):
            if transport.name in failures:
                continue
            try:
                figures = runner.figures(run, transport)
                samples.setdefault(transport.name, []).append(figures)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                failures[transport.name] = str(error)
                print(f"FAILED: {run.name} {transport.name}: {error}", file=sys.stderr)

    def figure(name: str, row: Row) -> Optional[float]:
        if name in failures or name not in samples:
            return None
        return run.summary([figures[row.name] for figures in samples[name]])

    name = peer.name if peer else ""
    for row in rows:
        theirs = figure(name, row)
        yield Verdict(
            row,
            figure(SUBJECT, row),
            name,
            theirs,
            row.limit(theirs, tolerance),
            failures.get(SUBJECT, ""),
        )


_HEADS = ("row", SUBJECT, "peer", "", "at most", "unit", "", "promise")
_LIST_HEADS = ("row", "kind", "bound", "x peer", "unit", "mark", "promise")


def _listed(row: Row) -> tuple[str, ...]:
    mark = "reached" if row.reached else "broken"
    return (row.name, row.kind, _text(row.bound), _text(row.ratio), row.unit, mark, row.promise)


def _text(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}"


def render(verdicts: Sequence[Verdict]) -> str:
    """A table, and the line that counts."""
    lines = [_HEADS]
    for verdict in verdicts:
        row = verdict.row
        lines.append(
            (row.name, _text(verdict.ours), _text(verdict.theirs), verdict.peer)
            + (_text(verdict.limit), row.unit, verdict.word, row.promise)
        )
    kept = sum(verdict.kept is True for verdict in verdicts)
    broken = sum(verdict.kept is False for verdict in verdicts)
    return "\n".join([*table.columns(lines), "", f"{kept} kept, {broken} broken"])


def _write(verdicts: Sequence[Verdict], measurement: Measurement) -> None:
    with open(measurement.folder / "promises.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["row", "kind", "unit", SUBJECT, "peer", "peer's", "at most", "verdict"]
            + ["cache line, ns"]
        )
        line = measurement.setup.line().nanoseconds
        for verdict in verdicts:
            row = verdict.row
            out.writerow(
                [row.name, row.kind, row.unit, _cell(verdict.ours), verdict.peer]
                + [_cell(verdict.theirs), _cell(verdict.limit), verdict.word, _cell(line)]
            )


def _cell(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.6g}"


def _print_tap(setup: Setup, rows: Sequence[Row], tolerance: float) -> int:
    verdicts: list[Verdict] = []
    with Runner(setup, lambda command: None) as runner:
        _measure(runner, rows, tolerance, verdicts, tap=True)
        broken = [verdict for verdict in verdicts if verdict.word == "broken"]
        verdicts = [verdict for verdict in verdicts if verdict.word != "broken"]
        _measure(runner, [verdict.row for verdict in broken], tolerance, verdicts, tap=True)
    for verdict in broken:
        print(f"# measured again: {verdict.row.name}, {_text(verdict.ours)} before")
    print(f"1..{len(verdicts)}")
    for number, verdict in enumerate(verdicts, 1):
        row, word = verdict.row, "not ok" if verdict.kept is False else "ok"
        skip = f" # SKIP {verdict.word}" if verdict.kept is None else ""
        print(
            f"{word} {number} - {row.name}: {_text(verdict.ours)} {row.unit}, at most "
            f"{_text(verdict.limit)}{skip}"
        )
        for line in verdict.failure.splitlines():
            print(f"# {line}")
    return int(any(verdict.kept is False for verdict in verdicts))

# SPDX-License-Identifier: BSD-3-Clause
"""Writes the results to files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Iterator, Sequence

from .cache_line import CacheLine
from .launch import Placement
from .measures import Measure
from .results import Results

SUMMARY_HEADS = (
    *("test", "hosts", "mtu", "cache_line_ns", "transport", "size", "unit"),
    *("repetitions", "median", "minimum", "maximum", "ratio_to_best", "best"),
)


def write_samples(results: Results, folder: Path) -> None:
    """Write a file for each measure, with a row for every sample."""
    for measure in results.measures():
        with open(folder / f"{measure.name}.csv", "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["test", "transport", "size", "repetition", "value", "unit", "line_ns", "state"])
            for sample in results.samples:
                if sample.measure == measure:
                    out.writerow(
                        [
                            measure.name,
                            sample.transport,
                            sample.size,
                            sample.repetition + 1,
                            _text(sample.value),
                            measure.unit,
                            "" if sample.line is None else _text(sample.line),
                            sample.state,
                        ]
                    )


def write_summary(
    parts: Sequence[Results],
    folder: Path,
    subject: str,
    placement: Placement,
    line: CacheLine,
) -> None:
    """
    Write medians, ranges, and the subject's ratio to its best peer, for each
    state of the machine that was met. Every row says on how many hosts and in
    which state it was measured: the rows of several runs can stand in one file.
    """
    with open(folder / "summary.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(SUMMARY_HEADS)
        for results in parts:
            nanoseconds = results.line() or line.nanoseconds
            where = [placement.hosts, placement.mtu, nanoseconds or ""]
            out.writerows(summary_rows(results, results.measures(), subject, where))


def summary_rows(
    results: Results, measures: Sequence[Measure], subject: str, where: Sequence
) -> Iterator[list]:
    """where: the number of hosts, the MTU, and the time of a cache line."""
    for measure in measures:
        for size in results.sizes(measure):
            for name in results.transports:
                summary = results.summary(measure, name, size)
                if summary is None:
                    continue
                ratio = None
                if name == subject:
                    ratio = results.ratio(measure, name, results.transports, size)
                yield (
                    [measure.name, *where, name, size, measure.unit]
                    + [summary.repetitions, _text(summary.median)]
                    + [_text(summary.minimum), _text(summary.maximum)]
                    + ([f"{ratio.value:.4f}", ratio.peer] if ratio else ["", ""])
                )
        for name in results.transports:
            if results.failed(measure, name):
                row = [measure.name, *where, name, "", measure.unit, 0, "failed"]
                yield row + [""] * 4


def _text(value: float) -> str:
    """Without the digits that only rounding to binary adds."""
    return f"{value:.10g}"


def write_failures(failures: Sequence, folder: Path) -> None:
    """Each failure has step, command, text and errors, as in runner.py and applications.py."""
    path = folder / "failures.txt"
    # The folder may have those of a run before.
    path.unlink(missing_ok=True)
    if not failures:
        return
    with open(path, "w") as file:
        for failure in failures:
            file.write(f"{failure.step}: {failure.text}\n")
            file.write(" ".join(failure.command) + "\n")
            file.write(failure.errors.rstrip() + "\n\n")

# SPDX-License-Identifier: BSD-3-Clause
"""Writes the results to files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Sequence

from .cache_line import CacheLine
from .launch import Placement
from .results import Results
from .runner import Failure


def write_samples(results: Results, folder: Path) -> None:
    """Write a file for each measure, with a row for every sample."""
    for measure in results.measures():
        with open(folder / f"{measure.name}.csv", "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["test", "transport", "size", "repetition", "value", "unit"])
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
                        ]
                    )


def write_summary(
    results: Results, folder: Path, subject: str, placement: Placement, line: CacheLine
) -> None:
    """
    Write medians, ranges, and the subject's ratio to its best peer. Every row
    says on how many hosts and in which state of the machine it was measured:
    the rows of several runs can stand in one file.
    """
    where = [placement.hosts, placement.mtu, line.nanoseconds]
    with open(folder / "summary.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["test", "hosts", "mtu", "cache_line_ns", "transport", "size", "unit"]
            + ["repetitions", "median", "minimum", "maximum", "ratio_to_best", "best"]
        )
        for measure in results.measures():
            for size in results.sizes(measure):
                for name in results.transports:
                    summary = results.summary(measure, name, size)
                    if summary is None:
                        continue
                    ratio = None
                    if name == subject:
                        ratio = results.ratio(measure, name, results.transports, size)
                    out.writerow(
                        [measure.name, *where, name, size, measure.unit]
                        + [summary.repetitions, _text(summary.median)]
                        + [_text(summary.minimum), _text(summary.maximum)]
                        + ([f"{ratio.value:.4f}", ratio.peer] if ratio else ["", ""])
                    )
            for name in results.transports:
                if results.failed(measure, name):
                    row = [measure.name, *where, name, "", measure.unit, 0, "failed"]
                    out.writerow(row + [""] * 4)


def _text(value: float) -> str:
    """Without the digits that only rounding to binary adds."""
    return f"{value:.10g}"


def write_failures(failures: Sequence[Failure], folder: Path) -> None:
    if not failures:
        return
    with open(folder / "failures.txt", "w") as file:
        for failure in failures:
            file.write(f"{failure.step}: {failure.text}\n")
            file.write(" ".join(failure.command) + "\n")
            file.write(failure.errors.rstrip() + "\n\n")

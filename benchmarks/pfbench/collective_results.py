# SPDX-License-Identifier: BSD-3-Clause
"""Times of collective operations: their file, and what is computed from them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Callable, Iterable, Mapping, Optional, Sequence

from . import store
from .application_results import Setting
from .data import open_data
from .results import Summary, geometric_mean
from .suite import size_text
from .transports import SUBJECT

FILE = "collectives.csv"
# The settings that the command knows: ranks on one host, and on four.
SETTINGS = (
    *(Setting(1, ranks) for ranks in (2, 4, 16, 64)),
    *(Setting(4, ranks) for ranks in (4, 16, 64)),
)
# Slower than the fastest peer by this much is counted, whatever the spread.
SLOWER = 0.02
# So many sizes are named.
_WORST = 5
HEADS = ("ranks", *store.SUMMARY_HEADS)


@dataclass(frozen=True)
class Loss:
    """The fastest peer that is faster in every repetition, and the subject's time over its time."""

    peer: str
    ratio: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f} of {self.peer}"


@dataclass(frozen=True)
class Point:
    """An operation with one size, over each transport."""

    setting: Setting
    operation: str
    size: int
    times: Mapping[str, Summary]

    @property
    def best(self) -> Optional[str]:
        """The fastest peer."""
        return self._fastest(name for name in self.times if name != SUBJECT)

    def _fastest(self, names: Iterable[str]) -> Optional[str]:
        return min(names, key=lambda name: self.times[name].median, default=None)

    @property
    def ratio(self) -> Optional[float]:
        """The subject's time over that of the fastest peer."""
        if SUBJECT not in self.times or not self.best:
            return None
        return self.times[SUBJECT].median / self.times[self.best].median

    @property
    def slower(self) -> Optional[Loss]:
        """
        Beyond the spread, if each repetition took longer than all of a peer. It may not be the peer with
        the smallest median, whose repetitions may be spread.
        """
        mine = self.times.get(SUBJECT)
        peer = mine and self._fastest(
            name
            for name, time in self.times.items()
            if name != SUBJECT and mine.minimum > time.maximum
        )
        return Loss(peer, mine.median / self.times[peer].median) if peer else None


def rows(path: Path) -> list[dict[str, str]]:
    with open_data(path) as file:
        return list(csv.DictReader(file))


def write(rows: Iterable[Mapping[str, str]], path: Path) -> None:
    with open_data(path, "w") as file:
        out = csv.DictWriter(file, HEADS)
        out.writeheader()
        out.writerows(rows)


def setting(row: Mapping[str, str]) -> Setting:
    return Setting(int(row["hosts"]), int(row["ranks"]))


def merge(path: Path, target: Path) -> None:
    """Add the rows of a file to another one, in place of all that has the same settings.
    Raises ValueError if a size of these would be lost."""
    new = rows(path)
    settings = set(map(setting, new))
    old = rows(target) if target.exists() else []
    kept = [row for row in old if setting(row) not in settings]
    lost = {_label(row) for row in old if row not in kept} - set(map(_label, new))
    if lost:
        names = "; ".join(sorted(lost))
        raise ValueError(f"{target} also has {names}, which this run has not: measure these, too")
    write([*kept, *new], target)


def _label(row: Mapping[str, str]) -> str:
    return f"{row['test']} {row['size']}, {setting(row)}"


def points(rows: Iterable[Mapping[str, str]]) -> dict[Setting, list[Point]]:
    """In the order of the rows, but by setting."""
    found: dict[Setting, dict[tuple[str, int], dict[str, Summary]]] = {}
    for row in rows:
        if int(row["repetitions"]):
            figures = [float(row[name]) for name in ("median", "minimum", "maximum")]
            key = (row["test"], int(row["size"]))
            times = found.setdefault(setting(row), {}).setdefault(key, {})
            times[row["transport"]] = Summary(*figures, int(row["repetitions"]))
    return {
        setting: [Point(setting, *key, times) for key, times in found[setting].items()]
        for setting in sorted(found)
    }


def finding(points: Iterable[Point]) -> str:
    """How a setting compares with the fastest peer of each size."""
    compared = _compared(points)
    if not compared:
        return "no peer was measured"
    mean = geometric_mean(point.ratio for point in compared)
    over = sum(point.ratio > 1 + SLOWER for point in compared)
    beyond = sum(point.slower is not None for point in compared)
    worst = sorted(compared, key=lambda point: -point.ratio)[:_WORST]
    names = (
        f"{_sizes(point.operation, [point])} {point.ratio:.2f} of {point.best}" for point in worst
    )
    return (
        f"geometric mean of the ratios {mean:.2f}; of {len(compared)} sizes {over} slower by more "
        f"than {SLOWER:.0%} by the medians, {beyond} beyond the spread; the largest ratios: "
        + ", ".join(names)
    )


def slower(
    points: Iterable[Point], tell: Callable[[Point], str] = lambda point: ""
) -> list[tuple[str, str]]:
    """The sizes that are slower beyond the spread, by operation and by what is to tell of each."""
    compared = _compared(points)
    lines = []
    for operation in dict.fromkeys(point.operation for point in compared):
        own = [point for point in compared if point.operation == operation]
        told = {point.size: tell(point) for point in own if point.slower}
        for text in dict.fromkeys(told.values()):
            runs = [
                list(run)
                for chosen, run in groupby(own, key=lambda point: told.get(point.size) == text)
                if chosen
            ]
            losses = (point.slower for run in runs for point in run)
            worst = max(losses, key=lambda loss: loss.ratio)
            lines.append((f"{_sizes(operation, *runs)} (at most {worst})", text))
    return lines


def _compared(points: Iterable[Point]) -> list[Point]:
    return [point for point in points if point.ratio is not None]


def _sizes(operation: str, *runs: Sequence[Point]) -> str:
    """The operation with the first and last size of each run; a barrier has none."""
    texts = [
        " to ".join(dict.fromkeys(size_text(point.size) for point in (run[0], run[-1])))
        for run in runs
        if run[0].size
    ]
    return f"{operation} {', '.join(texts)}".rstrip()

# SPDX-License-Identifier: BSD-3-Clause
"""Runs of packaged programs: their files, what is computed from them, and the goal."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Iterable, Iterator, Mapping, Optional, Sequence

from . import packaged, store, table
from .data import open_data
from .measures import Measure
from .packaged import Application
from .results import Paired, Results, Sample
from .transports import SUBJECT

FILE = "applications.csv"
# The goal: how much slower than the best peer is too slow, how much faster is faster,
# and how many applications have to be.
SLOWER = 0.02
FASTER = 0.05
WANTED = 4
# A part that is shorter than this, s, is not judged: one interruption of a rank decides its time.
SHORT = 0.01
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


@dataclass(frozen=True, order=True)
class Setting:
    """Where an application ran."""

    hosts: int
    ranks: int

    def __str__(self) -> str:
        return f"{self.ranks} rank{'s' * (self.ranks > 1)}" + (f" on {self.hosts} hosts" if self.hosts > 1 else "")


# The settings of the goal: hosts, ranks.
SETTINGS = tuple(Setting(*each) for each in ((1, 2), (1, 4), (2, 2), (2, 4), (4, 4)))


def not_measured(known: Iterable[Setting], measured: Iterable[Setting]) -> str:
    """A line for the document, empty if all were measured."""
    missing = [str(each) for each in known if each not in set(measured)]
    return f"Not measured: {'; '.join(missing)}." if missing else ""


@dataclass(frozen=True)
class Row:
    """An application, or a part of it that it times, with a number of ranks."""

    application: Application
    ranks: int
    part: str = ""
    hosts: int = 1

    @property
    def name(self) -> str:
        return f"{self.application.name} {self.part}".rstrip()

    @property
    def setting(self) -> Setting:
        return Setting(self.hosts, self.ranks)

    def __str__(self) -> str:
        return f"{self.name}, {self.setting}"

    def measure(self, quantity: str) -> Measure:
        name = f"{self.application.name}-{self.part or quantity}"
        unit, shown, scale = _UNITS[quantity]
        # The title tells the setting: a failure with four ranks says nothing of two.
        return Measure(name, str(self), unit, True, shown, scale, "")

    def measures(self) -> list[Measure]:
        times = [part.measure(TIME) for part in self.judged() if part.part]
        return [*(self.measure(quantity) for quantity in _UNITS), *times]

    def judged(self) -> list[Row]:
        """Its parts; or itself, if it times none."""
        return [replace(self, part=part) for part in self.application.parts] or [self]

    def timed(self) -> list[Row]:
        """Itself, and its parts."""
        return list(dict.fromkeys((self, *self.judged())))


def by_setting(rows: Iterable[Row]) -> dict[Setting, list[Row]]:
    found: dict[Setting, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.setting):
        found.setdefault(row.setting, []).append(row)
    return found


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


def results_and_rows(
    done: Sequence[Run], failures: Sequence[Failure]
) -> tuple[Results, dict[Setting, list[Row]]]:
    """The samples of several settings, and the rows of each."""
    everything = (*done, *failures)
    names = list(dict.fromkeys(one.transport for one in everything))
    rows = by_setting(dict.fromkeys(one.row for one in everything))
    return collect(done, failures, names), rows


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
        return f"{ratio.median:.2f} of {self.peer} ({ratio.low:.2f} to {ratio.high:.2f})"


def compare(results: Results, row: Row, quantity: str) -> Optional[Comparison]:
    """
    With the peer of the largest ratio, by the median of the repetitions, of those that exanest is certainly
    slower than, if there are any. The peer with the smallest median may be one whose repetitions met a
    better state of the machine. None: no peer to compare.
    """
    measure = row.measure(quantity)
    compared = [
        Comparison(row, name, ratio)
        for name in sorted(results.transports)
        if name != SUBJECT and (ratio := results.paired(measure, SUBJECT, name, row.ranks))
    ]
    certain = [one for one in compared if one.clear and one.ratio.median > 1 + SLOWER]
    return max(certain or compared, key=lambda one: one.ratio.median, default=None)


@dataclass(frozen=True)
class Finding:
    """How the rows of a setting meet the goal."""

    state: str
    # Those with a peer that last long enough.
    judged: Sequence[Comparison]
    slower: Sequence[Comparison]
    faster: Sequence[Comparison]
    unclear: Sequence[Comparison]
    # Parts below SHORT over both.
    short: Sequence[Comparison]
    failed: Sequence[Row]

    @property
    def faster_applications(self) -> int:
        """How many have a faster row: it may be a part."""
        return _applications(self.faster)

    def summary(self) -> str:
        count = self.faster_applications
        parts = [
            f"{len(self.slower)} of {len(self.judged)} slower than the best peer by more than "
            f"{SLOWER:.0%}",
            f"{count} application{'s' * (count != 1)} faster by {FASTER:.0%} (goal: {WANTED})",
        ]
        if self.unclear:
            parts.append(f"{len(self.unclear)} may be chance, more repetitions can tell (-r)")
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        return "; ".join(parts)

    def lines(self) -> Iterator[tuple[str, Row, str]]:
        """What the summary counts: the word for it, the row, its ratio; the largest ratio first."""
        kinds = {
            "slower": self.slower,
            "may be chance": self.unclear,
            "faster": self.faster,
            f"not judged, below {1000 * SHORT:.0f} ms": self.short,
        }
        for row in self.failed:
            yield "failed", row, ""
        for kind, those in kinds.items():
            for one in sorted(those, key=lambda one: -one.ratio.median):
                yield kind, one.row, str(one)


def goal(results: Results, rows: Sequence[Row]) -> Finding:
    """Whether the rows of a setting meet the goal."""
    parts = [part for row in rows for part in row.judged()]
    compared = [one for row in parts if (one := compare(results, row, TIME))]
    short = [one for one in compared if _is_short(results, one)]
    judged = [one for one in compared if one not in short]
    failed = [row for row in rows if results.failed(row.measure(TIME), SUBJECT)]
    over = [one for one in judged if one.ratio.median > 1 + SLOWER]
    under = [one for one in judged if one.ratio.median < 1 - FASTER]
    slower = [one for one in over if one.clear]
    faster = [one for one in under if one.clear]
    unclear = [one for one in (*over, *under) if not one.clear]
    possible = [one for one in judged if one.ratio.low < 1 - FASTER]
    if failed or slower or _applications(possible) < WANTED:
        state = "not met"
    elif len(slower) < len(over) or _applications(faster) < WANTED:
        state = "undecided"
    else:
        state = "met"
    return Finding(state, judged, slower, faster, unclear, short, failed)


def _is_short(results: Results, one: Comparison) -> bool:
    """Whether it is a part that lasts too short over both."""
    medians = (
        results.summary(one.row.measure(TIME), name, one.row.ranks) for name in (SUBJECT, one.peer)
    )
    return bool(one.row.part) and all(each and each.median < SHORT for each in medians)


def _applications(items: Iterable[Comparison]) -> int:
    """How many they are of: a row may be a part."""
    return len({one.row.application.name for one in items})


# ---- output ----


def render(results: Results, rows: Sequence[Row], done: Sequence[Run]) -> str:
    texts = ["Medians; in brackets (maximum - minimum) / median of the repetitions."]
    for quantity, title in _TITLES.items():
        shown = list(rows)
        if quantity == TIME:
            shown = [part for row in rows for part in row.timed()]
        lines = [(str(row), row.measure(quantity), row.ranks) for row in shown]
        unit = _UNITS[quantity][1]
        texts.append(table.matrix(results, f"{title}, {unit}", lines, SUBJECT))
    cells = [
        f"{name} {most_locked(one for one in done if one.transport == name)}"
        for name in results.transports
    ]
    texts.append("Locked or pinned memory, the most of any rank, KiB: " + ", ".join(cells))
    return "\n\n".join([*texts, *more_cpu(results, rows)])


def most_locked(done: Iterable[Run]) -> str:
    """Of any rank, KiB."""
    return str(max((one.used.locked for one in done), default="-"))


def more_cpu(results: Results, rows: Sequence[Row]) -> list[str]:
    """A line about what takes more CPU time than over its best peer, if anything does."""
    costly = [
        one
        for row in rows
        if (one := compare(results, row, CPU))
        and one.ratio.median > 1 + _MORE_CPU
        and one.clear
    ]
    if not costly:
        return []
    text = f"More CPU time than the best peer by over {_MORE_CPU:.0%}, and not by chance: "
    return [text + "; ".join(f"{one.row}: {one}" for one in costly)]


# ---- files ----


def write(done: Iterable[Run], failures: Iterable[Failure], path: Path) -> None:
    with open_data(path, "w") as file:
        out = csv.writer(file)
        out.writerow(
            ["application", "ranks", "hosts", "transport", "repetition", "seconds", "user_s"]
            + ["system_s", "resident_kib", "locked_kib", "parts_s", "failure"]
        )
        for one in done:
            used = one.used
            parts = " ".join(f"{name}={value:.6g}" for name, value in one.parts.items())
            out.writerow(
                [*_columns(one), one.repetition + 1, f"{used.seconds:.4f}", f"{used.user:.4f}"]
                + [f"{used.system:.4f}", used.resident, used.locked, parts, ""]
            )
        out.writerows([*_columns(one), *[""] * 7, one.text] for one in failures)


def _columns(one: Run | Failure) -> list:
    return [one.row.application.name, one.row.ranks, one.row.hosts, one.transport]


def read(path: Path) -> tuple[list[Run], list[Failure]]:
    known = {each.name: each for each in packaged.APPLICATIONS}
    done, failures = [], []
    with open_data(path) as file:
        for line in csv.DictReader(file):
            name, transport = line["application"], line["transport"]
            if name not in known:
                raise ValueError(f"{path}: there is no application {name}")
            row = Row(known[name], int(line["ranks"]), hosts=int(line["hosts"]))
            if line["failure"]:
                failures.append(Failure(row, transport, (), line["failure"], ""))
                continue
            times = [float(line[column]) for column in ("seconds", "user_s", "system_s")]
            sizes = [int(line[column]) for column in ("resident_kib", "locked_kib")]
            pairs = [pair.split("=") for pair in line["parts_s"].split()]
            parts = {part: float(value) for part, value in pairs}
            done.append(Run(row, transport, int(line["repetition"]) - 1, Used(*times, *sizes), parts))
    return done, failures


def merge(path: Path, target: Path) -> None:
    """Add the rows of a file to another one, in place of all that has the same settings.
    Raises ValueError if an application of these would be lost."""
    new = read(path)
    settings = {one.row.setting for part in new for one in part}
    old: tuple[Sequence, Sequence] = read(target) if target.exists() else ([], [])
    before, after = ({str(one.row) for part in each for one in part
                      if one.row.setting in settings} for each in (old, new))
    if before - after:
        names = "; ".join(sorted(before - after))
        raise ValueError(f"{target} also has {names}, which this run has not: run these, too")
    kept = [[one for one in part if one.row.setting not in settings] for part in old]
    write([*kept[0], *new[0]], [*kept[1], *new[1]], target)


def write_summary(
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
            where = [row.hosts, mtu, line or ""]
            measures = row.measures()
            out.writerows(store.summary_rows(results, measures, SUBJECT, where))

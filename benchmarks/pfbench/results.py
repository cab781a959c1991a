# SPDX-License-Identifier: BSD-3-Clause
"""The samples of a run, and the figures computed from them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Iterable, Mapping, Optional

from . import cache_line
from .measures import Measure


@dataclass(frozen=True)
class Sample:
    measure: Measure
    transport: str
    size: int
    repetition: int
    value: float
    # The state of the machine (cache_line.state), and ns of a cache line. Empty: not measured.
    state: str = ""
    line: Optional[float] = None


@dataclass(frozen=True)
class Summary:
    """One measure of one transport at one size, over the repetitions."""

    median: float
    minimum: float
    maximum: float
    repetitions: int

    @property
    def spread(self) -> float:
        """(maximum - minimum) / median"""
        return (self.maximum - self.minimum) / self.median if self.median else 0.0


@dataclass(frozen=True)
class Ratio:
    """The median of one transport over that of its best peer."""

    value: float
    peer: str
    size: int


# How often the interval of Paired may miss the median. It takes five ratios at least.
_MISSED = 0.075


@dataclass(frozen=True)
class Paired:
    """
    The ratios of one transport to another, each of the same repetition, in which they ran at most a
    few runs apart: what changes more slowly, such as the state of the machine, cancels out.
    """

    median: float
    # The median's confidence interval, from the order of the ratios alone (sign test). Too few: 0, inf.
    low: float
    high: float


def paired(ratios: Iterable[float]) -> Paired:
    ratios = sorted(ratios)
    count = len(ratios)
    outside, missed = 0, 2 / 2**count
    while missed <= _MISSED:
        outside += 1
        missed += 2 * math.comb(count, outside) / 2**count
    inside = ratios[outside - 1 : count - outside + 1] if outside else [0.0, math.inf]
    return Paired(statistics.median(ratios), inside[0], inside[-1])


@dataclass(frozen=True)
class Figure:
    """A sum of medians, less others, over another."""

    terms: tuple[Measure, ...]
    less: tuple[Measure, ...] = ()
    over: Optional[Measure] = None


class Results:
    def __init__(
        self, transports: Iterable[str], bounds: Optional[Mapping[str, str]] = None
    ) -> None:
        self.transports = list(transports)
        # Those of the transports that are bounds and not peers, and what they are.
        self.bounds = dict(bounds or {})
        self.samples: list[Sample] = []
        self.failures: dict[tuple[Measure, str], str] = {}
        self._values: dict[tuple[Measure, str, int], list[float]] = {}

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        key = (sample.measure, sample.transport, sample.size)
        self._values.setdefault(key, []).append(sample.value)

    def by_state(self) -> list[tuple[str, Results]]:
        """
        The results of each state of the machine that was met, with those whose state was not
        measured. Samples during which it changed are left out, unless there are no others.
        """
        met = {sample.state for sample in self.samples if sample.state}
        states = [name for name in (cache_line.CLOSE, cache_line.FAR) if name in met]
        if not states:
            return [("", self)]
        return [(name, self._only(name)) for name in states]

    def _only(self, state: str) -> Results:
        part = Results(self.transports, self.bounds)
        part.failures = self.failures
        for sample in self.samples:
            if sample.state in ("", state):
                part.add(sample)
        return part

    def line(self) -> Optional[float]:
        """The median time of a cache line, ns."""
        lines = [sample.line for sample in self.samples if sample.line]
        return statistics.median(lines) if lines else None

    def fail(self, measure: Measure, transport: str, text: str) -> None:
        self.failures.setdefault((measure, transport), text)

    def failed(self, measure: Measure, transport: str) -> bool:
        return (measure, transport) in self.failures

    def measures(self) -> list[Measure]:
        """In the order of first use, also those without samples because of failures."""
        seen = [sample.measure for sample in self.samples]
        seen += [measure for measure, _ in self.failures]
        return list(dict.fromkeys(seen))

    def sizes(self, measure: Measure) -> list[int]:
        return sorted({key[2] for key in self._values if key[0] == measure})

    def shown(self, measure: Measure) -> list[str]:
        """The transports, without the bounds that were not measured."""
        measured = {sample.transport for sample in self.samples if sample.measure == measure}
        return [
            name
            for name in self.transports
            if name not in self.bounds or name in measured or self.failed(measure, name)
        ]

    def summary(
        self, measure: Measure, transport: str, size: int
    ) -> Optional[Summary]:
        """None if there is no sample, or if the transport failed in this measure."""
        values = self._values.get((measure, transport, size))
        if not values or self.failed(measure, transport):
            return None
        return Summary(
            statistics.median(values), min(values), max(values), len(values)
        )

    def figure(self, figure: Figure, transport: str, size: int) -> Optional[float]:
        """None if one of its measures has no samples."""
        needed = [*figure.terms, *figure.less, *((figure.over,) if figure.over else ())]
        medians = {}
        for measure in needed:
            summary = self.summary(measure, transport, size)
            if summary is None:
                return None
            medians[measure] = summary.median
        value = sum(medians[measure] for measure in figure.terms)
        value -= sum(medians[measure] for measure in figure.less)
        return value / medians[figure.over] if figure.over else value

    def ratio(
        self, measure: Measure, transport: str, peers: Iterable[str], size: int
    ) -> Optional[Ratio]:
        """None if the transport, or every peer, has no samples, or counted nothing."""
        mine = self.summary(measure, transport, size)
        others = {
            peer: summary.median
            for peer in peers
            if peer != transport
            and peer not in self.bounds
            and (summary := self.summary(measure, peer, size))
            and summary.median
        }
        if not mine or not mine.median or not others:
            return None
        choose = min if measure.lower_is_better else max
        best = choose(others, key=lambda peer: others[peer])
        return Ratio(mine.median / others[best], best, size)

    def paired(
        self, measure: Measure, transport: str, peer: str, size: int
    ) -> Optional[Paired]:
        """None if they have no repetition in common, or if one of them failed."""
        if self.failed(measure, transport) or self.failed(measure, peer):
            return None
        values: dict[str, dict[int, float]] = {transport: {}, peer: {}}
        for one in self.samples:
            if (one.measure, one.size) == (measure, size) and one.transport in values:
                values[one.transport][one.repetition] = one.value
        common = values[transport].keys() & values[peer].keys()
        return paired(values[transport][n] / values[peer][n] for n in common) if common else None

    def ratio_to_bound(
        self, measure: Measure, transport: str, bound: str, size: int
    ) -> Optional[float]:
        mine = self.summary(measure, transport, size)
        other = self.summary(measure, bound, size)
        return mine.median / other.median if mine and other else None

    def ratios(
        self, measure: Measure, transport: str, peers: Iterable[str]
    ) -> list[Ratio]:
        peers = list(peers)
        ratios = (
            self.ratio(measure, transport, peers, size) for size in self.sizes(measure)
        )
        return [ratio for ratio in ratios if ratio is not None]


def geometric_mean(values: Iterable[float]) -> float:
    values = list(values)
    if not values:
        raise ValueError("geometric mean of no values")
    return math.exp(sum(math.log(value) for value in values) / len(values))

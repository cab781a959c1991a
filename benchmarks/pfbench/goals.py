# SPDX-License-Identifier: BSD-3-Clause
"""The performance goals of this project, and their judgement from one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Union

from . import hosts, measures, transports
from .measures import Measure
from .osu import NO_SIZE
from .results import Figure, Ratio, Results, geometric_mean
from .suite import FIRST_TESTS, KIB, MIB, doubled, size_text
from .transports import SUBJECT


@dataclass(frozen=True)
class Finding:
    text: str
    measured: str
    # None: it was not measured.
    met: Optional[bool]


@dataclass(frozen=True)
class Bound:
    """A limit of the subject's ratio to a bound, which is no peer; upper or lower as the goal's."""

    name: str
    limit: float


@dataclass(frozen=True)
class Goal:
    """
    A limit of the subject's ratio to its best peer, from the size low to the
    size high: an upper limit if lower values are better, else a lower limit.
    """

    text: str
    measure: Measure
    peers: tuple[str, ...]
    limit: float
    low: int
    high: int
    # Of the geometric mean over the sizes; otherwise of every size.
    mean: bool = False
    # A size also meets the goal with this ratio to a bound.
    bound: Optional[Bound] = None
    # It misses only beyond the spread: if no repetition meets the limit, whichever of the peer's.
    apart: bool = False

    def judge(self, results: Results) -> Finding:
        if results.failed(self.measure, SUBJECT):
            return Finding(self.text, f"{SUBJECT} failed", False)
        ratios = []
        for size in doubled(self.low, self.high):
            ratio = self._ratio(results, size)
            if ratio is None:
                return _not_measured(self.text, size)
            ratios.append(ratio)
        if self.mean:
            value = geometric_mean(ratio.value for ratio in ratios)
            return Finding(self.text, f"{value:.3f}", self._within(value, self.limit))
        shares = {r.size: self._share(results, r.size) for r in ratios}
        verdicts = {
            r.size: self._meets(self._judged(results, r), shares[r.size]) for r in ratios
        }
        missed = [ratio for ratio in ratios if not verdicts[ratio.size]]
        choose = max if self.measure.lower_is_better else min
        worst = choose(missed or ratios, key=lambda ratio: ratio.value)
        measured = f"{worst.value:.2f} of {worst.peer}"
        if self.bound:
            share = shares[worst.size]
            name = self.bound.name
            measured += f", {name} not measured" if share is None else f", {share:.2f} of {name}"
        if len(ratios) > 1:
            measured += f" at {size_text(worst.size)}, the worst size"
            measured += f" ({len(missed)} of {len(ratios)} sizes miss)" if missed else ""
        if self.bound and not missed:
            near = sum(not self._within(ratio.value, self.limit) for ratio in ratios)
            measured += f"; met by the ratio to {name if near else 'the best peer'}"
            measured += f" at {near} of {len(ratios)} sizes" if 0 < near < len(ratios) else ""
        if missed and False not in verdicts.values():
            return Finding(self.text, measured, None)
        return Finding(self.text, measured, not missed)

    def _within(self, value: float, limit: float) -> bool:
        return _within(value, limit, self.measure.lower_is_better)

    def _ratio(self, results: Results, size: int) -> Optional[Ratio]:
        """To the best peer; where the spread counts, to one for which the limit is missed, if there is one."""
        best = results.ratio(self.measure, SUBJECT, self.peers, size)
        if not self.apart:
            return best
        each = (results.ratio(self.measure, SUBJECT, (peer,), size) for peer in self.peers)
        missed = [
            ratio
            for ratio in each
            if ratio and not self._within(self._judged(results, ratio), self.limit)
        ]
        choose = max if self.measure.lower_is_better else min
        return choose(missed, key=lambda ratio: ratio.value, default=best)

    def _judged(self, results: Results, ratio: Ratio) -> float:
        """The ratio of the medians, or of the best repetition to the peer's worst."""
        if not self.apart:
            return ratio.value
        mine = results.summary(self.measure, SUBJECT, ratio.size)
        peer = results.summary(self.measure, ratio.peer, ratio.size)
        assert mine and peer
        if self.measure.lower_is_better:
            return mine.minimum / peer.maximum
        return mine.maximum / peer.minimum

    def _share(self, results: Results, size: int) -> Optional[float]:
        if not self.bound:
            return None
        return results.ratio_to_bound(self.measure, SUBJECT, self.bound.name, size)

    def _meets(self, value: float, share: Optional[float]) -> Optional[bool]:
        """None: it depends on the bound, which was not measured."""
        if self._within(value, self.limit):
            return True
        if not self.bound:
            return False
        return None if share is None else self._within(share, self.bound.limit)


@dataclass(frozen=True)
class Limit:
    """A limit of a figure of the subject, from the size low to the size high."""

    text: str
    figure: Figure
    limit: float
    low: int = NO_SIZE
    high: int = NO_SIZE
    at_most: bool = True

    def judge(self, results: Results) -> Finding:
        values = {}
        for size in doubled(self.low, self.high):
            value = results.figure(self.figure, SUBJECT, size)
            if value is None:
                return _not_measured(self.text, size)
            values[value] = size
        worst = (max if self.at_most else min)(values)
        measured = f"{worst:.3f}" if self.figure.over else f"{worst:.3f} us"
        if self.high > self.low:
            measured += f" at {size_text(values[worst])}, the worst size"
        return Finding(self.text, measured, _within(worst, self.limit, self.at_most))


def _not_measured(text: str, size: int) -> Finding:
    where = f" at {size_text(size)}" if size else ""
    return Finding(text, f"not measured{where}", None)


def _within(value: float, limit: float, at_most: bool) -> bool:
    return value <= limit if at_most else value >= limit


# Open MPI 5 calls vader sm.
_SHARED_MEMORY = ("vader", "sm")
_PEERS = (*_SHARED_MEMORY, "ucx")

TWO_RANKS = (
    Goal("latency, every size, at most 1.05 of the better of vader and ucx",
         measures.LATENCY, _PEERS, 1.05, 1, 16 * MIB),
    Goal("latency, geometric mean, at most 0.60 of the better of vader and ucx",
         measures.LATENCY, _PEERS, 0.60, 1, 16 * MIB, mean=True),
    Goal("bandwidth, every size, at least that of the better peer",
         measures.BANDWIDTH, _PEERS, 1.0, 1, 16 * MIB),
    Goal("bandwidth, 16 KiB to 16 MiB, at least 2.0 of the better peer",
         measures.BANDWIDTH, _PEERS, 2.0, 16 * KIB, 16 * MIB),
    Goal("message rate, 1 byte, at least that of the better peer",
         measures.RATE, _PEERS, 1.0, 1, 1),
    Goal("CPU time per GB, 64 B to 16 MiB, at most that of the better peer",
         measures.CPU, _PEERS, 1.0, 64, 16 * MIB),
)
# Of smsc/exanest below btl/sm.
_SMSC_PEERS = tuple(peer.name for peer in transports.SMSC if peer.name != SUBJECT)
SMSC = (
    Goal("latency, 1 B to 128 KiB, at most 1.05 of the better of cma and xpmem",
         measures.LATENCY, _SMSC_PEERS, 1.05, 1, 128 * KIB),
    Goal("latency, 256 KiB, at most 0.77 of the better peer",
         measures.LATENCY, _SMSC_PEERS, 0.77, 256 * KIB, 256 * KIB),
    Goal("latency, 512 KiB to 4 MiB, at most 0.7 of the better peer",
         measures.LATENCY, _SMSC_PEERS, 0.7, 512 * KIB, 4 * MIB),
    Goal("bandwidth, 1 B to 128 KiB, at least 0.95 of the better peer",
         measures.BANDWIDTH, _SMSC_PEERS, 0.95, 1, 128 * KIB),
    Goal("bandwidth, 256 KiB, at least 1.3 of the better peer",
         measures.BANDWIDTH, _SMSC_PEERS, 1.3, 256 * KIB, 256 * KIB),
    Goal("bandwidth, 512 KiB to 4 MiB, at least 1.4 of the better peer",
         measures.BANDWIDTH, _SMSC_PEERS, 1.4, 512 * KIB, 4 * MIB),
    Goal("bandwidth, 16 MiB, at least 1.2 of the better peer",
         measures.BANDWIDTH, _SMSC_PEERS, 1.2, 16 * MIB, 16 * MIB),
)
# Those of tests that are not run by default.
FIRST = tuple(
    Goal(f"{test.program} of a new pair, {size_text(size)}, mean of the first 100, "
         "at most 1.1 of vader's",
         measures.FIRST[test.program][100], _SHARED_MEMORY, 1.1, size, size)
    for test in FIRST_TESTS
    for size in (span.low for span in test.spans["default"])
)

# A get into untouched pages, less a warm get, less the processor's own access to them.
MINOR_ADDED = Figure(
    (measures.MINOR_COLD,), less=(measures.MINOR_WARM, measures.MINOR_TOUCH)
)
CHECK_ADDED = Figure((measures.CHECK_DEFAULT,), less=(measures.CHECK_RARELY,))
PAGER_RATIO = Figure((measures.PAGER_FORWARDED,), over=measures.PAGER_THREAD)
PAGER_KEPT = Figure((measures.PAGER_BESIDE,), over=measures.PAGER_ALONE)
SWAP_KEPT = Figure((measures.SWAP_BESIDE,), over=measures.SWAP_ALONE)
_COLD = measures.COLD_BANDWIDTH["destination"]
FAULTS = (
    Goal("destination cold, 4 MiB, at least 2.5 of the bandwidth of pin",
         _COLD, ("pin",), 2.5, 4 * MIB, 4 * MIB),
    Goal("destination cold, 4 MiB, at least 2 of the bandwidth of vader",
         _COLD, _SHARED_MEMORY, 2.0, 4 * MIB, 4 * MIB),
    Limit("a minor page fault at the destination adds at most 2 us to a processor's own",
          MINOR_ADDED, 2.0, 4 * KIB, 16 * KIB),
    Limit("tolerating page faults costs a warm transfer at most 0.1 us",
          CHECK_ADDED, 0.1, 4 * KIB, 16 * KIB),
    Limit("warm streams keep at least 0.95 during a get from a pager of 1 ms a page",
          PAGER_KEPT, 0.95, at_most=False),
    Limit("warm streams keep at least 0.95 during a put from swap",
          SWAP_KEPT, 0.95, at_most=False),
    Limit("a page fault forwarded to a pager takes at most 0.5 of a userfaultfd thread's",
          PAGER_RATIO, 0.5),
)

NET_PEERS = ("tcp", "ucx", "libfabric")
_LOSS = measures.LOSS_BANDWIDTH
HOSTS_COLD = (
    Goal("destination cold, 64 KiB to 1 MiB, at least 1.5 of the bandwidth of the best peer",
         _COLD, NET_PEERS, 1.5, 64 * KIB, MIB),
    Goal("destination cold, 4 MiB, at least 4 of the bandwidth of the best peer",
         _COLD, NET_PEERS, 4.0, 4 * MIB, 4 * MIB),
)
_HOSTS_LATENCY = (
    Goal("latency, 1 B to 8 KiB, at most 0.75 of the best of tcp, ucx and libfabric, "
         "or at most 1.15 of limit",
         measures.LATENCY, NET_PEERS, 0.75, 1, 8 * KIB,
         bound=Bound(hosts.LIMIT.name, 1.15)),
    Goal("latency, 16 KiB to 256 KiB, at most 0.85 of the best peer",
         measures.LATENCY, NET_PEERS, 0.85, 16 * KIB, 256 * KIB),
)
_HOSTS_OTHERS = (
    Goal("message rate, 1 byte, at least 10 of the best peer",
         measures.RATE, NET_PEERS, 10.0, 1, 1),
    *(
        Limit(f"bandwidth, {percent} % packet loss, at least {limit} of that without loss",
              Figure((_LOSS[percent],), over=_LOSS["0"]),
              limit, 256 * KIB, MIB, at_most=False)
        for percent, limit in (("1", 0.6), ("10", 0.3))
    ),
    *HOSTS_COLD,
)


def between_hosts(mtu: int) -> Sequence[Union[Goal, Limit]]:
    """The goals between hosts. That of the longest message depends on the MTU."""
    longest = 2.5 if mtu <= 1500 else 4.0
    bandwidth = tuple(
        Goal(f"bandwidth, {text}, at least {limit:g} of the best peer, or at least 0.9 of limit",
             measures.BANDWIDTH, NET_PEERS, limit, size, size,
             bound=Bound(hosts.LIMIT.name, 0.9))
        for text, limit, size in (
            ("64 KiB", 1.5, 64 * KIB),
            ("1 MiB", 3.0, MIB),
            ("4 MiB", longest, 4 * MIB),
        )
    )
    return (*_HOSTS_LATENCY, *bandwidth, *_HOSTS_OTHERS)


def render(results: Results, goals: Sequence[Union[Goal, Limit]]) -> str:
    return render_findings([goal.judge(results) for goal in goals])


def render_findings(findings: Sequence[Finding]) -> str:
    words = {True: "met", False: "NOT MET", None: "unknown"}
    lines = [f"  {words[f.met]:8} {f.text}: {f.measured}" for f in findings]
    return "\n".join(["Goals", *lines])

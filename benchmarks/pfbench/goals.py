# SPDX-License-Identifier: BSD-3-Clause
"""The performance goals of this project, judged from one comparison run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence, Union

from . import measures
from .measures import Measure
from .osu import NO_SIZE
from .results import Figure, Ratio, Results, geometric_mean
from .suite import KIB, MIB, doubled, size_text
from .transports import SUBJECT


@dataclass(frozen=True)
class Goal:
    """The ratio of ours to the better of the peers, at most (or at least) a limit."""

    text: str
    measure: Measure
    peers: tuple[str, ...]
    limit: float
    low: int
    high: int
    # Judge the geometric mean over the sizes, not every size.
    mean: bool = False


@dataclass(frozen=True)
class Limit:
    """What our own medians add up to, or the quotient of two of them, and its limit."""

    text: str
    figure: Figure
    limit: float
    low: int = NO_SIZE
    high: int = NO_SIZE
    at_most: bool = True


@dataclass(frozen=True)
class Finding:
    goal: Union[Goal, Limit]
    measured: str
    # None: it was not measured.
    met: Optional[bool]


# Open MPI 5 calls vader sm.
_SHARED_MEMORY = ("vader", "sm")
_PEERS = (*_SHARED_MEMORY, "ucx")

TWO_RANKS = (
    Goal(
        "latency, every size, at most 1.05 of the better of vader and ucx",
        measures.LATENCY,
        _PEERS,
        1.05,
        1,
        16 * MIB,
    ),
    Goal(
        "latency, geometric mean, at most 0.85 of the better of vader and ucx",
        measures.LATENCY,
        _PEERS,
        0.85,
        1,
        16 * MIB,
        mean=True,
    ),
    Goal(
        "bandwidth, 256 KiB to 16 MiB, at least 1.7 of the better peer",
        measures.BANDWIDTH,
        _PEERS,
        1.7,
        256 * KIB,
        16 * MIB,
    ),
    Goal(
        "bandwidth, 128 MiB, at least 1.3 of the better peer",
        measures.BANDWIDTH,
        _PEERS,
        1.3,
        128 * MIB,
        128 * MIB,
    ),
    Goal(
        "bandwidth, every size, at least tcp's",
        measures.BANDWIDTH,
        ("tcp",),
        1.0,
        1,
        128 * MIB,
    ),
    Goal(
        "message rate, 1 byte, at least the better peer's",
        measures.RATE,
        _PEERS,
        1.0,
        1,
        1,
    ),
    Goal(
        "CPU time for each GB, geometric mean, at most vader's",
        measures.CPU,
        _SHARED_MEMORY,
        1.0,
        1,
        128 * MIB,
        mean=True,
    ),
    Goal(
        "CPU time for each GB, every size, at most vader's",
        measures.CPU,
        _SHARED_MEMORY,
        1.0,
        1,
        128 * MIB,
    ),
)
COLLECTIVES = (
    Goal("barrier, not slower than vader", measures.BARRIER, _SHARED_MEMORY, 1.0, 0, 0),
) + tuple(
    Goal(
        f"{measure.name}, geometric mean, not slower than vader",
        measure,
        _SHARED_MEMORY,
        1.0,
        4,
        high,
        mean=True,
    )
    for measure, high in (
        (measures.BCAST, 64 * KIB),
        (measures.ALLREDUCE, 64 * KIB),
        (measures.ALLTOALL, 16 * KIB),
    )
)


# An untouched page, less the same get warm, less the processor's own touch of it.
MINOR_ADDED = Figure(
    (measures.MINOR_COLD,), less=(measures.MINOR_WARM, measures.MINOR_TOUCH)
)
LOOK_ADDED = Figure((measures.LOOK_DEFAULT,), less=(measures.LOOK_RARELY,))
PAGER_RATIO = Figure((measures.PAGER_FORWARDED,), over=measures.PAGER_THREAD)
PAGER_KEPT = Figure((measures.PAGER_BESIDE,), over=measures.PAGER_ALONE)
SWAP_KEPT = Figure((measures.SWAP_BESIDE,), over=measures.SWAP_ALONE)
FAULTS = (
    Goal(
        "destination cold, 4 MiB, at least 2.5 of the bandwidth of pin",
        measures.COLD_BANDWIDTH["destination"],
        ("pin",),
        2.5,
        4 * MIB,
        4 * MIB,
    ),
    Goal(
        "destination cold, 4 MiB, at least 2 of the bandwidth of vader",
        measures.COLD_BANDWIDTH["destination"],
        _SHARED_MEMORY,
        2.0,
        4 * MIB,
        4 * MIB,
    ),
    Limit(
        "a minor destination fault adds at most 2 us to the system's own touch",
        MINOR_ADDED,
        2.0,
        4 * KIB,
        16 * KIB,
    ),
    Limit(
        "being able to fault costs a warm transfer at most 0.1 us",
        LOOK_ADDED,
        0.1,
        4 * KIB,
        16 * KIB,
    ),
    Limit(
        "warm streams beside a pager of 1 ms a page keep at least 0.95",
        PAGER_KEPT,
        0.95,
        at_most=False,
    ),
    Limit(
        "warm streams beside a transfer out of swap keep at least 0.95",
        SWAP_KEPT,
        0.95,
        at_most=False,
    ),
    Limit(
        "a forwarded pager fault takes at most 0.5 of a userfaultfd thread's",
        PAGER_RATIO,
        0.5,
    ),
)


_NET_PEERS = ("tcp", "ucx", "libfabric")


def _kept(percent: str, limit: float) -> Limit:
    lost = measures.LOSS_BANDWIDTH
    return Limit(
        f"bandwidth, {percent} % lost, at least {limit} of that without loss",
        Figure((lost[percent],), over=lost["0"]),
        limit,
        256 * KIB,
        MIB,
        at_most=False,
    )


HOSTS_COLD = (
    Goal(
        "destination cold, 4 MiB, at least 2 of the bandwidth of tcp",
        measures.COLD_BANDWIDTH["destination"],
        ("tcp",),
        2.0,
        4 * MIB,
        4 * MIB,
    ),
)
HOSTS = (
    Goal(
        "latency, 1 B to 8 KiB, at most 0.75 of the best of tcp, ucx and libfabric",
        measures.LATENCY,
        _NET_PEERS,
        0.75,
        1,
        8 * KIB,
    ),
    Goal(
        "bandwidth, 4 MiB, at least 4 of the best peer",
        measures.BANDWIDTH,
        _NET_PEERS,
        4.0,
        4 * MIB,
        4 * MIB,
    ),
    Goal(
        "message rate, 1 byte, at least 8 of the best peer",
        measures.RATE,
        _NET_PEERS,
        8.0,
        1,
        1,
    ),
    _kept("1", 0.6),
    _kept("10", 0.3),
    *HOSTS_COLD,
)


def judge(results: Results, goals: Sequence[Union[Goal, Limit]]) -> list[Finding]:
    return [
        _judge(results, goal) if isinstance(goal, Goal) else _judge_limit(results, goal)
        for goal in goals
    ]


def _judge_limit(results: Results, goal: Limit) -> Finding:
    values = {}
    for size in doubled(goal.low, goal.high):
        value = results.figure(goal.figure, SUBJECT, size)
        if value is None:
            where = f" at {size_text(size)}" if size else ""
            return Finding(goal, f"not measured{where}", None)
        values[size] = value
    choose = max if goal.at_most else min
    worst = choose(values, key=lambda size: values[size])
    value = values[worst]
    text = f"{value:.3f}" if goal.figure.over else f"{value:.3f} us"
    if len(values) > 1:
        text += f" at {size_text(worst)}, the worst size"
    met = value <= goal.limit if goal.at_most else value >= goal.limit
    return Finding(goal, text, met)


def _judge(results: Results, goal: Goal) -> Finding:
    if results.failed(goal.measure, SUBJECT):
        return Finding(goal, f"{SUBJECT} failed", False)
    ratios = []
    for size in doubled(goal.low, goal.high):
        ratio = results.ratio(goal.measure, SUBJECT, goal.peers, size)
        if ratio is None:
            where = f" at {size_text(size)}" if size else ""
            return Finding(goal, f"not measured{where}", None)
        ratios.append(ratio)
    if goal.mean:
        value = geometric_mean(ratio.value for ratio in ratios)
        return Finding(goal, f"{value:.3f}", _within(goal, value))
    worst = _worst(goal, ratios)
    text = f"{worst.value:.2f} of {worst.peer}"
    if len(ratios) > 1:
        outside = sum(not _within(goal, ratio.value) for ratio in ratios)
        text += f" at {size_text(worst.size)}, the worst size"
        text += f" ({outside} of {len(ratios)} sizes miss)" if outside else ""
    return Finding(goal, text, _within(goal, worst.value))


def _within(goal: Goal, value: float) -> bool:
    return value <= goal.limit if goal.measure.lower_is_better else value >= goal.limit


def _worst(goal: Goal, ratios: Sequence[Ratio]) -> Ratio:
    choose = max if goal.measure.lower_is_better else min
    return choose(ratios, key=lambda ratio: ratio.value)


def render(findings: Sequence[Finding]) -> str:
    words = {True: "met", False: "NOT MET", None: "unknown"}
    lines = ["Goals"]
    for finding in findings:
        word = words[finding.met]
        lines.append(f"  {word:8} {finding.goal.text}: {finding.measured}")
    return "\n".join(lines)

# SPDX-License-Identifier: BSD-3-Clause
"""The tests: their programs, columns, sizes and iterations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Mapping, Optional

from . import measures
from .measures import Measure

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class Span:
    """
    The sizes of one run of a program: low, 2 low, ... high. 0: the program has
    no sizes. None: the default of the program, which is OSU's.
    """

    low: int
    high: int
    iterations: Optional[int] = None
    warmup: Optional[int] = None
    window: Optional[int] = None

    def sizes(self) -> list[int]:
        return doubled(self.low, self.high)

    def arguments(self) -> list[str]:
        options = {"-i": self.iterations, "-x": self.warmup, "-W": self.window}
        arguments = ["-m", f"{self.low}:{self.high}"] if self.high else []
        for letter, value in options.items():
            if value is not None:
                arguments += [letter, str(value)]
        return arguments

    def within(self, largest: int) -> Optional[Span]:
        """The span without sizes above the largest; None if it has no others."""
        if self.low > largest:
            return None
        return replace(self, high=min(self.high, largest))

    def __str__(self) -> str:
        return f"{size_text(self.low)}..{size_text(self.high)}" if self.high else ""


@dataclass(frozen=True)
class Test:
    name: str
    program: str
    # The column of each measure, counted from 0.
    columns: Mapping[Measure, int]
    # By depth. Without "quick", "default" is used; without "full", the sizes of
    # "default" with the programs' iterations and window.
    spans: Mapping[str, tuple[Span, ...]]
    arguments: tuple[str, ...] = ()
    # Arguments that OSU's program does not take, and the columns that they add.
    own_arguments: tuple[str, ...] = ()
    own_columns: Mapping[Measure, int] = field(default_factory=dict)
    # OSU's program cannot run it.
    own_only: bool = False
    one_sided: bool = False
    # Run by mpirun with every transport; otherwise a program that uses libpf alone.
    mpi: bool = True
    # Settings of the network between hosts, as tests/hosts names them.
    network: Mapping[str, str] = field(default_factory=dict)

    @property
    def tells_line(self) -> bool:
        """Our program can tell the time of a cache line, which costs the ranks messages."""
        return self.mpi and "--first" not in self.arguments

    @property
    def sized(self) -> bool:
        return self.spans["default"][0].high > 0

    def cut(self, depth: str, largest: int) -> list[Span]:
        """The spans of this depth, without sizes above the largest."""
        if depth in self.spans or depth == "quick":
            spans = self.spans.get(depth, self.spans["default"])
        else:
            spans = tuple(Span(span.low, span.high) for span in self.spans["default"])
        return [cut for span in spans if (cut := span.within(largest))]


def doubled(low: int, high: int) -> list[int]:
    """low, 2 low, ... up to high."""
    sizes = [low]
    while 0 < sizes[-1] <= high // 2:
        sizes.append(sizes[-1] * 2)
    return sizes


def size_text(size: int) -> str:
    for unit, letter in ((MIB, " M"), (KIB, " K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


LATENCY_SPANS = {
    "quick": (
        Span(1, 8 * KIB, 2000, 100),
        Span(16 * KIB, 4 * MIB, 60, 6),
    ),
    "default": (
        Span(1, 8 * KIB, 20000, 200),
        Span(16 * KIB, 512 * KIB, 1000, 20),
        Span(1 * MIB, 16 * MIB, 60, 6),
    ),
}
WORK_LATENCY_SPANS = {
    "quick": (Span(1, 4 * MIB, 5, 1),),
    "default": (Span(1, 4 * MIB, 20, 3),),
}
BANDWIDTH_SPANS = {
    "quick": (
        Span(1, 8 * KIB, 200, 20),
        Span(16 * KIB, 4 * MIB, 5, 1),
    ),
    "default": (
        Span(1, 8 * KIB, 500, 20),
        Span(16 * KIB, 512 * KIB, 20, 2),
        Span(1 * MIB, 16 * MIB, 3, 1),
        # A run with a window of 64 would move 64 GB.
        Span(32 * MIB, 128 * MIB, 2, 1, window=8),
    ),
}
RATE_SPANS = {
    "quick": (Span(1, 8, 300, 30),),
    "default": (Span(1, 8, 1000, 100),),
    "full": (Span(1, 8, 10000, 1000),),
}
# The programs allocate a window of messages: the largest message is smaller.
ONE_SIDED_BANDWIDTH_SPANS = {
    "default": (
        Span(1, 8 * KIB, 500, 20),
        Span(16 * KIB, 4 * MIB, 5, 1),
    ),
}


def _two_ranks(name: str, program: str, measure: Measure, spans, **more) -> Test:
    return Test(name, program, {measure: 1}, spans, **more)


def _one_sided(name: str, program: str, measure: Measure, spans) -> Test:
    # With MPI_Win_allocate, osc/rdma would use its own shared memory between
    # ranks of a host, and not the BTL.
    arguments = ("-w", "create")
    return _two_ranks(
        name, program, measure, spans, arguments=arguments, one_sided=True
    )


def _collective(program: str, measure: Measure, sized: bool = True) -> Test:
    # The command collectives has other sizes and iterations for each number of ranks.
    span = Span(8, 4 * MIB) if sized else Span(0, 0)
    columns = {measure: 1 if sized else 0}
    # Ours verify what arrives.
    return Test(
        program, program, columns, {"default": (span,)}, own_arguments=("--validate",), own_only=True
    )


TESTS = (
    _two_ranks("latency", "latency", measures.LATENCY, LATENCY_SPANS),
    _two_ranks(
        "work-latency",
        "work_latency",
        measures.WORK_LATENCY,
        WORK_LATENCY_SPANS,
        own_only=True,
    ),
    _two_ranks(
        "bandwidth",
        "bw",
        measures.BANDWIDTH,
        BANDWIDTH_SPANS,
        own_arguments=("--cpu",),
        own_columns={measures.CPU: 2},
    ),
    Test("rate", "mbw_mr", {measures.RATE: 2}, RATE_SPANS),
    _two_ranks("bibandwidth", "bibw", measures.BIBANDWIDTH, BANDWIDTH_SPANS),
    _one_sided("put-latency", "put_latency", measures.PUT_LATENCY, LATENCY_SPANS),
    _one_sided("get-latency", "get_latency", measures.GET_LATENCY, LATENCY_SPANS),
    _one_sided(
        "put-bandwidth", "put_bw", measures.PUT_BANDWIDTH, ONE_SIDED_BANDWIDTH_SPANS
    ),
    _one_sided(
        "get-bandwidth", "get_bw", measures.GET_BANDWIDTH, ONE_SIDED_BANDWIDTH_SPANS
    ),
)
COLLECTIVES = (
    _collective("barrier", measures.BARRIER, sized=False),
    _collective("bcast", measures.BCAST),
    _collective("allreduce", measures.ALLREDUCE),
    _collective("reduce_scatter", measures.REDUCE_SCATTER),
    _collective("allgather", measures.ALLGATHER),
    _collective("alltoall", measures.ALLTOALL),
)


def _first(program: str, *sizes: int) -> Test:
    """A program with --first. The ranks are new to each other once: a job for each size."""
    figures = (*measures.FIRST[program].values(), measures.FIRST_FAULTS[program])
    first = 1 if sizes[-1] else 0
    return Test(
        f"first-{program}",
        program,
        {measure: first + place for place, measure in enumerate(figures)},
        {"default": tuple(Span(size, size) for size in sizes)},
        arguments=("--first",),
        own_only=True,
    )


FIRST_TESTS = (
    _first("latency", 1, KIB, 4 * KIB, 16 * KIB, 64 * KIB),
    _first("barrier", 0),
    _first("bcast", 4, KIB, 4 * KIB, 64 * KIB),
    _first("allreduce", 4, KIB, 4 * KIB, 64 * KIB),
)
DEFAULT_TESTS = ("latency", "bandwidth", "rate")

# Tests of faults: warm and cold buffers, and the cost of page faults in libpf.
COLD_LATENCY_SPANS = {
    "quick": (Span(4 * KIB, 4 * MIB, 10, 1),),
    "default": (
        Span(4 * KIB, 512 * KIB, 100, 5),
        Span(1 * MIB, 8 * MIB, 5, 1),
        Span(16 * MIB, 64 * MIB, 2, 1),
    ),
}
COLD_BANDWIDTH_SPANS = {
    "quick": (Span(4 * KIB, 4 * MIB, 4, 1, window=4),),
    "default": (
        Span(4 * KIB, 512 * KIB, 20, 2, window=16),
        Span(1 * MIB, 4 * MIB, 5, 1, window=8),
        # Every message has its own memory.
        Span(8 * MIB, 64 * MIB, 3, 1, window=1),
    ),
}


def cold_test(name: str, program: str, spans, *kinds, arguments=(), **more) -> Test:
    """A program with --cold, which prints these kinds of measures for each value."""
    columns = {
        kind[cold]: 1 + len(kinds) * place + offset
        for place, cold in enumerate(measures.COLD)
        for offset, kind in enumerate(kinds)
    }
    cold = ("--cold", ",".join(measures.COLD), "--validate")
    arguments = (*cold, *arguments)
    return Test(
        name, program, columns, spans, arguments=arguments, own_only=True, **more
    )


def _cost(name: str, figures, default: Span, quick: Span) -> Test:
    first = 1 if default.high else 0
    return Test(
        name,
        "fault_cost",
        {measure: first + place for place, measure in enumerate(figures)},
        {"default": (default,), "quick": (quick,)},
        arguments=(name,),
        mpi=False,
    )


_STREAMS = (Span(0, 0, 8, 1), Span(0, 0, 4, 1))
COLD_TESTS = (
    cold_test("cold-latency", "latency", COLD_LATENCY_SPANS, measures.COLD_LATENCY),
    cold_test(
        "cold-bandwidth",
        "bw",
        COLD_BANDWIDTH_SPANS,
        measures.COLD_BANDWIDTH,
        measures.COLD_CPU,
        arguments=("--cpu",),
    ),
)
_SIZES = (4 * KIB, 16 * KIB)
COST_TESTS = (
    _cost(
        "minor",
        (measures.MINOR_TOUCH, measures.MINOR_WARM, measures.MINOR_COLD),
        Span(*_SIZES, 4000, 50),
        Span(*_SIZES, 1000, 50),
    ),
    _cost(
        "warm",
        (measures.CHECK_ALWAYS, measures.CHECK_DEFAULT, measures.CHECK_RARELY),
        Span(*_SIZES, 10, 1),
        Span(*_SIZES, 5, 1),
    ),
    _cost(
        "pager",
        (measures.PAGER_THREAD, measures.PAGER_SPINNING, measures.PAGER_FORWARDED)
        + (measures.PAGER_NOTIFY, measures.PAGER_SUPPLY, measures.PAGER_RETRANSMIT)
        + (measures.PAGER_COPY,),
        Span(0, 0, 2000, 100),
        Span(0, 0, 500, 50),
    ),
    _cost(
        "beside-pager",
        (measures.PAGER_ALONE, measures.PAGER_BESIDE, measures.PAGER_TOOK),
        *_STREAMS,
    ),
    _cost(
        "beside-swap",
        (measures.SWAP_ALONE, measures.SWAP_BESIDE, measures.SWAP_TOOK),
        *_STREAMS,
    ),
)

# SPDX-License-Identifier: BSD-3-Clause
"""The algorithms of Open MPI's coll/tuned, and rules that choose among them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Iterator, Mapping, Sequence

from .collective_results import Point
from .transports import KNOWN, Transport

# By program: the operation's number in a file of rules (coll_base_functions.h, COLLTYPE), and
# its name in parameters.
_OPERATIONS = {
    "allgather": (0, "allgather"),
    "allreduce": (2, "allreduce"),
    "alltoall": (3, "alltoall"),
    "barrier": (6, "barrier"),
    "bcast": (7, "bcast"),
    "reduce_scatter": (13, "reduce_scatter_block"),
}
# Each rank has a block for each rank. Rules have the size of all blocks of a rank.
OF_ALL_BLOCKS = ("allgather", "alltoall", "reduce_scatter")
_DYNAMIC = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca")
_FIXED = 0


@dataclass(frozen=True)
class Choice:
    """From this size of a message on: an algorithm, 0: Open MPI's own choice."""

    size: int
    algorithm: int
    # Its time over that of Open MPI's choice.
    ratio: float = 1.0


def algorithms(listing: str, program: str, ranks: int) -> dict[int, str]:
    """The algorithms of an operation that ompi_info lists, by number."""
    parameter = f"coll_tuned_{_OPERATIONS[program][1]}_algorithm"
    pattern = rf"^mca:coll:tuned:param:{parameter}:enumerator:value:(\d+):(\w+)$"
    found = {int(number): name for number, name in re.findall(pattern, listing, re.MULTILINE)}
    return {
        number: name
        for number, name in found.items()
        if number != _FIXED and (name != "two_proc" or ranks == 2)
    }


def variants(listing: str, program: str, ranks: int) -> list[Transport]:
    """The subject with each algorithm of an operation."""
    parameter = f"coll_tuned_{_OPERATIONS[program][1]}_algorithm"
    return [
        replace(
            KNOWN[0],
            name=f"{number}-{name}",
            arguments=(*KNOWN[0].arguments, *_DYNAMIC, parameter, str(number)),
        )
        for number, name in algorithms(listing, program, ranks).items()
    ]


def choose(points: Sequence[Point]) -> list[Choice]:
    """For each size the fastest variant, if Open MPI's choice is slower beyond the spread."""
    choices = [Choice(0, _FIXED)]
    for point in points:
        choice = Choice(point.size, _FIXED)
        if point.slower:
            algorithm = int(point.slower.peer.partition("-")[0])
            choice = Choice(point.size, algorithm, 1 / point.slower.ratio)
        if point is points[0]:
            # A rule of size 0 has to be the first.
            choices = [replace(choice, size=0)]
        elif choice.algorithm != choices[-1].algorithm:
            choices.append(choice)
    return choices


def rules(chosen: Mapping[str, Mapping[int, Sequence[Choice]]], text: Sequence[str]) -> str:
    """
    A file of rules with these lines of comment. chosen: by program and number of ranks. They hold
    for at least that number of ranks, up to the next one, and to twice the last one. Those of two
    ranks hold for two alone: some of its algorithms fail with more. With fewer ranks than the first
    rule has, Open MPI takes that one, so this is one of a single rank, and leaves the choice to it.
    """
    return "\n".join((*(f"# {line}" for line in text), *_lines(chosen))) + "\n"


def _lines(chosen: Mapping[str, Mapping[int, Sequence[Choice]]]) -> Iterator[str]:
    yield f"{len(chosen)} # operations"
    for program, by_ranks in chosen.items():
        number, name = _OPERATIONS[program]
        yield f"{number} # {name}"
        own_choice = [Choice(0, _FIXED)]
        by_number = {1: own_choice, 3: own_choice, 2 * max(by_ranks): own_choice, **by_ranks}
        yield f"{len(by_number)} # numbers of ranks"
        for ranks, choices in sorted(by_number.items()):
            scale = ranks if program in OF_ALL_BLOCKS else 1
            yield f"{ranks} # ranks"
            yield f"{len(choices)} # sizes"
            for choice in choices:
                yield f"{choice.size * scale} {choice.algorithm} 0 0 # {choice.ratio:.2f}"

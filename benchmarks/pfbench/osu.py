# SPDX-License-Identifier: BSD-3-Clause
"""Parses the output of the OSU micro-benchmarks and of our programs."""

from __future__ import annotations

import math
from typing import Hashable, Mapping, TypeVar

NO_SIZE = 0
_Key = TypeVar("_Key", bound=Hashable)


class OutputError(Exception):
    """The output is not that of a benchmark, or it reports wrong contents."""


def parse(
    text: str, columns: Mapping[_Key, int], sized: bool = True
) -> dict[int, dict[_Key, float]]:
    """
    Values by size and key of columns, which has the column of each, counted
    from 0. A benchmark without sizes, as barrier, has one row: that of NO_SIZE.
    """
    rows: dict[int, dict[_Key, float]] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if not _is_number(fields[0]):
            # Open MPI and UCX print warnings on standard output, too.
            continue
        if "Fail" in fields:
            raise OutputError(f"validation failed: {line.strip()}")
        if sized and not fields[0].isdigit():
            raise OutputError(f"invalid size: {line.strip()}")
        size = int(fields[0]) if sized else NO_SIZE
        rows[size] = {
            key: _value(fields, column, line, getattr(key, "counts", False))
            for key, column in columns.items()
        }
    if not rows:
        raise OutputError("no results in the output")
    return rows


def check_sizes(rows: Mapping[int, object], expected: list[int]) -> None:
    missing = [size for size in expected if size not in rows]
    if missing:
        raise OutputError(f"the output has no result for size {missing[0]}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _value(fields: list[str], column: int, line: str, counts: bool) -> float:
    try:
        value = float(fields[column])
    except (IndexError, ValueError):
        raise OutputError(f"no number in column {column + 1}: {line.strip()}") from None
    if not math.isfinite(value) or value < 0 or not (value or counts):
        raise OutputError(f"impossible result: {line.strip()}")
    return value

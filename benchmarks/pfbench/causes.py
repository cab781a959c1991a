# SPDX-License-Identifier: BSD-3-Clause
"""Why results are not what the goal says, from a file that people write: doc/results-causes.csv."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Optional, Sequence


# The row of a setting in which too few applications are faster.
FEW_FASTER = "faster"


@dataclass(frozen=True)
class Cause:
    """The fields are the columns of the file."""

    # As the document names it.
    setting: str
    # An application, a part of one, a collective operation, or FEW_FASTER.
    row: str
    # Of an operation: the smallest and the largest, bytes, as in "8-65536". Empty: all.
    sizes: str
    cause: str
    # What was tried against it.
    first_attempt: str
    second_attempt: str
    # What was measured, and where it is written down.
    figures: str

    def covers(self, setting: str, row: str, size: int) -> bool:
        low, _, high = self.sizes.partition("-")
        inside = not self.sizes or int(low) <= size <= int(high)
        return inside and (self.setting, self.row) == (setting, row)

    def __str__(self) -> str:
        text = f"cause: {self.cause}; first attempt: {self.first_attempt or 'none'}"
        text += f"; second attempt: {self.second_attempt or 'none'}"
        return text + (f"; figures: {self.figures}" if self.figures else "")


NOT_FOUND = "cause: not found"


def read(path: Path) -> list[Cause]:
    """Empty if there is no such file. Raises ValueError."""
    if not path.exists():
        return []
    names = [field.name for field in fields(Cause)]
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    wrong = [row for row in rows if len(row) != len(names)]
    if wrong or rows[:1] != [names]:
        raise ValueError(f"{path}: give the columns {', '.join(names)} in each line")
    known = [Cause(*row) for row in rows[1:]]
    for each in known:
        if not re.fullmatch(r"(\d+-\d+)?", each.sizes):
            raise ValueError(f"{path}: sizes '{each.sizes}': give two numbers of bytes, as 8-65536")
    return known


def find(known: Sequence[Cause], setting: object, row: str, size: int = 0) -> str:
    """The text about a result."""
    found: Optional[Cause] = next(
        (each for each in known if each.covers(str(setting), row, size)), None
    )
    return str(found or NOT_FOUND)

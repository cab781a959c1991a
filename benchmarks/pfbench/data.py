# SPDX-License-Identifier: BSD-3-Clause
"""Files of measured data: text, which is compressed if the name ends with .xz."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import TextIO


def open_data(path: Path, mode: str = "r") -> TextIO:
    """For the module csv, which ends lines itself."""
    if path.suffix == ".xz":
        return lzma.open(path, f"{mode}t", newline="", encoding="utf-8")
    return open(path, mode, newline="", encoding="utf-8")


def copy_data(path: Path, target: Path) -> None:
    with open_data(path) as old, open_data(target, "w") as new:
        new.write(old.read())

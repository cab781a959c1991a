# SPDX-License-Identifier: BSD-3-Clause
"""Swap space: is there any, and how to add some for a run."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Iterator

_CONTROL = Path("/sys/class/zram-control")
_BYTES = 256 << 20


def present(table: Path = Path("/proc/swaps")) -> bool:
    try:
        # The first line is a heading.
        return len(table.read_text().splitlines()) > 1
    except OSError:
        return False


@contextlib.contextmanager
def zram() -> Iterator[None]:
    """Add swap space on a zram device, and remove both at the end."""
    if os.geteuid() != 0 or not _CONTROL.exists():
        raise ValueError("--zram needs root, and the kernel's zram (modprobe zram)")
    number = (_CONTROL / "hot_add").read_text().strip()
    try:
        device = f"/dev/zram{number}"
        Path(f"/sys/block/zram{number}/disksize").write_text(str(_BYTES))
        _run("mkswap", device)
        # The highest priority: the kernel uses it before other swap space.
        _run("swapon", "--priority", "32767", device)
        try:
            yield
        finally:
            _run("swapoff", device)
    finally:
        (_CONTROL / "hot_remove").write_text(number)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    except subprocess.CalledProcessError as error:
        raise ValueError(f"--zram: {' '.join(command)}: {error.stderr.strip()}") from None

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
# For a swapoff that has to move all pages, on a slow machine.
_SECONDS = 600


def present(table: Path = Path("/proc/swaps")) -> bool:
    try:
        # The first line is a heading.
        return len(table.read_text().splitlines()) > 1
    except OSError:
        return False


class Zram:
    """Swap space on a zram device, which exists inside the context of zram()."""

    def __init__(self, device: str) -> None:
        self._device = device

    def on(self) -> None:
        # The highest priority: the kernel uses it before other swap space.
        _run("swapon", "--priority", "32767", self._device)

    def off(self) -> None:
        if self._device in Path("/proc/swaps").read_text().split():
            _run("swapoff", self._device)


@contextlib.contextmanager
def zram() -> Iterator[Zram]:
    """Add swap space on a zram device, and remove both at the end."""
    if os.geteuid() != 0 or not _CONTROL.exists():
        raise ValueError(
            "swap on zram needs root, and the kernel's zram (modprobe zram)"
        )
    number = (_CONTROL / "hot_add").read_text().strip()
    try:
        device = f"/dev/zram{number}"
        Path(f"/sys/block/zram{number}/disksize").write_text(str(_BYTES))
        _run("mkswap", device)
        added = Zram(device)
        added.on()
        try:
            yield added
        finally:
            added.off()
    finally:
        (_CONTROL / "hot_remove").write_text(number)


def _run(*command: str) -> None:
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.CalledProcessError as error:
        raise ValueError(f"{' '.join(command)}: {error.stderr.strip()}") from None
    except subprocess.TimeoutExpired as error:
        raise ValueError(str(error)) from None

# SPDX-License-Identifier: BSD-3-Clause
"""Progress of the runs: a status line on a terminal, and a line for each repetition."""

from __future__ import annotations

import shutil
import time
from typing import Hashable, TextIO


class Progress:
    def __init__(self, stream: TextIO, total: int, repetitions: int) -> None:
        self._stream = stream
        self._total = total
        self._repetitions = repetitions
        self._done = 0
        self._start = time.monotonic()
        self._seconds: dict[Hashable, float] = {}

    def begin(self, what: str, repetition: int) -> None:
        if not self._stream.isatty():
            return
        status = (
            f"[{self._done + 1}/{self._total}] "
            f"repetition {repetition + 1}/{self._repetitions}  {what}"
        )
        left = self._left()
        if left:
            status += f"  {left} left"
        self._status(status)

    def done(self, key: Hashable, seconds: float) -> None:
        self._done += 1
        self._seconds[key] = seconds

    def skipped(self) -> None:
        self._done += 1

    def repetition_done(self, repetition: int) -> None:
        left = self._left()
        self.say(
            f"repetition {repetition + 1}/{self._repetitions} done, "
            f"{self._done}/{self._total} runs, "
            f"{clock(time.monotonic() - self._start)}"
            + (f", about {left} left" if left and self._done < self._total else "")
        )

    def say(self, text: str) -> None:
        """Print a line above the status line."""
        self._status("")
        self._stream.write(text + "\n")
        self._stream.flush()

    def _status(self, text: str) -> None:
        if not self._stream.isatty():
            return
        width = shutil.get_terminal_size().columns - 1
        self._stream.write("\r\x1b[K" + text[:width])
        self._stream.flush()

    def _left(self) -> str:
        """Time left, by the mean of the last duration of every kind of run; or empty."""
        if not self._seconds:
            return ""
        mean = sum(self._seconds.values()) / len(self._seconds)
        return clock(mean * (self._total - self._done))


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"

# SPDX-License-Identifier: BSD-3-Clause
"""Streams between hosts that run at the same time, and what their receivers print."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Sequence

from . import launch

# Time to start, and to find their shares, s.
WARM_UP = 4.0
# Time for mpirun to end, s.
_TIMEOUT = 30.0 * launch.PATIENCE
_PAUSE = re.compile(r"^# pause ([0-9.]+) s:")
_COUNTER = re.compile(r"^# (\w+) (\d+)$")


@dataclass(frozen=True)
class Arrivals:
    """What the receiver of one or several senders printed."""

    # MB/s, by sender and step.
    rates: tuple[tuple[float, ...], ...]
    # The longest time without a message, s.
    pause: float = 0.0
    # Counters of libpf, sums of all ranks.
    counters: Mapping[str, int] = ()

    @property
    def total(self) -> tuple[float, ...]:
        return tuple(map(sum, zip(*self.rates)))


def parse(output: str, seconds: float, step: float) -> Arrivals:
    """The output of mpi/flow or tcp_stream.py for a span of so many seconds."""
    columns: list[list[float]] = []
    counters, pause, before = {}, 0.0, 0.0
    for line in output.splitlines():
        if _PAUSE.match(line):
            pause = float(_PAUSE.match(line).group(1))
        elif _COUNTER.match(line):
            name, value = _COUNTER.match(line).groups()
            counters[name] = int(value)
        if line.startswith("#") or not line.strip():
            continue
        try:
            until, first, *others = line.split()
            rates = [
                int(count) / 1e6 / (float(until) - before) for count in (first, *others)
            ]
            before = float(until)
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"invalid line in the output of a stream: {line}") from None
        columns.append(rates)
    if abs(before - seconds) > step:
        raise ValueError(f"a stream counted {before:.1f} s instead of {seconds:.1f}")
    if len({len(rates) for rates in columns}) != 1:
        raise ValueError("the lines of a stream have different numbers of senders")
    return Arrivals(tuple(zip(*columns)), pause, counters)


def run_together(
    commands: Sequence[list[str]],
    env: dict[str, str],
    seconds: float,
    meanwhile: Optional[Callable[[], None]] = None,
) -> list[str]:
    """
    Run the commands for so many seconds after WARM_UP, and a function in this thread.
    Returns the outputs. Raises ValueError if one fails.
    """
    timeout = WARM_UP + seconds + _TIMEOUT
    with ThreadPoolExecutor(len(commands)) as pool:
        running = [pool.submit(launch.run, c, env, timeout) for c in commands]
        with contextlib.ExitStack() as stack:
            # Also after an error: mpirun ends by itself.
            stack.callback(lambda: [future.exception() for future in running])
            if meanwhile:
                meanwhile()
    return [
        launch.output_of(future.result(), f": {command}")
        for command, future in zip(commands, running)
    ]


def jain(rates: Sequence[float]) -> float:
    """Jain's fairness index: 1 for equal rates, 1/n if all rates but one are 0."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0

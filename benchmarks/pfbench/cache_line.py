# SPDX-License-Identifier: BSD-3-Clause
"""
The time that a cache line takes from one core to another, as pf_perf measures
it. It is the lower limit of every latency between processes. The processors of
a virtual machine may be close to each other in one hour and far apart in the
next: figures of the two states must not be compared. So our programs measure it
before and after each figure, too (--line).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from .launch import PATIENCE

_MEASURE = ("--test", "put-latency", "--sizes", "8:8", "--iterations", "1")
_LINE = re.compile(r"^# cache line: (.*)$", re.MULTILINE)
# Between repetitions in one state the figure varies by less than this factor.
_CHANGED = 1.5
# Between the two states that were met: 25 to 75 ns, and 150 to 310 ns.
_FAR_NANOSECONDS = 110
CLOSE, FAR, CHANGED = "close", "far", "changed"


def state(before: float, after: float) -> str:
    """The state of the machine while something was measured, from the time of a line in ns."""
    far = [time >= _FAR_NANOSECONDS for time in (before, after)]
    if all(far):
        return FAR
    return CHANGED if any(far) else CLOSE


@dataclass(frozen=True)
class CacheLine:
    # A time and its meaning, or why there is none.
    text: str

    @property
    def nanoseconds(self) -> Optional[float]:
        match = re.match(r"(\d+(?:\.\d+)?) ns\b", self.text)
        return float(match.group(1)) if match else None

    def differs(self, other: CacheLine) -> bool:
        both = sorted(filter(None, (self.nanoseconds, other.nanoseconds)))
        return len(both) == 2 and both[1] > _CHANGED * both[0]


def measure(build: Optional[Path], env: Mapping[str, str]) -> CacheLine:
    program = build / "libpf" / "tools" / "pf_perf" if build else None
    if not program or not program.exists():
        program = shutil.which("pf_perf", path=env.get("PATH"))
    if not program:
        return CacheLine("not measured: there is no pf_perf")
    try:
        done = subprocess.run(
            [program, *_MEASURE], env=env, capture_output=True, text=True, timeout=60 * PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return CacheLine(f"not measured: {error}")
    found = _LINE.search(done.stdout)
    if found:
        return CacheLine(found.group(1))
    reason = (done.stderr.strip().splitlines() or ["its output has no cache line"])[-1]
    return CacheLine(f"not measured: pf_perf: {reason}")

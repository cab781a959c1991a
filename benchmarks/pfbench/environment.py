# SPDX-License-Identifier: BSD-3-Clause
"""Describes the machine and the software of a run."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Iterable, Mapping, Sequence

from .launch import PATIENCE

_KERNEL_FILES = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/proc/sys/kernel/yama/ptrace_scope",
    "/proc/sys/kernel/numa_balancing",
)
_VARIABLES = ("OMPI_MCA_", "LIBPF_", "UCX_")


def describe(
    env: Mapping[str, str],
    facts: Mapping[str, str],
    bindings: Mapping[str, Mapping[int, str]],
    commands: Iterable[Sequence[str]],
) -> str:
    lines = [
        f"date: {datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC",
        f"invocation: {shlex.join(sys.argv)}",
        *(f"{name}: {text}" for name, text in facts.items()),
        f"cpu: {cpu_model()}",
        f"cpus usable: {len(os.sched_getaffinity(0))} of {os.cpu_count()}",
        f"memory: {_memory()}",
        f"kernel: {platform.system()} {platform.release()} {platform.machine()}",
        f"distribution: {_distribution()}",
        f"python: {platform.python_version()}",
        f"mpirun: {_first_line(['mpirun', '--version'], env)}",
        f"ucx: {_ucx()}",
        f"libfabric: {_libfabric()}",
        f"calibrated: {_calibrated(env)}",
        f"source: {revision(Path(__file__).resolve().parents[2])}",
    ]
    for path in _KERNEL_FILES:
        text = _read(Path(path))
        if text:
            lines.append(f"{path}: {text}")
    for name, value in sorted(env.items()):
        if name.startswith(_VARIABLES):
            lines.append(f"{name}={value}")
    lines += ["", "binding as reported by mpirun:"]
    for transport, ranks in bindings.items():
        for rank, text in sorted(ranks.items()):
            lines.append(f"  {transport} rank {rank}: {text or 'not bound'}")
    lines += ["", "command lines, as first used:"]
    lines += [f"  {shlex.join(command)}" for command in commands]
    return "\n".join(lines) + "\n"


def cpu_model() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or "unknown"


def busy() -> float:
    """Runnable processes per usable CPU, mean of the last minute."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def _memory() -> str:
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemTotal:"):
            return f"{int(line.split()[1]) / (1 << 20):.1f} GiB"
    return "unknown"


def _distribution() -> str:
    for line in _read(Path("/etc/os-release")).splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "unknown"


def _ucx() -> str:
    numbers = [ctypes.c_uint() for _ in range(3)]
    try:
        ctypes.CDLL("libucp.so.0").ucp_get_version(*map(ctypes.byref, numbers))
    except (OSError, AttributeError):
        return "not found"
    return ".".join(str(number.value) for number in numbers)


def _libfabric() -> str:
    try:
        number = ctypes.CDLL("libfabric.so.1").fi_version()
    except (OSError, AttributeError):
        return "not found"
    return f"{number >> 16}.{number & 0xFFFF}"


def revision(top: Path) -> str:
    """The commit; -dirty if a file differs from it, except in doc/, where results are published."""
    git = ["git", "-C", str(top)]
    revision = _first_line([*git, "describe", "--always"], os.environ)
    changed = [*git, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!doc"]
    return revision + "-dirty" * bool(_lines(changed, os.environ))


def _calibrated(env: Mapping[str, str]) -> str:
    """Does libpf use thresholds that pf_perf --calibrate measured here?"""
    try:
        command = ["pf_info", "--calibrated"]
        code = subprocess.run(command, env=dict(env), timeout=30 * PATIENCE).returncode
    except (OSError, subprocess.TimeoutExpired):
        return "not known"
    return {0: "yes", 1: "no"}.get(code, "not known")


def _first_line(command: list[str], env: Mapping[str, str]) -> str:
    return (_lines(command, env) or ["not found"])[0].lstrip("# ")


def _lines(command: list[str], env: Mapping[str, str]) -> list[str]:
    """The output of a command; nothing if it fails."""
    try:
        done = subprocess.run(
            command, env=dict(env), capture_output=True, text=True, timeout=30 * PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

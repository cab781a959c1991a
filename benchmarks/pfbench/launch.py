# SPDX-License-Identifier: BSD-3-Clause
"""Runs one benchmark program, and reads what mpirun reports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

ERROR_LINES = 12
# Multiplies the limits of time of commands that do not hang: tests run on busy machines, too.
PATIENCE = int(os.environ.get("EXANEST_TEST_PATIENCE") or 1)
# Lines of Open MPI's messages that do not tell the error.
_NOISE = re.compile(
    r"^-+$|ORTE_ERROR_LOG|PRTE ERROR"
    r"|\*\*\* +(reported by|on a NULL|Unknown error|and potentially)"
    r"|MPI_ERRORS_ARE_FATAL|orte_base_help_aggregate|more process(es)? ha(s|ve) sent"
    r"|Primary job +terminated normally|Per user-direction|Forwarding signal"
)
# Open MPI 4 says "MCW rank 0", Open MPI 5 "Rank 0".
_BOUND = re.compile(
    r"\[[^\]]*\] (?:MCW rank|Rank) (\d+) (?:is not bound|bound to (.*))"
)


@dataclass(frozen=True)
class Placement:
    """The number of ranks and hosts, and where mpirun puts the ranks."""

    ranks: int
    arguments: tuple[str, ...]
    # Each rank is bound to a core of its own.
    bound: bool
    text: str
    # mpirun, or a command with its arguments.
    launcher: tuple[str, ...] = ("mpirun",)
    hosts: int = 1
    # Of the network between the hosts, bytes.
    mtu: Optional[int] = None


def cores() -> int:
    """The number of physical cores that this process may use."""
    seen = set()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            seen.add(
                (
                    (topology / "physical_package_id").read_text(),
                    (topology / "core_id").read_text(),
                )
            )
        except OSError:
            seen.add((str(cpu), ""))
    return len(seen)


def place(ranks: int, available: int) -> Placement:
    if ranks <= available:
        return Placement(
            ranks,
            ("--bind-to", "core", "--map-by", "core", "--report-bindings"),
            True,
            f"{ranks} ranks, each bound to a core of its own",
        )
    return Placement(
        ranks,
        ("--oversubscribe", "--bind-to", "none"),
        False,
        f"{ranks} ranks on {available} cores, not bound",
    )


def environment(build: Optional[Path]) -> dict[str, str]:
    """This process's environment, with the component of this build tree, also if it names another one."""
    env = dict(os.environ)
    script = build / "environment" if build else None
    if script and script.exists():
        listing = subprocess.run(
            ["sh", "-c", 'eval "$("$0")" && env -0', str(script)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        env.update(
            entry.split("=", 1) for entry in listing.split("\0") if "=" in entry
        )
    if os.geteuid() == 0:
        env["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
        env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return env


@dataclass(frozen=True)
class Outcome:
    output: str
    errors: str
    seconds: float
    # Empty if the exit code was 0.
    failure: str


def run(
    command: list[str],
    env: dict[str, str],
    timeout: float,
    folder: Optional[Path] = None,
) -> Outcome:
    """In the current folder, or in the given one."""
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        cwd=folder,
    )
    failure = ""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        failure = f"stopped after {timeout:.0f} s"
        output, errors = _stop(process)
    except BaseException:
        _stop(process)
        raise
    if not failure and process.returncode < 0:
        failure = f"killed by {signal.Signals(-process.returncode).name}"
    elif not failure and process.returncode:
        failure = f"exit code {process.returncode}"
    return Outcome(output, errors, time.monotonic() - start, failure)


def _stop(process: subprocess.Popen) -> tuple[str, str]:
    """End mpirun, which ends its ranks. Ranks without an mpirun end themselves."""
    for end in (process.terminate, process.kill):
        end()
        try:
            return process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            continue
    return "", "mpirun was killed, but a rank did not close its output"


def error_lines(text: str) -> list[str]:
    """The lines that are not noise."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [
        line
        for line in lines
        if line and not _NOISE.search(line) and not _BOUND.search(line)
    ]


def error_tail(text: str) -> list[str]:
    return error_lines(text)[-ERROR_LINES:]


def output_of(outcome: Outcome, about: str = "") -> str:
    """Raises ValueError, with the end of what the run printed, if it failed."""
    if outcome.failure:
        tail = error_tail(outcome.errors or outcome.output)
        raise ValueError("\n    ".join([outcome.failure + about, *tail]))
    return outcome.output


def bindings(errors: str) -> dict[int, str]:
    """The cores of each rank, as mpirun reports them; empty if it is not bound."""
    return {
        int(match.group(1)): (match.group(2) or "").strip()
        for match in map(_BOUND.search, errors.splitlines())
        if match
    }

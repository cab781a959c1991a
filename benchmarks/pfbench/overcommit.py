# SPDX-License-Identifier: BSD-3-Clause
"""Instances of a key-value server in a memory cgroup that holds half of the most of them."""

from __future__ import annotations

import contextlib
import csv
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Optional, Sequence

from . import comparison, launch
from .comparison import Setup
from .data import open_data
from .memory_group import MemoryGroup
from .progress import Progress
from .suite import KIB, MIB

FILE = "overcommit.csv"
# What is done with the stores: mlock, or nothing.
PINNED, FAULT = "pin", "fault"
WAYS = (PINNED, FAULT)
# By name: lookups a second that each client offers at most; 0: no limit.
LOADS = {"paced": 10000, "unpaced": 0}
# For each instance in the group: memory of the server and the client besides the store.
_REST = 2 * MIB
_SEED = 1
_TIMEOUT = 60.0 * launch.PATIENCE
# How the client says that the kernel ended its server: the group has no room for it.
_NO_ROOM = "the server was killed: Killed"


@dataclass(frozen=True)
class Depth:
    store_mib: int
    instances: tuple[int, ...]
    warm_up: float
    seconds: float
    repetitions: int


DEPTHS = {
    "default": Depth(64, (1, 2, 4, 6, 8), 2.0, 3.0, 3),
    "quick": Depth(32, (2, 4, 8), 1.0, 1.0, 1),
}


@dataclass(frozen=True)
class Point:
    """Some instances at the same time; sums over those that ran."""

    load: str
    way: str
    instances: int
    repetition: int
    store_kib: int  # of all instances, also of those that did not run
    ran: int = 0
    lookups: float = 0.0  # a second
    waited: float = 0.0  # share of the lookups that waited for a page
    resident_kib: int = 0
    locked_kib: int = 0
    used_kib: int = 0  # pages that lookups used
    reason: str = ""  # why the first instance that did not run did not

    @property
    def failed(self) -> bool:
        """Pinned stores may find no room; anything else is a defect."""
        return bool(self.reason) and not (self.way == PINNED and self.reason.endswith(_NO_ROOM))


def read(path: Path) -> list[Point]:
    kinds = {"str": str, "int": int, "float": float}
    with open_data(path) as file:
        return [
            Point(*(kinds[str(field.type)](row[field.name]) for field in fields(Point)))
            for row in csv.DictReader(file)
        ]


def write(points: Sequence[Point], path: Path) -> None:
    with open_data(path, "w") as file:
        out = csv.writer(file)
        out.writerow(field.name for field in fields(Point))
        out.writerows(map(astuple, points))


def measure(setup: Setup, depth: Depth, folder: Path, timeout: Optional[float]) -> int:
    """Write overcommit.csv and environment.txt. Returns the exit code: 1 if a point failed."""
    program = setup.find("benchmarks/pf/keyvalue")["keyvalue"]
    line = setup.line()
    most = max(depth.instances)
    limit = most * (depth.store_mib * MIB // 2 + _REST)
    facts = {
        "overcommitment": f"up to {most} instances with a store of {depth.store_mib} MiB each, in "
        f"a memory cgroup of {limit // MIB} MiB: half of the stores, and {_REST // MIB} MiB for "
        f"the rest of each instance; instance number i (from 0) has seed {_SEED} + i"
    }
    points: list[Point] = []
    commands: dict[tuple[str, ...], None] = {}
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(MemoryGroup().made())
        group.limit(limit)
        # Not in /tmp, which can be a tmpfs: what is there is in memory already.
        work = stack.enter_context(tempfile.TemporaryDirectory(dir=folder.resolve()))
        stores = [str(Path(work) / f"store-{index}") for index in range(most)]
        for store in stores:
            command = [str(program), "make", store, str(depth.store_mib)]
            subprocess.run(command, env=setup.env, check=True)
        cases = [(load, way, n) for n in depth.instances for load in LOADS for way in WAYS]
        progress = Progress(sys.stderr, len(cases) * depth.repetitions, depth.repetitions)
        for repetition in range(depth.repetitions):
            for load, way, instances in cases[repetition:] + cases[:repetition]:
                progress.begin(f"{instances} instances, {way}, {load}", repetition)
                start = time.monotonic()
                rest = [str(LOADS[load]), str(depth.warm_up), str(depth.seconds)]
                rest += [PINNED] if way == PINNED else []
                together = [
                    group.inside([str(program), "run", store, str(_SEED + index), *rest])
                    for index, store in enumerate(stores[:instances])
                ]
                commands.setdefault(tuple(together[0]))
                ends = run_instances(together, setup.env, timeout or _TIMEOUT)
                group.await_empty()
                store_kib = instances * depth.store_mib * KIB
                points.append(
                    sum_up(Point(load, way, instances, repetition + 1, store_kib), ends)
                )
                if points[-1].failed:
                    progress.say(f"FAILED: {instances} instances: {points[-1].reason}")
                progress.done((load, way, instances), time.monotonic() - start)
            progress.repetition_done(repetition)
    write(points, folder / FILE)
    comparison.write_texts(setup, folder, "", facts, line, list(commands))
    return int(any(point.failed for point in points))


def run_instances(
    commands: Sequence[list[str]], env: dict[str, str], timeout: float
) -> list[tuple[str, str]]:
    """
    Start the instances one after the other, and the load when all are ready. Returns the last line
    of each and an empty text, or why it did not run.
    """
    running: list[subprocess.Popen] = []
    late = threading.Event()

    def end() -> None:
        late.set()
        for process in running:
            process.kill()

    # The kernel ends each server when its client has ended.
    watchdog = threading.Timer(timeout, end)
    watchdog.start()
    pipe = subprocess.PIPE
    try:
        for command in commands:
            if late.is_set():
                return [("", f"not all instances were ready after {timeout:g} s")]
            running.append(
                subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            )
            running[-1].stdout.readline()
        for process in running:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("\n")
                process.stdin.flush()
        ends = [_end(process) for process in running]
        return [("", f"stopped after {timeout:g} s")] if late.is_set() else ends
    finally:
        watchdog.cancel()
        for process in running:
            process.kill()
            process.wait()


def _end(process: subprocess.Popen) -> tuple[str, str]:
    output, errors = process.communicate()
    if process.returncode:
        # A client that was killed says nothing.
        tail = launch.error_tail(errors) or [f"the client ended with {process.returncode}"]
        return "", tail[-1]
    return (output.splitlines() or [""])[-1], ""


def sum_up(point: Point, ends: Sequence[tuple[str, str]]) -> Point:
    """The point with the sums over the instances that ran."""
    ran = [line.split() for line, reason in ends if not reason]
    lookups = sum(float(words[0]) for words in ran)
    waited = sum(float(words[0]) * float(words[1]) for words in ran)
    memory = [sum(int(words[column]) for words in ran) for column in (2, 3, 4)]
    return replace(
        point,
        ran=len(ran),
        lookups=round(lookups, 1),
        waited=round(waited / lookups, 6) if lookups else 0.0,
        resident_kib=memory[0],
        locked_kib=memory[1],
        used_kib=memory[2],
        reason=next((reason for _, reason in ends if reason), ""),
    )

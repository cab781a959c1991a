# SPDX-License-Identifier: BSD-3-Clause
"""Many senders at the port of a switch, and all to all, in virtual time: pf_incast."""

from __future__ import annotations

import argparse
import csv
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence

from . import cli, comparison, environment, plot, table
from .transports import SUBJECT

_SENDERS = {"default": "8,16,32,64,128,256,512,1024", "quick": "8,64"}
# A receiver's counters have room for it.
_SENDERS_MOST = 65535
_RATES = (25, 100)  # Gbit/s
_MARKS = (0, 200000)  # bytes in the queue from which packets are marked; 0: none
_SEEDS = (1, 2, 3)  # without marks the seed has no effect
# us; the second half counts as "later". At 25 Gbit/s 1,024 senders are heard 250 times in it.
_TIME = 100000
# Memory of all to all for each two hosts, bytes.
_PAIR_BYTES = 9 << 10

# The figures of one run, as pf_incast names them.
Run = Mapping[str, str]


@dataclass(frozen=True)
class Shown:
    """A figure of the table and of the plot."""

    head: str
    title: str
    digits: int
    value: Callable[[Run], float]
    # The most that it can be; None: no limit.
    highest: Optional[float] = None


def _longest(run: Run) -> float:
    # "longest" is that of the first half.
    return max(float(run["longest"]), float(run["longest_later"])) / 1e3


def _most_hosts() -> float:
    with open("/proc/meminfo") as file:
        sizes = dict(line.split(":") for line in file)
    available = int(sizes["MemAvailable"].split()[0]) * 1024
    return math.sqrt(available / _PAIR_BYTES)


_GOODPUT = Shown("goodput", "goodput, part of the link", 3, lambda run: float(run["goodput"]), 1)
_LOST = Shown("lost, %", "packets lost, %", 3, lambda run: float(run["loss"]) * 100)


@dataclass(frozen=True)
class Pattern:
    """Runs that have the same figures: a table, a CSV file and a plot."""

    name: str  # of the files
    who: str  # what is counted, as pf_incast names it
    title: str
    figures: str  # what the table shows
    # Each of them to each other: two at least, and memory for each two.
    each_other: bool
    options: Sequence[Sequence[str]]  # of pf_incast, for each run of a number of them
    shown: Sequence[Shown]


_PATTERNS = (
    Pattern(
        "simulated",
        "senders",
        "senders to one receiver",
        f"{_TIME // 1000} ms from their start, simulated: goodput as a part of the link's rate,\n"
        "Jain's index of the second half, longest queue, packets lost",
        False,
        [
            ["--time", str(_TIME), "--warm-up", str(_TIME // 2)]
            + ["--rate", str(rate), "--mark", str(mark), "--seed", str(seed)]
            for rate in _RATES
            for mark in _MARKS
            for seed in (_SEEDS if mark else _SEEDS[:1])
        ],
        (
            _GOODPUT,
            Shown("Jain", "Jain's index, second half", 3, lambda run: float(run["jain_later"]), 1),
            Shown("queue, kB", "longest queue, kB", 0, _longest),
            _LOST,
        ),
    ),
    Pattern(
        "all-to-all",
        "hosts",
        "128 KiB from each host to each other",
        "8 at a time, from the first packet on, simulated: goodput as a part\n"
        "of the links' rate, longest queue, packets lost, memory and processor time for a host",
        True,
        [["--pattern", "all", "--rate", str(rate)] for rate in _RATES],
        (
            _GOODPUT,
            Shown("queue, kB", "longest queue, kB", 0, lambda run: float(run["longest"]) / 1e3),
            _LOST,
            Shown("MiB", "memory for a host, MiB", 2, lambda run: float(run["kib_host"]) / 1024),
            Shown("ms", "processor time for a host, ms", 1, lambda run: float(run["cpu_ms_host"])),
        ),
    ),
)


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    text = options.senders or _SENDERS[options.depth]
    counts = cli.counts("--senders", text, _SENDERS_MOST)
    build = comparison.find_build(options.build)
    program = build / "libpf/tests/pf_incast" if build else None
    if not program or not program.exists():
        raise cli.Unusable("there is no program pf_incast: run make check TESTS=, or give --build")
    most = _most_hosts()
    commands = [
        (pattern, [str(program), "--heads", *some, "--senders", str(count)])
        for pattern in _PATTERNS
        for count in counts
        if not pattern.each_other or 2 <= count <= most
        for some in pattern.options
    ]
    for count in counts:
        if count > most:
            print(f"All to all of {count} hosts: left out, too little memory", file=sys.stderr)
    folder = comparison.results_folder(options.out)
    runs: dict[str, list[Run]] = {pattern.name: [] for pattern in _PATTERNS}
    code = 0
    try:
        for number, (pattern, command) in enumerate(commands):
            print(f"[{number + 1}/{len(commands)}] {' '.join(command[2:])}", file=sys.stderr)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"FAILED: exit code {done.returncode}", file=sys.stderr)
                code = 1
            else:
                heads, values = (line.split("\t") for line in done.stdout.splitlines())
                runs[pattern.name].append(dict(zip(heads, values)))
    except KeyboardInterrupt:
        code = 130
    known = [(pattern, runs[pattern.name]) for pattern in _PATTERNS if runs[pattern.name]]
    text = "\n\n".join(render(pattern, some) for pattern, some in known)
    (folder / "tables.txt").write_text(text + "\n")
    described = environment.describe(os.environ, {}, {}, [command for _, command in commands])
    (folder / "environment.txt").write_text(described)
    for pattern, some in known:
        _write(some, folder / f"{pattern.name}.csv")
        _draw(pattern, some, folder / f"{pattern.name}.svg")
    print(f"\n{text}\n\nResults: {folder}")
    return code


def _groups(runs: Sequence[Run], *names: str) -> Mapping[tuple[str, ...], list[Run]]:
    """The runs by some of their figures, in order."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for one in runs:
        groups.setdefault(tuple(one[name] for name in names), []).append(one)
    return groups


def render(pattern: Pattern, runs: Sequence[Run]) -> str:
    """A table of the medians, with the range if there are several seeds."""
    heads = (shown.head for shown in pattern.shown)
    lines = [(pattern.who, "Gbit/s", "marks from, kB", *heads)]
    for (count, rate, mark), same in _groups(runs, pattern.who, "gbit", "mark").items():
        figures = (
            table.spread([shown.value(one) for one in same], shown.digits)
            for shown in pattern.shown
        )
        lines.append((count, rate, _mark_text(mark), *figures))
    title = (
        f"{pattern.title.capitalize()}, {pattern.figures}; "
        "medians of the seeds, in brackets minimum and maximum"
    )
    return "\n".join([title, *table.columns(lines)])


def _mark_text(mark: str) -> str:
    return f"{int(mark) / 1e3:g}" if int(mark) else "none"


def _write(runs: Sequence[Run], path: Path) -> None:
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(runs[0])
        out.writerows(one.values() for one in runs)


def _draw(pattern: Pattern, runs: Sequence[Run], path: Path) -> None:
    groups = _groups(runs, "gbit", "mark")
    names = {
        (rate, mark): f"{rate} Gbit/s, "
        + (f"marks from {_mark_text(mark)} kB" if int(mark) else "no marks")
        for rate, mark in groups
    }
    panels = [
        plot.Panel(
            shown.title,
            {
                names[key]: {
                    int(count): [shown.value(one) for one in some]
                    for (count,), some in _groups(same, pattern.who).items()
                }
                for key, same in groups.items()
            },
            shown.highest,
        )
        for shown in pattern.shown
    ]
    queue = int(runs[0]["queue"]) / 1e6
    title = f"{SUBJECT}: {pattern.title}, simulated, queue of {queue:g} MB"
    reason = plot.draw_panels(path, title, pattern.who, panels)
    if reason:
        print(reason, file=sys.stderr)

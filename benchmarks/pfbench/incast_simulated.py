# SPDX-License-Identifier: BSD-3-Clause
"""Many senders at the port of a switch, in virtual time: pf_incast."""

from __future__ import annotations

import argparse
import csv
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


_SHOWN = (
    Shown("goodput", "goodput, part of the link", 3, lambda run: float(run["goodput"]), 1),
    Shown("Jain", "Jain's index, second half", 3, lambda run: float(run["jain_later"]), 1),
    Shown("queue, kB", "longest queue, kB", 0, _longest),
    Shown("lost, %", "packets lost, %", 3, lambda run: float(run["loss"]) * 100),
)


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    text = options.senders or _SENDERS[options.depth]
    counts = cli.counts("--senders", text, _SENDERS_MOST)
    build = comparison.find_build(options.build)
    program = build / "libpf/tests/pf_incast" if build else None
    if not program or not program.exists():
        raise cli.Unusable("there is no program pf_incast: run make check TESTS=, or give --build")
    commands = [
        [str(program), "--heads", "--time", str(_TIME), "--warm-up", str(_TIME // 2)]
        + ["--senders", str(count), "--rate", str(rate), "--mark", str(mark)]
        + ["--seed", str(seed)]
        for count in counts
        for rate in _RATES
        for mark in _MARKS
        for seed in (_SEEDS if mark else _SEEDS[:1])
    ]
    folder = comparison.results_folder(options.out)
    runs: list[Run] = []
    code = 0
    try:
        for number, command in enumerate(commands):
            print(f"[{number + 1}/{len(commands)}] {' '.join(command[6:])}", file=sys.stderr)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                print(f"FAILED: exit code {done.returncode}", file=sys.stderr)
                code = 1
            else:
                heads, values = (line.split("\t") for line in done.stdout.splitlines())
                runs.append(dict(zip(heads, values)))
    except KeyboardInterrupt:
        code = 130
    text = render(runs)
    (folder / "tables.txt").write_text(text + "\n")
    described = environment.describe(os.environ, {}, {}, commands)
    (folder / "environment.txt").write_text(described)
    if runs:
        _write(runs, folder)
        _draw(runs, folder)
    print(f"\n{text}\n\nResults: {folder}")
    return code


def _groups(runs: Sequence[Run], *names: str) -> Mapping[tuple[str, ...], list[Run]]:
    """The runs by some of their figures, in order."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for one in runs:
        groups.setdefault(tuple(one[name] for name in names), []).append(one)
    return groups


def render(runs: Sequence[Run]) -> str:
    """A table of the medians, with the range if there are several seeds."""
    lines = [("senders", "Gbit/s", "marks from, kB", *(shown.head for shown in _SHOWN))]
    for (count, rate, mark), same in _groups(runs, "senders", "gbit", "mark").items():
        figures = (
            table.spread([shown.value(one) for one in same], shown.digits) for shown in _SHOWN
        )
        lines.append((count, rate, _mark_text(mark), *figures))
    title = (
        f"Senders to one receiver, {_TIME // 1000} ms from their start, simulated: goodput as a "
        "part of the link's rate,\nJain's index of the second half, longest queue, packets lost; "
        "medians of the seeds, in brackets minimum and maximum"
    )
    return "\n".join([title, *table.columns(lines)])


def _mark_text(mark: str) -> str:
    return f"{int(mark) / 1e3:g}" if int(mark) else "none"


def _write(runs: Sequence[Run], folder: Path) -> None:
    with open(folder / "simulated.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(runs[0])
        out.writerows(one.values() for one in runs)


def _draw(runs: Sequence[Run], folder: Path) -> None:
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
                    for (count,), some in _groups(same, "senders").items()
                }
                for key, same in groups.items()
            },
            shown.highest,
        )
        for shown in _SHOWN
    ]
    queue = int(runs[0]["queue"]) / 1e6
    title = f"{SUBJECT}: senders to one receiver, simulated, queue of {queue:g} MB"
    reason = plot.draw_panels(folder / "simulated.svg", title, "senders", panels)
    if reason:
        print(reason, file=sys.stderr)

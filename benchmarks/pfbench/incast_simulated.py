# SPDX-License-Identifier: BSD-3-Clause
"""Many senders at the port of a switch, in virtual time: pf_incast."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from . import cli, comparison

_SENDERS = "8,64,1024"
_RATES = (25, 100)  # Gbit/s
_MARKS = (0, 200000)  # bytes in the queue from which packets are marked; 0: none
_SEEDS = (1, 2, 3)
# us; the second half counts as "later". At 25 Gbit/s 1,024 senders are heard 250 times in it.
_TIME = 100000


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    program = Path(options.build) / "libpf/tests/pf_incast"
    if not program.exists():
        raise cli.Unusable(f"{program} is missing: run make check TESTS=")
    cases = [
        ["--senders", senders, "--rate", str(rate), "--mark", str(mark), "--seed", str(seed)]
        for senders in (options.senders or _SENDERS).split(",")
        for rate in _RATES
        for mark in _MARKS
        for seed in _SEEDS
    ]
    folder = comparison.results_folder(options.out)
    time = ["--time", str(_TIME), "--warm-up", str(_TIME // 2)]
    lines: list[str] = []
    for number, case in enumerate(cases):
        print(f"[{number + 1}/{len(cases)}] {' '.join(case)}", file=sys.stderr)
        heads = [] if lines else ["--heads"]
        done = subprocess.run(
            [str(program), *case, *time, *heads], check=False, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            return 1
        lines += done.stdout.splitlines()
    text = "\n".join(lines) + "\n"
    (folder / "incast.tsv").write_text(text)
    print(f"{text}\nResults: {folder}")
    return 0

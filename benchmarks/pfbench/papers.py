# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/papers."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Sequence

from . import bfs, cli, comparison, document, faults, overcommit
from .comparison import Setup
from .progress import clock

_ABOUT = """\
Measure what three papers promise, and write a document with their figures beside
ours: ExaNeSt (page faults instead of pinning), Page Fault Support for Network
Controllers (ASPLOS'17; memory overcommitment, cold receive buffers) and PFF-UINTR
(forwarded page faults, breadth-first search). The steps:

  faults      benchmarks/faults: pinning, pre-faulting, page faults; a pager
  hosts       benchmarks/faults --hosts: buffers that are cold or in a file, loss
  overcommit  key-value servers in a memory cgroup that holds half of them
  bfs         benchmarks/bfs --hosts: a graph whose pages are brought in several ways

The results are results.md with its CSV files and plots (results-*), and a folder
for each step, in results/DATE-TIME below the current folder or where --out says. A
step that is not run is taken from that folder, if it has one.
"""
_EXIT_CODES = """\
exit codes: 0 done; 1 a step failed, or a part of it; 2 nothing could be run; 130
interrupted, the document shows the steps that were done until then.
"""


@dataclass(frozen=True)
class Step:
    name: str
    # A command of benchmarks/, and its function; None: of this command.
    command: str
    main: Optional[Callable[[Sequence[str]], int]]
    file: str = "summary.csv"


# Page faults, without huge pages, without page faults, and peers.
_ONE_HOST = "--ways exanest,ahead,prefault,pin,pin-cache,vader,ucx --max 4M"
STEPS = (
    Step(
        "faults",
        f"faults {_ONE_HOST} --tests cold-latency,cold-bandwidth,minor,pager",
        faults.main,
    ),
    Step(
        "hosts",
        "faults --hosts --tests cold-latency,cold-bandwidth,cold-loss-1,file-bandwidth",
        faults.main,
    ),
    Step("overcommit", "papers --steps overcommit", None, overcommit.FILE),
    Step("bfs", "bfs --hosts", bfs.main, "bfs.csv"),
)


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("papers", _ABOUT, _EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    cli.add_quick(what, "fewer repetitions, less memory, a small graph")
    cli.add_list(what, "--steps", [step.name for step in STEPS], " (default: all)")
    what.add_argument(
        "--from",
        dest="stored",
        type=Path,
        metavar="DIR",
        help="measure nothing: make the document again from the results in DIR",
    )
    how = parse.add_argument_group("programs and results")
    cli.add_results(how)
    cli.add_publish(how)
    cli.add_timeout(how, "the default of each command")
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parse = parser()
    options = parse.parse_args(arguments)
    if options.stored and (options.steps or options.out or options.timeout):
        parse.error("--from measures nothing: give it without --steps, --out and --timeout")
    return cli.guarded("papers", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    if options.stored:
        folder, code = options.stored, 0
    else:
        if options.publish:
            document.check_source()
        chosen = cli.named("--steps", options.steps, STEPS, STEPS)
        # Raises an error here rather than in each step.
        setup = Setup(options.build)
        setup.find("benchmarks/pf/keyvalue", "benchmarks/pf/bfs", "libpf/tools/pf_perf")
        folder = comparison.results_folder(options.out)
        code = _measure(setup, chosen, options, folder)
        _collect(folder)
    print(document.write(folder))
    if options.publish and code:
        reason = "interrupted" if code == 130 else "a step failed"
        print(f"not published: {reason}; repeat it with --steps and --out", file=sys.stderr)
    elif options.publish and not folder.samefile(document.FOLDER):
        print(document.publish(document.steps(folder), document.read_facts(folder)))
    return code


def _measure(
    setup: Setup, chosen: Sequence[Step], options: argparse.Namespace, folder: Path
) -> int:
    codes = [0]
    for number, step in enumerate(chosen, 1):
        quick = " --quick" if options.depth == "quick" else ""
        command = f"benchmarks/{step.command}{quick}"
        print(f"[{number}/{len(chosen)}] {step.name}: {command}", file=sys.stderr)
        shutil.rmtree(folder / step.name, ignore_errors=True)
        document.remove(folder, step.name)
        (folder / step.name).mkdir()
        start = time.monotonic()
        # The tables are in its tables.txt, too.
        with open(folder / step.name / "output.txt", "w") as output:
            with contextlib.redirect_stdout(output):
                codes.append(_run(step, setup, options, folder / step.name))
        took = time.monotonic() - start
        with open(folder / step.name / "environment.txt", "a") as file:
            file.write(f"command: {command}\nduration: {took:.0f} s\nexit code: {codes[-1]}\n")
        end = f"FAILED, exit code {codes[-1]}" if codes[-1] else "done"
        print(f"[{number}/{len(chosen)}] {step.name}: {end}, {clock(took)}", file=sys.stderr)
        if codes[-1] == 130:
            return 130
    # The other steps were run.
    return int(any(codes))


def _run(step: Step, setup: Setup, options: argparse.Namespace, folder: Path) -> int:
    if not step.main:
        depth = overcommit.DEPTHS[options.depth]
        return cli.guarded("overcommit", lambda: overcommit.measure(setup, depth, folder, options.timeout))
    arguments = [*shlex.split(step.command)[1:], "--out", str(folder)]
    arguments += ["--build", str(setup.build)] if setup.build else []
    arguments += ["--quick"] if options.depth == "quick" else []
    arguments += ["--timeout", str(options.timeout)] if options.timeout else []
    return step.main(arguments)


def _collect(folder: Path) -> None:
    """Gather in the folder itself what the document is made of."""
    done = [step for step in STEPS if (folder / step.name / step.file).exists()]
    document.add(
        folder,
        {step.name: folder / step.name / step.file for step in done},
        {step.name: document.facts_of(folder / step.name / "environment.txt") for step in done},
    )

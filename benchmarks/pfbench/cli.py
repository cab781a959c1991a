# SPDX-License-Identifier: BSD-3-Clause
"""The command line of benchmarks/compare."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, NoReturn, Optional, Sequence

from . import comparison, hosts, transports
from .programs import NoPrograms
from .suite import DEFAULT_TESTS, TESTS
from .transports import SUBJECT

_ABOUT = f"""\
Compares {SUBJECT} with the other transports of this machine's Open MPI.

Every test runs with every transport, the transports taking turns, several
times over; tables show medians. Results go to results/ below the current
folder, or where --out says: CSV files, environment.txt, SVG plots.
"""
_EXIT_CODES = f"""\
exit codes: 0 done; 1 {SUBJECT} failed a test (others may have: see the tables);
2 nothing could be run; 130 interrupted, the tables show what was measured.
"""


def parser() -> argparse.ArgumentParser:
    names = " ".join(test.name for test in TESTS if not test.collective)
    parse = argparse.ArgumentParser(
        prog="compare",
        description=_ABOUT,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parse.add_argument_group("what to measure")
    depth = what.add_mutually_exclusive_group()
    depth.add_argument(
        "--quick",
        dest="depth",
        action="store_const",
        const="quick",
        help="a first look: 2 repetitions, sizes to 4 MiB, few iterations",
    )
    depth.add_argument(
        "--full",
        dest="depth",
        action="store_const",
        const="full",
        help="the benchmarks' own number of iterations and window: half an hour",
    )
    what.add_argument(
        "--tests",
        metavar="LIST",
        help=f"separated by commas, of: {names} (default {','.join(DEFAULT_TESTS)})",
    )
    what.add_argument(
        "--collectives",
        action="store_true",
        help="barrier, bcast, allreduce and alltoall, verified, against vader",
    )
    what.add_argument(
        "-n", type=positive, metavar="RANKS", help="of --collectives (default 64)"
    )
    add_hosts(
        what,
        "between two hosts made on this machine (tests/hosts), against tcp, UCX and "
        "libfabric: warm, cold, with loss; --tests of: "
        + " ".join(test.name for test in hosts.TESTS),
    )
    what.add_argument(
        "--max",
        type=size,
        metavar="SIZE",
        help="no message above this; K, M or G may follow (--hosts: default 4M)",
    )
    what.add_argument(
        "-r",
        "--repetitions",
        type=positive,
        metavar="N",
        help="default 5; 2 with --quick, 3 with --collectives or --hosts",
    )

    who = parse.add_argument_group("what to compare")
    who.add_argument(
        "--transports",
        metavar="LIST",
        help="separated by commas, of: "
        + " ".join(t.name for t in transports.KNOWN)
        + " (default: those that ompi_info shows)",
    )
    who.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME=ARGUMENTS",
        help="one more transport, as arguments of mpirun",
    )

    how = parse.add_argument_group("programs and results")
    how.add_argument(
        "--osu", type=Path, metavar="DIR", help="OSU micro-benchmarks are below DIR"
    )
    how.add_argument(
        "--own", action="store_true", help="our programs, even if OSU's are here"
    )
    add_results(how)
    how.add_argument(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help="give up on one run after this long (120; 3600 with --full)",
    )
    return parse


def add_hosts(group: argparse._ArgumentGroup, about: str) -> None:
    group.add_argument("--hosts", action="store_true", help=about)
    group.add_argument(
        "--mtu",
        type=positive,
        default=9000,
        metavar="BYTES",
        help="of their network (default 9000)",
    )


def add_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--build", type=Path, metavar="DIR", help="the build tree (default: build/)"
    )
    group.add_argument("--out", type=Path, metavar="DIR", help="write results here")
    group.add_argument(
        "--goals", action="store_true", help="judge this project's performance goals"
    )


def positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a number above 0")
    return number


def size(text: str) -> int:
    scale = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    digits = text[:-1] if scale else text
    if not digits.isdigit() or int(digits) < 1:
        raise argparse.ArgumentTypeError(
            f"{text}: give a number of bytes; K, M or G may follow"
        )
    return int(digits) << scale


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parse = parser()
    options = parse.parse_args(arguments)
    if options.n and not options.collectives:
        parse.error("-n goes with --collectives: the other tests run between two ranks")
    if options.collectives and options.hosts:
        parse.error("--collectives runs on one host: leave --hosts out")
    if options.collectives and options.tests:
        parse.error("--collectives is a set of tests already: leave --tests out")
    return guarded("compare", lambda: comparison.run(options))


def guarded(command: str, run: Callable[[], int]) -> int:
    """The exit code, also of what cannot be run. What was begun is ended on SIGTERM, too."""
    signal.signal(signal.SIGTERM, _end)
    try:
        return run()
    except (NoPrograms, ValueError) as error:
        print(f"{command}: {error}", file=sys.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{command}: {_explain(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 2


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _explain(error: Exception) -> str:
    missing = getattr(error, "filename", None)
    if isinstance(error, FileNotFoundError) and missing in ("mpirun", "ompi_info"):
        return f"{missing} is not in PATH: install Open MPI (Debian: openmpi-bin)"
    return str(error)

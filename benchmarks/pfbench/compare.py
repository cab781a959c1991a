# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/compare."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Optional, Sequence, Union

from . import cli, comparison, goals, hosts, launch, programs, transports
from .cli import Unusable
from .comparison import Comparison, Setup
from .programs import Programs
from .suite import DEFAULT_TESTS, FIRST_TESTS, TESTS, Test
from .transports import SUBJECT, Transport

_ABOUT = f"""\
Compare {SUBJECT} with the other transports of this machine's Open MPI.

Every test runs with every transport, interleaved and repeated; the tables show
medians. The results are CSV files, tables.txt, environment.txt and SVG plots,
in results/DATE-TIME below the current folder or where --out says.
"""
_KNOWN_BETWEEN_HOSTS = (*hosts.TRANSPORTS, hosts.LIMIT)


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("compare", _ABOUT, comparison.EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    depth = what.add_mutually_exclusive_group()
    cli.add_quick(depth, "2 repetitions, sizes to 4 MiB, few iterations")
    depth.add_argument(
        "--full",
        dest="depth",
        action="store_const",
        const="full",
        default="default",
        help="the programs' own number of iterations and window: half an hour",
    )
    cli.add_list(
        what,
        "--tests",
        [test.name for test in (*TESTS, *FIRST_TESTS)],
        f" (default {','.join(DEFAULT_TESTS)})",
    )
    cli.add_hosts(
        what,
        "between two hosts made on this machine (tests/hosts), against tcp, UCX and "
        "libfabric, and, in the tests latency and bandwidth, against what bare UDP "
        "sockets reach (limit): warm and cold buffers, packet loss; --tests of: "
        + " ".join(test.name for test in hosts.TESTS),
    )
    cli.add_mtu(what)
    cli.add_largest(what)
    cli.add_repetitions(what, "5; 2 with --quick, 3 with --hosts")

    who = parse.add_argument_group("what to compare")
    cli.add_smsc(who)
    cli.add_list(
        who,
        "--transports",
        [transport.name for transport in transports.KNOWN],
        "; with --hosts: "
        + " ".join(transport.name for transport in _KNOWN_BETWEEN_HOSTS)
        + "; with --smsc: "
        + " ".join(transport.name for transport in transports.SMSC)
        + " (default: those that ompi_info shows)",
    )
    who.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME=ARGUMENTS",
        help="another transport, with arguments of mpirun",
    )

    how = parse.add_argument_group("programs and results")
    how.add_argument(
        "--osu", type=Path, metavar="DIR", help="OSU micro-benchmarks are below DIR"
    )
    how.add_argument(
        "--own",
        action="store_true",
        help="our programs, even if OSU's are found; latency and bandwidth between "
        "hosts and cold buffers always use them",
    )
    cli.add_results(how)
    cli.add_goals(how)
    cli.add_timeout(how, "default 120; 3600 with --full")
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("compare", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    cli.check_smsc(options, "hosts")
    setup = Setup(options.build)
    chosen = _transports(options, setup)
    osu = None if options.own else _usable_osu(options.osu, setup.env)
    largest = options.max or (hosts.LARGEST if options.hosts else sys.maxsize)
    jobs = comparison.make_jobs(
        _tests(options), osu, setup.own, options.depth, largest, pair=not options.hosts
    )
    with hosts.made_if(options.hosts, options.mtu) as made:
        return comparison.carry_out(
            Comparison(
                setup,
                chosen,
                made.placement if made else launch.place(2, launch.cores()),
                jobs,
                options.repetitions or _repetitions(options),
                comparison.show_measures,
                _goals(options),
                made,
            ),
            options,
        )


def _transports(options: argparse.Namespace, setup: Setup) -> list[Transport]:
    known = transports.SMSC if options.smsc else transports.KNOWN
    if options.hosts:
        known = _KNOWN_BETWEEN_HOSTS
    default = setup.default(known)
    chosen = cli.named("--transports", options.transports, known, default)
    chosen += [transports.custom(text) for text in options.add]
    names = [transport.name for transport in chosen]
    if len(set(names)) < len(names):
        raise ValueError(f"--add: two transports have one name: {', '.join(names)}")
    return sorted(chosen, key=lambda transport: transport.name != SUBJECT)


def _tests(options: argparse.Namespace) -> list[Test]:
    known = hosts.TESTS if options.hosts else (*TESTS, *FIRST_TESTS)
    default = [t for t in known if options.hosts or t.name in DEFAULT_TESTS]
    return cli.named("--tests", options.tests, known, default)


def _goals(options: argparse.Namespace) -> Sequence[Union[goals.Goal, goals.Limit]]:
    if options.hosts:
        return goals.between_hosts(options.mtu)
    names = {test.name for test in _tests(options)}
    first = {test.name for test in FIRST_TESTS}
    default = goals.SMSC if options.smsc else goals.TWO_RANKS
    return [
        *(default if names - first else ()),
        *(goals.FIRST if names & first else ()),
    ]


def _repetitions(options: argparse.Namespace) -> int:
    if options.depth == "quick":
        return 2
    return 3 if options.hosts else 5


def _usable_osu(given: Optional[Path], env: dict[str, str]) -> Optional[Programs]:
    """OSU's programs, if they run under the mpirun of this environment."""
    if given:
        found = programs.osu_in(given.resolve())
        reason = _probe(found, env) if found else "no osu_latency there or below"
        if reason:
            raise Unusable(f"--osu {given}: {reason}")
        return found
    for found in programs.osu_anywhere(env):
        reason = _probe(found, env)
        if not reason:
            return found
        print(f"not used: OSU in {found.folder}: {reason}", file=sys.stderr)
    return None


def _probe(found: Programs, env: dict[str, str]) -> str:
    """Empty if the programs work. Those of another MPI fail: each rank is alone."""
    command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none"]
    command += [str(found.paths["latency"]), "-m", "8:8", "-i", "10"]
    outcome = launch.run(command, env, timeout=60 * launch.PATIENCE)
    if not outcome.failure:
        return ""
    tail = launch.error_tail(outcome.errors or outcome.output)
    return f"does not run under this mpirun ({outcome.failure}): {' '.join(tail[-1:])}"

# SPDX-License-Identifier: BSD-3-Clause
"""What page faults cost: the run and the tables of benchmarks/faults."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Iterator, Optional, Sequence

from . import cli, comparison, goals, hosts, launch, measures, programs, swap, table
from .comparison import Comparison
from .results import Figure, Results
from .suite import COLD_TESTS, COST_TESTS, KIB, MIB, Test, size_text
from .transports import SUBJECT, WAYS, Transport, by_name, default

_ABOUT = f"""\
Measures what page faults cost, and the ways to live with them, in one run:
{SUBJECT} as it is (mode fault, policy adaptive), with each other policy (touch,
ahead, huge) and mode (prefault, pin, pin-cache), beside vader and UCX. Buffers
are warm, or absent at the source, at the destination or at both when the
transfer begins. Then what a fault costs libpf itself: see fault_cost --help.

Between hosts (--hosts): what a destination does with a block whose page is
absent, that is, ask for it again (nack) or keep it meanwhile (backup), beside
tcp, UCX and libfabric.

The ways take turns, several times over; tables show medians. Results go to
results/ below the current folder, or where --out says: CSV files, tables.txt
with every size, environment.txt, SVG plots.
"""
_EXIT_CODES = f"""\
exit codes: 0 done; 1 {SUBJECT} failed a test (others may have: see the tables);
2 nothing could be run; 130 interrupted, the tables show what was measured.
"""
_SWAP_TEST = "beside-swap"
# Tables on the terminal.
_SIZES = (4 * KIB, 64 * KIB, 512 * KIB, 4 * MIB, 64 * MIB)


def parser() -> argparse.ArgumentParser:
    parse = argparse.ArgumentParser(
        prog="faults",
        description=_ABOUT,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parse.add_argument_group("what to measure")
    what.add_argument(
        "--quick",
        dest="depth",
        action="store_const",
        const="quick",
        default="default",
        help="a first look: 2 repetitions, sizes to 4 MiB, few iterations",
    )
    cli.add_hosts(what, "between two hosts made on this machine (tests/hosts)")
    what.add_argument(
        "--ways",
        metavar="LIST",
        help="separated by commas, of: "
        + " ".join(way.name for way in WAYS)
        + "; with --hosts: "
        + " ".join(way.name for way in hosts.WAYS)
        + " (default: those that ompi_info shows)",
    )
    what.add_argument(
        "--tests",
        metavar="LIST",
        help="separated by commas, of: "
        + " ".join(test.name for test in (*COLD_TESTS, *COST_TESTS))
        + f" (default: all; {_SWAP_TEST} where there is swap space); with --hosts: "
        + " ".join(test.name for test in hosts.COLD_TESTS),
    )
    what.add_argument(
        "--max",
        type=cli.size,
        metavar="SIZE",
        help="no message above this; K, M or G may follow (--hosts: default 4M)",
    )
    what.add_argument(
        "-r",
        "--repetitions",
        type=cli.positive,
        metavar="N",
        help="default 3; 2 with --quick",
    )
    what.add_argument(
        "--zram",
        action="store_true",
        help=f"add swap space in compressed memory for the run, for {_SWAP_TEST} (root)",
    )
    how = parse.add_argument_group("programs and results")
    cli.add_results(how)
    how.add_argument(
        "--timeout",
        type=cli.positive,
        default=120,
        metavar="SECONDS",
        help="give up on one run after this long (120)",
    )
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("faults", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    if options.zram and options.hosts:
        raise ValueError(f"--zram is for {_SWAP_TEST}, on one host: leave --hosts out")
    if options.hosts:
        with hosts.Hosts(options.mtu).made() as made:
            return _run(options, made)
    return _run(options, None)


def _run(options: argparse.Namespace, made: Optional[hosts.Hosts]) -> int:
    build = comparison.find_build(options.build)
    env = launch.environment(build)
    present = comparison.components(env)
    chosen = _ways(options.ways, present, hosts.WAYS if made else WAYS)
    tests = hosts.COLD_TESTS if made else (*COLD_TESTS, *COST_TESTS)
    largest = options.max or (hosts.LARGEST if made else sys.maxsize)
    own = programs.own(build)
    with swap.zram() if options.zram else contextlib.nullcontext():
        jobs = comparison.make_jobs(
            _tests(options.tests, tests), None, own, options.depth, largest
        )
        return comparison.carry_out(
            Comparison(
                env,
                present,
                chosen,
                made.placement if made else launch.place(2, launch.cores()),
                jobs,
                options.repetitions or (2 if options.depth == "quick" else 3),
                show,
                goals.HOSTS_COLD if made else goals.FAULTS,
                *((made.prepare,) if made else ()),
            ),
            options,
        )


def _ways(
    wanted: Optional[str],
    present: set[tuple[str, str]],
    known: Sequence[Transport],
) -> list[Transport]:
    if not wanted:
        return default(present, known)
    names = wanted.split(",")
    if len(set(names)) < len(names):
        raise ValueError(f"--ways {wanted}: a way is named twice")
    return [by_name(name, known) for name in names]


def _tests(wanted: Optional[str], tests: Sequence[Test]) -> list[Test]:
    known = {test.name: test for test in tests}
    if wanted:
        for name in wanted.split(","):
            if name not in known:
                raise ValueError(f"no test {name}: there are {', '.join(known)}")
        return [known[name] for name in dict.fromkeys(wanted.split(","))]
    if _SWAP_TEST in known and not swap.present():
        del known[_SWAP_TEST]
        print(
            f"{_SWAP_TEST} is left out: there is no swap space (root: --zram)",
            file=sys.stderr,
        )
    return list(known.values())


def show(results: Results) -> None:
    for text in _tables(results):
        print("\n" + text)


def _tables(results: Results) -> Iterator[str]:
    sizes = sorted({s.size for s in results.samples if s.size in _SIZES})
    for cold, (_, title) in measures.COLD.items():
        columns = [
            ("latency, us", measures.COLD_LATENCY[cold]),
            ("throughput, MB/s", measures.COLD_BANDWIDTH[cold]),
            ("CPU, s/GB", measures.COLD_CPU[cold]),
        ]
        for size in sizes:
            rows = [(name, name, size) for name in results.transports]
            heading = f"{size_text(size)}, {title}"
            yield from _some(table.grid(results, heading, rows, columns))
    rows = [
        (size_text(size), SUBJECT, size) for size in (4 * KIB, 8 * KIB, 16 * KIB)
    ]
    yield from _some(table.grid(results, _MINOR, rows, _MINOR_COLUMNS))
    yield from _some(table.grid(results, _WARM, rows, _WARM_COLUMNS))
    alone = [(SUBJECT, SUBJECT, 0)]
    for title, columns in _ALONE:
        yield from _some(table.grid(results, title, alone, columns))


def _some(text: str) -> list[str]:
    return [text] if text else []


_MINOR = "A get into untouched pages, us: what a minor fault at the destination adds"
_MINOR_COLUMNS = (
    ("processor's touch", measures.MINOR_TOUCH),
    ("warm get", measures.MINOR_WARM),
    ("cold get", measures.MINOR_COLD),
    ("cold - warm - touch", goals.MINOR_ADDED),
)
_WARM = "A warm get, us: what being able to fault costs"
_WARM_COLUMNS = (
    ("look before every copy", measures.LOOK_ALWAYS),
    ("default", measures.LOOK_DEFAULT),
    ("look rarely", measures.LOOK_RARELY),
    ("default - rarely", goals.LOOK_ADDED),
)
_ALONE = (
    (
        "A fault on a page that a user-space pager supplies, us",
        (
            ("userfaultfd thread", measures.PAGER_THREAD),
            ("thread that spins", measures.PAGER_SPINNING),
            ("forwarded", measures.PAGER_FORWARDED),
            ("forwarded/thread", goals.PAGER_RATIO),
        ),
    ),
    (
        "... of the forwarded one, us",
        (
            ("detect, notify", measures.PAGER_NOTIFY),
            ("supply", measures.PAGER_SUPPLY),
            ("install, retransmit", measures.PAGER_RETRANSMIT),
            ("(the thread's UFFDIO_COPY)", measures.PAGER_COPY),
        ),
    ),
    (
        "Eight warm streams and a transfer into a pager of 1 ms a page, MB/s",
        (
            ("alone", measures.PAGER_ALONE),
            ("beside it", measures.PAGER_BESIDE),
            ("kept", goals.PAGER_KEPT),
            ("the transfer, us", measures.PAGER_TOOK),
        ),
    ),
    (
        "Eight warm streams and a transfer out of swap, MB/s",
        (
            ("alone", measures.SWAP_ALONE),
            ("beside it", measures.SWAP_BESIDE),
            ("kept", goals.SWAP_KEPT),
            ("the transfer, us", measures.SWAP_TOOK),
        ),
    ),
)

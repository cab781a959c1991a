# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/faults."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Optional, Sequence

from . import cli, comparison, goals, hosts, launch, measures, swap, table
from .comparison import Comparison, Setup
from .results import Results
from .suite import COLD_TESTS, COST_TESTS, KIB, MIB, Test, size_text
from .transports import SUBJECT, WAYS

_ABOUT = f"""\
Measure the cost of page faults and of the ways to handle them: {SUBJECT} with
its defaults (mode fault, policy adaptive), with each other policy (touch,
ahead, huge) and each other mode (prefault, pin, pin-cache), vader and UCX.
Buffers are warm, or cold at the source, at the destination or at both. Then
the cost of page faults in libpf itself: see fault_cost --help.

With --hosts: {SUBJECT}, tcp, UCX and libfabric, with warm and cold buffers, and
with a destination whose pages have to be read from a file. There {SUBJECT} runs with
both ways to handle a block that waits for its page: request it again (the default),
or keep it meanwhile (backup).

The ways are interleaved and repeated; the tables show medians. The results are
CSV files, tables.txt with every size, environment.txt and SVG plots, in
results/DATE-TIME below the current folder or where --out says.
"""
_SWAP_TEST = "beside-swap"
# Sizes of the tables on the terminal.
_SIZES = (4 * KIB, 64 * KIB, 512 * KIB, 4 * MIB, 64 * MIB)
_BETWEEN_HOSTS = (measures.COLD_LOSS_BANDWIDTH, measures.FILE_BANDWIDTH)


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("faults", _ABOUT, comparison.EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    cli.add_quick(what, "2 repetitions, sizes to 4 MiB, few iterations")
    cli.add_hosts(what, "between two hosts made on this machine (tests/hosts)")
    cli.add_mtu(what)
    cli.add_list(
        what,
        "--ways",
        [way.name for way in WAYS],
        f"; with --hosts: {' '.join(way.name for way in hosts.WAYS)} "
        "(default: those that ompi_info shows)",
    )
    cli.add_list(
        what,
        "--tests",
        [test.name for test in (*COLD_TESTS, *COST_TESTS)],
        f" (default: all; {_SWAP_TEST} if there is swap space); with --hosts: "
        + " ".join(test.name for test in hosts.COLD_TESTS),
    )
    cli.add_largest(what)
    cli.add_repetitions(what, "3; 2 with --quick")
    what.add_argument(
        "--zram",
        action="store_true",
        help=f"add swap space in compressed memory during the run, for {_SWAP_TEST} "
        "(root)",
    )
    how = parse.add_argument_group("programs and results")
    cli.add_results(how)
    cli.add_goals(how)
    cli.add_timeout(how, "default 120")
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parse = parser()
    options = parse.parse_args(arguments)
    if options.zram and options.hosts:
        parse.error(f"--zram is for {_SWAP_TEST} on one host: give it without --hosts")
    return cli.guarded("faults", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    setup = Setup(options.build)
    known = hosts.WAYS if options.hosts else WAYS
    chosen = cli.named("--ways", options.ways, known, setup.default(known))
    largest = options.max or (hosts.LARGEST if options.hosts else sys.maxsize)
    with swap.zram() if options.zram else contextlib.nullcontext():
        tests = _tests(options)
        alone = [test.name for test in tests if not test.mpi]
        if SUBJECT not in {way.name for way in chosen} and len(alone) == len(tests):
            raise cli.Unusable(f"{', '.join(alone)}: only for {SUBJECT}, which --ways leaves out")
        jobs = comparison.make_jobs(
            tests,
            None,
            setup.own,
            options.depth,
            largest,
            pair=not options.hosts,
        )
        with hosts.made_if(options.hosts, options.mtu) as made:
            return comparison.carry_out(
                Comparison(
                    setup,
                    chosen,
                    made.placement if made else launch.place(2, launch.cores()),
                    jobs,
                    options.repetitions or (2 if options.depth == "quick" else 3),
                    show,
                    goals.HOSTS_COLD if made else goals.FAULTS,
                    made,
                ),
                options,
            )


def _tests(options: argparse.Namespace) -> list[Test]:
    known = hosts.COLD_TESTS if options.hosts else (*COLD_TESTS, *COST_TESTS)
    default = [test for test in known if test.name != _SWAP_TEST or swap.present()]
    if not options.tests and len(default) < len(known):
        print(
            f"{_SWAP_TEST} is left out: there is no swap space (root: --zram)",
            file=sys.stderr,
        )
    return cli.named("--tests", options.tests, known, default)


def show(results: Results) -> None:
    texts = [
        table.grid(
            results,
            f"{size_text(size)}, {title}",
            [(name, name, size) for name in results.transports],
            (
                ("latency, us", measures.COLD_LATENCY[cold]),
                ("throughput, MB/s", measures.COLD_BANDWIDTH[cold]),
                ("CPU, s/GB", measures.COLD_CPU[cold]),
            ),
        )
        for cold, (_, title) in measures.COLD.items()
        for size in sorted({s.size for s in results.samples if s.size in _SIZES})
    ]
    sizes = [(size_text(size), SUBJECT, size) for size in (4 * KIB, 8 * KIB, 16 * KIB)]
    alone = [(SUBJECT, SUBJECT, 0)]
    texts += [table.grid(results, title, sizes, cells) for title, cells in _BY_SIZE]
    texts += [table.grid(results, title, alone, cells) for title, cells in _ALONE]
    texts += [
        table.render(results, measure, SUBJECT)
        for measure in _BETWEEN_HOSTS
        if results.sizes(measure)
    ]
    # Only these ways count.
    files = [
        (f"{size_text(size)}, {way}", way, size)
        for size in results.sizes(measures.FILE_WAITS)
        for way in (SUBJECT, "backup")
        if way in results.transports
    ]
    counts = (("waited", measures.FILE_WAITS), ("NACKs", measures.FILE_NACKS))
    texts.append(table.grid(results, "Destination a file: blocks for each message", files, counts))
    for text in filter(None, texts):
        print("\n" + text)


def _beside(alone, beside, kept, took):
    return (
        ("alone", alone),
        ("beside it", beside),
        ("kept", kept),
        ("the transfer, us", took),
    )


_BY_SIZE = (
    ("A get into untouched pages, us: what a minor page fault at the destination adds", (
        ("processor's access", measures.MINOR_TOUCH),
        ("warm get", measures.MINOR_WARM),
        ("cold get", measures.MINOR_COLD),
        ("cold - warm - access", goals.MINOR_ADDED),
    )),
    ("A warm get, us: what tolerating page faults costs", (
        ("check before every copy", measures.CHECK_ALWAYS),
        ("default", measures.CHECK_DEFAULT),
        ("check rarely", measures.CHECK_RARELY),
        ("default - rarely", goals.CHECK_ADDED),
    )),
)
_ALONE = (
    ("A page fault that a pager in user space resolves, us", (
        ("userfaultfd thread", measures.PAGER_THREAD),
        ("thread that spins", measures.PAGER_SPINNING),
        ("forwarded", measures.PAGER_FORWARDED),
        ("forwarded/thread", goals.PAGER_RATIO),
    )),
    ("Parts of the forwarded page fault, us", (
        ("detect, notify", measures.PAGER_NOTIFY),
        ("supply", measures.PAGER_SUPPLY),
        ("install, retransmit", measures.PAGER_RETRANSMIT),
        ("(the thread's UFFDIO_COPY)", measures.PAGER_COPY),
    )),
    ("Eight warm streams and a get from a pager of 1 ms a page, MB/s", _beside(
        measures.PAGER_ALONE, measures.PAGER_BESIDE, goals.PAGER_KEPT, measures.PAGER_TOOK
    )),
    ("Eight warm streams and a put from swap, MB/s", _beside(
        measures.SWAP_ALONE, measures.SWAP_BESIDE, goals.SWAP_KEPT, measures.SWAP_TOOK
    )),
)

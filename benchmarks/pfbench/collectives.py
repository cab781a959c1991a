# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/collectives."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Optional, Sequence

from . import cli, collective_results, comparison, document, goals, hosts, launch
from . import transports, tuned
from .application_results import Setting
from .collective_results import Point
from .comparison import Comparison, Setup
from .runner import Job
from .suite import COLLECTIVES, KIB, MIB, Span, Test
from .transports import KNOWN, OB1, SUBJECT, Transport

_RANKS = (2, 4, 16)
_HOSTS = 4
_ABOUT = f"""\
Measure collective operations over {SUBJECT} and the other transports of Open MPI.

Every size is verified. With --rules {SUBJECT} runs with each algorithm of coll/tuned
instead, and FILE gets rules that choose the fastest one where Open MPI's own choice
is slower beyond the spread. To use them:

    mpirun --mca coll_tuned_use_dynamic_rules 1 \\
        --mca coll_tuned_dynamic_rules_filename FILE ...
"""
# What all ranks together may hold where each has a block for each rank, bytes.
_HELD_MOST = 256 * MIB
# Up to a size: how many iterations at least, and how many with four ranks or fewer. In a few ms one
# turn of a shared processor, or what is left of the start of the job, would decide the time.
_ITERATIONS = ((4 * KIB, 20, 1000), (64 * KIB, 10, 500), (sys.maxsize, 10, 50))
_ALL_ITERATIONS = 4

# coll/sm has algorithms of its own, in shared memory; Open MPI does not choose it by itself.
_COLL_SM = Transport(
    "coll-sm",
    (*OB1, "vader,self", "--mca", "coll_sm_priority", "90"),
    ("coll", "sm"),
    optional=True,
)
_ON_ONE_HOST = (*KNOWN, _COLL_SM)


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("collectives", _ABOUT, comparison.EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    cli.add_quick(what, "2 repetitions, 2 and 4 ranks, sizes to 64 KiB")
    cli.add_list(what, "--tests", [test.name for test in COLLECTIVES], " (default: all)")
    what.add_argument(
        "-n",
        metavar="LIST",
        help=f"numbers of ranks (default {','.join(map(str, _RANKS))}; with --hosts without 2). "
        "64 ranks on 2 cores take half an hour for each repetition",
    )
    cli.add_hosts(what, f"on {_HOSTS} hosts made on this machine (tests/hosts)")
    cli.add_mtu(what)
    cli.add_largest(what)
    cli.add_repetitions(what, "5; 2 with --quick")
    what.add_argument(
        "--rules", type=Path, metavar="FILE", help=f"tune {SUBJECT}: see above"
    )
    who = parse.add_argument_group("what to compare")
    cli.add_smsc(who)
    cli.add_list(
        who,
        "--transports",
        [known.name for known in _ON_ONE_HOST],
        f"; with --hosts: {' '.join(known.name for known in hosts.WITH_SHARED_MEMORY)}"
        f"; with --smsc: {' '.join(known.name for known in transports.SMSC)} "
        "(default: those that ompi_info shows)",
    )
    how = parse.add_argument_group("programs and results")
    cli.add_published(how)
    cli.add_goals(how)
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parse = parser()
    options = parse.parse_args(arguments)
    if options.rules and (options.transports or options.publish):
        parse.error(f"--rules runs {SUBJECT} alone: give it without --transports and --publish")
    if options.rules and (options.depth == "quick" or (options.repetitions or 5) < 5):
        parse.error("--rules needs 5 repetitions or more: leave out --quick, and give no smaller -r")
    options.command = cli.command("collectives", arguments)
    return cli.guarded("collectives", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    cli.check_smsc(options, "hosts", "rules", "publish")
    if options.publish:
        document.check_source()
    setup = Setup(options.build)
    known = transports.SMSC if options.smsc else _ON_ONE_HOST
    if options.hosts:
        known = hosts.WITH_SHARED_MEMORY
    chosen = cli.named("--transports", options.transports, known, setup.default(known))
    counts = cli.counts("-n", options.n, 1000) if options.n else _counts(options)
    tests = cli.named("--tests", options.tests, COLLECTIVES, COLLECTIVES)
    folder = comparison.results_folder(options.out)
    runs = Runs(setup, options, folder)
    tunable = ("--param", "coll", "tuned", "--level", "9")
    listing = transports.ompi_info(setup.env, *tunable) if options.rules else ""
    with contextlib.ExitStack() as stack:
        if options.hosts:
            runs.made = stack.enter_context(hosts.Hosts(options.mtu, _HOSTS).made())
        for ranks in counts:
            if options.rules:
                for test in tests:
                    ways = [KNOWN[0], *tuned.variants(listing, test.program, ranks)]
                    runs.measure(ranks, [test], ways, test.name)
            else:
                runs.measure(ranks, tests, chosen)
    return runs.finish()


def _counts(options: argparse.Namespace) -> Sequence[int]:
    if options.depth == "quick":
        return _RANKS[1:2] if options.hosts else _RANKS[:2]
    return _RANKS[1:] if options.hosts else _RANKS


@dataclass
class Runs:
    """The measurements, one for each number of ranks, or with --rules for each operation, too."""

    setup: Setup
    options: argparse.Namespace
    folder: Path
    made: Optional[hosts.Hosts] = None
    # The worst exit code.
    code: int = 0
    rows: list[dict[str, str]] = field(default_factory=list)
    environments: dict[Setting, Path] = field(default_factory=dict)

    def measure(
        self, ranks: int, tests: Sequence[Test], chosen: Sequence[Transport], part: str = ""
    ) -> None:
        if self.code == 130:
            return
        options = argparse.Namespace(**vars(self.options))
        options.out = self.folder / f"{ranks}-ranks" / part
        options.timeout = options.timeout or 300
        jobs = [self._job(test, ranks) for test in tests]
        if self.made:
            placement = self.made.placement_of(ranks)
        else:
            placement = launch.place(ranks, launch.cores())
        code = comparison.carry_out(
            Comparison(
                self.setup,
                chosen,
                placement,
                jobs,
                options.repetitions or (2 if options.depth == "quick" else 5),
                comparison.show_measures,
                _goals(jobs, [each.name for each in chosen if each.name != SUBJECT]),
                self.made,
            ),
            options,
        )
        self.code = max(self.code, code)
        where = Setting(placement.hosts, ranks)
        self.environments[where] = options.out / "environment.txt"
        rows = collective_results.rows(options.out / "summary.csv")
        self.rows += [{"ranks": str(ranks), **row} for row in rows]
        collective_results.write(self.rows, self.folder / collective_results.FILE)

    def _job(self, test: Test, ranks: int) -> Job:
        largest = self.options.max or (64 * KIB if self.options.depth == "quick" else sys.maxsize)
        (job,) = comparison.make_jobs([test], None, self.setup.own, "default", largest)
        # The clocks of different hosts cannot be compared.
        arguments = () if self.made and not test.sized else test.own_arguments
        return replace(job, spans=spans(test, ranks, largest), arguments=arguments)

    def finish(self) -> int:
        by_setting = collective_results.points(self.rows)
        lines = []
        for where, points in by_setting.items():
            lines.append(f"{where}: {collective_results.finding(points)}")
            lines += [f"    slower: {sizes}" for sizes, _ in collective_results.slower(points)]
        if not self.options.rules:
            print("\n" + "\n".join(lines))
        elif self.code:
            print(f"\nNo rules: {self.options.rules} is unchanged, as not all was measured")
        else:
            self._write_rules([point for points in by_setting.values() for point in points])
        print(f"\nResults: {self.folder}")
        if self.options.publish and self.code:
            reason = "interrupted" if self.code == 130 else "a run failed"
            print(f"not published: {reason}", file=sys.stderr)
        elif self.options.publish:
            path = self.folder / collective_results.FILE
            facts = {
                setting: {**document.facts_of(environment), "command": self.options.command}
                for setting, environment in self.environments.items()
            }
            print(f"Published: {document.publish_collectives(path, facts)}")
        return self.code

    def _write_rules(self, points: Sequence[Point]) -> None:
        chosen: dict[str, dict[int, list[tuned.Choice]]] = {}
        for test in COLLECTIVES:
            for ranks in sorted({point.setting.ranks for point in points}):
                own = [p for p in points if (p.operation, p.setting.ranks) == (test.name, ranks)]
                if own:
                    chosen.setdefault(test.program, {})[ranks] = tuned.choose(own)
        text = "Rules for coll/tuned of Open MPI, made by benchmarks/collectives --rules."
        self.options.rules.write_text(tuned.rules(chosen, [text]))
        print(f"\nRules: {self.options.rules}")


def spans(test: Test, ranks: int, largest: int) -> tuple[Span, ...]:
    """Ranks that share processors take turns: the more ranks, the fewer iterations."""
    (whole,) = test.spans["default"]
    if test.program in tuned.OF_ALL_BLOCKS:
        largest = min(largest, max(whole.low, _HELD_MOST // ranks**2))
    parts = []
    low = whole.low
    for high, least, most in _ITERATIONS:
        count = max(least, int(most * min(1, (_ALL_ITERATIONS / ranks) ** 2)))
        part = Span(low, min(high, whole.high), count, max(5, count // 10)).within(largest)
        if part:
            parts.append(part)
        if high >= whole.high:
            break
        low = 2 * high
    return tuple(parts)


def _goals(jobs: Sequence[Job], peers: Sequence[str]) -> list[goals.Goal]:
    return [
        goals.Goal(
            f"{measure.name}, every size, at most the time of the best peer beyond the spread",
            measure,
            tuple(peers),
            1.0,
            job.spans[0].low,
            job.spans[-1].high,
            apart=True,
        )
        for job in jobs
        for measure in job.columns
    ]

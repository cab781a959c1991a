# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/fairness."""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from . import cli, hosts, plot, streams, table
from .comparison import Measurement, Setup
from .transports import KNOWN, SUBJECT

_ABOUT = f"""\
Measure how two streams share a link between two hosts: two of {SUBJECT},
{SUBJECT} and the kernel's TCP, two of TCP, and each alone. The hosts are made
on this machine (tests/hosts). The link to the receiving host has a limited rate
and a queue at the switch. The receivers count bytes while both streams run,
after some time in which the streams find their shares.

The results are fairness.csv (the rates over time), summary.csv (their means),
tables.txt, environment.txt, an SVG plot of the shares, and one over time for
each pair, in results/DATE-TIME below the current folder or where --out says.
"""
_EXIT_CODES = """\
exit codes: 0 done; 1 a stream failed; 2 nothing could be run; 130 interrupted.
"""
_TCP = "tcp"
# Interval of a row of fairness.csv, s.
_STEP = 0.1
_PORT = 5201
_STREAM = Path(__file__).resolve().with_name("tcp_stream.py")


@dataclass(frozen=True)
class Case:
    """Streams that run at the same time, and the length of the queue that they share."""

    streams: tuple[str, ...]
    queue: str = ""

    @property
    def name(self) -> str:
        return "+".join(self.streams)


CASES = (
    Case((SUBJECT,)),
    Case((_TCP,)),
    Case((SUBJECT, SUBJECT)),
    Case((SUBJECT, _TCP)),
    Case((_TCP, _TCP)),
)


@dataclass(frozen=True)
class Shared:
    """One run of a case: the rate of every stream in every step, MB/s."""

    case: Case
    repetition: int
    rates: tuple[tuple[float, ...], ...]

    @property
    def means(self) -> list[float]:
        return [statistics.fmean(rates) for rates in self.rates]


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("fairness", _ABOUT, _EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    cli.add_quick(what, "1 repetition of 2 s, a queue of 10ms")
    cli.add_list(what, "--cases", [case.name for case in CASES], " (default: all)")
    what.add_argument(
        "--rate", default="1gbit", help="of the link, as for tc(8) (default 1gbit)"
    )
    what.add_argument(
        "--queue",
        metavar="LIST",
        help="of the link, as the time to send what it holds, separated by commas "
        "(default 1ms,10ms)",
    )
    what.add_argument(
        "--mark",
        default="0",
        metavar="PERCENT",
        help='of the packets are marked "congestion experienced", at random; TCP '
        "then uses ECN (default 0)",
    )
    what.add_argument(
        "--control",
        default="cubic",
        help="TCP's congestion control (default cubic)",
    )
    cli.add_mtu(what)
    what.add_argument(
        "--seconds",
        type=cli.positive,
        metavar="N",
        help=f"that a run counts, after {streams.WARM_UP:.0f} that it does not (default 6)",
    )
    cli.add_repetitions(what, "3; 1 with --quick")
    cli.add_results(parse.add_argument_group("programs and results"))
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("fairness", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    cases = cases_of(options)
    setup = Setup(options.build)
    setup.require_subject()
    if not setup.own or "flow" not in setup.own.paths:
        raise cli.Unusable("there is no program flow: run ./quickstart build")
    with hosts.Hosts(options.mtu).made() as made:
        made.prepare({"wire": "on", "mark": options.mark})
        if float(options.mark):
            made.write("h0", "/proc/sys/net/ipv4/tcp_ecn", "1")
        return _measure(made, Measurement(setup, options), cases, options)


def cases_of(options: argparse.Namespace) -> list[Case]:
    quick = options.depth == "quick"
    queues = options.queue or ("10ms" if quick else "1ms,10ms")
    chosen = cli.named("--cases", options.cases, CASES, CASES)
    return [Case(case.streams, queue) for queue in queues.split(",") for case in chosen]


class Runs:
    """Runs the streams of a case."""

    def __init__(
        self, made: hosts.Hosts, measurement: Measurement, options: argparse.Namespace
    ) -> None:
        self.seconds = options.seconds or (2 if options.depth == "quick" else 6)
        self._made = made
        self._measurement = measurement
        self._setup = measurement.setup
        self._rate = options.rate
        self._control = options.control

    def run(self, case: Case, repetition: int) -> Shared:
        """Raises ValueError if a stream fails."""
        self._made.limit("h1", self._rate, case.queue)
        begin = time.monotonic() + streams.WARM_UP
        end = begin + self.seconds
        span = [f"{begin:.6f}", f"{end:.6f}", str(_STEP)]
        commands = [
            command
            for number, stream in enumerate(case.streams)
            for command in self._commands(stream, _PORT + number, span)
        ]
        for command in commands:
            self._measurement.note(command, span)
        outputs = streams.run_together(commands, self._setup.env, self.seconds)
        # The source of a TCP stream prints nothing.
        printed = [output for output in outputs if output]
        if len(printed) != len(case.streams):
            raise ValueError("a stream printed nothing")
        rates = [streams.parse(output, self.seconds, _STEP).total for output in printed]
        return Shared(case, repetition, tuple(rates))

    def _commands(self, stream: str, port: int, span: list[str]) -> list[list[str]]:
        if stream == SUBJECT:
            placement = self._made.placement
            command = [*placement.launcher, "-n", str(placement.ranks)]
            # There are more polling processes than processors.
            command += ["--mca", "mpi_yield_when_idle", "1", *KNOWN[0].mca(False)]
            return [[*command, str(self._setup.own.paths["flow"]), *span]]
        python = [sys.executable, "-B", str(_STREAM)]
        sink = [*python, "sink", str(port), *span]
        source = [*python, "source", "h1", str(port), self._control]
        return [self._made.inside("h1", sink), self._made.inside("h0", source)]


def _measure(
    made: hosts.Hosts,
    measurement: Measurement,
    cases: Sequence[Case],
    options: argparse.Namespace,
) -> int:
    runs = Runs(made, measurement, options)
    shared: list[Shared] = []
    with measurement.interruptible():
        for repetition in range(measurement.repetitions):
            for case in cases:
                queue = f", queue {case.queue}"
                measurement.attempt(repetition, case.name, shared, runs.run, case, detail=queue)
    _write_rates(shared, measurement.folder)
    facts = {
        "link": f"rate {options.rate}, MTU {options.mtu}, marked {options.mark} %",
        "tcp": options.control,
        "seconds": f"{runs.seconds}, after {streams.WARM_UP:.0f} not counted",
    }
    _draw(shared, measurement.folder, options.rate)
    _draw_shares(shared, measurement.folder, options.rate)
    return measurement.finish(render(shared), facts)


_HEADS = ("queue", "streams", "first, MB/s", "second, MB/s", "of the first", "Jain")


def render(shared: Sequence[Shared]) -> str:
    """A table of the medians, with the range if there are several repetitions."""
    lines = [_HEADS]
    for case in dict.fromkeys(one.case for one in shared):
        means = [one.means for one in shared if one.case == case]
        line = [case.queue, case.name]
        for i in range(len(means[0])):
            line.append(table.spread([mean[i] for mean in means], 1))
        if len(case.streams) == 2:
            line.append(table.spread([mean[0] / (sum(mean) or 1) for mean in means], 3))
            line.append(table.spread([streams.jain(mean) for mean in means], 3))
        lines.append((*line, *[""] * (len(_HEADS) - len(line))))
    title = "Throughput of each stream; medians, in brackets minimum and maximum"
    return "\n".join([title, *table.columns(lines)])


def _write_rates(shared: Sequence[Shared], folder: Path) -> None:
    with open(folder / "fairness.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["queue", "case", "stream", "transport", "repetition", "until", "MB/s"]
        )
        for one in shared:
            for number, rates in enumerate(one.rates):
                for step, rate in enumerate(rates):
                    out.writerow(
                        [one.case.queue, one.case.name, number + 1]
                        + [one.case.streams[number], one.repetition + 1]
                        + [f"{(step + 1) * _STEP:.1f}", f"{rate:.3f}"]
                    )


    with open(folder / "summary.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["queue", "case", "stream", "transport", "repetition", "MB/s"])
        for one in shared:
            for number, mean in enumerate(one.means):
                out.writerow(
                    [one.case.queue, one.case.name, number + 1]
                    + [one.case.streams[number], one.repetition + 1, f"{mean:.3f}"]
                )


def _draw_shares(shared: Sequence[Shared], folder: Path, rate: str) -> None:
    """The share of the first stream of each pair, by the length of the queue."""
    pairs = [one for one in shared if len(one.rates) == 2]
    queues = list(dict.fromkeys(one.case.queue for one in pairs))
    if not pairs:
        return
    shares = {
        f"first of {name}": [
            [
                one.means[0] / (sum(one.means) or 1)
                for one in pairs
                if (one.case.name, one.case.queue) == (name, queue)
            ]
            for queue in queues
        ]
        for name in dict.fromkeys(one.case.name for one in pairs)
    }
    reason = plot.draw_shares(
        folder / "shares.svg",
        f"shares of two streams at a port of {rate}, by its queue; median and range",
        queues,
        shares,
    )
    if reason:
        print(reason, file=sys.stderr)


def _draw(shared: Sequence[Shared], folder: Path, rate: str) -> None:
    for one in shared:
        if one.repetition or len(one.rates) < 2:
            continue
        names = [f"{name} {i + 1}" for i, name in enumerate(one.case.streams)]
        reason = plot.draw_time(
            folder / f"{one.case.name}-{one.case.queue}.svg",
            f"{one.case.name}, {rate}, queue {one.case.queue}",
            _STEP,
            dict(zip(names, one.rates)),
        )
        if reason:
            print(reason, file=sys.stderr)
            return

# SPDX-License-Identifier: BSD-3-Clause
"""How jobs share a link between hosts: the run and the table of benchmarks/fairness."""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from . import cli, comparison, environment, hosts, launch, plot, programs
from .transports import SUBJECT

_ABOUT = f"""\
Measures how two streams from one host to another share the link where all of
them have to wait: {SUBJECT} beside itself, beside the kernel's TCP, and TCP
beside itself; each alone, too. The hosts are made on this machine (tests/hosts);
the link to the receiving one has a rate, and a queue at the switch. Bytes are
counted where they arrive, while both streams run, after a time to find their
shares.

Results go to results/ below the current folder, or where --out says:
fairness.csv, tables.txt, environment.txt, an SVG plot for each pair.
"""
_EXIT_CODES = """\
exit codes: 0 done; 1 a stream failed; 2 nothing could be run; 130 interrupted.
"""
_TCP = "tcp"
_CASES = (
    (SUBJECT,),
    (_TCP,),
    (SUBJECT, SUBJECT),
    (SUBJECT, _TCP),
    (_TCP, _TCP),
)
_STEP = 0.1
# To start, and to find their shares.
_WARM_UP = 4.0
# Beyond the end: mpirun's own.
_PATIENCE = 30.0
_PORT = 5201
_STREAM = Path(__file__).resolve().with_name("tcp_stream.py")


@dataclass(frozen=True)
class Case:
    """Streams that run at the same time, and the queue before which they meet."""

    streams: tuple[str, ...]
    queue: str

    @property
    def name(self) -> str:
        return "+".join(self.streams)


@dataclass(frozen=True)
class Shared:
    """One run of a case: MB/s of every stream, step by step."""

    case: Case
    repetition: int
    rates: tuple[tuple[float, ...], ...]

    @property
    def means(self) -> list[float]:
        return [statistics.fmean(rates) for rates in self.rates]


def jain(rates: Sequence[float]) -> float:
    """Jain's fairness index: 1 if all have the same, 1/n if one has everything."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0


def parse_steps(output: str, begin: float, end: float) -> tuple[float, ...]:
    """MB/s in each step, of what mpi/flow and tcp_stream.py print."""
    rates, before = [], 0.0
    for line in output.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        try:
            until, count = line.split()
            rates.append(int(count) / 1e6 / (float(until) - before))
            before = float(until)
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"not a line of a stream: {line}") from None
    if abs(before - (end - begin)) > _STEP:
        raise ValueError(f"{before:.1f} s were counted, not {end - begin:.1f}")
    return tuple(rates)


def parser() -> argparse.ArgumentParser:
    parse = argparse.ArgumentParser(
        prog="fairness",
        description=_ABOUT,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parse.add_argument_group("what to measure")
    what.add_argument(
        "--quick",
        action="store_true",
        help="a first look: 1 repetition of 2 s, a queue of 10ms",
    )
    what.add_argument(
        "--cases",
        metavar="LIST",
        help="separated by commas, of: "
        + " ".join("+".join(streams) for streams in _CASES)
        + " (default: all)",
    )
    what.add_argument(
        "--rate", default="1gbit", help="of the link, as tc(8) has it (default 1gbit)"
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
        "then uses ECN, too (default 0)",
    )
    what.add_argument(
        "--control",
        default="cubic",
        help="TCP's congestion control (default cubic)",
    )
    what.add_argument(
        "--mtu",
        type=cli.positive,
        default=9000,
        metavar="BYTES",
        help="of the network (default 9000)",
    )
    what.add_argument(
        "--seconds",
        type=cli.positive,
        metavar="N",
        help=f"of a run that count, after {_WARM_UP:.0f} that do not (default 6)",
    )
    what.add_argument(
        "-r",
        "--repetitions",
        type=cli.positive,
        metavar="N",
        help="default 3; 1 with --quick",
    )
    how = parse.add_argument_group("programs and results")
    how.add_argument(
        "--build", type=Path, metavar="DIR", help="the build tree (default: build/)"
    )
    how.add_argument("--out", type=Path, metavar="DIR", help="write results here")
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("fairness", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    cases = _cases(options)
    build = comparison.find_build(options.build)
    env = launch.environment(build)
    present = comparison.components(env)
    if ("btl", SUBJECT) not in present:
        raise ValueError(comparison.SUBJECT_ABSENT)
    own = programs.own(build)
    flow = own.get("flow") if own else None
    if not flow:
        raise programs.NoPrograms("no program flow: run ./quickstart build")
    folder = options.out or Path("results") / time.strftime("%Y-%m-%d-%H%M%S")
    with hosts.Hosts(options.mtu).made() as made:
        made.prepare({"wire": "on", "mark": options.mark})
        if float(options.mark):
            made.write("h0", "/proc/sys/net/ipv4/tcp_ecn", "1")
        streams = Streams(made, env, flow, options)
        return _measure(streams, cases, folder, options)


def _cases(options: argparse.Namespace) -> list[Case]:
    known = {"+".join(streams): streams for streams in _CASES}
    names = options.cases.split(",") if options.cases else list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"no case {name}: there are {', '.join(known)}")
    queues = options.queue or ("10ms" if options.quick else "1ms,10ms")
    return [
        Case(known[name], queue)
        for queue in dict.fromkeys(queues.split(","))
        for name in dict.fromkeys(names)
    ]


class Streams:
    """Starts them, all of a case at once."""

    def __init__(
        self,
        made: hosts.Hosts,
        env: dict[str, str],
        flow: Path,
        options: argparse.Namespace,
    ) -> None:
        self.seconds = options.seconds or (2 if options.quick else 6)
        self.rate = options.rate
        # Unlike each other but for times, in order: for the record.
        self.commands: dict[tuple[str, ...], None] = {}
        self._made = made
        self.env = env
        self._flow = flow
        self._control = options.control

    def run(self, case: Case, repetition: int) -> Shared:
        """ValueError says which stream failed, and why."""
        self._made.limit("h1", self.rate, case.queue)
        begin = time.monotonic() + _WARM_UP
        end = begin + self.seconds
        span = [f"{begin:.6f}", f"{end:.6f}", str(_STEP)]
        commands = [
            command
            for number, stream in enumerate(case.streams)
            for command in self._commands(stream, _PORT + number, span)
        ]
        for command in commands:
            shown = ["TIME" if part in span[:2] else part for part in command]
            self.commands.setdefault(tuple(shown))
        timeout = _WARM_UP + self.seconds + _PATIENCE
        with ThreadPoolExecutor(len(commands)) as pool:
            outcomes = list(
                pool.map(
                    lambda command: launch.run(command, self.env, timeout), commands
                )
            )
        for command, outcome in zip(commands, outcomes):
            if outcome.failure:
                tail = launch.error_tail(outcome.errors or outcome.output)
                raise ValueError("\n    ".join([f"{outcome.failure}: {command}", *tail]))
        # The source of a TCP stream prints nothing.
        printed = [outcome.output for outcome in outcomes if outcome.output]
        if len(printed) != len(case.streams):
            raise ValueError("a stream printed nothing")
        rates = [parse_steps(output, begin, end) for output in printed]
        return Shared(case, repetition, tuple(rates))

    def _commands(self, stream: str, port: int, span: list[str]) -> list[list[str]]:
        if stream == SUBJECT:
            placement = self._made.placement
            # There are more processes that poll than processors.
            polite = ["--mca", "mpi_yield_when_idle", "1"]
            arguments = hosts.TRANSPORTS[0].mca(False)
            ranks = ["-n", str(placement.ranks)]
            return [
                [*placement.launcher, *ranks, *polite, *arguments]
                + [str(self._flow), *span]
            ]
        python = [sys.executable, "-B", str(_STREAM)]
        sink = [*python, "sink", str(port), *span]
        source = [*python, "source", "h1", str(port), self._control]
        return [self._made.inside("h1", sink), self._made.inside("h0", source)]


def _measure(
    streams: Streams,
    cases: Sequence[Case],
    folder: Path,
    options: argparse.Namespace,
) -> int:
    repetitions = options.repetitions or (1 if options.quick else 3)
    folder.mkdir(parents=True, exist_ok=True)
    shared: list[Shared] = []
    failed = interrupted = False
    try:
        for repetition in range(repetitions):
            for case in cases:
                print(
                    f"{repetition + 1}/{repetitions} {case.name}, queue {case.queue}",
                    file=sys.stderr,
                )
                try:
                    shared.append(streams.run(case, repetition))
                except ValueError as error:
                    print(f"FAILED: {case.name}: {error}", file=sys.stderr)
                    failed = True
    except KeyboardInterrupt:
        interrupted = True
    text = render(shared)
    _write(shared, folder, text, streams, options)
    print(f"\n{text}\n\nResults: {folder}")
    if interrupted:
        return 130
    return 1 if failed else 0


_HEADS = ("queue", "streams", "first, MB/s", "second, MB/s", "of the first", "Jain")


def render(shared: Sequence[Shared]) -> str:
    """Medians of the repetitions, and where one has been several times the range."""
    lines = [_HEADS]
    for case in dict.fromkeys(one.case for one in shared):
        means = [one.means for one in shared if one.case == case]
        line = [case.queue, case.name]
        line += [_range([mean[i] for mean in means], 1) for i in range(len(means[0]))]
        if len(case.streams) == 2:
            line.append(_range([mean[0] / (sum(mean) or 1) for mean in means], 3))
            line.append(_range([jain(mean) for mean in means], 3))
        lines.append((*line, *[""] * (len(_HEADS) - len(line))))
    widths = [max(map(len, column)) for column in zip(*lines)]
    title = "Throughput beside one another; medians, in brackets least and most"
    return "\n".join(
        [title]
        + [
            "  ".join(f"{text:<{width}}" for text, width in zip(line, widths)).rstrip()
            for line in lines
        ]
    )


def _range(values: Sequence[float], digits: int) -> str:
    text = f"{statistics.median(values):.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):.{digits}f} {max(values):.{digits}f})"
    return text


def _write(
    shared: Sequence[Shared],
    folder: Path,
    text: str,
    streams: Streams,
    options: argparse.Namespace,
) -> None:
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
    (folder / "tables.txt").write_text(text + "\n")
    facts = {
        "link": f"rate {options.rate}, MTU {options.mtu}, marked {options.mark} %",
        "tcp": options.control,
        "seconds": f"{streams.seconds}, after {_WARM_UP:.0f} not counted",
    }
    (folder / "environment.txt").write_text(
        environment.describe(streams.env, facts, {}, streams.commands)
    )
    for one in shared:
        if one.repetition or len(one.rates) < 2:
            continue
        names = [f"{name} {i + 1}" for i, name in enumerate(one.case.streams)]
        reason = plot.draw_time(
            folder / f"{one.case.name}-{one.case.queue}.svg",
            f"{one.case.name}, {options.rate}, queue {one.case.queue}",
            _STEP,
            dict(zip(names, one.rates)),
        )
        if reason:
            print(reason, file=sys.stderr)
            return

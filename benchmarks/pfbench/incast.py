# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/incast."""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Mapping, Optional, Sequence

from . import backpressure, cli, hosts, incast_simulated, plot, streams, table
from .comparison import Measurement, Setup
from .transports import KNOWN, SUBJECT, Transport

_ABOUT = f"""\
Measure incast: many senders whose messages go to one receiver, behind a link of
limited rate with a queue at its switch.

--simulated, the default, runs {SUBJECT}'s protocol as it is shipped in virtual
time (pf_incast), with links of 25 and of 100 Gbit/s, and with switches that mark
packets or do not. Figures: the same but for retransmissions. Then as many hosts put
128 KiB to each other one, 8 at a time; figures: goodput, longest queue, loss, memory
and processor time for a host. All takes about 10 minutes. 1,024 hosts take 9 GB, and
are left out where there is less.

--hosts runs MPI programs on hosts that are made on this machine (tests/hosts): N
senders with messages of 1 MiB, 4 at a time, over {SUBJECT} and over btl tcp in
turns. Figures: goodput, as a part of the link's rate; Jain's index of the
senders; the most bytes seen waiting in the queue of the port, which is read
every millisecond; packets that the port dropped, and packets that the senders
retransmitted, as parts of all packets.

--pager runs a stream of {SUBJECT} from one host to another, alone and beside gets
of the receiving host from a third one. All messages go through the same port.
The gets go to memory of a pager, which makes each page from
{backpressure.FRAGMENTS} pages of a file that it reads with O_DIRECT.

The results are tables.txt, environment.txt, CSV files and SVG plots, in
results/DATE-TIME below the current folder or where --out says: of --simulated
simulated.csv and simulated.svg, the figures by the number of senders, and
all-to-all.csv and all-to-all.svg; of --hosts summary.csv, incast.csv (the rate of
each sender over time) and a plot for each transport; of --pager backpressure.csv
and backpressure.svg.
"""
_EXIT_CODES = f"""\
exit codes: 0 done; 1 a run of {SUBJECT} failed (others may have failed: see the
tables); 2 nothing could be run; 130 interrupted.
"""
_FLOW = ["--bytes", str(1 << 20), "--window", "4"]
_STEP = 0.25
# Time for mpirun to start a rank on one more host, s.
_START_EACH = 0.5
_WATCH = Path(__file__).resolve().with_name("port_queue.py")
# The subject and tcp.
TRANSPORTS = hosts.TRANSPORTS[:2]
_SENDERS_MOST = 199
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}


@dataclass(frozen=True)
class Port:
    """The counters of the port, from the start of the job on."""

    sent: int = 0
    packets: int = 0
    dropped: int = 0
    longest: int = 0


@dataclass(frozen=True)
class Run:
    """One run over one transport."""

    transport: str
    repetition: int
    arrivals: streams.Arrivals
    port: Port
    # Packets that the senders sent again.
    again: int
    # Of the link, MB/s.
    link: float
    means: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        means = tuple(map(statistics.fmean, self.arrivals.rates))
        object.__setattr__(self, "means", means)

    @property
    def goodput(self) -> float:
        return sum(self.means) / self.link

    @property
    def dropped(self) -> float:
        return self.port.dropped / (self.port.packets + self.port.dropped or 1)

    @property
    def retransmitted(self) -> float:
        return self.again / (self.port.packets or 1)


def bytes_per_second(rate: str) -> float:
    """Of a rate as tc(8) has it; 1gbit is 125e6."""
    digits = rate.lower().removesuffix("bit")
    unit = digits[-1:] if digits[-1:] in _UNITS else ""
    try:
        return float(digits.removesuffix(unit)) * _UNITS[unit] / 8
    except ValueError:
        raise ValueError(f"--rate {rate}: give a rate such as 1gbit") from None


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("incast", _ABOUT, _EXIT_CODES)
    how = parse.add_argument_group("how to measure").add_mutually_exclusive_group()
    how.add_argument(
        "--simulated",
        dest="how",
        action="store_const",
        const="simulated",
        default="simulated",
        help="in virtual time (default)",
    )
    how.add_argument(
        "--hosts",
        dest="how",
        action="store_const",
        const="hosts",
        help="with processes, on hosts of this machine",
    )
    how.add_argument(
        "--pager",
        dest="how",
        action="store_const",
        const="pager",
        help="a stream beside a receiver whose pages come from a slow pager, on hosts",
    )
    what = parse.add_argument_group("what to measure")
    cli.add_quick(
        what,
        "8 and 64 simulated senders; --hosts, --pager: 4 senders, 1 repetition of 3 s",
    )
    what.add_argument(
        "--senders",
        metavar="LIST",
        help="numbers of senders, separated by commas (default 8,16,32,64,128,256,512,1024; "
        "--hosts: 16)",
    )
    real = parse.add_argument_group("--hosts and --pager")
    names = [transport.name for transport in TRANSPORTS]
    cli.add_list(real, "--transports", names, " (--hosts, default: all)")
    cli.add_links(real, "8ms", ", which is 1 MB at 1 Gbit/s")
    cli.add_mtu(real)
    real.add_argument(
        "--seconds",
        type=cli.positive,
        metavar="N",
        help="that a run counts, after its start (default 6)",
    )
    cli.add_repetitions(real, "3; 1 with --quick")
    cli.add_results(parse.add_argument_group("programs and results"))
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    runs = {"simulated": incast_simulated.run, "hosts": _run_hosts, "pager": backpressure.run}
    return cli.guarded("incast", lambda: runs[options.how](options))


def _run_hosts(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    quick = options.depth == "quick"
    chosen = cli.named("--transports", options.transports, TRANSPORTS, TRANSPORTS)
    senders = options.senders or ("4" if quick else "16")
    counts = cli.counts("--senders", senders, _SENDERS_MOST)
    link = bytes_per_second(options.rate) / 1e6
    setup = Setup(options.build)
    if KNOWN[0] in chosen:
        setup.require_subject()
    if not setup.own or "flow" not in setup.own.paths:
        raise cli.Unusable("there is no program flow: run ./quickstart build")
    runs: list[Run] = []
    measurement = Measurement(setup, options)
    with measurement.interruptible():
        for count in counts:
            with hosts.Hosts(options.mtu, count + 1, core=False).made() as made:
                # Every packet crosses alone, as on a cable.
                made.prepare({"wire": "on", "rate": options.rate, "queue": options.queue})
                senders = _Senders(made, measurement, count, options)
                _measure(measurement, senders, chosen, runs)
    _write(runs, measurement.folder)
    _draw(runs, measurement.folder, options.rate)
    return measurement.finish(render(runs), cli.link_facts(options))


class _Senders:
    """Runs so many senders, each on a host, and a receiver on the last host."""

    def __init__(
        self,
        made: hosts.Hosts,
        measurement: Measurement,
        count: int,
        options: argparse.Namespace,
    ) -> None:
        self.count = count
        self._made = made
        self._measurement = measurement
        self._setup = measurement.setup
        self._seconds = options.seconds or (3 if options.depth == "quick" else 6)
        self._link = bytes_per_second(options.rate) / 1e6

    def run(self, transport: Transport, repetition: int) -> Run:
        """Raises ValueError if it fails."""
        warm_up = streams.WARM_UP + _START_EACH * self.count
        start = time.monotonic()
        begin, end = start + warm_up, start + warm_up + self._seconds
        span = [f"{begin:.6f}", f"{end:.6f}", str(_STEP)]
        command = [*self._made.placement.launcher, "-n", str(self.count + 1)]
        command += [*transport.mca(False), str(self._setup.own.paths["flow"])]
        command += [*_FLOW, *span]
        python = [sys.executable, "-B", str(_WATCH), f"p{self.count}"]
        watch = self._made.inside("front", [*python, f"{start:.6f}", f"{end:.6f}"])
        self._measurement.note(command, span)
        before = self._retransmitted()
        output, watched = streams.run_together(
            [command, watch], self._setup.env, warm_up + self._seconds
        )
        arrivals = streams.parse(output, self._seconds, _STEP)
        if len(arrivals.rates) != self.count:
            raise ValueError("the receiver did not count all senders")
        if transport.name == SUBJECT:
            if not arrivals.counters.get("net_sent"):
                raise ValueError("btl exanest counted no packet")
            again = arrivals.counters["net_lost"]
        else:
            again = self._retransmitted() - before
        port = Port(*map(int, watched.split()))
        return Run(transport.name, repetition, arrivals, port, again, self._link)

    def _retransmitted(self) -> int:
        """TCP segments that the senders' kernels retransmitted."""
        total = 0
        for number in range(self.count):
            text = self._made.execute(f"h{number}", "cat", "/proc/net/snmp")
            names, values = (line.split() for line in text.splitlines() if line[:4] == "Tcp:")
            total += int(values[names.index("RetransSegs")])
        return total


def _measure(
    measurement: Measurement,
    senders: _Senders,
    chosen: Sequence[Transport],
    runs: list[Run],
) -> None:
    for repetition in range(measurement.repetitions):
        for transport in chosen:
            text = f"{transport.name}, {senders.count} senders"
            decides = transport.name == SUBJECT
            measurement.attempt(repetition, text, runs, senders.run, transport, decides=decides)


def _groups(runs: Sequence[Run]) -> Mapping[tuple[int, str], list[Run]]:
    """The repetitions of each number of senders and transport."""
    groups: dict[tuple[int, str], list[Run]] = {}
    for one in runs:
        groups.setdefault((len(one.means), one.transport), []).append(one)
    return groups


def render(runs: Sequence[Run]) -> str:
    """A table of the medians, with the range if there are several repetitions."""
    lines = [
        ("senders", "transport", "goodput", "Jain", "queue, KB", "dropped", "retransmitted")
    ]
    for (count, name), same in _groups(runs).items():
        lines.append(
            (
                str(count),
                name,
                table.spread([one.goodput for one in same], 3),
                table.spread([streams.jain(one.means) for one in same], 3),
                table.spread([one.port.longest / 1e3 for one in same], 0),
                table.spread([one.dropped for one in same], 5),
                table.spread([one.retransmitted for one in same], 5),
            )
        )
    title = (
        "Senders to one receiver: goodput as a part of the link's rate, Jain's index of "
        "the senders, longest queue\nthat was seen, parts of the packets that were dropped "
        "and retransmitted; medians, in brackets minimum and maximum"
    )
    return "\n".join([title, *table.columns(lines)])


def _write(runs: Sequence[Run], folder: Path) -> None:
    with open(folder / "summary.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["senders", "transport", "repetition", "goodput", "jain"]
            + ["longest queue", "packets", "dropped", "retransmitted"]
        )
        for one in runs:
            port = one.port
            out.writerow(
                [len(one.means), one.transport, one.repetition + 1]
                + [f"{one.goodput:.4f}", f"{streams.jain(one.means):.4f}"]
                + [port.longest, port.packets, port.dropped, one.again]
            )
    with open(folder / "incast.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["senders", "transport", "repetition", "sender", "until", "MB/s"])
        for one in runs:
            for number, rates in enumerate(one.arrivals.rates):
                for step, rate in enumerate(rates):
                    out.writerow(
                        [len(one.means), one.transport, one.repetition + 1, number]
                        + [f"{(step + 1) * _STEP:.2f}", f"{rate:.3f}"]
                    )


def _draw(runs: Sequence[Run], folder: Path, rate: str) -> None:
    for (count, name), same in _groups(runs).items():
        rates = same[0].arrivals.rates
        reason = plot.draw_time(
            folder / f"{name}-{count}.svg",
            f"{count} senders over {name} to one receiver behind {rate}",
            _STEP,
            {f"{number}": one for number, one in enumerate(rates)},
        )
        if reason:
            print(reason, file=sys.stderr)
            return

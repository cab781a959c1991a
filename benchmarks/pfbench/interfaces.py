# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/interfaces."""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from . import cli, hosts, launch, plot, streams, table
from .comparison import Measurement, Setup
from .transports import KNOWN, SUBJECT, Transport

_ABOUT = f"""\
Measure two interfaces of two hosts: the bandwidth of 4 MiB messages over one
interface and over both, and a stream over both while one of them is down for
{{down:.0f}} s. The interface goes down at the sender, at the receiver (ip link set
down) or at the switch, as if the cable were pulled. {SUBJECT} and btl tcp are
measured in turns. The hosts are made on this machine (tests/hosts), and each of
their links has a limited rate.

The results are bandwidth.csv, outages.csv (the rate over time), tables.txt,
environment.txt and an SVG plot for each place, in results/DATE-TIME below the
current folder or where --out says.
"""
_EXIT_CODES = f"""\
exit codes: 0 done; 1 a run of {SUBJECT} failed (others may have failed: see the
tables); 2 nothing could be run; 130 interrupted.
"""
# mpirun's own connections use the first one.
_FIRST, _SECOND = "eth0", "eth1"
_BOTH = f"{_FIRST},{_SECOND}"
_SIZE = 4 << 20
# Windows of 16 messages take half a second over one interface of 1 Gbit/s.
_BANDWIDTH = ["-m", f"{_SIZE}:{_SIZE}", "-W", "16", "-x", "1"]
# Short messages, so that a pause is seen; 1 MiB at a time keeps both interfaces busy.
_FLOW = ["--bytes", str(64 << 10), "--window", "16"]
_STEP = 0.05
# Times of an outage after the beginning, s.
_DOWN = 1.5
_UP = 3.5
_END = 7.0
# The rate after a change counts from so long after it, s.
_SETTLED = 0.3
# The rate is back when its mean over this time is 90 % of that before the outage, s.
_BACK_SPAN = 0.1
_BACK_SHARE = 0.9
# For a run of bw, s.
_TIMEOUT = 120.0 * launch.PATIENCE


@dataclass(frozen=True)
class Place:
    """Where an interface goes down."""

    name: str
    host: str
    interface: str


PLACES = (
    Place("sender", "h0", _SECOND),
    Place("receiver", "h1", _SECOND),
    # The switch's end of h1's second cable.
    Place("switch", "front", "p1.1"),
)
# The subject and tcp.
TRANSPORTS = hosts.TRANSPORTS[:2]


@dataclass(frozen=True)
class Bandwidth:
    transport: str
    interfaces: str
    repetition: int
    rate: float
    # Shares of the interfaces in the bytes that the sender sent.
    shares: tuple[float, float]


@dataclass(frozen=True)
class Outage:
    """A stream while an interface goes down at one place and comes up again."""

    transport: str
    place: Place
    repetition: int
    arrivals: streams.Arrivals
    # Times after the beginning, s.
    down: float
    up: float

    def mean(self, begin: float, end: float) -> float:
        """MB/s between two times."""
        return statistics.fmean(self.arrivals.total[int(begin / _STEP) : int(end / _STEP)])

    @property
    def before(self) -> float:
        return self.mean(_STEP, self.down - _STEP)

    @property
    def during(self) -> float:
        return self.mean(self.down + _SETTLED, self.up - _STEP)

    @property
    def after(self) -> float:
        return self.mean(_END - 1, _END)

    @property
    def back(self) -> float:
        """The time from the end of the outage until the rate is back, s; or infinite."""
        steps = round(_BACK_SPAN / _STEP)
        for index in range(int(self.up / _STEP), len(self.arrivals.total) - steps):
            part = self.arrivals.total[index : index + steps]
            if statistics.fmean(part) >= _BACK_SHARE * self.before:
                return max(0.0, index * _STEP - self.up)
        return float("inf")


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("interfaces", _ABOUT.format(down=_UP - _DOWN), _EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    cli.add_quick(what, f"1 repetition, {SUBJECT} alone, an outage at the receiver")
    names = [transport.name for transport in TRANSPORTS]
    cli.add_list(what, "--transports", names, " (default: all)")
    places = [place.name for place in PLACES]
    cli.add_list(what, "--outages", places, ": where an interface goes down (default: all)")
    cli.add_links(what, "10ms")
    cli.add_mtu(what)
    cli.add_repetitions(what, "3; 1 with --quick")
    cli.add_results(parse.add_argument_group("programs and results"))
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parser().parse_args(arguments)
    return cli.guarded("interfaces", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    quick = options.depth == "quick"
    chosen = cli.named(
        "--transports", options.transports, TRANSPORTS, TRANSPORTS[: 1 if quick else None]
    )
    places = cli.named(
        "--outages", options.outages, PLACES, PLACES[1:2] if quick else PLACES
    )
    setup = Setup(options.build)
    if KNOWN[0] in chosen:
        setup.require_subject()
    if not setup.own or not {"flow", "bw"} <= set(setup.own.paths):
        raise cli.Unusable("there are no programs flow and bw: run ./quickstart build")
    with hosts.Hosts(options.mtu, cables=2).made() as made:
        # Every packet crosses alone, as on a cable.
        made.prepare({"wire": "on", "rate": options.rate, "queue": options.queue})
        return _measure(made, Measurement(setup, options), chosen, places, options)


class _Runs:
    """Runs the programs over some of the interfaces."""

    def __init__(self, made: hosts.Hosts, measurement: Measurement, quick: bool) -> None:
        self._iterations = "2" if quick else "6"
        self._made = made
        self._measurement = measurement
        self._setup = measurement.setup

    def bandwidth(self, interfaces: str, transport: Transport, repetition: int) -> Bandwidth:
        """Raises ValueError if the run fails."""
        arguments = [*_BANDWIDTH, "-i", self._iterations]
        command = self._command(transport, interfaces, "bw", arguments)
        self._measurement.note(command)
        before = self._sent()
        output = launch.output_of(launch.run(command, self._setup.env, _TIMEOUT))
        sent = [after - start for after, start in zip(self._sent(), before)]
        shares = tuple(part / (sum(sent) or 1) for part in sent)
        rates = [
            float(line.split()[1])
            for line in output.splitlines()
            if line.split()[:1] == [str(_SIZE)]
        ]
        if len(rates) != 1:
            raise ValueError("bw printed no bandwidth")
        return Bandwidth(transport.name, interfaces, repetition, rates[0], shares)

    def outage(self, place: Place, transport: Transport, repetition: int) -> Outage:
        """Raises ValueError if the run fails."""
        begin = time.monotonic() + streams.WARM_UP
        span = [f"{begin:.6f}", f"{begin + _END:.6f}", str(_STEP)]
        command = self._command(transport, _BOTH, "flow", [*_FLOW, *span])
        self._measurement.note(command, span)
        times = {}

        def change() -> None:
            try:
                for state, at in (("down", _DOWN), ("up", _UP)):
                    time.sleep(max(0.0, begin + at - time.monotonic()))
                    self._set(place, state)
                    times[state] = time.monotonic() - begin
            except BaseException:
                self._set(place, "up")
                raise

        output = streams.run_together([command], self._setup.env, _END, change)[0]
        arrivals = streams.parse(output, _END, _STEP)
        return Outage(transport.name, place, repetition, arrivals, times["down"], times["up"])

    def _set(self, place: Place, state: str) -> None:
        self._made.execute(place.host, "ip", "link", "set", place.interface, state)

    def _sent(self) -> list[int]:
        """The bytes that the sender's kernel has sent, by interface."""
        files = [f"/sys/class/net/{name}/statistics/tx_bytes" for name in (_FIRST, _SECOND)]
        return [int(line) for line in self._made.execute("h0", "cat", *files).split()]

    def _command(
        self, transport: Transport, interfaces: str, program: str, arguments: list[str]
    ) -> list[str]:
        placement = self._made.placement
        command = [*placement.launcher, "-n", str(placement.ranks), *transport.mca(False)]
        name = transport.component[1]
        command += ["--mca", f"btl_{name}_if_include", interfaces]
        return [*command, str(self._setup.own.paths[program]), *arguments]


def _measure(
    made: hosts.Hosts,
    measurement: Measurement,
    chosen: Sequence[Transport],
    places: Sequence[Place],
    options: argparse.Namespace,
) -> int:
    runs = _Runs(made, measurement, options.depth == "quick")
    widths: list[Bandwidth] = []
    outages: list[Outage] = []
    steps = [
        (f"bandwidth over {interfaces}", widths, runs.bandwidth, interfaces)
        for interfaces in (_FIRST, _BOTH)
    ] + [
        (f"{place.interface} of {place.host} goes down", outages, runs.outage, place)
        for place in places
    ]
    with measurement.interruptible():
        for repetition in range(measurement.repetitions):
            for (text, *step), transport in itertools.product(steps, chosen):
                text = f"{transport.name}, {text}"
                decides = transport.name == SUBJECT
                measurement.attempt(repetition, text, *step, transport, decides=decides)
    _write(widths, outages, measurement.folder)
    _draw(outages, measurement.folder, options.rate)
    return measurement.finish(render(widths, outages), cli.link_facts(options))


def render(widths: Sequence[Bandwidth], outages: Sequence[Outage]) -> str:
    """The tables of bandwidth and of outages."""
    lines = [("transport", "one, MB/s", "both, MB/s", "both/one", f"of {_SECOND}")]
    for name in dict.fromkeys(one.transport for one in widths):
        rates = {
            interfaces: [
                one.rate
                for one in widths
                if (one.transport, one.interfaces) == (name, interfaces)
            ]
            for interfaces in (_FIRST, _BOTH)
        }
        shares = [
            one.shares[1]
            for one in widths
            if (one.transport, one.interfaces) == (name, _BOTH)
        ]
        ratio = "-"
        if all(rates.values()):
            medians = {key: statistics.median(values) for key, values in rates.items()}
            ratio = f"{medians[_BOTH] / medians[_FIRST]:.2f}"
        shown = [table.spread(values, 1) for values in rates.values()]
        lines.append((name, *shown, ratio, table.spread(shares, 2)))
    blocks = [
        "Bandwidth of 4 MiB messages over one interface and over both; medians, in "
        "brackets minimum and maximum",
        *table.columns(lines),
        "",
        "A stream over both interfaces, of which one goes down: MB/s before, during and "
        "after it; the longest time",
        "without a message; the time from the end of the outage until the rate is back",
    ]
    lines = [("down at", "transport", "before", "during", "after", "pause, ms", "back, s")]
    for place, name in dict.fromkeys((one.place, one.transport) for one in outages):
        same = [one for one in outages if (one.place, one.transport) == (place, name)]
        lines.append(
            (
                place.name,
                name,
                *(
                    table.spread([getattr(one, when) for one in same], 1)
                    for when in ("before", "during", "after")
                ),
                table.spread([one.arrivals.pause * 1e3 for one in same], 1),
                table.spread([one.back for one in same], 2),
            )
        )
    return "\n".join([*blocks, *table.columns(lines)])


def _write(
    widths: Sequence[Bandwidth], outages: Sequence[Outage], folder: Path
) -> None:
    with open(folder / "bandwidth.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["transport", "interfaces", "repetition", "MB/s", "share of eth1"])
        for one in widths:
            out.writerow(
                [one.transport, one.interfaces, one.repetition + 1]
                + [f"{one.rate:.3f}", f"{one.shares[1]:.4f}"]
            )
    with open(folder / "outages.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["place", "transport", "repetition", "down", "up", "pause", "until", "MB/s"]
        )
        for one in outages:
            times = [f"{value:.3f}" for value in (one.down, one.up, one.arrivals.pause)]
            for step, rate in enumerate(one.arrivals.total):
                out.writerow(
                    [one.place.name, one.transport, one.repetition + 1, *times]
                    + [f"{(step + 1) * _STEP:.2f}", f"{rate:.3f}"]
                )


def _draw(outages: Sequence[Outage], folder: Path, rate: str) -> None:
    for place in dict.fromkeys(one.place for one in outages):
        first = [one for one in outages if one.place == place and not one.repetition]
        if not first:
            continue
        rates = {one.transport: one.arrivals.total for one in first}
        reason = plot.draw_time(
            folder / f"outage-{place.name}.svg",
            f"two interfaces of {rate}, of which one goes down at the {place.name}",
            _STEP,
            rates,
            {first[0].down: "down", first[0].up: "up"},
        )
        if reason:
            print(reason, file=sys.stderr)
            return

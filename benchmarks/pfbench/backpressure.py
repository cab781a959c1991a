# SPDX-License-Identifier: BSD-3-Clause
"""
benchmarks/incast --pager: a stream beside a receiver whose pages come slowly,
behind the same port.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence

from . import cli, hosts, plot, streams, table
from .comparison import Measurement, Setup
from .transports import KNOWN, SUBJECT

_STEP = 0.25
# Of the file that the pager reads.
_PAGES_BYTES = 16 << 20
# Pages of the file from which the pager makes one: at 0.1 ms for each read, 1.3 MB/s for one resolver.
FRAGMENTS = 32
# The goal: the part of its rate alone that the stream keeps.
_KEPT = 0.95
# They leave the processor to the stream while they wait for pages.
_ENVIRONMENT = ("env", "LIBPF_WAKE=1")
# What a destination does with a block whose page is absent; "" is no slow receiver. With
# LOCAL the slow receiver's source is on its own host: it takes the same processor time,
# and nothing of the link.
_LOCAL = "local"
_FAULTS = ("", _LOCAL, "nack", "backup")


@dataclass(frozen=True)
class Run:
    """The stream, and the slow receiver beside it if there is one."""

    fault: str
    repetition: int
    stream: streams.Arrivals
    slow: Optional[streams.Arrivals]

    @property
    def rate(self) -> float:
        return statistics.fmean(self.stream.total)

    @property
    def slow_rate(self) -> float:
        return statistics.fmean(self.slow.total) if self.slow else 0.0


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    setup = Setup(options.build)
    setup.require_subject()
    programs = setup.find(
        "benchmarks/mpi/flow", "benchmarks/pf/paged_flow", "libpf/tools/pf_perf"
    )
    seconds = options.seconds or (3 if options.depth == "quick" else 6)
    measurement = Measurement(setup, options)
    runs: list[Run] = []
    with hosts.Hosts(options.mtu, 3, core=False).made() as made:
        made.prepare({"wire": "on", "rate": options.rate, "queue": options.queue})
        # Not in /tmp, which can be a tmpfs and then has nothing to read slowly.
        with tempfile.TemporaryDirectory(dir=measurement.folder.resolve()) as work:
            (Path(work) / "pages").write_bytes(os.urandom(_PAGES_BYTES))
            one = _Runs(made, measurement, programs, Path(work), seconds)
            with measurement.interruptible():
                for repetition in range(measurement.repetitions):
                    for fault in _FAULTS:
                        text = f"beside a slow receiver, {fault}" if fault else "alone"
                        measurement.attempt(repetition, text, runs, one.run, fault)
    _write(runs, measurement.folder)
    _draw(runs, measurement.folder, options.rate)
    return measurement.finish(render(runs), cli.link_facts(options))


class _Runs:
    """A stream from h0 to h1; beside it gets of h1 from h2."""

    def __init__(
        self,
        made: hosts.Hosts,
        measurement: Measurement,
        programs: dict[str, Path],
        work: Path,
        seconds: int,
    ) -> None:
        self._made = made
        self._measurement = measurement
        self._programs = programs
        self._work = work
        self._seconds = seconds

    def run(self, fault: str, repetition: int) -> Run:
        """Raises ValueError if a program fails."""
        begin = time.monotonic() + streams.WARM_UP
        span = [f"{begin:.6f}", f"{begin + self._seconds:.6f}", str(_STEP)]
        together = [self._stream(span)]
        if fault:
            address = self._work / f"address-{fault}-{repetition}"
            host = "h1" if fault == _LOCAL else "h2"
            together += [self._source(host, address), self._receiver(fault, address, span)]
        for command in together:
            self._measurement.note(command, span)
        outputs = streams.run_together(together, self._measurement.setup.env, self._seconds)
        parsed = [
            streams.parse(output, self._seconds, _STEP) for output in outputs if output
        ]
        return Run(fault, repetition, parsed[0], parsed[1] if fault else None)

    def _stream(self, span: list[str]) -> list[str]:
        command = [*self._made.placement.launcher, "-n", "2", "--host", "h0,h1"]
        # There are more polling processes than processors.
        command += ["--mca", "mpi_yield_when_idle", "1", *KNOWN[0].mca(False)]
        return [*command, str(self._programs["flow"]), *span]

    def _source(self, host: str, address: Path) -> list[str]:
        command = [str(self._programs["pf_perf"]), "--cores", "none"]
        command += ["--listen", str(address)]
        return self._made.inside(host, [*_ENVIRONMENT, *command])

    def _receiver(self, fault: str, address: Path, span: list[str]) -> list[str]:
        command = [str(self._programs["paged_flow"]), str(address)]
        command += [str(self._work / "pages"), str(FRAGMENTS), *span]
        option = [] if fault == _LOCAL else [f"LIBPF_NET_FAULT={fault}"]
        return self._made.inside("h1", [*_ENVIRONMENT, *option, *command])


def render(runs: Sequence[Run]) -> str:
    """A table of the medians, with the range if there are several repetitions."""
    lines = [("slow receiver", "stream, MB/s", "of alone", "slow, MB/s", "sent/received")]
    alone = [one.rate for one in runs if not one.fault]
    for fault in dict.fromkeys(one.fault for one in runs):
        same = [one for one in runs if one.fault == fault]
        rates = [one.rate for one in same]
        kept = statistics.median(rates) / statistics.median(alone) if alone else 0.0
        line = [fault or "none", table.spread(rates, 1), f"{kept:.3f}" if alone else "-"]
        if fault:
            # All that arrived, also before the time that counts.
            waste = [
                one.slow.counters["net_bytes"] / (one.slow.counters["bytes"] or 1)
                for one in same
            ]
            line += [
                table.spread([one.slow_rate for one in same], 2),
                table.spread(waste, 2),
            ]
        lines.append((*line, *[""] * (len(lines[0]) - len(line))))
    title = (
        "A stream to a host, alone and beside gets of the same host into pages of a slow "
        "pager; medians, in brackets\nminimum and maximum; bytes that the slow receiver's "
        f"source sent for each that it got. Goal: {_KEPT:.0%} of alone"
    )
    return "\n".join([title, *table.columns(lines)])


def _write(runs: Sequence[Run], folder: Path) -> None:
    with open(folder / "backpressure.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["slow receiver", "repetition", "until", "stream, MB/s", "slow, MB/s"])
        for one in runs:
            slow = one.slow.total if one.slow else [0.0] * len(one.stream.total)
            for step, rates in enumerate(zip(one.stream.total, slow)):
                out.writerow(
                    [one.fault or "none", one.repetition + 1]
                    + [f"{(step + 1) * _STEP:.2f}", *(f"{rate:.3f}" for rate in rates)]
                )


def _draw(runs: Sequence[Run], folder: Path, rate: str) -> None:
    first = {one.fault or "none": one.stream.total for one in runs if not one.repetition}
    slow = {
        f"slow receiver, {one.fault}": one.slow.total
        for one in runs
        if not one.repetition and one.slow
    }
    if not first:
        return
    curves = {f"stream, slow receiver: {name}": rates for name, rates in first.items()}
    reason = plot.draw_time(
        folder / "backpressure.svg",
        f"a stream of {SUBJECT} beside a receiver with a slow pager, {rate}",
        _STEP,
        {**curves, **slow},
    )
    if reason:
        print(reason, file=sys.stderr)

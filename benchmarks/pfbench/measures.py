# SPDX-License-Identifier: BSD-3-Clause
"""The figures that are compared, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One figure for every size. CSV files keep unit, the unit of the program."""

    name: str
    title: str
    unit: str
    lower_is_better: bool
    # Tables and plots show value * scale in this unit.
    shown_unit: str
    scale: float
    # Vertical axis of the plot: "log", "zero" (linear from zero) or "" (no plot).
    axis: str


def _time(name: str, title: str, axis: str = "log") -> Measure:
    return Measure(name, title, "us", True, "us", 1.0, axis)


def _bandwidth(name: str, title: str, axis: str = "zero") -> Measure:
    return Measure(name, title, "MB/s", False, "MB/s", 1.0, axis)


def _cpu(name: str, title: str) -> Measure:
    return Measure(name, title, "s/GB", True, "s/GB", 1.0, "log")


LATENCY = _time("latency", "Latency")
BANDWIDTH = _bandwidth("bandwidth", "Bandwidth")
CPU = _cpu("cpu", "CPU time of both ranks")
RATE = Measure("rate", "Message rate", "messages/s", False, "million/s", 1e-6, "")
BIBANDWIDTH = _bandwidth("bibandwidth", "Bidirectional bandwidth")
PUT_LATENCY = _time("put-latency", "MPI_Put latency")
GET_LATENCY = _time("get-latency", "MPI_Get latency")
PUT_BANDWIDTH = _bandwidth("put-bandwidth", "MPI_Put bandwidth")
GET_BANDWIDTH = _bandwidth("get-bandwidth", "MPI_Get bandwidth")
BARRIER = _time("barrier", "Barrier, mean over the ranks", "")
BCAST = _time("bcast", "Broadcast, mean over the ranks")
ALLREDUCE = _time("allreduce", "Allreduce, mean over the ranks")
ALLTOALL = _time("alltoall", "All-to-all, mean over the ranks")

# Buffers that are cold, as the programs' --cold names them: in file names, in titles.
COLD = {
    "none": ("warm", "warm"),
    "source": ("source-cold", "source cold"),
    "destination": ("destination-cold", "destination cold"),
    "both": ("both-cold", "both cold"),
}
COLD_LATENCY = {
    cold: _time(f"latency-{name}", f"Latency, {text}")
    for cold, (name, text) in COLD.items()
}
COLD_BANDWIDTH = {
    cold: _bandwidth(f"bandwidth-{name}", f"Bandwidth, {text}")
    for cold, (name, text) in COLD.items()
}
COLD_CPU = {
    cold: _cpu(f"cpu-{name}", f"CPU time of both ranks, {text}")
    for cold, (name, text) in COLD.items()
}

# What fault_cost prints. A touch is a store to every page by the processor.
MINOR_TOUCH = _time("minor-touch", "Touch of untouched pages", "")
MINOR_WARM = _time("minor-warm", "Get, pages present", "")
MINOR_COLD = _time("minor-cold", "Get into untouched pages", "")
LOOK_ALWAYS = _time("warm-look", "Warm get, pages looked for before every copy", "")
LOOK_DEFAULT = _time("warm-default", "Warm get, default residency", "")
LOOK_RARELY = _time("warm-trust", "Warm get, highest residency", "")
PAGER_THREAD = _time("pager-thread", "Touch, userfaultfd thread", "")
PAGER_SPINNING = _time("pager-spinning", "Touch, userfaultfd thread that spins", "")
PAGER_FORWARDED = _time("pager-forwarded", "Get, fault forwarded", "")
PAGER_DETECT = _time("pager-detect", "Detect and notify", "")
PAGER_INSTALL = _time("pager-install", "UFFDIO_COPY", "")
PAGER_RESOLVE = _time("pager-resolve", "Supply", "")
PAGER_RETRANSMIT = _time("pager-retransmit", "Install and retransmit", "")
STREAMS_ALONE = _bandwidth("streams-alone", "Eight warm streams", "")
STREAMS_PAGER = _bandwidth("streams-pager", "... beside a slow pager", "")
STREAMS_SWAP = _bandwidth("streams-swap", "... beside swap", "")

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


def _bandwidth(name: str, title: str) -> Measure:
    return Measure(name, title, "MB/s", False, "MB/s", 1.0, "zero")


LATENCY = _time("latency", "Latency")
BANDWIDTH = _bandwidth("bandwidth", "Bandwidth")
CPU = Measure("cpu", "CPU time of both ranks", "s/GB", True, "s/GB", 1.0, "log")
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

# SPDX-License-Identifier: BSD-3-Clause
"""The quantities that are measured, and their presentation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A quantity with a value for every size. CSV files have the program's unit."""

    name: str
    title: str
    unit: str
    lower_is_better: bool
    # Unit of tables and plots, and the factor for values in it.
    shown_unit: str
    scale: float
    # Vertical axis of the plot: "log", "zero" (linear, from zero) or "" (no plot).
    axis: str
    # A count: 0 is a result.
    counts: bool = False


def _time(name: str, title: str, axis: str = "log") -> Measure:
    return Measure(name, title, "us", True, "us", 1.0, axis)


def _bandwidth(name: str, title: str, axis: str = "zero") -> Measure:
    return Measure(name, title, "MB/s", False, "MB/s", 1.0, axis)


def _cpu(name: str, title: str) -> Measure:
    return Measure(name, title, "s/GB", True, "s/GB", 1.0, "log")


LATENCY = _time("latency", "Latency")
WORK_LATENCY = _time("work-latency", "Latency between ranks that work")
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
REDUCE_SCATTER = _time("reduce_scatter", "Reduce-scatter, mean over the ranks")
ALLGATHER = _time("allgather", "Allgather, mean over the ranks")
ALLTOALL = _time("alltoall", "All-to-all, mean over the ranks")

# By the value of the programs' --cold: the words in file names and in titles.
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

# Of programs with --first, by program and number of calls.
FIRST_COUNTS = (1, 10, 100, 1000)
FIRST = {
    program: {
        count: _time(f"first-{program}-{count}", f"{title}, mean of the first {count}", "")
        for count in FIRST_COUNTS
    }
    for program, title in (
        ("latency", "Latency"),
        ("barrier", "Barrier"),
        ("bcast", "Broadcast"),
        ("allreduce", "Allreduce"),
    )
}
FIRST_FAULTS = {
    program: Measure(
        f"first-{program}-faults",
        f"Page faults of all ranks in these {FIRST_COUNTS[-1]}",
        "faults",
        True,
        "faults",
        1.0,
        "",
    )
    for program in FIRST
}

# Between hosts, by the percentage of lost packets.
LOSS_BANDWIDTH = {
    percent: _bandwidth(f"bandwidth-loss-{percent}", f"Bandwidth, {percent} % packet loss")
    for percent in ("0", "0.1", "1", "10")
}
COLD_LOSS_BANDWIDTH = _bandwidth(
    "bandwidth-cold-loss-1", "Bandwidth, destination cold, 1 % packet loss"
)
# The destination is a file none of whose pages is in memory.
FILE_BANDWIDTH = _bandwidth("bandwidth-file", "Bandwidth, destination a file")
FILE_WAITS, FILE_NACKS = (
    Measure(name, f"{title}, for each message", "blocks", True, "blocks", 1.0, "", counts=True)
    for name, title in (
        ("waits-file", "Blocks that waited for a page"),
        ("nacks-file", "Blocks that were asked for again (NACK)"),
    )
)

# Columns of fault_cost.
MINOR_TOUCH = _time("minor-touch", "Processor's access to untouched pages", "")
MINOR_WARM = _time("minor-warm", "Warm get", "")
MINOR_COLD = _time("minor-cold", "Get into untouched pages", "")
CHECK_ALWAYS = _time("check-always", "Warm get, residency check before every copy", "")
CHECK_DEFAULT = _time("check-default", "Warm get, default residency", "")
CHECK_RARELY = _time("check-rarely", "Warm get, longest residency", "")
PAGER_THREAD = _time("pager-thread", "Access, userfaultfd thread", "")
PAGER_SPINNING = _time("pager-spinning", "Access, userfaultfd thread that spins", "")
PAGER_FORWARDED = _time("pager-forwarded", "Get, page fault forwarded to the pager", "")
PAGER_NOTIFY = _time("pager-notify", "... until the call of the pager", "")
PAGER_SUPPLY = _time("pager-supply", "... in the pager", "")
PAGER_RETRANSMIT = _time("pager-retransmit", "... until the completion", "")
PAGER_COPY = _time("pager-copy", "UFFDIO_COPY by the userfaultfd thread", "")
PAGER_ALONE = _bandwidth("pager-alone", "Eight warm streams, alone (pager)", "")
PAGER_BESIDE = _bandwidth("pager-beside", "Eight warm streams, during a slow get", "")
PAGER_TOOK = _time("pager-took", "Get into the memory of a slow pager", "")
SWAP_ALONE = _bandwidth("swap-alone", "Eight warm streams, alone (swap)", "")
SWAP_BESIDE = _bandwidth("swap-beside", "Eight warm streams, during a put from swap", "")
SWAP_TOOK = _time("swap-took", "Put of memory that is swapped out", "")

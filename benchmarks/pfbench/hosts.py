# SPDX-License-Identifier: BSD-3-Clause
"""Between two hosts that tests/hosts makes on this machine: what is measured, and where."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Mapping, Sequence

from . import measures
from .launch import Placement
from .measures import Measure
from .suite import (
    COLD_BANDWIDTH_SPANS,
    COLD_LATENCY_SPANS,
    KIB,
    MIB,
    RATE_SPANS,
    Span,
    Test,
    cold_test,
)
from .transports import SUBJECT, Transport, with_parameter

_SCRIPT = Path(__file__).resolve().parents[2] / "tests" / "hosts"
_OB1 = ("--mca", "pml", "ob1", "--mca", "btl")
TRANSPORTS = (
    Transport(SUBJECT, (*_OB1, f"{SUBJECT},self"), ("btl", SUBJECT)),
    Transport("tcp", (*_OB1, "tcp,self"), ("btl", "tcp"), optional=True),
    Transport(
        "ucx",
        ("--mca", "pml", "ucx")
        + ("--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any")
        + ("-x", "UCX_TLS=tcp,self"),
        ("pml", "ucx"),
        one_sided=("--mca", "osc", "ucx"),
        optional=True,
    ),
    Transport(
        "libfabric",
        ("--mca", "pml", "cm", "--mca", "mtl", "ofi")
        + ("--mca", "mtl_ofi_provider_include", "tcp"),
        ("mtl", "ofi"),
        optional=True,
    ),
)
# What a destination does with a block whose page is absent: the default, each way.
WAYS = (
    TRANSPORTS[0],
    with_parameter(TRANSPORTS[0], "nack", "net_fault", 0),
    with_parameter(TRANSPORTS[0], "backup", "net_fault", 1),
    *TRANSPORTS[1:],
)

# Settings of the network that a test begins with.
_CLEAN = {"loss": "0", "wire": "off"}
_WIRE = {"loss": "0", "wire": "on"}

_LATENCY = {
    "quick": (Span(1, 8 * KIB, 500, 50), Span(16 * KIB, 4 * MIB, 20, 4)),
    "default": (Span(1, 8 * KIB, 5000, 200), Span(16 * KIB, 4 * MIB, 100, 10)),
}
_BANDWIDTH = {
    "quick": (Span(1, 8 * KIB, 50, 5), Span(16 * KIB, 4 * MIB, 2, 1)),
    "default": (Span(1, 8 * KIB, 200, 20), Span(16 * KIB, 4 * MIB, 5, 1)),
}
# TCP moves next to nothing when a tenth is lost.
_LOSS = {"default": (Span(256 * KIB, 1 * MIB, 4, 1, window=4),)}


def _wire(percent: str, measure: Measure) -> Test:
    settings = {**_WIRE, "loss": percent}
    name = f"loss-{percent}"
    return Test(name, "bw", {measure: 1}, _LOSS, network=settings)


COLD_TESTS = (
    cold_test(
        "cold-latency",
        "latency",
        COLD_LATENCY_SPANS,
        measures.COLD_LATENCY,
        network=_CLEAN,
    ),
    cold_test(
        "cold-bandwidth",
        "bw",
        COLD_BANDWIDTH_SPANS,
        measures.COLD_BANDWIDTH,
        measures.COLD_CPU,
        arguments=("--cpu",),
        network=_CLEAN,
    ),
)
TESTS = (
    Test("latency", "latency", {measures.LATENCY: 1}, _LATENCY, network=_CLEAN),
    Test(
        "bandwidth",
        "bw",
        {measures.BANDWIDTH: 1},
        _BANDWIDTH,
        own_arguments=("--cpu",),
        own_columns={measures.CPU: 2},
        network=_CLEAN,
    ),
    Test("rate", "mbw_mr", {measures.RATE: 2}, RATE_SPANS, network=_CLEAN),
    *COLD_TESTS,
    *(_wire(percent, measure) for percent, measure in measures.LOSS_BANDWIDTH.items()),
)
# No message above this, unless --max says otherwise.
LARGEST = 4 * MIB


class Hosts:
    """Two hosts, there while the context manager is entered."""

    def __init__(self, mtu: int, script: Path = _SCRIPT) -> None:
        self._script = script
        self._mtu = mtu
        self._settings: dict[str, str] = {}
        # A set of our own, beside one that the user may have.
        self._name = f"compare-{os.getpid()}"

    @property
    def placement(self) -> Placement:
        return Placement(
            2,
            (),
            False,
            f"2 ranks on 2 hosts (namespaces of this machine, MTU {self._mtu}), "
            "each host with a core of its own",
            launcher=(*self._script_command, "run"),
        )

    @property
    def _script_command(self) -> tuple[str, ...]:
        return ("env", f"EXANEST_HOSTS={self._name}", str(self._script))

    @contextlib.contextmanager
    def made(self) -> Iterator[Hosts]:
        try:
            self._call("up", "2", "--core", "--mtu", str(self._mtu))
            yield self
        finally:
            self._call("down")

    def prepare(self, network: Mapping[str, str]) -> None:
        """Make the network as a test wants it."""
        changed = {k: v for k, v in network.items() if self._settings.get(k) != v}
        if changed:
            arguments = [part for k, v in changed.items() for part in (f"--{k}", v)]
            self._call("set", *arguments)
            self._settings.update(changed)

    def limit(self, host: str, rate: str, queue: str) -> None:
        """The rate of a host's link, and the length of the queue before it."""
        self._call("set", "--host", host, "--rate", rate, "--queue", queue)

    def inside(self, host: str, command: Sequence[str]) -> list[str]:
        """The command line that runs it inside a host."""
        return [*self._script_command, "exec", host, *command]

    def write(self, host: str, path: str, text: str) -> None:
        """Into a file of the host's /proc/sys."""
        self._call("exec", host, "sh", "-c", 'echo "$1" >"$2"', "sh", text, path)

    def _call(self, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._script), *arguments],
            env={**os.environ, "EXANEST_HOSTS": self._name},
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            text = done.stderr.strip() or f"exit code {done.returncode}"
            raise ValueError(f"tests/hosts {' '.join(arguments)}: {text}")
        if done.stderr:
            print(done.stderr.rstrip(), file=sys.stderr)

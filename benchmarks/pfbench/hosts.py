# SPDX-License-Identifier: BSD-3-Clause
"""The tests between two hosts that tests/hosts makes on this machine, and those hosts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import ContextManager, Iterator, Mapping, Optional, Sequence

from . import measures, suite, transports
from .launch import PATIENCE, Placement, cores
from .suite import KIB, MIB, Span, Test
from .transports import OB1, Transport, with_parameter

SCRIPT = Path(__file__).resolve().parents[2] / "tests" / "hosts"
_SUBJECT = transports.KNOWN[0]
_UCX = next(known for known in transports.KNOWN if known.name == "ucx")
TRANSPORTS = (
    _SUBJECT,
    Transport("tcp", (*OB1, "tcp,self"), ("btl", "tcp"), optional=True),
    replace(_UCX, arguments=(*_UCX.arguments, "-x", "UCX_TLS=tcp,self")),
    Transport(
        "libfabric",
        ("--mca", "pml", "cm", "--mca", "mtl", "ofi")
        + ("--mca", "mtl_ofi_provider_include", "tcp"),
        ("mtl", "ofi"),
        optional=True,
    ),
)


def _with_shared_memory(known: Transport) -> Transport:
    if known.name == "tcp":
        return replace(known, arguments=(*OB1, "tcp,vader,self"))
    if known.name == "ucx":
        return replace(known, arguments=(*known.arguments[:-1], "UCX_TLS=tcp,sm,self"))
    return known


# The same where several ranks are on a host.
WITH_SHARED_MEMORY = tuple(map(_with_shared_memory, TRANSPORTS))
# What UDP sockets reach without a transport above them.
LIMIT = Transport(
    "limit",
    (*OB1, "tcp,self"),
    ("btl", "tcp"),
    optional=True,
    bound="bare UDP sockets without MPI; not a peer",
    program_arguments=("--udp",),
    # A longer message would need flow control, as the stream of bandwidth has:
    # net.core.rmem_max can be 208 KiB, and the kernel gives twice that to packets
    # and their headers.
    tests={"latency": 256 * KIB, "bandwidth": sys.maxsize},
)
_FILE_TEST = "file-bandwidth"
_MODES = ("prefault", "pin", "pin-cache")
_MODE_TESTS = dict.fromkeys(("cold-latency", "cold-bandwidth"), sys.maxsize)
# The other modes, for buffers in memory only; and what the destination does with a block that waits for
# a page: request it again (the default), or keep it, which only differs where a block has to wait.
WAYS = (
    _SUBJECT,
    *(
        replace(with_parameter(_SUBJECT, mode, "mode", mode), tests=_MODE_TESTS)
        for mode in _MODES
    ),
    replace(
        with_parameter(_SUBJECT, "backup", "net_fault", "backup"),
        tests={_FILE_TEST: sys.maxsize},
    ),
    *TRANSPORTS[1:],
)

# The largest message, unless --max is given.
LARGEST = 4 * MIB
# Settings of the network for a test.
_CLEAN = {"loss": "0", "wire": "off"}

_LATENCY = {
    "quick": (Span(1, 8 * KIB, 500, 50), Span(16 * KIB, 4 * MIB, 20, 4)),
    "default": (Span(1, 8 * KIB, 5000, 200), Span(16 * KIB, 4 * MIB, 100, 10)),
}
_BANDWIDTH = {
    "quick": (Span(1, 8 * KIB, 50, 5), Span(16 * KIB, 4 * MIB, 2, 1)),
    "default": (Span(1, 8 * KIB, 200, 20), Span(16 * KIB, 4 * MIB, 5, 1)),
}
# Few and short messages: with 10 % loss TCP is very slow.
_LOSS = {"default": (Span(256 * KIB, 1 * MIB, 4, 1, window=4),)}
# Shorter messages are copied into their place by the process itself: no block waits.
_FILE = {
    "quick": (Span(64 * KIB, 4 * MIB, 4, 1, window=4),),
    "default": (
        Span(64 * KIB, 512 * KIB, 10, 1, window=16),
        Span(1 * MIB, 4 * MIB, 5, 1, window=8),
    ),
}


def _from_suite(name: str, **changes) -> Test:
    test = next(test for test in suite.TESTS if test.name == name)
    return replace(test, network=_CLEAN, **changes)


COLD_TESTS = (
    *(replace(test, network=_CLEAN) for test in suite.COLD_TESTS),
    Test(
        "cold-loss-1",
        "bw",
        {measures.COLD_LOSS_BANDWIDTH: 1},
        _LOSS,
        arguments=("--cold", "destination", "--validate"),
        own_only=True,
        network={"loss": "1", "wire": "on"},
    ),
    Test(
        _FILE_TEST,
        "bw",
        {measures.FILE_BANDWIDTH: 1, measures.FILE_WAITS: 2, measures.FILE_NACKS: 3},
        _FILE,
        arguments=("--cold", "file", "--waits", "--validate"),
        own_only=True,
        network=_CLEAN,
    ),
)
TESTS = (
    # OSU's program has no --udp, and all figures of a test come from one program.
    _from_suite("latency", spans=_LATENCY, own_only=True),
    _from_suite("bandwidth", spans=_BANDWIDTH, own_only=True),
    _from_suite("rate"),
    _from_suite("work-latency"),
    *COLD_TESTS,
    *(
        Test(
            f"loss-{percent}",
            "bw",
            {measure: 1},
            _LOSS,
            network={"loss": percent, "wire": "on"},
        )
        for percent, measure in measures.LOSS_BANDWIDTH.items()
    ),
)


class Hosts:
    """Hosts, two by default, which exist inside the context of made()."""

    def __init__(
        self, mtu: int, count: int = 2, cables: int = 1, core: bool = True
    ) -> None:
        self._mtu = mtu
        self._count = count
        self._cables = cables
        # Bind the hosts to the processors in turn.
        self._core = core
        self._settings: dict[str, str] = {}
        # Other sets of hosts can exist at the same time.
        self._name = f"compare-{os.getpid()}"

    @property
    def placement(self) -> Placement:
        return self.placement_of(2, 2)

    def placement_of(self, ranks: int, count: Optional[int] = None) -> Placement:
        """Of ranks in blocks on so many hosts, by default all."""
        count = count or self._count
        available = cores()
        share = "a core of its own" if count <= available else f"one of {available} cores"
        return Placement(
            ranks,
            (),
            False,
            f"{ranks} ranks on {count} hosts (namespaces of this machine, MTU {self._mtu}), "
            f"each host with {share}",
            (*self._script_command, "run"),
            hosts=count,
            mtu=self._mtu,
        )

    @property
    def _script_command(self) -> tuple[str, ...]:
        return ("env", f"EXANEST_HOSTS={self._name}", str(SCRIPT))

    @contextlib.contextmanager
    def made(self) -> Iterator[Hosts]:
        try:
            core = ["--core"] if self._core else []
            cables = ["--cables", str(self._cables)] if self._cables > 1 else []
            self._call("up", str(self._count), *core, *cables, "--mtu", str(self._mtu))
            yield self
        finally:
            self._call("down")

    def prepare(self, network: Mapping[str, str]) -> None:
        """Change the network to the settings of a test."""
        changed = {k: v for k, v in network.items() if self._settings.get(k) != v}
        if changed:
            arguments = [part for k, v in changed.items() for part in (f"--{k}", v)]
            self._call("set", *arguments)
            self._settings.update(changed)

    def limit(self, host: str, rate: str, queue: str) -> None:
        """Limit the rate of a host's link and the length of the queue in front of it."""
        self._call("set", "--host", host, "--rate", rate, "--queue", queue)

    def inside(self, host: str, command: Sequence[str]) -> list[str]:
        """The command line that runs a command inside a host."""
        return [*self._script_command, "exec", host, *command]

    def execute(self, host: str, *command: str) -> str:
        """Run a command inside a host; returns its output."""
        return self._call("exec", host, *command)

    def write(self, host: str, path: str, text: str) -> None:
        """Write to a file of a host's /proc/sys."""
        self._call("exec", host, "sh", "-c", 'echo "$1" >"$2"', "sh", text, path)

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(SCRIPT), *arguments],
            env={**os.environ, "EXANEST_HOSTS": self._name},
            capture_output=True,
            text=True,
            timeout=120 * PATIENCE,
        )
        if done.returncode:
            text = done.stderr.strip() or f"exit code {done.returncode}"
            raise ValueError(f"tests/hosts {' '.join(arguments)}: {text}")
        if done.stderr:
            print(done.stderr.rstrip(), file=sys.stderr)
        return done.stdout


def made_if(wanted: bool, mtu: int) -> ContextManager[Optional[Hosts]]:
    return Hosts(mtu).made() if wanted else contextlib.nullcontext()

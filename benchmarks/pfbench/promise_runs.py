# SPDX-License-Identifier: BSD-3-Clause
"""What benchmarks/promises runs for its rows."""

from __future__ import annotations

import contextlib
import csv
import os
import statistics
import tempfile
from dataclasses import dataclass, field, replace
from typing import Callable, Iterable, Iterator, Mapping, Optional, Sequence

from . import hosts, launch, streams, transports
from .comparison import Setup
from .transports import SUBJECT, Transport

# Of a run, s; as the tests, longer on a slow machine.
_TIMEOUT = 60.0 * launch.PATIENCE
# Bytes of each operation of pf_perf.
_PERF_BYTES = "8"
# Of the hosts that the runs between hosts share.
_HOSTS = 4
# How long the firewall of the row firewall-silence remembers a flow without packets, s. Linux: 30.
_REMEMBERED = 28


@dataclass(frozen=True)
class Run:
    """A program whose figures belong to rows. It runs with exanest and with its peer in turns."""

    name: str
    # Program of benchmarks/mpi or benchmarks/pf, and its arguments.
    program: tuple[str, ...]
    # Row of each figure that the program prints.
    rows: Mapping[str, str]
    ranks: int = 2
    repetitions: int = 1
    # The figure of several repetitions.
    summary: Callable[[Iterable[float]], float] = statistics.median
    # The first of them that Open MPI has, of `among`; between hosts, of hosts.TRANSPORTS.
    peers: tuple[str, ...] = ("vader", "sm")
    # The transports to choose from; the first is exanest.
    among: tuple[Transport, ...] = transports.KNOWN
    # Arguments of mpirun for exanest, and for the peer.
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    one_sided: bool = False
    # Number of hosts; 0: this one.
    hosts: int = 0
    network: Mapping[str, str] = field(default_factory=dict)
    # A firewall on the last host, which receives, lets only answers in.
    firewall: bool = False
    # The program is a test of pf_perf between two hosts, and peers is another one: both of libpf.
    perf: bool = False


def _parameter(name: str, value: str) -> tuple[str, ...]:
    return ("--mca", f"btl_{SUBJECT}_{name}", value)


def _ways(make: Callable[..., Run]) -> Iterator[Run]:
    """The three ways of one-sided data: over the network, through the ring, by single copy."""
    yield make("network", _parameter("network", "always"))
    yield make("ring", _parameter("single_copy", "0"))
    yield make("copy", ())


def _strided(way: str, ours: tuple[str, ...]) -> Run:
    return Run(
        f"strided-{way}",
        ("promise", "strided", "65536"),
        {"time": f"strided-{way}"},
        repetitions=3,
        ours=ours,
        one_sided=True,
    )


# The peer of each way moves data alike: over sockets, through shared memory, by system calls.
_PEERS_OF_PUTS = {"network": ("ucx",), "ring": ("ucx",), "copy": ("vader", "sm")}


def _puts(way: str, ours: tuple[str, ...]) -> Run:
    return Run(
        f"puts-{way}",
        ("promise", "puts", "200000"),
        {"time": f"puts-time-{way}", "memory": f"puts-memory-{way}"},
        repetitions=3,
        peers=_PEERS_OF_PUTS[way],
        ours=ours,
        theirs=("-x", "UCX_TLS=tcp,self") if way == "network" else (),
        one_sided=True,
    )


def _init(ranks: int, repetitions: int) -> Run:
    return Run(f"init-{ranks}", ("promise", "init"), {"init": f"init-{ranks}"}, ranks, repetitions)


def _farm(ranks: int) -> Run:
    return Run(
        f"farm-{ranks}",
        ("promise", "farm", "10000", "64"),
        {"task": f"farm-{ranks}"},
        ranks,
        repetitions=7,
    )


def _all_to_all(ranks: int) -> Run:
    return Run(
        f"all-to-all-{ranks}",
        ("promise", "round", str(4000 // ranks), "64"),
        {"mean": f"all-to-all-{ranks}"},
        ranks,
        repetitions=7,
    )


def _below_sm(
    name: str,
    program: tuple[str, ...],
    rows: Mapping[str, str],
    ranks: int = 2,
    repetitions: int = 3,
) -> Run:
    """Component smsc/exanest below btl/sm: Open MPI 5 and later."""
    return Run(
        f"smsc-{name}",
        program,
        rows,
        ranks,
        repetitions,
        peers=("cma",),
        among=transports.SMSC,
    )


def _older_kernel(mappings: int) -> Run:
    return Run(
        f"older-kernel-{mappings}",
        ("promise", "--older-kernel", "fresh", "100000", str(mappings), "2000"),
        {"time": f"older-kernel-{mappings}"},
        repetitions=3,
    )


RUNS = (
    Run("idle", ("promise", "idle", "3"), {"processors": "idle-ranks"}, ranks=65),
    Run("wake", ("promise", "wake", "10", "100"), {"mean": "wake-up"}, ranks=4),
    Run(
        "look",
        ("promise", "look", "1000"),
        {
            "iprobe": "longest-iprobe",
            "iprobe-work": "longest-iprobe-work",
            "test": "longest-test",
            "test-work": "longest-test-work",
        },
        ranks=4,
    ),
    Run(
        "late",
        ("promise", "late", "8", "100"),
        {"lock": "late-lock", "start": "late-start", "request": "late-request"},
        ranks=4,
    ),
    *map(_farm, (4, 8, 16)),
    Run(
        "updates",
        ("promise", "updates", "100000"),
        {"update": "updates-4"},
        ranks=4,
        repetitions=3,
    ),
    *map(_all_to_all, (4, 8, 16)),
    _init(2, 5),
    _init(16, 3),
    _init(128, 3),
    Run(
        "first",
        ("latency", "-m", "8:8", "--first"),
        {"8": "first-message"},
        repetitions=7,
    ),
    Run(
        "latency",
        ("latency", "-m", "4096:4096", "-i", "20000"),
        {"4096": "latency-4K"},
        repetitions=7,
        peers=("ucx",),
    ),
    Run(
        "peer",
        ("promise", "peer"),
        {
            "memory": "peer-memory",
            "descriptors": "peer-descriptors",
            "mappings": "peer-mappings",
        },
        ranks=16,
    ),
    Run(
        "peer-network",
        ("promise", "peer"),
        {"memory": "peer-memory-network"},
        ranks=16,
        peers=("tcp",),
        ours=_parameter("network", "always"),
    ),
    Run("rings", ("promise", "rings", "32", "4096"), {"memory": "rings-memory-64"}, ranks=64),
    Run(
        "receives",
        ("promise", "receives", "100"),
        {
            "memory": "receives-memory",
            "mappings": "receives-mappings",
            "huge": "receives-huge",
        },
    ),
    Run(
        "beside",
        ("promise", "beside", str(512 << 20), str(128 << 10), "5"),
        {"short": "short-beside-long"},
        ranks=3,
    ),
    Run(
        "exchange",
        ("promise", "exchange", "64", "1048576", "300"),
        {"first": "exchange-1M", "later": "exchange-1M-later"},
        repetitions=3,
    ),
    Run(
        "windows",
        ("bibw", "-m", "16384:65536", "-i", "50", "-x", "2"),
        {"16384": "windows-16K", "65536": "windows-64K"},
        repetitions=3,
    ),
    *_ways(_strided),
    Run(
        "scattered",
        ("promise", "scattered", "20000"),
        {"time": "scattered"},
        repetitions=3,
        one_sided=True,
    ),
    *_ways(_puts),
    Run(
        "unexpected",
        ("promise", "unexpected", "2000", "60000"),
        {"memory": "unexpected-memory"},
    ),
    Run("waiting", ("promise", "waiting", "200", "60000"), {"memory": "waiting-memory"}),
    Run(
        "no-single-copy",
        ("bw", "-m", "65536:1048576", "-i", "50", "-x", "2"),
        {"65536": "no-single-copy-64K", "1048576": "no-single-copy-1M"},
        repetitions=3,
        ours=_parameter("single_copy", "0"),
        theirs=("--mca", "btl_vader_single_copy_mechanism", "none")
        + ("--mca", "smsc", "^cma,knem,xpmem"),
    ),
    _older_kernel(0),
    _older_kernel(15000),
    Run(
        "cold",
        ("latency", "--cold", "destination", "-m", "65536:4194304", "-i", "50", "-x", "5"),
        {
            "65536": "cold-64K",
            "262144": "cold-256K",
            "1048576": "cold-1M",
            "2097152": "cold-2M",
            "4194304": "cold-4M",
        },
        repetitions=3,
    ),
    Run(
        "stranded",
        ("promise", "stranded", "64", "4096", "200"),
        {"late": "stranded-sends"},
        repetitions=3,
    ),
    Run(
        "stranded-network",
        ("promise", "stranded", "64", "4096", "200"),
        {"late": "stranded-sends-network"},
        repetitions=3,
        peers=("tcp",),
        hosts=2,
    ),
    Run(
        "loss",
        ("bw", "-m", "1048576:1048576", "-W", "4", "-i", "6", "-x", "1"),
        {"1048576": "loss-1"},
        repetitions=3,
        peers=("tcp",),
        hosts=2,
        network={"loss": "1", "wire": "on"},
    ),
    Run(
        "round",
        ("promise", "round", "30", "100000"),
        {"longest": "longest-round"},
        ranks=16,
        repetitions=2,
        summary=max,
        peers=("tcp",),
        hosts=4,
    ),
    Run(
        "firewall",
        ("promise", "wake", "1", str((_REMEMBERED + 3) * 1000)),
        {"worst": "firewall-silence"},
        peers=(),
        ours=_parameter("peer_timeout", "600"),
        hosts=2,
        firewall=True,
    ),
    Run(
        "signal",
        ("signal-latency",),
        {"signal-latency": "signal"},
        repetitions=5,
        peers=("put-send-latency",),
        hosts=2,
        perf=True,
    ),
    _below_sm(
        "latency",
        ("latency", "-m", "4096:4194304"),
        {
            "4096": "smsc-4K",
            "65536": "smsc-64K",
            "1048576": "smsc-1M",
            "4194304": "smsc-4M",
        },
    ),
    _below_sm("cold", ("latency", "--cold", "destination", "-m", "4194304:4194304", "-i", "50"),
              {"4194304": "smsc-cold-4M"}),
    _below_sm("exchange", ("promise", "exchange", "64", "1048576", "300"),
              {"first": "smsc-exchange-1M", "later": "smsc-exchange-1M-later"}),
    _below_sm("init", ("promise", "init"), {"init": "smsc-init-128", "memory": "smsc-memory-128"},
              ranks=128, repetitions=1),
    # They compare by themselves, and start the processes that they need.
    Run("vectors", ("vectors",), {"put": "vectors"}, ranks=1, repetitions=3, peers=()),
    # The owner of the pages polls on a processor of its own.
    Run(
        "cached",
        ("cached",),
        {"latency": "cached-fault"},
        ranks=1,
        repetitions=3,
        peers=(),
        ours=("--bind-to", "none"),
    ),
    Run(
        "clients",
        ("clients",),
        {"time": "clients-time", "memory": "clients-memory"},
        ranks=1,
        peers=(),
    ),
)

_CLEAN = {"loss": "0", "wire": "off"}
_FIREWALL = """table inet promises {
chain input {
type filter hook input priority 0
ct state established,related accept
meta l4proto udp drop
}
}"""


class Runner:
    """Runs programs; makes the hosts when the first run needs them."""

    def __init__(self, setup: Setup, note: Callable[[Sequence[str]], None]) -> None:
        self._setup = setup
        self._note = note
        self._stack = contextlib.ExitStack()
        self._made: Optional[hosts.Hosts] = None
        self._programs = setup.own.paths if setup.own else {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *error) -> None:
        self._stack.close()

    def subject(self, run: Run) -> Optional[Transport]:
        """None: this Open MPI does not have the framework. Raises ValueError if it lacks the component."""
        subject = run.among[0]
        framework, component = subject.component
        if framework not in {name for name, _ in self._setup.components}:
            return None
        if subject.component not in self._setup.components:
            raise ValueError(f"ompi_info shows no {framework} {component}")
        return subject

    def peer(self, run: Run) -> Optional[Transport]:
        if run.perf:
            return Transport(run.peers[0], (), ("", ""))
        known = self._setup.default(hosts.TRANSPORTS if run.hosts else run.among)
        return next((one for name in run.peers for one in known if one.name == name), None)

    def figures(self, run: Run, transport: Transport) -> dict[str, float]:
        """The figure of each row. Raises ValueError if the run fails."""
        if run.perf:
            test = run.program[0] if transport.name == SUBJECT else transport.name
            return {row: self._perf(test) for row in run.rows.values()}
        command = self._command(run, transport)
        self._note(command)
        with self._firewall(run):
            output = launch.output_of(launch.run(command, self._setup.env, _TIMEOUT))
        printed = parse(output, run.program[0])
        if not set(run.rows) <= set(printed):
            raise ValueError(f"{run.program[0]} did not print {', '.join(run.rows)}")
        return {row: printed[name] for name, row in run.rows.items()}

    def _perf(self, test: str) -> float:
        program = str(self._setup.find("libpf/tools/pf_perf")["pf_perf"])
        made = self._hosts()
        made.prepare(_CLEAN)
        with tempfile.TemporaryDirectory() as folder:
            address = os.path.join(folder, "address")
            listen = [program, "--cores", "none", "--listen", address]
            connect = [program, "--cores", "none", "--connect", address, "--csv"]
            connect += ["--test", test, "--sizes", f"{_PERF_BYTES}:{_PERF_BYTES}"]
            # Inside the hosts: what ends the command that enters one does not reach its processes.
            limit = ["timeout", "--kill-after=5", str(_TIMEOUT)]
            together = [
                made.inside("h1", [*limit, *connect]),
                made.inside("h0", [*limit, *listen]),
            ]
            for each in together:
                self._note(each)
            output = streams.run_together(together, self._setup.env, _TIMEOUT)[0]
        return parse_perf(output, test)

    def _command(self, run: Run, transport: Transport) -> list[str]:
        program, *arguments = run.program
        if program not in self._programs:
            raise ValueError(f"there is no program {program}: run ./quickstart build")
        placement = launch.place(run.ranks, launch.cores())
        if run.hosts:
            made = self._hosts()
            made.prepare({**_CLEAN, **run.network})
            placement = made.placement_of(run.ranks, run.hosts)
            names = ",".join(f"h{number}" for number in range(run.hosts))
            placement = replace(placement, arguments=("--host", names))
        return [
            *placement.launcher,
            "-n",
            str(run.ranks),
            *placement.arguments,
            *transport.mca(run.one_sided),
            *(run.ours if transport.name == SUBJECT else run.theirs),
            str(self._programs[program]),
            *arguments,
        ]

    def _hosts(self) -> hosts.Hosts:
        if not self._made:
            self._made = self._stack.enter_context(hosts.Hosts(9000, _HOSTS).made())
        return self._made

    @contextlib.contextmanager
    def _firewall(self, run: Run) -> Iterator[None]:
        if not run.firewall:
            yield
            return
        made, host = self._hosts(), f"h{run.hosts - 1}"
        made.execute(host, "nft", _FIREWALL)
        for name in ("nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"):
            made.write(host, f"/proc/sys/net/netfilter/{name}", str(_REMEMBERED))
        try:
            yield
        finally:
            made.execute(host, "nft", "delete", "table", "inet", "promises")


def parse_perf(output: str, test: str) -> float:
    """The median that pf_perf --csv printed, us."""
    for fields in csv.reader(output.splitlines()):
        if fields[:3] == [test, _PERF_BYTES, "us"]:
            return float(fields[3])
    raise ValueError(f"pf_perf did not print {test}")


def parse(output: str, program: str) -> dict[str, float]:
    """
    What a program printed: a value for each name, or for each size. Less is better: a bandwidth
    becomes the time of a message, us.
    """
    found: dict[str, float] = {}
    for line in output.splitlines():
        fields = line.split()
        if len(fields) < 2 or line.startswith("#"):
            continue
        try:
            value = float(fields[1])
        except ValueError:
            continue
        if program in ("bw", "bibw"):
            value = int(fields[0]) / value
        found.setdefault(fields[0], value)
    return found

# SPDX-License-Identifier: BSD-3-Clause
"""The transports of Open MPI that are compared."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Mapping

from .launch import PATIENCE

SUBJECT = "exanest"

OB1 = ("--mca", "pml", "ob1", "--mca", "btl")


@dataclass(frozen=True)
class Transport:
    name: str
    arguments: tuple[str, ...]
    # Framework and component that ompi_info must list.
    component: tuple[str, str]
    # For one-sided tests: over a BTL not osc/sm or osc/ucx, which bypass it.
    one_sided: tuple[str, ...] = ("--mca", "osc", "rdma,pt2pt")
    # Left out without an error if Open MPI does not have it.
    optional: bool = False
    # Not empty: no transport, but a bound for them. It is never the best peer.
    bound: str = ""
    # Arguments for the programs, which must be ours.
    program_arguments: tuple[str, ...] = ()
    # Its tests and the largest message of each; empty: all tests, any message.
    tests: Mapping[str, int] = field(default_factory=dict, hash=False)

    def largest(self, test: str) -> int:
        """The largest message of a test; -1 if it is none of its tests."""
        return self.tests.get(test, -1) if self.tests else sys.maxsize

    def mca(self, one_sided: bool) -> list[str]:
        return [*self.arguments, *(self.one_sided if one_sided else ())]


KNOWN = (
    Transport(SUBJECT, (*OB1, f"{SUBJECT},self"), ("btl", SUBJECT)),
    Transport("vader", (*OB1, "vader,self"), ("btl", "vader"), optional=True),
    # Open MPI 5 calls vader sm.
    Transport("sm", (*OB1, "sm,self"), ("btl", "sm"), optional=True),
    Transport(
        "ucx",
        ("--mca", "pml", "ucx")
        + ("--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"),
        ("pml", "ucx"),
        one_sided=("--mca", "osc", "ucx"),
        optional=True,
    ),
    Transport(
        "tcp",
        (*OB1, "tcp,self", "--mca", "btl_tcp_if_include", "lo"),
        ("btl", "tcp"),
        optional=True,
    ),
)

# Ways to copy below btl/sm of Open MPI 5 and later; the subject is smsc/exanest.
SMSC = tuple(
    Transport(
        name,
        (*OB1, "sm,self", "--mca", "smsc", name),
        ("smsc", name),
        optional=name != SUBJECT,
    )
    for name in (SUBJECT, "cma", "xpmem")
)


def with_parameter(
    subject: Transport, name: str, parameter: str, value: str
) -> Transport:
    """The subject with a value for one of its parameters, under another name."""
    arguments = ("--mca", f"btl_{SUBJECT}_{parameter}", value)
    return replace(subject, name=name, arguments=(*subject.arguments, *arguments))


# Ways to handle page faults: the default, the other policies, the other modes, peers.
WAYS = (
    KNOWN[0],
    with_parameter(KNOWN[0], "touch", "policy", "touch"),
    with_parameter(KNOWN[0], "ahead", "policy", "ahead"),
    with_parameter(KNOWN[0], "huge", "policy", "huge"),
    with_parameter(KNOWN[0], "prefault", "mode", "prefault"),
    with_parameter(KNOWN[0], "pin", "mode", "pin"),
    with_parameter(KNOWN[0], "pin-cache", "mode", "pin-cache"),
    *(transport for transport in KNOWN if transport.name in ("vader", "sm", "ucx")),
)


def ompi_info(env: Mapping[str, str], *options: str) -> str:
    """What ompi_info lists with these options, a line for each value."""
    return subprocess.run(
        ["ompi_info", "--parsable", *options],
        env=env,
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        check=True,
    ).stdout


def components(env: Mapping[str, str]) -> set[tuple[str, str]]:
    """The frameworks and components that ompi_info lists."""
    return parse_components(ompi_info(env))


def parse_components(listing: str) -> set[tuple[str, str]]:
    found = set()
    for line in listing.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[0] == "mca":
            found.add((fields[1], fields[2]))
    return found


def custom(text: str) -> Transport:
    """The transport that NAME=ARGUMENTS describes, with arguments of mpirun."""
    name, equals, arguments = text.partition("=")
    if not (name and equals and arguments.split()):
        raise ValueError(
            f"{text}: give NAME=ARGUMENTS, as in 'sm=--mca pml ob1 --mca btl sm,self'"
        )
    return Transport(name, tuple(arguments.split()), ("", ""))

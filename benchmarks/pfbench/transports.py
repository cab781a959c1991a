# SPDX-License-Identifier: BSD-3-Clause
"""The ways for Open MPI to move messages that are compared."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from typing import Sequence

SUBJECT = "exanest"

_OB1 = ("--mca", "pml", "ob1", "--mca", "btl")


@dataclass(frozen=True)
class Transport:
    name: str
    arguments: tuple[str, ...]
    # What ompi_info must list, as (framework, component).
    component: tuple[str, str]
    # Keeps one-sided tests on this transport: osc/sm and osc/ucx bypass a BTL.
    one_sided: tuple[str, ...] = ("--mca", "osc", "rdma,pt2pt")
    # Left out silently where Open MPI has it not.
    optional: bool = False

    def mca(self, one_sided: bool) -> list[str]:
        return [*self.arguments, *(self.one_sided if one_sided else ())]


KNOWN = (
    Transport(SUBJECT, (*_OB1, f"{SUBJECT},self"), ("btl", SUBJECT)),
    Transport("vader", (*_OB1, "vader,self"), ("btl", "vader"), optional=True),
    # Open MPI 5 calls vader sm.
    Transport("sm", (*_OB1, "sm,self"), ("btl", "sm"), optional=True),
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
        (*_OB1, "tcp,self", "--mca", "btl_tcp_if_include", "lo"),
        ("btl", "tcp"),
        optional=True,
    ),
)


def with_parameter(
    subject: Transport, name: str, parameter: str, value: int
) -> Transport:
    """Ours with one of its parameters set, under a name of its own."""
    arguments = ("--mca", f"btl_{SUBJECT}_{parameter}", str(value))
    return replace(subject, name=name, arguments=(*subject.arguments, *arguments))


# The ways to live with faults: the default, resolver policies, modes.
WAYS = (
    KNOWN[0],
    with_parameter(KNOWN[0], "touch", "policy", 0),
    with_parameter(KNOWN[0], "ahead", "policy", 1),
    with_parameter(KNOWN[0], "huge", "policy", 2),
    with_parameter(KNOWN[0], "prefault", "mode", 1),
    with_parameter(KNOWN[0], "pin", "mode", 2),
    with_parameter(KNOWN[0], "pin-cache", "mode", 3),
    *(transport for transport in KNOWN if transport.name in ("vader", "sm", "ucx")),
)


def components(env: dict[str, str]) -> set[tuple[str, str]]:
    """What this Open MPI has, as (framework, component)."""
    listing = subprocess.run(
        ["ompi_info", "--parsable"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    return parse_components(listing)


def parse_components(listing: str) -> set[tuple[str, str]]:
    found = set()
    for line in listing.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[0] == "mca":
            found.add((fields[1], fields[2]))
    return found


def default(
    present: set[tuple[str, str]], known: Sequence[Transport] = KNOWN
) -> list[Transport]:
    return [t for t in known if not t.optional or t.component in present]


def by_name(name: str, known: Sequence[Transport] = KNOWN) -> Transport:
    for transport in known:
        if transport.name == name:
            return transport
    names = ", ".join(t.name for t in known)
    raise ValueError(f"no transport {name}: there are {names}")


def custom(text: str) -> Transport:
    """NAME=ARGUMENTS: any transport, by what mpirun is to be told."""
    name, equals, arguments = text.partition("=")
    if not (name and equals and arguments.split()):
        raise ValueError(
            f"{text}: give NAME=ARGUMENTS, as in 'sm=--mca pml ob1 --mca btl sm,self'"
        )
    return Transport(name, tuple(arguments.split()), ("", ""))

# SPDX-License-Identifier: BSD-3-Clause
"""
The queue of a switch's port, for benchmarks/incast:
    port_queue.py INTERFACE BEGIN END
reads the counters of the interface's queueing discipline every millisecond from
BEGIN to END, which are times of CLOCK_MONOTONIC in s, as tc -s qdisc shows them.
Prints a line: bytes and packets sent and packets dropped in that time, and the
most bytes that were seen waiting.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

_INTERVAL = 0.001
# linux/netlink.h, linux/rtnetlink.h, linux/gen_stats.h
_HEADER = struct.Struct("=LHHLL")
_TCMSG = struct.Struct("=BxxxiLLL")
_ATTRIBUTE = struct.Struct("=HH")
_DUMP_REQUEST = 0x301
_DONE = 3
_NEW_QDISC = 36
_GET_QDISC = 38
_ROOT = 0xFFFFFFFF
_STATS2 = 7
_BASIC = struct.Struct("=QL")
_QUEUE = struct.Struct("=LLLLL")


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]
    return found


def parse(message: bytes, interface: int) -> tuple[int, int, int, int]:
    """Bytes, packets, drops and bytes waiting at the root, of one answer; or ()."""
    _, index, _, parent, _ = _TCMSG.unpack_from(message)
    if index != interface or parent != _ROOT:
        return ()
    stats = _attributes(_attributes(message[_TCMSG.size :])[_STATS2])
    sent, packets = _BASIC.unpack_from(stats[1])
    _, backlog, drops, _, _ = _QUEUE.unpack_from(stats[3])
    return sent, packets, drops, backlog


def read(link: socket.socket, interface: int) -> tuple[int, int, int, int]:
    request = _TCMSG.pack(0, interface, 0, 0, 0)
    length = _HEADER.size + len(request)
    link.send(_HEADER.pack(length, _GET_QDISC, _DUMP_REQUEST, 0, 0) + request)
    found: tuple = ()
    while True:
        data = link.recv(1 << 16)
        while len(data) >= _HEADER.size:
            length, kind, *_ = _HEADER.unpack_from(data)
            if kind == _NEW_QDISC:
                found = found or parse(data[_HEADER.size : length], interface)
            elif kind == _DONE and found:
                return found
            else:
                sys.exit("port_queue: the kernel shows no queue of the interface")
            data = data[(length + 3) & ~3 :]


def watch(name: str, begin: float, end: float) -> None:
    interface = socket.if_nametoindex(name)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.bind((0, 0))
        time.sleep(max(0.0, begin - time.monotonic()))
        start = last = read(link, interface)
        longest = 0
        while time.monotonic() < end:
            last = read(link, interface)
            longest = max(longest, last[3])
            time.sleep(_INTERVAL)
    print(*(now - before for now, before in zip(last[:3], start)), longest)


if __name__ == "__main__":
    watch(sys.argv[1], *map(float, sys.argv[2:4]))

# SPDX-License-Identifier: BSD-3-Clause
"""Sends or receives numbered packets for test_hosts.py; prints a JSON object of what was received.

The value of each setting is an argument NAME=VALUE: version of IP, count, size in bytes, net (the
second number of the addresses), burst (packets in one call); the receiver makes the file "ready"
and ends when there is the file "sent" and no packet comes.
"""

import array
import json
import os
import socket
import sys
import time

SO_RCVBUFFORCE = 33
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
UDP_SEGMENT = 103
ECN_MASK, ECT_0, CE = 3, 2, 3

role, *settings = sys.argv[1:]
given = dict(setting.split("=") for setting in settings)
version, count, size, net, burst = (
    int(given[name]) for name in ("version", "count", "size", "net", "burst"))
if version == 6:
    end = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    address = (f"fd{net}::2", 7777)
    level, tos, receive_tos = socket.IPPROTO_IPV6, socket.IPV6_TCLASS, socket.IPV6_RECVTCLASS
else:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    address = (f"10.{net}.0.2", 7777)
    level, tos, receive_tos = socket.IPPROTO_IP, socket.IP_TOS, socket.IP_RECVTOS


def content(number):
    return array.array("I", [number]) * (size // 4)


def receive():
    end.setsockopt(level, receive_tos, 1)
    try:
        end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    except PermissionError:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind(address)
    with open(given["ready"], "w"):
        pass
    end.settimeout(0.5)
    marks = late = wrong = highest = 0
    numbers = []
    times = []
    while True:
        try:
            data, ancillary, _, _ = end.recvmsg(65536, 64)
        except socket.timeout:
            if os.path.exists(given["sent"]):
                break
            continue
        times.append(time.monotonic())
        marks += any(value[0] & ECN_MASK == CE for _, _, value in ancillary)
        words = array.array("I", data)
        wrong += len(data) != size or words != content(words[0])
        late += words[0] < highest
        highest = max(highest, words[0])
        numbers.append(words[0])
    print(json.dumps({
        "received": len(numbers), "marks": marks, "repeated": len(numbers) - len(set(numbers)),
        "late": late, "wrong": wrong, "seconds": times[-1] - times[0] if times else 0}))


def send():
    end.setsockopt(level, tos, ECT_0)
    if version == 4:
        end.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    if burst > 1:
        end.setsockopt(socket.SOL_UDP, UDP_SEGMENT, size)
    for number in range(0, count, burst):
        try:
            end.sendto(b"".join(content(number + i) for i in range(burst)), address)
        except OSError as error:
            print(error)
        if number % 20 >= 20 - burst:
            time.sleep(0.001)


receive() if role == "receive" else send()

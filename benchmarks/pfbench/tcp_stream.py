# SPDX-License-Identifier: BSD-3-Clause
"""
A TCP stream of the kernel's, beside which benchmarks/fairness runs other jobs:
    tcp_stream.py sink PORT BEGIN END STEP
    tcp_stream.py source HOST PORT CONTROL
The sink prints what mpi/flow prints; CONTROL names a congestion control.
"""

import math
import socket
import sys
import time

_BYTES = 1 << 20
_PATIENCE = 60.0


def sink(port: int, begin: float, end: float, step: float) -> None:
    counts = [0] * math.ceil((end - begin) / step)
    buffer = bytearray(_BYTES)
    with socket.create_server(("", port)) as server:
        server.settimeout(max(0.1, end - time.monotonic()))
        connection, _ = server.accept()
    with connection:
        connection.settimeout(_PATIENCE)
        first = None
        while True:
            length = connection.recv_into(buffer)
            now = time.monotonic()
            first = first or now
            if now >= end:
                break
            if not length:
                sys.exit("tcp_stream: the source ended before END")
            if now >= begin:
                counts[int((now - begin) / step)] += length
    if first > begin:
        sys.exit(f"tcp_stream: the first bytes came {first - begin:.3f} s after BEGIN")
    for index, count in enumerate(counts):
        print(f"{(index + 1) * step:.3f} {count}")


def source(host: str, port: int, control: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode()
            )
        except OSError as error:
            sys.exit(
                f"tcp_stream: congestion control {control}: {error}: see "
                "/proc/sys/net/ipv4/tcp_available_congestion_control"
            )
        try:
            connection.connect((host, port))
            break
        except ConnectionRefusedError:
            # The sink is being started.
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    data = bytes(_BYTES)
    try:
        while True:
            connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        # The sink has what it wants.
        pass


if __name__ == "__main__":
    if sys.argv[1] == "sink":
        sink(int(sys.argv[2]), *map(float, sys.argv[3:6]))
    else:
        source(sys.argv[2], int(sys.argv[3]), sys.argv[4])

# SPDX-License-Identifier: BSD-3-Clause
"""
A TCP stream without MPI, for benchmarks/fairness:
    tcp_stream.py sink PORT BEGIN END STEP
    tcp_stream.py source HOST PORT CONTROL
The arguments of the sink and its output are those of mpi/flow. CONTROL is a
congestion control of the kernel.
"""

import math
import socket
import sys
import time

_BYTES = 1 << 20
_TIMEOUT = 60.0


def sink(port: int, begin: float, end: float, step: float) -> None:
    with socket.create_server(("", port)) as server:
        server.settimeout(max(0.1, end - time.monotonic()))
        connection, _ = server.accept()
    with connection:
        connection.settimeout(_TIMEOUT)
        counts = count(connection, begin, end, step)
    for index, received in enumerate(counts):
        print(f"{(index + 1) * step:.3f} {received}")


def count(connection, begin, end, step, clock=time.monotonic) -> list[int]:
    """The bytes received in each step from begin to end."""
    counts = [0] * math.ceil((end - begin) / step)
    buffer = bytearray(_BYTES)
    length = connection.recv_into(buffer)
    now = clock()
    if now > begin:
        sys.exit(f"tcp_stream: the first bytes arrived {now - begin:.3f} s after BEGIN")
    while now < end:
        if not length:
            sys.exit("tcp_stream: the source ended before END")
        if now >= begin:
            counts[min(int((now - begin) / step), len(counts) - 1)] += length
        length = connection.recv_into(buffer)
        now = clock()
    return counts


def source(host: str, port: int, control: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
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
            # The sink does not listen yet.
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    data = bytes(_BYTES)
    try:
        while True:
            connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        # The sink reached END.
        pass


if __name__ == "__main__":
    if sys.argv[1] == "sink":
        sink(int(sys.argv[2]), *map(float, sys.argv[3:6]))
    else:
        source(sys.argv[2], int(sys.argv[3]), sys.argv[4])

# SPDX-License-Identifier: BSD-3-Clause
"""The command incast: its arithmetic, and a run between hosts."""

import csv
import shutil
import struct

import pytest

from pfbench import incast, port_queue, streams
from pfbench.incast import Port, Run, bytes_per_second


def attribute(kind, data):
    padding = -len(data) % 4
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(padding)


def test_answer_of_the_kernel():
    queue = attribute(3, struct.pack("=LLLLL", 7, 63000, 12, 0, 99))
    stats = attribute(1, struct.pack("=QL", 1 << 40, 5000) + bytes(4)) + queue
    message = struct.pack("=BxxxiLLL", 0, 4, 0x80010000, 0xFFFFFFFF, 0)
    message += attribute(1, b"tbf\0") + attribute(7 | 0x8000, stats)
    assert port_queue.parse(message, 4) == (1 << 40, 5000, 12, 63000)
    assert port_queue.parse(message, 5) == ()


@pytest.mark.parametrize(
    "text, bytes_a_second",
    [("1gbit", 125e6), ("100mbit", 12.5e6), ("2.5Gbit", 312.5e6), ("800bit", 100)],
)
def test_rates(text, bytes_a_second):
    assert bytes_per_second(text) == pytest.approx(bytes_a_second)


@pytest.mark.parametrize("text", ["fast", "", "1xbit"])
def test_wrong_rates(text):
    with pytest.raises(ValueError, match="give a rate"):
        bytes_per_second(text)


def test_table():
    arrivals = streams.Arrivals(((40.0, 40.0), (10.0, 30.0)))
    runs = [Run("tcp", 0, arrivals, Port(10**8, 900, 100, 10**6), 90, 125.0)]
    line = incast.render(runs).splitlines()[-1].split()
    assert line == ["2", "tcp", "0.480", "0.900", "1000", "0.10000", "0.10000"]


@pytest.mark.parametrize(
    "arguments",
    ["--senders 0", "--senders 4,x", "--transports vader", "--rate fast", "-r 0"],
)
def test_wrong_usage(made_up, arguments):
    done = made_up.start("incast", "--hosts", *arguments.split())
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


def test_real_run(build, real_hosts, patient_streams, tmp_path):
    options = ["--build", str(build), "--out", str(tmp_path), "--hosts", "--quick"]
    options += ["--senders", "2", "--rate", "100mbit"]
    assert patient_streams(incast.main, options) == 0
    with open(tmp_path / "summary.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["transport"] for row in rows] == ["exanest", "tcp"]
    for row in rows:
        # No faster than the link, but for what the queue held at the beginning.
        assert float(row["goodput"]) < 1.2
        # A stream of tcp that loses a retransmission may stand for all of the measurement.
        if row["transport"] == "exanest":
            assert float(row["goodput"]) > 0
            assert float(row["jain"]) > 0.5
        # The port's counters: packets went through its queue.
        assert int(row["packets"]) > 500
        assert int(row["longest queue"]) > 0
    if shutil.which("gnuplot"):
        assert "<svg" in (tmp_path / "exanest-2.svg").read_text()

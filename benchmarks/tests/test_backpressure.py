# SPDX-License-Identifier: BSD-3-Clause
"""incast --pager: its table, and a run between hosts."""

import csv
import shutil
import subprocess

import pytest

from pfbench import backpressure, incast, streams
from pfbench.backpressure import Run
from waiting import LIMIT


def test_table():
    slow = streams.Arrivals(((2.0, 4.0),), counters={"bytes": 1000, "net_bytes": 2000})
    runs = [
        Run("", 0, streams.Arrivals(((100.0, 100.0),)), None),
        Run("nack", 0, streams.Arrivals(((96.0, 98.0),)), slow),
    ]
    lines = [line.split() for line in backpressure.render(runs).splitlines()[-2:]]
    assert lines[0] == ["none", "100.0", "1.000"]
    assert lines[1] == ["nack", "97.0", "0.970", "3.00", "2.00"]


def test_programs_are_missing(made_up):
    done = made_up.start("incast", "--pager")
    assert done.returncode == 2
    assert "quickstart build" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "b", "1", "1", "2"],
        ["a", "b", "1", "2", "1", "1"],
        ["a", "/nonexistent", "1", "1", "2", "1"],
        ["a", "/bin/true", "0", "1", "2", "1"],
    ],
)
def test_wrong_usage(build, arguments):
    program = str(build / "benchmarks/pf/paged_flow")
    done = subprocess.run([program, *arguments], capture_output=True, timeout=LIMIT)
    assert done.returncode in (1, 2)
    assert done.stderr


def test_real_run(build, real_hosts, patient_streams, tmp_path):
    # Faults take their time, too: the slow receiver gets 256 KiB at a time, each in up to 1 s.
    options = ["--build", str(build), "--out", str(tmp_path), "--pager", "--quick", "--seconds", "9"]
    assert patient_streams(incast.main, [*options, "--rate", "200mbit"]) == 0
    with open(tmp_path / "backpressure.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for fault in ("none", "local", "nack", "backup"):
        same = [row for row in rows if row["slow receiver"] == fault]
        assert sum(float(row["stream, MB/s"]) for row in same) > 0
        assert (sum(float(row["slow, MB/s"]) for row in same) > 0) == (fault != "none")
    # The file of the pager and the address are gone.
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    if shutil.which("gnuplot"):
        assert "<svg" in (tmp_path / "backpressure.svg").read_text()

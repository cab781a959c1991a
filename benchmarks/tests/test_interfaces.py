# SPDX-License-Identifier: BSD-3-Clause
"""The command interfaces: its arithmetic, and a run between hosts."""

import csv
import shutil

import pytest

from pfbench import interfaces, streams
from pfbench.interfaces import PLACES, Bandwidth, Outage

STEPS = round(interfaces._END / interfaces._STEP)


def outage(rates, pause=0.02):
    """Of a stream that has these rates before, during and after, and comes back late."""
    step = interfaces._STEP
    made = []
    for index in range(STEPS):
        time = index * step
        made.append(rates[0] if time < 1.5 else rates[1] if time < 4.0 else rates[2])
    arrivals = streams.Arrivals((tuple(made),), pause)
    return Outage("exanest", PLACES[0], 0, arrivals, 1.5, 3.5)


def test_outage():
    one = outage((240.0, 120.0, 230.0))
    assert one.before == pytest.approx(240)
    assert one.during == pytest.approx(120)
    assert one.after == pytest.approx(230)
    assert one.back == pytest.approx(0.5, abs=2 * interfaces._STEP)


def test_a_rate_that_does_not_come_back():
    assert outage((240.0, 120.0, 120.0)).back == float("inf")


def test_tables():
    widths = [
        Bandwidth("exanest", "eth0", 0, 120.0, (1.0, 0.0)),
        Bandwidth("exanest", "eth0,eth1", 0, 230.0, (0.5, 0.5)),
        Bandwidth("exanest", "eth0,eth1", 1, 250.0, (0.4, 0.6)),
        Bandwidth("tcp", "eth0", 0, 110.0, (1.0, 0.0)),
    ]
    text = interfaces.render(widths, [outage((240.0, 120.0, 240.0))])
    lines = [line.split() for line in text.splitlines()]
    assert ["exanest", "120.0", "240.0", "(230.0", "250.0)", "2.00"] in [x[:6] for x in lines]
    assert ["tcp", "110.0", "-", "-", "-"] in lines
    assert ["sender", "exanest", "240.0", "120.0", "240.0", "20.0"] in [x[:6] for x in lines]


@pytest.mark.parametrize(
    "arguments", ["--outages nonsense", "--transports vader", "-r 0"]
)
def test_wrong_usage(made_up, arguments):
    done = made_up.start("interfaces", *arguments.split())
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


def test_real_run(build, real_hosts, patient_streams, tmp_path):
    options = ["--build", str(build), "--out", str(tmp_path), "--quick"]
    assert patient_streams(interfaces.main, [*options, "--rate", "200mbit"]) == 0
    with open(tmp_path / "bandwidth.csv", newline="") as file:
        shares = {row["interfaces"]: float(row["share of eth1"]) for row in csv.DictReader(file)}
    # The other counters are of mpirun's own connections.
    assert shares["eth0"] < 0.01
    assert 0.1 < shares["eth0,eth1"] < 0.9
    with open(tmp_path / "outages.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == STEPS
    # How soon it goes on without an interface is tested in virtual time (libpf/tests/protocol, test_pause):
    # here a machine that does other work would be measured.
    assert any(float(r["MB/s"]) > 0 for r in rows)
    if shutil.which("gnuplot"):
        assert "<svg" in (tmp_path / "outage-receiver.svg").read_text()

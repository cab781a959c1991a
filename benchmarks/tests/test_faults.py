# SPDX-License-Identifier: BSD-3-Clause
"""The command faults, with made-up programs."""

import csv
import re

import pytest

from pfbench import faults, suite, swap
from pfbench.suite import COLD_TESTS, COST_TESTS, KIB, MIB, doubled

ALL_TESTS = ",".join(test.name for test in (*COLD_TESTS, *COST_TESTS))


@pytest.fixture(autouse=True)
def with_ucx(made_up):
    made_up.listing(["btl:exanest", "btl:vader", "pml:ucx"])


def test_all_well(made_up):
    done = made_up.start("faults", "-r", "1", "--tests", ALL_TESTS)
    assert done.returncode == 0, done.stderr
    assert "repetition 1/1 done" in done.stderr
    for heading in ("4 K, warm", "4 M, destination cold", "64 M, both cold"):
        assert f"\n{heading}\n" in done.stdout
    for name in ("latency-warm", "bandwidth-source-cold", "cpu-both-cold"):
        assert (made_up.out / f"{name}.csv").exists(), name
    tables = (made_up.out / "tables.txt").read_text()
    assert "Bandwidth, destination cold, MB/s" in tables
    assert "cache line at the end: 54 ns" in made_up.environment_text()


def test_every_way_has_its_parameters(made_up):
    done = made_up.start("faults", "--quick")
    assert done.returncode == 0, done.stderr
    with open(made_up.out / "latency-warm.csv", newline="") as file:
        ways = list(dict.fromkeys(row["transport"] for row in csv.DictReader(file)))
    own = ["exanest", "touch", "ahead", "huge", "prefault", "pin", "pin-cache"]
    assert ways == [*own, "vader", "ucx"]
    runs = re.findall("^  mpirun .*/latency.*$", made_up.environment_text(), re.M)
    assert len(runs) == 9
    assert re.findall(r"--mca btl_exanest_((?:policy|mode) [\w-]+)", "\n".join(runs)) == [
        *("policy touch", "policy ahead", "policy huge"),
        *("mode prefault", "mode pin", "mode pin-cache"),
    ]


def test_goals(made_up):
    tests = "cold-bandwidth,minor,pager,beside-pager"
    done = made_up.start("faults", "--quick", "-r", "1", "--goals", "--tests", tests)
    for judgement in (
        "NOT MET  destination cold, 4 MiB, at least 2.5 of the bandwidth of pin",
        "met      a minor page fault at the destination adds at most 2 us",
        "NOT MET  warm streams keep at least 0.95 during a get from a pager",
        "met      a page fault forwarded to a pager takes at most 0.5",
    ):
        assert f"\n  {judgement}" in done.stdout


def test_some_ways_and_tests(made_up):
    options = ["--quick", "--ways", "exanest,pin", "--tests", "cold-bandwidth"]
    done = made_up.start("faults", *options)
    assert done.returncode == 0, done.stderr
    assert "vader" not in done.stdout
    assert "userfaultfd" not in done.stdout


def test_between_hosts(made_up, monkeypatch):
    made_up.hosts(monkeypatch)
    made_up.listing(["btl:exanest", "btl:tcp", "pml:ucx"])
    options = ["--quick", "-r", "1", "--hosts"]
    assert faults.main([*made_up.folders(), *options]) == 0
    runs = [call for call in made_up.hosts_calls() if "/latency " in call]
    # exanest in four modes, and two peers.
    assert len(runs) == 6
    # To keep blocks differs only where blocks have to wait.
    kept = [call for call in made_up.hosts_calls() if "btl_exanest_net_fault backup" in call]
    assert kept and all("--cold file --waits" in call for call in kept)


def test_goals_between_hosts(made_up, monkeypatch, capsys):
    made_up.hosts(monkeypatch)
    made_up.listing(["btl:exanest", "btl:tcp", "pml:ucx"])
    assert faults.main([*made_up.folders(), "--quick", "--hosts", "--goals"]) == 0
    goal = "destination cold, 4 MiB, at least 4 of the bandwidth of the best peer"
    assert goal in capsys.readouterr().out


def test_between_real_hosts(made_up, real_hosts):
    options = ["--hosts", "--quick", "-r", "1", "--max", "4096"]
    done = made_up.start("faults", *options, "--ways", "exanest", "--tests", "cold-bandwidth")
    assert done.returncode == 0, done.stderr
    assert "Bandwidth, destination cold, MB/s" in (made_up.out / "tables.txt").read_text()


def test_a_cost_cannot_be_measured(made_up):
    (made_up.folder / "FAILING").write_text("pager")
    done = made_up.start("faults", "--quick", "--tests", "minor,pager")
    assert done.returncode == 1
    assert "made-up reason: pager" in done.stderr
    assert "failed" in done.stdout
    assert "0.250" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        "--ways nonsense",
        "--ways pin,pin",
        "--tests nonsense",
        "--max 1 --tests minor",
        "--ways pin --tests minor",
        "-r 0",
        "--hosts --ways vader",
        "--hosts --tests minor",
        "--hosts --zram",
    ],
)
def test_wrong_usage(made_up, arguments):
    done = made_up.start("faults", *arguments.split())
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


def test_help(made_up):
    done = made_up.start("faults", "--help")
    assert done.returncode == 0
    assert "--zram" in done.stdout


@pytest.mark.parametrize("test", COLD_TESTS, ids=lambda test: test.name)
def test_every_size_is_measured_once(test):
    sizes = [s for span in test.cut("default", 1 << 40) for s in span.sizes()]
    assert sizes == doubled(4 * KIB, 64 * MIB)


def test_columns():
    latency, bandwidth = suite.COLD_TESTS
    assert sorted(latency.columns.values()) == [1, 2, 3, 4]
    assert sorted(bandwidth.columns.values()) == list(range(1, 9))
    names = {measure.name: place for measure, place in bandwidth.columns.items()}
    assert names["bandwidth-destination-cold"] == 5
    assert names["cpu-destination-cold"] == 6


def test_swap_present(tmp_path):
    table = tmp_path / "swaps"
    assert not swap.present(table)
    table.write_text("Filename Type Size Used Priority\n")
    assert not swap.present(table)
    table.write_text("Filename Type\n/dev/zram0 partition 4 0 -2\n")
    assert swap.present(table)

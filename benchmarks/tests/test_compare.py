# SPDX-License-Identifier: BSD-3-Clause
"""The command compare, with made-up programs."""

import csv
import re
import shutil
import signal
import subprocess

import pytest

from pfbench import compare, measures, suite
from waiting import LIMIT


def start(made_up, *arguments, **changes):
    return made_up.start("compare", "--own", *arguments, **changes)


def test_all_well(made_up):
    done = start(made_up, "--goals", "-r", "2")
    assert done.returncode == 0, done.stderr
    for name in ("latency.csv", "bandwidth.csv", "cpu.csv", "rate.csv"):
        assert (made_up.out / name).exists(), name
    assert "0.50 vader" in done.stdout
    assert "met      latency, geometric mean" in done.stdout
    assert "repetition 2/2 done" in done.stderr
    environment = made_up.environment_text()
    assert "vader rank 1: core 1" in environment
    assert "--mca btl exanest,self" in environment
    if shutil.which("gnuplot"):
        plot = (made_up.out / "ratio.svg").read_text()
        assert "median of 2, cache line 54 ns" in plot


def test_goals_are_not_shown_by_default(made_up):
    assert "Goals" not in start(made_up, "-r", "1").stdout


def test_a_peer_fails(made_up):
    (made_up.folder / "FAILING").write_text("tcp")
    done = start(made_up, "--quick")
    assert done.returncode == 0, done.stderr
    assert "made-up reason: tcp" in done.stderr
    assert "tcp FAILED: exit code 1" in done.stdout
    assert "made-up reason" in (made_up.out / "failures.txt").read_text()


def test_exanest_fails(made_up):
    (made_up.folder / "FAILING").write_text("exanest")
    done = start(made_up, "--quick")
    assert done.returncode == 1
    assert "exanest FAILED: exit code 1" in done.stdout
    assert "vader" in done.stdout


def test_exanest_is_missing(made_up):
    made_up.listing(["btl:vader"])
    done = start(made_up, "--quick")
    assert done.returncode == 1
    assert "ompi_info shows no btl exanest" in done.stderr


def test_below_btl_sm(made_up):
    made_up.listing(["btl:sm", "smsc:exanest", "smsc:cma"])
    done = start(made_up, "--smsc", "--goals", "-r", "1", "--tests", "latency")
    assert done.returncode == 0, done.stderr
    assert "of cma at" in done.stdout
    assert "--mca btl sm,self --mca smsc exanest" in made_up.environment_text()


def test_below_btl_sm_without_the_component(made_up):
    made_up.listing(["btl:sm", "smsc:cma"])
    done = start(made_up, "--smsc", "-r", "1", "--tests", "latency")
    assert done.returncode == 1
    assert "ompi_info shows no smsc exanest" in done.stderr
    assert "--smsc: " in start(made_up, "--smsc", "--hosts").stderr


def test_only_peers(made_up):
    done = start(made_up, "--quick", "--transports", "vader,tcp")
    assert done.returncode == 0, done.stderr
    assert "exanest" not in done.stdout


def rows(folder):
    with open(folder / "summary.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_rows_of_one_and_of_two_hosts_can_stand_in_one_file(made_up, monkeypatch):
    assert start(made_up, "--tests", "latency", "--max", "4").returncode == 0
    one = rows(made_up.out)
    assert {(row["hosts"], row["mtu"]) for row in one} == {("1", "")}

    made_up.hosts(monkeypatch)
    options = ["--hosts", "--mtu", "1500", "--tests", "latency", "--max", "4"]
    assert compare.main([*made_up.folders(), "--own", *options]) == 0
    two = rows(made_up.out)
    assert {(row["hosts"], row["mtu"]) for row in two} == {("2", "1500")}
    assert {row["transport"] for row in two} == {"exanest", "tcp", "limit"}
    assert {row["cache_line_ns"] for row in one + two} == {"54.0"}
    assert list(one[0]) == list(two[0])


def test_limit_between_hosts(made_up, monkeypatch, capsys):
    made_up.hosts(monkeypatch)
    made_up.listing(["btl:exanest", "btl:tcp"])
    # OSU's program does not take --udp.
    made_up.script("osu/osu_latency", "")
    made_up.script("osu/osu_mbw_mr", "")
    made_up.script("osu/osu_bw", "")
    options = ["--hosts", "--quick", "-r", "1", "--goals"]
    options += ["--tests", "latency,bandwidth,rate", "--osu", str(made_up.folder / "osu")]
    assert compare.main([*made_up.folders(), *options]) == 0
    runs = [call for call in made_up.hosts_calls() if call.startswith("run ")]
    assert len([run for run in runs if "osu_mbw_mr" in run]) == 2
    assert not [run for run in runs if "osu_latency" in run or "osu_bw" in run]
    udp = [run for run in runs if run.endswith(" --udp")]
    assert [re.findall(r"(\w+) -m (\d+:\d+)", run)[0] for run in udp] == [
        ("latency", "1:8192"),
        ("latency", "16384:262144"),
        ("bw", "1:8192"),
        ("bw", "16384:4194304"),
    ]
    assert all("--mca btl tcp,self" in run for run in udp)

    printed = capsys.readouterr().out
    latency, others = printed[printed.index("Latency,") :].split("Bandwidth,")
    bandwidth, rate = others.split("Message rate,")
    lines = {line.split()[0]: line.split() for line in latency.splitlines() if line.split()}
    assert lines["size"][1:] == ["exanest", "tcp", "(limit)", "exanest/best", "exanest/limit"]
    assert latency.count("0.50 tcp") == len(suite.doubled(1, 4 << 20))
    assert "256 K" in latency and "2.00" in lines["8"]
    assert "(limit): bare UDP sockets without MPI; not a peer" in latency
    assert bandwidth.count("(limit): bare UDP sockets without MPI") == 2, "of CPU time, too"
    assert "4 M" in bandwidth and "exanest/limit" in bandwidth
    assert "limit" not in rate.partition("Goals")[0]
    assert "met      latency, 1 B to 8 KiB, at most 0.75" in rate
    assert "met      bandwidth, 64 KiB, at least 1.5" in rate
    assert "0.50 of tcp, 2.00 of limit; met by the ratio to limit" in rate
    if shutil.which("gnuplot"):
        plot = (made_up.out / "latency.svg").read_text()
        assert "limit (bare UDP sockets without MPI; not a peer)" in plot


def test_limit_between_real_hosts(build, real_hosts, tmp_path):
    options = ["--hosts", "--mtu", "1500", "--quick", "-r", "1", "--max", "256K"]
    options += ["--tests", "latency,bandwidth,loss-1", "--transports", "exanest,limit"]
    folders = ["--build", str(build), "--out", str(tmp_path)]
    assert compare.main([*folders, *options]) == 0
    for test in ("latency", "bandwidth", "cpu"):
        for name in ("exanest", "limit"):
            found = [row for row in rows(tmp_path) if (row["test"], row["transport"]) == (test, name)]
            assert [int(row["size"]) for row in found] == suite.doubled(1, 256 << 10)
    assert any(row["test"] == measures.LOSS_BANDWIDTH["1"].name for row in rows(tmp_path))
    table = (tmp_path / "tables.txt").read_text()
    assert table.count("exanest/limit") == 3 and "exanest/best" not in table


def test_a_limit_that_fails_is_no_failure_of_exanest(made_up, monkeypatch, capsys):
    made_up.hosts(monkeypatch)
    (made_up.folder / "FAILING").write_text("tcp")
    options = ["--hosts", "--quick", "-r", "1", "--tests", "latency"]
    assert compare.main([*made_up.folders(), "--own", *options]) == 0
    assert "limit FAILED: exit code 1" in capsys.readouterr().out


def test_every_test_between_hosts_has_its_network(made_up, monkeypatch):
    made_up.hosts(monkeypatch)
    options = ["--hosts", "--mtu", "1500", "-r", "1", "--transports", "exanest"]
    tests = ["--tests", "latency,rate,loss-1"]
    assert compare.main([*made_up.folders(), "--own", *options, *tests]) == 0
    calls = [
        re.sub(r"^run .*benchmarks/mpi/(\w+) .*", r"\1", call)
        for call in made_up.hosts_calls()
    ]
    assert calls == [
        "up 2 --core --mtu 1500",
        "set --loss 0 --wire off",
        *("latency", "latency", "mbw_mr"),
        "set --loss 1 --wire on",
        "bw",
        "down",
    ]


def test_the_state_of_the_machine_is_recorded(made_up):
    done = start(made_up, "--quick", "--tests", "rate")
    state = "54 ns from one core to the other"
    assert f"cache line: {state}" in done.stderr
    assert "warning: the processors" not in done.stderr
    assert f"cache line at the start: {state}\n" in made_up.environment_text()
    assert f"cache line at the end: {state}\n" in made_up.environment_text()


def test_the_state_of_the_machine_changes(made_up):
    (made_up.folder / "CACHE_LINE").write_text("54 ns close\n240 ns far apart\n")
    done = start(made_up, "--quick", "--tests", "rate")
    assert "took 54 ns close at the start, 240 ns far apart at the end" in done.stderr
    assert "cache line at the end: 240 ns far apart" in made_up.environment_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(made_up, number):
    with subprocess.Popen(
        made_up.command("compare", "--own", "--quick", "-r", "2000"),
        cwd=made_up.folder,
        env=made_up.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while "repetition 1/2000 done" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "0.50 vader" in output
    assert (made_up.out / "latency.csv").exists()


def test_no_components(made_up):
    made_up.script("ompi_info", 'print("ompi:version:full:4.1.4")')
    done = start(made_up)
    assert done.returncode == 2
    assert "OMPI_MCA_mca_base_component_path" in done.stderr


def test_nothing_to_run(made_up):
    shutil.rmtree(made_up.folder / "benchmarks")
    done = start(made_up)
    assert done.returncode == 2
    assert "./quickstart build" in done.stderr


def test_no_open_mpi(made_up):
    (made_up.folder / "ompi_info").unlink()
    done = start(made_up, PATH=str(made_up.folder))
    assert done.returncode == 2
    assert "install Open MPI" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "--tests nonsense",
        "--tests latency,latency",
        "--transports nonsense",
        "--transports vader,vader",
        "--transports vader --add vader=--mca",
        "--add nonsense",
        "--max -1",
        "--max 0",
        "--out /dev/null/x",
        "-r 0",
        "--quick --full",
    ],
)
def test_wrong_usage(made_up, arguments):
    done = start(made_up, *arguments.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help(made_up):
    done = start(made_up, "--help")
    assert done.returncode == 0
    assert "--transports" in done.stdout

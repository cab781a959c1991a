# SPDX-License-Identifier: BSD-3-Clause
"""The command fairness: its arithmetic, its streams, and a short run between hosts."""

import csv
import shutil
import time

import pytest

from pfbench import fairness, launch, streams, tcp_stream
from pfbench.fairness import Case, Shared
from pfbench.streams import jain
from waiting import LIMIT


def parse_steps(output, begin, end):
    return streams.parse(output, end - begin, 0.1).total


def test_jain():
    assert jain([5, 5]) == pytest.approx(1)
    assert jain([5, 0]) == pytest.approx(0.5)
    assert jain([3, 1]) == pytest.approx(0.8)
    assert jain([0, 0]) == 0


def test_steps():
    output = "# a remark\n0.100 1000000\n0.200 500000\n"
    assert parse_steps(output, 7.0, 7.2) == pytest.approx([10, 5])


@pytest.mark.parametrize("output", ["", "0.100 1\n", "0.1 x\n", "0.1\n", "0 1\n0 1\n"])
def test_output_that_is_not_of_a_stream(output):
    with pytest.raises(ValueError):
        parse_steps(output, 0.0, 1.0)


def test_table():
    case = Case(("exanest", "tcp"), "1ms")
    text = fairness.render(
        [
            Shared(Case(("tcp",), "1ms"), 0, ((100.0, 110.0),)),
            Shared(case, 0, ((30.0, 30.0), (90.0, 90.0))),
            Shared(case, 1, ((40.0, 60.0), (50.0, 50.0))),
        ]
    )
    lines = [line.split() for line in text.splitlines()[2:]]
    assert lines[0] == ["1ms", "tcp", "105.0"]
    assert lines[1][:3] == ["1ms", "exanest+tcp", "40.0"]
    assert "0.375 (0.250 0.500)" in text
    assert "0.900 (0.800 1.000)" in text


@pytest.mark.parametrize(
    "arguments", ["--cases nonsense", "--cases tcp,tcp", "--seconds 0", "-r 0"]
)
def test_wrong_usage(made_up, arguments):
    done = made_up.start("fairness", *arguments.split())
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


class Connection:
    """The lengths that a socket receives, and the times at which it does."""

    def __init__(self, *received):
        self.received = list(received)

    def recv_into(self, _):
        self.time, length = self.received.pop(0)
        return length

    def count(self, begin, end, step):
        return tcp_stream.count(self, begin, end, step, clock=lambda: self.time)


def test_sink_counts_from_begin_to_end():
    connection = Connection((9, 99), (10, 1), (11.5, 2), (11.9, 4), (13, 8), (14, 99))
    assert connection.count(10, 14, 1) == [1, 6, 0, 8]


def test_sink_counts_the_moment_before_the_end():
    """(now - begin) / step is rounded up to the number of steps, 66."""
    connection = Connection((9, 1), (29.799999999999997, 2), (29.8, 9))
    assert connection.count(10, 29.8, 0.3)[-1] == 2


def test_sink_begins_too_late():
    with pytest.raises(SystemExit, match="1.000 s after BEGIN"):
        Connection((11, 1)).count(10, 14, 1)


@pytest.mark.parametrize("received", [[(9, 0)], [(9, 1), (12, 0)]])
def test_source_ends_too_early(received):
    with pytest.raises(SystemExit, match="before END"):
        Connection(*received).count(10, 14, 1)


def test_unknown_congestion_control():
    with pytest.raises(SystemExit, match="congestion control nonsense"):
        tcp_stream.source("127.0.0.1", 9, "nonsense")


@pytest.fixture
def flow(build):
    def run(*arguments, ranks=2):
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
        command += ["--mca", "mpi_yield_when_idle", "1"]
        command += [str(build / "benchmarks/mpi/flow"), *map(str, arguments)]
        return launch.run(command, launch.environment(None), timeout=LIMIT)

    return run


def test_flow_counts_from_begin_to_end(flow):
    # mpirun takes its time on a busy machine.
    for delay in (2, 10, 50):
        begin = time.monotonic() + delay
        outcome = flow(begin, begin + 0.5, 0.1)
        if "give a later BEGIN" not in outcome.errors:
            break
    assert outcome.failure == "", outcome.errors
    rates = parse_steps(outcome.output, begin, begin + 0.5)
    assert len(rates) == 5
    assert sum(rates) > 0


def test_flow_begins_too_late(flow):
    begin = time.monotonic() - 1
    outcome = flow(begin, begin + 1, 0.1)
    assert outcome.failure == "exit code 1"
    assert "give a later BEGIN" in outcome.errors


@pytest.mark.parametrize("arguments", [[], [2, 1, 1], [1, "x", 1]])
def test_flow_wrong_usage(flow, arguments):
    outcome = flow(*arguments)
    assert outcome.failure == "exit code 1"
    assert "see --help" in outcome.errors


def test_flow_needs_two_ranks(flow):
    assert "mpirun -n 2" in flow(1, 2, 1, ranks=1).errors


def test_flow_of_several_senders(flow):
    for delay in (2, 10, 50):
        begin = time.monotonic() + delay
        sizes = ["--bytes", 100000, "--window", 3]
        outcome = flow(*sizes, begin, begin + 0.5, 0.1, ranks=4)
        if "give a later BEGIN" not in outcome.errors:
            break
    assert outcome.failure == "", outcome.errors
    arrivals = streams.parse(outcome.output, 0.5, 0.1)
    assert len(arrivals.rates) == 3
    assert min(sum(rates) for rates in arrivals.rates) > 0
    assert 0 < arrivals.pause < 0.5


def test_output_of_several_senders():
    output = "# Remark\n0.1 100000 200000\n0.2 300000 0\n"
    output += "# pause 0.025000 s: the longest\n# net_lost 7\n"
    arrivals = streams.parse(output, 0.2, 0.1)
    assert arrivals.rates[0] == pytest.approx([1, 3])
    assert arrivals.rates[1] == pytest.approx([2, 0])
    assert arrivals.total == pytest.approx([3, 3])
    assert arrivals.pause == 0.025
    assert arrivals.counters == {"net_lost": 7}


def test_lines_of_different_lengths():
    with pytest.raises(ValueError, match="numbers of senders"):
        streams.parse("0.1 1 2\n0.2 1\n", 0.2, 0.1)


def rows(folder):
    with open(folder / "fairness.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_run(made_up, monkeypatch):
    made_up.hosts(monkeypatch)
    options = ["--quick", "--rate", "2gbit", "--mark", "1", "--mtu", "1500"]
    assert fairness.main([*made_up.folders(), *options]) == 0
    calls = made_up.hosts_calls()
    assert calls[0] == "up 2 --core --mtu 1500"
    assert calls[1] == "set --wire on --mark 1"
    assert calls[2].startswith("exec h0 sh -c") and calls[2].endswith("/tcp_ecn")
    assert calls[3] == "set --host h1 --rate 2gbit --queue 10ms"
    assert calls[-1] == "down"
    made = rows(made_up.out)
    cases = [case.name for case in fairness.CASES]
    assert list(dict.fromkeys(row["case"] for row in made)) == cases
    assert {row["MB/s"] for row in made} == {"10.000"}
    text = made_up.environment_text()
    assert "tcp_stream.py sink 5201 TIME TIME 0.1" in text
    assert "cache line at the start: 54 ns" in text
    if shutil.which("gnuplot"):
        assert "<svg" in (made_up.out / "exanest+tcp-10ms.svg").read_text()
        plot = (made_up.out / "shares.svg").read_text()
        assert "first of exanest+tcp" in plot and "10ms" in plot


def test_a_stream_fails(made_up, monkeypatch, capsys):
    made_up.hosts(monkeypatch)
    (made_up.folder / "FAILING").write_text("run")
    options = ["--quick", "--cases", "exanest,tcp"]
    assert fairness.main([*made_up.folders(), *options]) == 1
    assert "FAILED: exanest: exit code 1" in capsys.readouterr().err
    assert {row["case"] for row in rows(made_up.out)} == {"tcp"}


def test_real_run(build, real_hosts, patient_streams, tmp_path):
    options = ["--build", str(build), "--out", str(tmp_path), "--control", "reno"]
    options += ["--quick", "--cases", "exanest+tcp", "--rate", "200mbit"]
    assert patient_streams(fairness.main, options) == 0
    means = {}
    for stream in ("exanest", "tcp"):
        rates = [float(r["MB/s"]) for r in rows(tmp_path) if r["transport"] == stream]
        means[stream] = sum(rates) / len(rates)
    # A stream of tcp that loses a retransmission may stand for all of the measurement.
    assert means["exanest"] > 0
    # No faster than the link, but for what the queue held at the beginning.
    assert sum(means.values()) < 27

# SPDX-License-Identifier: BSD-3-Clause
"""The programs of the build tree that BUILD names."""

import os
import re
import resource
import shutil
import tempfile
from pathlib import Path

import pytest

from pfbench import launch, osu, suite, swap
from pfbench.suite import COLD_TESTS, COLLECTIVES, COST_TESTS, FIRST_TESTS, TESTS
from waiting import LIMIT

each_test = pytest.mark.parametrize(
    "test", (*TESTS, *COLLECTIVES), ids=lambda test: test.program
)
each_cold = pytest.mark.parametrize("test", COLD_TESTS, ids=lambda test: test.name)
each_first = pytest.mark.parametrize("test", FIRST_TESTS, ids=lambda test: test.name)
each_cost = pytest.mark.parametrize("test", COST_TESTS, ids=lambda test: test.name)


ABOUT = {
    "latency": "round-trip time",
    "work_latency": "ranks that work",
    "bw": "acknowledges the window",
    "mbw_mr": "Pairs of ranks",
    "bibw": "Both ranks send",
    "put_latency": "Time of one MPI_Put",
    "get_latency": "Time of one MPI_Get",
    "put_bw": "a window of MPI_Put",
    "get_bw": "a window of MPI_Get",
    "barrier": "Time of MPI_Barrier",
    "bcast": "Time of MPI_Bcast",
    "allreduce": "Time of MPI_Allreduce",
    "reduce_scatter": "Time of MPI_Reduce_scatter_block",
    "allgather": "Time of MPI_Allgather",
    "alltoall": "Time of MPI_Alltoall",
}


@pytest.fixture
def run(build):
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")

    def start(program, *arguments, ranks=2, options=()):
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
        command += [*options, str(build / "benchmarks/mpi" / program), *arguments]
        return launch.run(command, launch.environment(None), timeout=LIMIT)

    return start


@pytest.fixture
def run_corrupt(build, run):
    """Run with a library that corrupts what MPI transfers."""
    corrupt = build / "benchmarks/tests/.libs/corrupt.so"
    if not corrupt.exists():
        pytest.skip("there is no corrupt.so: run make check TESTS=")

    def start(program, *arguments):
        # The second variable is for builds with sanitizers.
        options = ["-x", f"LD_PRELOAD={corrupt}"]
        options += ["-x", "ASAN_OPTIONS=verify_asan_link_order=0"]
        if program == "barrier":
            options += ["-x", "CORRUPT_BARRIER=1"]
        return run(program, *arguments, options=options)

    return start


@pytest.fixture
def run_losing(build, run):
    """Run with a library that drops one of a number of UDP datagrams."""
    drop = build / "benchmarks/tests/.libs/drop.so"
    if not drop.exists():
        pytest.skip("there is no drop.so: run make check TESTS=")

    def start(one_of, program, *arguments):
        options = ["-x", f"LD_PRELOAD={drop}", "-x", f"DROP_ONE_OF={one_of}"]
        options += ["-x", "ASAN_OPTIONS=verify_asan_link_order=0"]
        return run(program, *arguments, options=options)

    return start


@pytest.fixture
def run_alone(build):
    """Run one rank without mpirun: sufficient for the command line."""

    def start(program, *arguments):
        command = [str(build / "benchmarks/mpi" / program), *arguments]
        return launch.run(command, launch.environment(None), timeout=LIMIT)

    return start


def few(test):
    """Arguments for two long sizes and few iterations."""
    return [*(["-m", "4096:8192"] if test.sized else []), "-i", "5", "-x", "1", "-c"]


@each_test
def test_output_is_that_of_osu(run, test):
    outcome = run(test.program, *few(test), *test.own_arguments)
    assert outcome.failure == "", outcome.errors
    columns = {**test.columns, **test.own_columns}
    rows = osu.parse(outcome.output, columns, test.sized)
    assert sorted(rows) == ([4096, 8192] if test.sized else [0])
    assert "Pass" in outcome.output


@pytest.mark.parametrize("program", ["bw", "mbw_mr"])
def test_slow_transports_have_a_bandwidth(run, program):
    """OSU's two decimals would be 0.00 MB/s, which is no result."""
    outcome = run(program, "-m", "1:1", "-W", "1", "-i", "1")
    assert re.search(r"^1 +\d+\.\d{4} ?", outcome.output, re.MULTILINE)


@each_test
def test_validation_detects_wrong_contents(run_corrupt, test):
    outcome = run_corrupt(test.program, *few(test))
    assert outcome.failure != ""
    assert "validation failed" in outcome.errors
    assert "Fail" in outcome.output


@pytest.mark.parametrize("program", [test.program for test in COLLECTIVES])
def test_collectives_of_several_ranks(run, program):
    sizes = [] if program == "barrier" else ["-m", "4096:8192"]
    outcome = run(program, *sizes, "-i", "5", "-x", "1", "-c", "-f", ranks=5)
    assert outcome.failure == "", outcome.errors
    values = outcome.output.splitlines()[-1].split()[-5:-2]
    mean, least, most = map(float, values)
    assert least <= mean <= most


@each_cold
def test_cold_buffers(run, test):
    outcome = run(test.program, *few(test), *test.arguments)
    assert outcome.failure == "", outcome.errors
    assert sorted(osu.parse(outcome.output, test.columns)) == [4096, 8192]
    assert outcome.output.count("Pass") == 2


@pytest.mark.parametrize("cold", ["none", "source", "destination", "both"])
@each_cold
def test_validation_of_cold_buffers_detects_wrong_contents(run_corrupt, test, cold):
    # corrupt.so changes one message of 64.
    window = ["-W", "64"] if test.program == "bw" else []
    outcome = run_corrupt(test.program, *few(test), "--cold", cold, *window)
    assert outcome.failure != ""
    assert "Fail" in outcome.output


def test_cold_buffers_of_any_size(run):
    outcome = run("latency", "-m", "0:5000", "-i", "3", "-c", "--cold", "both")
    assert outcome.failure == "", outcome.errors
    arguments = ["-m", "1:5000", "-W", "3", "-i", "3", "-c", "--cold", "source"]
    assert run("bw", *arguments).failure == ""


def test_cold_buffers_cause_page_faults(run):
    faults = {}
    for cold in ("none", "destination"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        outcome = run("latency", "-m", "1M:1M", "-i", "200", "-x", "0", "--cold", cold)
        assert outcome.failure == "", outcome.errors
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        faults[cold] = after - before
    # 256 pages in each of two processes; with huge pages at least one.
    assert faults["destination"] - faults["none"] > 2 * 200


@pytest.fixture
def on_disk(build, monkeypatch):
    """Below the build: tmp_path can be in memory, where pages of a file stay."""
    with tempfile.TemporaryDirectory(dir=build) as folder:
        monkeypatch.chdir(folder)
        yield Path(folder)


def test_pages_of_a_file_are_waited_for(build, run, on_disk, monkeypatch):
    for name, value in launch.environment(build).items():
        monkeypatch.setenv(name, value)
    options = ["--mca", "pml", "ob1", "--mca", "btl", "exanest,self"]
    arguments = ["-m", "1M:1M", "-W", "4", "-i", "3", "-c", "--waits", "--cold", "destination,file"]
    outcome = run("bw", *arguments, options=options)
    if "stay in memory" in outcome.errors:
        pytest.skip("the build is in memory")
    assert outcome.failure == "", outcome.errors
    columns = {"touched": 2, "file": 5}
    line = next(line for line in outcome.output.splitlines() if line.startswith("1048576"))
    waits = {name: float(line.split()[column]) for name, column in columns.items()}
    assert waits["touched"] == 0 < waits["file"]
    assert "Pass" in line and not list(on_disk.iterdir())


def test_pages_of_a_file_in_memory(run, monkeypatch):
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no folder in memory")
    monkeypatch.chdir("/dev/shm")
    outcome = run("bw", "-m", "64K:64K", "-W", "1", "-i", "1", "--cold", "file")
    assert outcome.failure and "stay in memory" in outcome.errors


@each_first
def test_first_messages(run, test):
    sizes = ["-m", "8:8"] if test.sized else []
    outcome = run(test.program, *sizes, *test.arguments)
    assert outcome.failure == "", outcome.errors
    rows = osu.parse(outcome.output, test.columns, test.sized)
    assert list(rows) == ([8] if test.sized else [0])
    assert all(value > 0 for value in list(rows.values())[0].values())


def test_first_messages_of_several_ranks(run):
    outcome = run("barrier", "--first", ranks=5)
    assert outcome.failure == "", outcome.errors


@pytest.mark.parametrize("cold", [[], ["--cold", "none,both"]], ids=str)
def test_bare_udp_sockets(run, cold):
    outcome = run("latency", "--udp", "-m", "0:256K", "-i", "5", "-x", "1", "-c", *cold)
    assert outcome.failure == "", outcome.errors
    assert "Connected UDP sockets" in outcome.output
    sizes = [0, *suite.doubled(1, 256 << 10)]
    assert list(osu.parse(outcome.output, {"latency": 1})) == sizes


@pytest.mark.parametrize("cold", [[], ["--cold", "none,both"]], ids=str)
def test_stream_of_bare_udp_sockets(run, cold):
    # Windows of 1 MiB messages are longer than what is under way at once.
    arguments = ["-m", "1:1M", "-W", "5", "-i", "3", "-x", "1", "-c", *cold]
    outcome = run("bw", "--udp", *arguments)
    assert outcome.failure == "", outcome.errors
    assert "Connected UDP sockets" in outcome.output
    assert list(osu.parse(outcome.output, {"bandwidth": 1})) == suite.doubled(1, 1 << 20)


def test_stream_of_bare_udp_sockets_without_a_byte(run):
    assert run("bw", "--udp", "-m", "0:0", "-i", "3", "-c").failure == ""


# Messages of any length, more of them than a system call takes; and the processor time.
@pytest.mark.parametrize("size, window", [(1, 1000), (40, 65536), (1473, 70), (70001, 9)])
def test_windows_of_bare_udp_sockets(run, size, window):
    arguments = ["-m", f"{size}:{size}", "-W", str(window), "-i", "2", "-x", "0", "-c"]
    outcome = run("bw", "--udp", "--cpu", *arguments)
    assert outcome.failure == "", outcome.errors
    # A rank that gets no processor for long starts a round again, but its buffer has room.
    assert "were lost" not in outcome.errors or ", 0 packets found no room" in outcome.errors
    rows = osu.parse(outcome.output, {"bandwidth": 1, "cpu": 2})
    assert rows[size]["bandwidth"] > 0 and rows[size]["cpu"] > 0


def test_lost_udp_packets_of_a_stream(run_losing):
    # Messages and acknowledgements are lost, in the middle of windows and at their end.
    arguments = ["-m", "1K:64K", "-W", "20", "-i", "5", "-x", "0", "-c"]
    outcome = run_losing(101, "bw", "--udp", *arguments)
    assert outcome.failure == "", outcome.errors
    assert outcome.output.count("Pass") == len(suite.doubled(1 << 10, 64 << 10))
    restarts = re.search(r"(\d+) rounds were started again", outcome.errors)
    assert restarts and int(restarts.group(1)) > 1


def test_lost_udp_packets(run_losing):
    # A message of 256 KiB is several datagrams: parts of it are lost, too.
    outcome = run_losing(13, "latency", "--udp", "-m", "128K:256K", "-i", "10", "-x", "0", "-c")
    assert outcome.failure == "", outcome.errors
    assert outcome.output.count("Pass") == 2
    restarts = re.search(r"(\d+) rounds were started again", outcome.errors)
    assert restarts and int(restarts.group(1)) > 1


def test_no_udp_packet_arrives(run_losing):
    outcome = run_losing(1, "latency", "--udp", "-m", "8:8", "-i", "5")
    assert outcome.failure != ""
    assert "packets of a message of 8 bytes were lost: let UDP pass" in outcome.errors


def test_pairs(run):
    outcome = run("mbw_mr", "-m", "1:8", "-i", "5", "-c", ranks=4)
    assert outcome.failure == "", outcome.errors
    assert "[ pairs: 2 ]" in outcome.output


# Both operations, and the loops of both kinds of programs, with each synchronization: put and get
# have the same loops. Above, all four run with the default, which is flush.
@pytest.mark.parametrize(
    "program, sync, create",
    [
        ("put_latency", "flush", "allocate"),
        ("get_bw", "flush", "create"),
        ("put_bw", "lock", "create"),
        ("get_latency", "lock", "allocate"),
        ("put_latency", "fence", "create"),
        ("get_bw", "fence", "create"),
    ],
)
def test_synchronization_of_one_sided_programs(run, program, sync, create):
    arguments = ["-s", sync, "-w", create, "-m", "1:4096", "-i", "5", "-c"]
    outcome = run(program, *arguments)
    assert outcome.failure == "", outcome.errors
    assert f"MPI_Win_{sync}" in outcome.output
    assert f"MPI_Win_{create}" in outcome.output


def test_zero_bytes(run):
    outcome = run("latency", "-m", "0:1", "-i", "5", "-c")
    assert outcome.failure == "", outcome.errors
    assert list(osu.parse(outcome.output, {"latency": 1})) == [0, 1]


@pytest.mark.parametrize(
    "program, arguments, text",
    [
        ("latency", "-m 8:4", "MIN not above MAX"),
        ("latency", "-m 4G", "below 2G"),
        ("latency", "-i 0", "-i 0: give a number from 1"),
        ("latency", "-W 4", "does not take -W"),
        ("latency", "--cpu", "does not take --cpu"),
        ("bibw", "--cold none", "does not take --cold"),
        ("bibw", "--udp", "does not take --udp"),
        ("bw", "--first", "does not take --first"),
        ("latency", "--first", "--first takes one size"),
        ("latency", "--first -m 8:8 --udp", "--first takes no"),
        ("bw", "--cold lukewarm", "--cold lukewarm: give none"),
        ("bw", "--cold both,both", "--cold both,both: give none"),
        ("bw", "--cold=", "--cold : give none"),
        ("bw", "-W many", "-W many: give a number from 1 to 65536"),
        ("bw", "-q", "unknown option"),
        ("bw", "-m", "its value is missing"),
        ("bw", "extra", "not an option"),
        ("put_bw", "-s nonsense", "flush, lock or fence"),
        ("allreduce", "-m 1:8", "multiple of 4"),
    ],
)
def test_wrong_usage(run_alone, program, arguments, text):
    outcome = run_alone(program, *arguments.split())
    assert outcome.failure == "exit code 1"
    assert text in outcome.errors


@pytest.mark.parametrize("program, text", [("bw", "mpirun -n 2"), ("mbw_mr", "even")])
def test_wrong_number_of_ranks(run, program, text):
    outcome = run(program, ranks=3)
    assert outcome.failure == "exit code 1"
    # Only rank 0 reports it.
    assert outcome.errors.count(text) == 1


@each_test
def test_help(run_alone, test):
    outcome = run_alone(test.program, "--help")
    assert outcome.failure == ""
    assert "Usage:" in outcome.output
    # No other program has its description.
    assert ABOUT[test.program] in outcome.output


@pytest.fixture
def cost(build):
    program = str(build / "benchmarks/pf/fault_cost")
    return lambda *arguments, **options: launch.run(
        [program, *arguments], {**os.environ, **options}, 60
    )


@each_cost
def test_output_of_fault_cost(cost, test):
    if test.name == "beside-swap" and not swap.present():
        pytest.skip("there is no swap space")
    outcome = cost(test.name, "-i", "20", "-x", "1")
    if "userfaultfd: " in outcome.errors:
        pytest.skip(outcome.errors.strip())
    assert outcome.failure == "", outcome.errors
    rows = osu.parse(outcome.output, test.columns, test.sized)
    assert sorted(rows) == ([4096, 8192, 16384] if test.sized else [0])


@pytest.mark.parametrize("options", [{"LIBPF_NETWORK": "always"}, {"LIBPF_SINGLE_COPY": "0"}], ids=str)
@pytest.mark.parametrize("test", ["minor", "warm", "pager"])
def test_fault_cost_where_the_partner_moves_the_bytes(cost, test, options):
    outcome = cost(test, "-i", "20", "-x", "1", **options)
    if "userfaultfd: " in outcome.errors:
        pytest.skip(outcome.errors.strip())
    assert outcome.failure == "", outcome.errors


@pytest.mark.parametrize(
    "arguments, text",
    [
        ("", "must be the name of a test"),
        ("nonsense", "must be the name of a test"),
        ("minor -m 5000:6000", "multiples of the page size"),
        ("minor -m 0:4096", "multiples of the page size"),
        ("minor -i 0", "from 1"),
        ("pager -m 4096", "does not take -m"),
    ],
)
def test_wrong_usage_of_fault_cost(cost, arguments, text):
    outcome = cost(*arguments.split())
    assert outcome.failure == "exit code 2"
    assert text in outcome.errors


def test_help_of_fault_cost(cost):
    outcome = cost("--help")
    assert outcome.failure == ""
    for test in COST_TESTS:
        assert f"\n{test.name}: " in outcome.output

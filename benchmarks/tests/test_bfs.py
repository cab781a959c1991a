# SPDX-License-Identifier: BSD-3-Clause
"""The command bfs, its program, and the verification of a search."""

import csv
import os
import subprocess
from dataclasses import replace

import pytest

from pfbench import bfs
from pfbench.bfs import Run, Search
from pfbench.memory_group import MemoryGroup
from waiting import LIMIT

SCALE = "12"
ONE_HOST = [way.name for way in bfs.WAYS if way.name != "remote-hosts"]
DAMAGES = {
    "root": "the parent of root",
    "itself": "has a cycle",
    "cycle": "has a cycle",
    "range": "no valid parent",
    "unreached": "no valid parent",
    "missing": "leaves the tree",
    "more": "no edge joins",
    "depth": "joins levels",
    "stranger": "no edge joins",
}


@pytest.fixture
def program(build):
    def start(*arguments):
        command = [str(build / "benchmarks/pf/bfs"), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)

    return start


@pytest.fixture
def graph(program, tmp_path):
    path = tmp_path / "graph"
    done = program("make", path, "--scale", SCALE)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def verify(build):
    path = build / "benchmarks/tests/verify"
    if not path.exists():
        pytest.skip("there is no verify: run make check TESTS=")

    def start(damage):
        return subprocess.run([path, damage], capture_output=True, text=True, timeout=LIMIT)

    return start


def test_a_correct_tree(verify):
    done = verify("not")
    assert (done.returncode, done.stdout) == (0, "correct\n")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_tree(verify, damage):
    done = verify(damage)
    assert done.returncode == 1, done.stderr
    assert DAMAGES[damage] in done.stdout


@pytest.mark.parametrize("way", ONE_HOST)
def test_every_way_is_correct(program, graph, way):
    done = program("search", graph, "--way", way, "--roots", 3)
    assert done.returncode == 0, done.stderr
    searches = bfs.parse(done.stdout, 3)
    pages = (1 << int(SCALE)) * 32 * 4 // os.sysconf("SC_PAGESIZE")
    for search in searches:
        assert search.edges > search.reached > 1000
        # Nothing was resident before: each search brings it again.
        if way in ("userfault", "pager"):
            assert search.supplied == pages
        elif way in ("userfault-block", "pager-ahead"):
            assert search.supplied == search.read == 8
        elif way == "pager-get":
            # Two blocks of a get may meet absent pages of one unit at the same time.
            assert search.supplied == search.read >= 8
        else:
            assert search.supplied == 0


@pytest.mark.parametrize("way", [way.name for way in bfs.WAYS if way.limits])
def test_a_part_is_resident(program, graph, way):
    done = program("search", graph, "--way", way, "--roots", 2, "--resident", 256 << 10)
    assert done.returncode == 0, done.stderr
    for search in bfs.parse(done.stdout, 2):
        assert search.evicted == search.read - 4 or search.evicted > 4


def test_wrong_contents_are_noticed(program, graph):
    """A wrong column makes a tree that has an edge that the graph does not have."""
    with open(graph, "r+b") as file:
        file.seek(-(1 << int(SCALE)) * 32 * 4, os.SEEK_END)
        columns = bytearray(file.read())
        columns[::4] = bytes(value ^ 1 for value in columns[::4])
        file.seek(-len(columns), os.SEEK_END)
        file.write(columns)
    done = program("search", graph, "--way", "mmap", "--roots", 1)
    assert done.returncode == 1
    assert "is wrong" in done.stderr
    with pytest.raises(ValueError, match="instead of 1"):
        bfs.parse(done.stdout.replace("# verified 1", ""), 1)


@pytest.mark.parametrize("suffix", ["", ".blocks"])
@pytest.mark.parametrize("at", [0, 16, 20, 24, 40])
def test_a_damaged_file_is_refused(program, graph, suffix, at):
    """Magic, scale, factor, block, and the offsets or the index."""
    with open(f"{graph}{suffix}", "r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 4)
    done = program("search", graph, "--way", "userfault")
    assert done.returncode == 1
    assert "graph" in done.stderr


def test_a_short_file_is_refused(program, graph):
    os.truncate(graph, os.stat(graph).st_size - 4096)
    done = program("search", graph, "--way", "mmap")
    assert done.returncode == 1
    assert "graph" in done.stderr


def test_a_damaged_block_is_refused(program, graph):
    with open(f"{graph}.blocks", "r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(b"\xff" * 4096)
    done = program("search", graph, "--way", "pager")
    assert done.returncode == 1
    assert done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["make"],
        ["make", "/dev/null/graph", "--scale", "10"],
        ["make", "x", "--scale", "9"],
        ["make", "x", "--scale", "10", "--block", "1000"],
        ["make", "x", "--scale", "10", "--block", "262144"],
        ["nonsense", "x"],
        ["search", "x"],
        ["search", "x", "--way", "nonsense"],
        ["search", "/dev/null/graph", "--way", "memory"],
    ],
)
def test_wrong_usage(program, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = program(*arguments)
    assert done.returncode in (1, 2)
    assert done.stderr


def test_too_little_is_resident(program, graph):
    done = program("search", graph, "--way", "pager", "--resident", "100000")
    assert done.returncode == 1
    assert "must be resident" in done.stderr


def test_real_run(build, real_hosts, tmp_path):
    options = ["--build", str(build), "--out", str(tmp_path), "--hosts", "--goals"]
    assert bfs.main([*options, "--scale", "14", "-r", "1", "--roots", "1"]) == 0
    with open(tmp_path / "bfs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    complete = [row["way"] for row in rows if row["memory"] == "all"]
    assert complete == [way.name for way in bfs.WAYS]
    # All made the same tree's vertices.
    assert len({row["reached"] for row in rows}) == 1
    text = (tmp_path / "tables.txt").read_text()
    assert "met      every result is correct by Graph500's rules" in text
    # The graph and the address are gone.
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("bfs.csv", "environment.txt", "tables.txt")
    ]


def search(seconds):
    return Search(1, 100, 2000, seconds, 0.5, 0.25, 7, 1, 10, 5, 0, 1024)


def made_up_run(way, seconds, memory="all", repetition=0):
    return Run(way, memory, repetition, (search(seconds),))


def test_table():
    runs = [made_up_run("memory", 1.0), made_up_run("memory", 3.0, repetition=1)]
    line = bfs.render(runs, {}).splitlines()[-1].split()
    assert line[:4] == ["memory", "2.000", "(1.000", "3.000)"]


def test_goals():
    runs = [
        made_up_run("memory", 1.0),
        made_up_run("userfault", 10.0),
        made_up_run("pager", 6.0),
        made_up_run("pager-get", 5.0),
        made_up_run("remote", 3.5),
        made_up_run("mmap", 2.0, "half"),
        made_up_run("pager-get", 2.0, "half"),
    ]
    met = {finding.text: finding.met for finding in bfs.judge(runs, False)}
    assert met["every result is correct by Graph500's rules"] is True
    most = "takes at most 0.5 of the time of"
    assert met[f"pager {most} userfault (both pages)"] is False
    assert met[f"pager-get {most} userfault (other units)"] is True
    assert met[f"pager-get {most} userfault-block (both blocks)"] is None
    assert met["remote takes at most 3 times as long as memory"] is False
    half = "takes at most as long as mmap, with half of the columns in memory"
    assert met[f"pager-get {half}"] is True
    assert met[f"pager {half}"] is None
    assert bfs.judge(runs, True)[0].met is False
    assert not bfs.incomplete(runs)
    assert bfs.incomplete([*runs, made_up_run("memory", 1.0, repetition=1)])


def test_processor_time():
    runs = [
        Run(way, "all", 0, (replace(search(1.0), user=user, system=0.0),))
        for way, user in (("mmap", 1.0), ("pager-ahead", 3.0))
    ]
    assert bfs.render(runs, {}).splitlines()[-1].endswith("mmap: 3.00 with room for all columns")


def test_a_run_fails(made_up):
    made_up.script("benchmarks/pf/bfs", PROGRAM)
    done = made_up.start("bfs", "--quick", "--ways", "memory,pager", "--goals")
    assert done.returncode == 1
    assert "FAILED: pager, all in memory: exit code 1" in done.stderr
    assert "made-up reason" in done.stderr
    assert "NOT MET  every result is correct" in done.stdout


PROGRAM = """\
import sys

if sys.argv[1] == "make":
    for name in ("vertices", "columns", "bytes", "compressed", "build_seconds", "write_seconds"):
        print(f"# {name} 1")
elif "pager" in sys.argv:
    sys.exit("made-up reason")
else:
    print(*[1] * 12)
    print("# verified 1")
"""


@pytest.mark.parametrize(
    "arguments", ["--scale 9", "--scale 29", "--ways nonsense", "-r 0", "--block 0"]
)
def test_wrong_options(made_up, arguments):
    made_up.script("benchmarks/pf/bfs", PROGRAM)
    done = made_up.start("bfs", *arguments.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_programs_are_missing(made_up):
    done = made_up.start("bfs")
    assert done.returncode == 2
    assert "quickstart build" in done.stderr


def test_memory_group_versions(tmp_path):
    with pytest.raises(ValueError, match="no groups"):
        MemoryGroup(tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").touch()
    with MemoryGroup(tmp_path).made() as group:
        (folder,) = (path for path in (tmp_path / "memory").iterdir() if path.is_dir())
        assert group.inside(["a", "b"])[-3:] == [f"{folder}/cgroup.procs", "a", "b"]
        with pytest.raises(ValueError, match="version 2"):
            group.press(0.5)
    assert not folder.exists()
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    with MemoryGroup(tmp_path).made() as group:
        high, current = (
            tmp_path / folder.name / f"memory.{name}" for name in ("high", "current")
        )
        high.touch()
        current.write_text("1000\n")
        for share, written in ((0.5, "500"), (None, "max")):
            group.press(share)
            assert high.read_text() == written
        high.unlink()
        current.unlink()


def test_memory_group_limits(limits_of_memory):
    """A real group: what a command keeps beyond the limit ends it."""
    with MemoryGroup().made() as group:
        group.limit(64 << 20)
        eat = "x = bytearray(int(__import__('sys').argv[1])); x[::4096] = x[::4096]"
        python = ["python3", "-c", eat]
        for size, enough in ((1 << 20, True), (256 << 20, False)):
            done = subprocess.run(group.inside([*python, str(size)]), timeout=LIMIT)
            assert (done.returncode == 0) == enough

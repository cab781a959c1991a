# SPDX-License-Identifier: BSD-3-Clause
"""The command papers: its document from made-up results, its key-value servers, its options."""

import csv
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from made_up import BENCHMARKS
from pfbench import application_results, bfs, document, measures, overcommit, papers, store
from pfbench.comparison import Setup
from pfbench.data import open_data
from pfbench.overcommit import Depth, Point
from pfbench.packaged import APPLICATIONS
from pfbench.suite import KIB, MIB
from test_applications import FAST, HPCC, LAMMPS, SAME, SLOW, Row, runs
from test_bfs import PROGRAM, made_up_run
from waiting import LIMIT

KV = 4 * KIB
DOCUMENT = BENCHMARKS.parent / "doc" / "results.md"


def summary(path, rows):
    """rows: test, transport, size, median, and the state if it is not 62."""
    with open_data(path, "w") as file:
        out = csv.writer(file)
        out.writerow(store.SUMMARY_HEADS)
        for test, transport, size, median, *state in rows:
            figures = [3, median, median * 0.9, median * 1.2]
            where = [1, "", *(state or ["62.0"])]
            out.writerow([test, *where, transport, size, "unit", *figures, "", ""])


@pytest.fixture
def folder(tmp_path):
    """Results with known figures."""
    rows = [("minor-cold", "exanest", 4096, 3.0), ("minor-warm", "exanest", 4096, 1.0)]
    rows += [("minor-touch", "exanest", 4096, 0.5), ("pager-thread", "exanest", 0, 10.0)]
    rows += [("pager-spinning", "exanest", 0, 2.0), ("pager-forwarded", "exanest", 0, 4.0)]
    for part in ("notify", "supply", "retransmit", "copy"):
        rows.append((f"pager-{part}", "exanest", 0, 1.0))
    for way, value in (("exanest", 1.0), ("pin", 2.0), ("prefault", 4.0), ("pin-cache", 8.0)):
        for size in (4 * KIB, 64 * KIB, MIB, 4 * MIB):
            rows.append((measures.COLD_LATENCY["destination"].name, way, size, value))
            rows.append((measures.COLD_LATENCY["none"].name, way, size, 1 / value))
            for cold in ("none", "destination"):
                rows.append((measures.COLD_BANDWIDTH[cold].name, way, size, 8000 / value))
    # Of the other state: fewer.
    rows.append((measures.COLD_LATENCY["none"].name, "exanest", 4 * KIB, 999.0, "240.0"))
    rows.append((measures.COLD_LATENCY["destination"].name, "ucx", 4 * KIB, 1.0))
    summary(tmp_path / "results-faults.csv.xz", rows)
    cold = measures.COLD_BANDWIDTH["destination"].name
    summary(
        tmp_path / "results-hosts.csv.xz",
        [(cold, "exanest", MIB, 500.0), (cold, "backup", MIB, 1111.0), (cold, "tcp", MIB, 1000.0)]
        + [(cold, "pin", MIB, 250.0)]
        + [("bandwidth-file", "exanest", MIB, 4000.0), ("bandwidth-file", "backup", MIB, 3000.0)]
        + [("bandwidth-file", "ucx", MIB, 2000.0), ("waits-file", "exanest", MIB, 64.0)]
        + [("bandwidth-cold-loss-1", "exanest", 512 * KIB, 90.0)]
        + [("bandwidth-cold-loss-1", "tcp", 512 * KIB, 45.0)],
    )
    points = [
        Point("paced", "pin", 8, 1, 8 * KV, 4, 40000.0, 0.0, 4 * KV, 4 * KV, KV, "was killed"),
        Point("paced", "fault", 8, 1, 8 * KV, 8, 80000.0, 0.0625, 3 * KV, 0, 2 * KV),
        Point("unpaced", "pin", 8, 1, 8 * KV, 4, 400000.0, 0.0, 4 * KV, 4 * KV, KV, "was killed"),
        Point("unpaced", "fault", 8, 1, 8 * KV, 8, 200000.0, 0.0625, 3 * KV, 0, 2 * KV),
    ]
    overcommit.write(points, tmp_path / "results-overcommit.csv.xz")
    runs = [made_up_run("memory", 1.0), made_up_run("remote", 3.5)]
    bfs.write(runs, tmp_path / "results-bfs.csv.xz")
    with open_data(tmp_path / "results-machine.csv.xz", "w") as file:
        facts = [("faults", "kernel", "Linux 6.18"), ("bfs", "graph", "scale 10")]
        facts.append(("faults", "cache line at the start", "62 ns from one core to the other"))
        facts += [("faults", "cpu", "A"), ("faults", "cpus usable", "2")]
        facts.append(("faults", "duration", "9 s"))
        facts.append(("faults", document.HUGE_PAGES, "always [madvise] never"))
        csv.writer(file).writerows([("step", "name", "value"), *facts])
    return tmp_path


def test_document(folder):
    text = document.write(folder).read_text()
    for part in (
        f"| latency: pinned for each transfer | 0.76 |{4 * ' 0.50, **met** |'}"
        f"{4 * ' 2.00, **not met** |'}",
        "| latency: pinned, with a cache | - | 0.12, **met** |",
        "| latency: ucx | - | 1.00, **undecided** | - |",
        "| throughput: pre-faulted | 1.12 | 4.00, **met** |",
        "| fresh: pre-faulted | 4.00 (30%) |",
        "Of the 32 ratios with a published figure: 24 met, 0 undecided, 8 not met.",
        "Of the 17 others, where to be met is: not slower: 12 met, 1 undecided, 4 not met.",
        "Of the 1 ratios with a published figure: 1 met, 0 undecided, 0 not met.",
        "takes 2.00 us longer than a warm one; the kernel's own page fault takes 0.50 us",
        "over pinning: 2.00, **met**. Published: 1.46.",
        "| paced | 8 | 4 | 40,000 | 8 | 80,000 | 6.2% | 2.00, **met** |",
        "| unpaced | 8 | 4 | 400,000 | 8 | 200,000 | 6.2% | 0.50, **not met** |",
        "| 8 | 32 | 16 | 16 | 4 | 0 | 12 | 8 |",
        "40,000 pinned (4 instances ran), 80,000 not pinned (8 ran): 2.00, **met**. Published: ",
        "200,000 not pinned (8 ran): 0.50, **not met**",
        "Why instances did not run: was killed (pin).",
        "Unpaced with 8 instances: 0.50, **not met**. Not pinned, 8 servers",
        "| cold: exanest / best peer | - | - | - | - | 0.50 of tcp, **not met** | - |",
        "| file: backup | - | - | - | - | 3000 (30%) | - |",
        "| file: exanest / best peer | - | - | - | - | 2.00 of ucx, **met** | - |",
        "| file: exanest, blocks of a message that waited | - | - | - | - | 64.0 | - |",
        "| MB/s | 512 K |\n",
        "| 1 % lost: exanest / best peer | 2.00 of tcp |\n",
        "The goal by medians: destination cold, 64 KiB to 1 MiB, at least 1.5 of the bandwidth",
        "by a thread that sleeps: 0.40, **met**; by one that spins: 2.00, **not met**",
        "met      every result is correct by Graph500's rules: 2 searches verified",
        "NOT MET  remote takes at most 3 times as long as memory: 3.500",
        "Linux 6.18",
        "; huge pages: madvise; took 9 s.",
        "graph: scale 10",
        "\nMeasured on A (2 processors) for sections 1, 3.\n",
        "\n- Section 1, one host: 8 of 32 published ratios not met; latency, reused 4 K 2.00 of pinned for",
        "\n- Section 2, overcommitment: unpaced, 8 instances: 0.50 of pinned.\n",
        "\n- Section 2, between hosts: cold 1 M 0.50 of tcp",
        "\n- Section 3, a forwarded page fault: 2.00 of a thread that spins.\n",
        "the figures are those at 62 ns",
    ):
        assert part in text, part
    assert "999" not in text and "1111" not in text
    if shutil.which("gnuplot"):
        assert "](results-exanest.svg)" in text and "](results-overcommit.svg)" in text


@pytest.mark.parametrize("missing", ["faults", "hosts", "overcommit", "bfs"])
def test_a_step_is_missing(folder, missing):
    (folder / f"results-{missing}.csv.xz").unlink()
    assert "Not measured" in document.write(folder).read_text()


def test_from(folder, made_up):
    command = [BENCHMARKS / "papers", "--from", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{folder}/results.md\n"), done.stderr
    (folder / "results-machine.csv.xz").unlink()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "does not exist" in done.stderr


def test_the_committed_document_is_current(tmp_path):
    for file in DOCUMENT.parent.glob("results-*"):
        shutil.copy(file, tmp_path)
    assert document.write(tmp_path).read_text() == DOCUMENT.read_text()


def write_applications(path, rows, failures=()):
    """Rows in which exanest is faster than vader, as FAST is than SAME; tcp failed."""
    done = []
    for row, seconds in rows.items():
        parts = dict.fromkeys(row.application.parts, 1.0)
        done += runs(row, "exanest", seconds, cpu=2.0, parts=parts)
        done += runs(row, "vader", SAME, parts=parts)
    application_results.write(done, failures, path)


def test_applications(folder):
    assert "## 4. Applications" not in document.write(folder).read_text()
    rows = {Row(LAMMPS, 2): FAST, Row(HPCC, 2): SAME, Row(LAMMPS, 4, hosts=4): SLOW}
    failures = [application_results.Failure(Row(HPCC, 2), "tcp", (), "made-up reason", "")]
    write_applications(folder / "results-applications.csv.xz", rows, failures)
    with open_data(folder / "results-machine.csv.xz", "a") as file:
        step = "applications, 4 ranks on 4 hosts"
        facts = [("command", "benchmarks/applications --hosts -n 4"), ("kernel", "Linux 6.19")]
        csv.writer(file).writerows((step, *pair) for pair in facts)
    text = document.write(folder).read_text().partition("## 4. Applications\n")[2]
    for part in (
        "**2 ranks**: exanest, vader, tcp; repetitions: 5.\n",
        "**4 ranks on 4 hosts**: exanest, vader; repetitions: 5.\n"
        "`benchmarks/applications --hosts -n 4`",
        "Linux 6.19",
        "| lammps-lj | 2 ranks | 1.08 (167%) | vader 1.20 (167%) | 0.90 (0.90 to 0.90) "
        "| 2.00 (0%), 1.00 (0%) | 0.977 (0%), 0.977 (0%) | 0, 0 |",
        "| hpcc | 2 ranks | 1.20 (167%) | vader 1.20 (167%) | 1.00 (1.00 to 1.00) | 2.00 (0%), ",
        "| hpcc fft | 2 ranks | 1.00 (0%) | vader 1.00 (0%) | 1.00 (1.00 to 1.00) | - | - | - |",
        "| lammps-lj | 4 ranks on 4 hosts | 1.32 (167%) |",
        "Not measured: 4 ranks; 2 ranks on 2 hosts; 4 ranks on 2 hosts.\n",
        "The goal with 2 ranks: **not met**: 0 of 4 slower than the best peer by more than 2%; "
        "1 application faster by 5% (goal: 4).\n\n"
        "- faster: lammps-lj 0.90 of vader (0.90 to 0.90).\n",
        "The goal with 4 ranks on 4 hosts: **not met**: 1 of 1 slower than the best peer by more "
        "than 2%; 0 applications faster by 5% (goal: 4).\n\n"
        "- slower: lammps-lj 1.10 of vader (1.10 to 1.10); cause: not found.\n"
        "- fewer than 4 faster; cause: not found.\n",
        "- More CPU time than the best peer by over 10%, and not by chance: lammps-lj, 2 ranks: "
        "2.00 of vader",
        "- Failed, and left out: hpcc, 2 ranks tcp: made-up reason.",
    ):
        assert part in text, part


def test_causes(folder):
    path = folder / "results-causes.csv"
    write_applications(folder / "results-applications.csv.xz", {Row(LAMMPS, 2): SLOW})
    head = "setting,row,sizes,cause,first_attempt,second_attempt,figures\n"
    slower = "4 ranks,lammps-lj,,other,,,\n2 ranks,lammps-lj,,made up,this,,3 us\n"
    path.write_text(head + slower + "2 ranks,faster,,few,,,\n")
    text = document.write(folder).read_text()
    assert (
        "(1.10 to 1.10); cause: made up; first attempt: this; second attempt: none; "
        "figures: 3 us.\n"
        "- fewer than 4 faster; cause: few; first attempt: none; second attempt: none.\n"
    ) in text
    assert "causes" not in document.steps(folder)
    four = APPLICATIONS[:application_results.WANTED]
    write_applications(
        folder / "results-applications.csv.xz", {Row(each, 2): FAST for each in four}
    )
    assert "- fewer than" not in document.write(folder).read_text()
    path.write_text(head + "2 ranks,lammps-lj\n")
    with pytest.raises(ValueError, match="results-causes.csv: give the columns setting, row,"):
        document.write(folder)
    path.write_text(head + "4 ranks,bcast,8-64K,x,,,\n")
    with pytest.raises(ValueError, match="results-causes.csv: sizes '8-64K'"):
        document.write(folder)


@pytest.fixture
def published(folder, tmp_path_factory, monkeypatch):
    """A folder in place of doc/, with made-up results of all steps."""
    place = tmp_path_factory.mktemp("doc")
    shutil.copytree(folder, place, dirs_exist_ok=True)
    monkeypatch.setattr(document, "FOLDER", place)
    return place


def run_folder(folder, rows, command):
    folder.mkdir()
    write_applications(folder / application_results.FILE, rows)
    (folder / "environment.txt").write_text(f"date: today\ncommand: {command}\nkernel: Linux 7\n")
    return folder


def test_settings_are_published_apart(published, tmp_path):
    two, four = Row(LAMMPS, 2), Row(LAMMPS, 4)
    hosts = Row(LAMMPS, 4, hosts=4)
    first = run_folder(tmp_path / "1", {hosts: FAST, four: FAST, two: FAST}, "first")
    document.publish_applications(first)
    second = run_folder(tmp_path / "2", {two: SLOW, hosts: SLOW}, "second")
    path = document.publish_applications(second)
    done, _ = application_results.read(published / "results-applications.csv.xz")
    times = {(one.row, one.used.seconds) for one in done if one.transport == "exanest"}
    kept = {(four, round(seconds, 4)) for seconds in FAST}
    assert times == kept | {(row, round(each, 4)) for row in (two, hosts) for each in SLOW}
    text = path.read_text()
    assert path == published / "results.md"
    assert "**2 ranks, 4 ranks on 4 hosts**: exanest, vader; repetitions: 5.\n`second`" in text
    assert "**4 ranks**: exanest, vader; repetitions: 5.\n`first`, today" in text
    # Other steps are kept.
    assert "Not measured: this" not in text and "graph: scale 10" in text


def test_publishing_papers_keeps_other_figures(folder, published, tmp_path, capsys):
    write_applications(published / "results-applications.csv.xz", {Row(LAMMPS, 2): FAST})
    (folder / "results-bfs.csv.xz").unlink()
    summary(folder / "results-hosts.csv.xz", [("bandwidth-destination-cold", "tcp", MIB, 777.0)])
    assert papers.main(["--from", str(folder), "--publish"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(published / "results.md")
    text = (published / "results.md").read_text()
    assert "## 4. Applications" in text and "graph: scale 10" in text and "777" in text
    # What is published is not published again.
    assert papers.main(["--from", str(published), "--publish"]) == 0
    assert (published / "results.md").read_text() == text


@pytest.mark.parametrize("fact, reason", [
    ("source: abc-dirty", "applications, 2 ranks is abc-dirty.*commit the changes"),
    ("exit code: 1", "applications, 2 ranks ended with exit code 1"),
])
def test_what_is_not_published(published, tmp_path, fact, reason):
    before = (published / "results-bfs.csv.xz").read_bytes()
    folder = run_folder(tmp_path / "1", {Row(LAMMPS, 2): FAST}, "first")
    with open(folder / "environment.txt", "a") as file:
        file.write(f"{fact}\n")
    with pytest.raises(ValueError, match=reason):
        document.publish_applications(folder)
    assert not (published / "results-applications.csv.xz").exists()
    assert (published / "results-bfs.csv.xz").read_bytes() == before


def test_nothing_is_measured_that_cannot_be_published(made_up, monkeypatch, capsys):
    monkeypatch.setattr(document.environment, "revision", lambda top: "abc-dirty")
    assert papers.main(["--publish", "--out", str(made_up.out)]) == 2
    assert "the source is abc-dirty" in capsys.readouterr().err
    assert not made_up.out.exists()


def add_programs(made_up):
    made_up.script("benchmarks/pf/bfs", PROGRAM)
    made_up.script("benchmarks/pf/keyvalue", "")


def test_some_steps(made_up):
    add_programs(made_up)
    done = made_up.start("papers", "--quick", "--steps", "faults")
    assert done.returncode == 0, done.stderr
    assert "[1/1] faults: done" in done.stderr
    text = (made_up.out / "results.md").read_text()
    assert "`benchmarks/faults --ways exanest,ahead,prefault,pin,pin-cache,vader,ucx" in text
    assert "; took " in text and "policy ahead) the ratio is" in text
    assert "Not measured" in text
    # A later run adds a step.
    done = made_up.start("papers", "--quick", "--steps", "faults")
    assert done.returncode == 0, done.stderr


def test_a_step_fails(made_up):
    add_programs(made_up)
    (made_up.folder / "FAILING").write_text("pager exanest")
    done = made_up.start("papers", "--quick", "--steps", "faults")
    assert done.returncode == 1
    assert "made-up reason" in done.stderr
    assert "FAILED, exit code 1" in done.stderr
    assert (made_up.out / "results.md").exists()


@pytest.mark.parametrize("arguments", ["--steps nonsense", "--from x --steps bfs", "--timeout 0"])
def test_wrong_usage(made_up, arguments):
    add_programs(made_up)
    done = made_up.start("papers", *arguments.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_programs_are_missing(made_up):
    done = made_up.start("papers", "--quick")
    assert done.returncode == 2
    assert "quickstart build" in done.stderr


@pytest.fixture
def disk_folder(build):
    """Below the build: tmp_path can be in memory."""
    with tempfile.TemporaryDirectory(dir=build) as folder:
        yield Path(folder)


def test_real_key_value_servers(build, disk_folder, limits_of_memory):
    depth = Depth(16, (1, 4), 0.1, 0.2, 1)
    assert overcommit.measure(Setup(build), depth, disk_folder, None) == 0
    points = overcommit.read(disk_folder / "overcommit.csv")
    assert len(points) == 8
    for point in points:
        assert point.lookups > 0
        if point.way == "fault":
            assert point.ran == point.instances
            assert point.locked_kib == 0 < point.used_kib <= point.store_kib
        else:
            assert point.locked_kib == point.ran * 16 * KIB
        if (point.way, point.instances) == ("pin", 4):
            assert point.ran < 4 and "killed" in point.reason
    assert sorted(path.name for path in disk_folder.iterdir()) == [
        *("environment.txt", "overcommit.csv", "tables.txt")
    ]


def test_instances_that_are_late():
    """One that is never ready ends the point, with the reason."""
    commands = [["sleep", "60"], ["sleep", "60"]]
    ends = overcommit.run_instances(commands, dict(os.environ), 0.2)
    assert [reason for _, reason in ends] == ["not all instances were ready after 0.2 s"]


def test_only_missing_room_is_no_failure():
    reason = "keyvalue: the server was killed: Killed"
    for way, text, failed in (
        *(("pin", "", False), ("pin", reason, False), ("fault", reason, True)),
        *(("pin", "stopped after 60 s", True), ("fault", "", False)),
    ):
        assert Point("paced", way, 2, 1, 1, reason=text).failed == failed


@pytest.mark.parametrize(
    "arguments, code",
    [([], 2), (["run", "x"], 2), (["make", "/dev/null/x", "1"], 1)]
    + [(["run", "/dev/null/x", "1", "0", "0.1", "0.1"], 1), (["--help"], 0)],
)
def test_usage_of_keyvalue(build, arguments, code):
    command = [build / "benchmarks/pf/keyvalue", *arguments]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == code
    assert done.stderr


def test_a_wrong_value_is_noticed(build, tmp_path):
    program, path = build / "benchmarks/pf/keyvalue", tmp_path / "store"
    subprocess.run([program, "make", path, "1"], check=True)
    with open(path, "wb") as file:
        file.write(bytes(1 * MIB))
        file.flush()
        # The server cannot drop pages from the cache that are not on the disk yet.
        os.fsync(file.fileno())
    command = [program, "run", path, "1", "0", "0.1", "0.1"]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1 and "wrong value" in done.stderr

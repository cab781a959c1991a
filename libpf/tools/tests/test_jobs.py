# SPDX-License-Identifier: BSD-3-Clause
"""pf_info --job: the statistics of running processes, and forged ones."""

import json
import os
import re

import pytest

from conftest import HERE, has
from waiting import LIMIT, wait_until

NAME = f"test-job-{os.getpid()}"


class Job:
    """Two processes that move bytes until they are killed, as rank 3 of a job."""

    def __init__(self, tools):
        self.process = tools.start(
            "pf_perf", "--test", "put-bandwidth", "--sizes", "1M", "--seconds", "60",
            "--repetitions", "10000", "--cores", "none", output="job", PMIX_NAMESPACE=NAME,
            OMPI_COMM_WORLD_RANK="3")
        self.pid = str(self.process.pid)
        # The first second is a warm-up.
        assert wait_until(lambda: has(
            r"^ *sum .*[1-9][0-9.]*[MGT]", tools.run("pf_info", "--job", self.pid).stdout))


def no_complaint(output):
    """Other processes that use libpf may run: those of another version are named and left out."""
    return not any(line for line in output.splitlines()
                   if line.startswith("pf_info: ") and "ignored, " not in line)


class TestRunningJob:
    @pytest.fixture(scope="class")
    def job(self, module_tools):
        job = Job(module_tools)
        yield job
        job.process.kill()

    def test_shows_a_job_and_its_sum(self, tools, job):
        done = tools.run("pf_info", "--job", job.pid)
        assert done.returncode == 0 and no_complaint(done.stderr)
        assert f"Job {NAME}, 2 processes, since" in done.stdout
        assert len(re.findall(r"^ *3 *\d.* pf_perf$", done.stdout, re.MULTILINE)) == 2
        assert not has("^ *rank .* refused ", done.stdout)

    def test_finds_the_job(self, tools, job):
        done = tools.run("pf_info", "--job")
        assert done.returncode == 0 and f"Job {NAME}, 2 processes" in done.stdout
        assert has(rf"^ *3 *{job.pid} ", done.stdout)

    def test_interval_shows_differences(self, tools, job):
        watcher = tools.start(
            "pf_info", f"--job={job.pid}", "--interval", "0.3", "--json", output="watcher")

        def read_looks():
            output = watcher.output.read_text()
            assert no_complaint(output)
            return [json.loads(line) for line in output.splitlines(True)
                    if line.endswith("\n") and not line.startswith("pf_info: ")]

        def has_moved(look):
            counted = look["jobs"][0]["sum"]["statistics"]
            names = "single_copy_bytes", "shared_bytes", "stream_bytes", "send_bytes"
            return any(counted[name] for name in names)

        # After a late look the next one comes soon: nothing may have moved between them.
        assert wait_until(lambda: sum(map(has_moved, read_looks()[1:])) >= 5)
        assert watcher.poll() is None
        watcher.terminate()
        watcher.wait(timeout=LIMIT)
        looks = read_looks()
        assert "seconds" not in looks[0]
        for look in looks:
            (shown,) = look["jobs"]
            assert shown["name"] == NAME and len(shown["processes"]) == 2
            assert int(job.pid) in [process["pid"] for process in shown["processes"]]
            for name, value in shown["sum"]["statistics"].items():
                assert value == sum(p["statistics"][name] for p in shown["processes"]), name
            for process in shown["processes"]:
                assert process["rank"] == 3 and process["command"] == "pf_perf"
                assert 0 < process["age_seconds"] < 100
                times = process["resolve_time"]
                assert len(times["histogram"]) == 24 and sum(times["histogram"]) == times["faults"]
        assert all(look["seconds"] > 0 for look in looks[1:])
        sums = [look["jobs"][0]["sum"]["statistics"] for look in looks]
        # The two met before the first look.
        assert sums[0]["peers"] == 2 and not any(counted["peers"] for counted in sums[1:])


def test_interval_ends_with_the_job(tools):
    job = Job(tools)
    watcher = tools.start("pf_info", "--job", job.pid, "--interval", "0.05", output="watcher")
    assert wait_until(lambda: "in the last" in watcher.output.read_text())
    job.process.kill()
    assert watcher.wait(timeout=LIMIT) == 0 and no_complaint(watcher.output.read_text())


def test_no_such_process(tools):
    done = tools.run("pf_info", "--job", "999999999")
    assert done.returncode == 1 and not done.stdout
    assert "there is no process 999999999" in done.stderr


def test_process_without_libpf(tools):
    done = tools.run("pf_info", "--job", str(os.getpid()))
    assert done.returncode == 1 and not done.stdout
    assert f"process {os.getpid()} does not use libpf" in done.stderr


@pytest.fixture(scope="module")
def forger(module_tools):
    return module_tools.compile(HERE / "forge.c", "forge", f"-I{HERE.parents[1]}",
                                f"-I{HERE.parents[1] / 'include'}")


@pytest.fixture
def forge(tools, forger):
    """forge(WHAT): a process that has such statistics pages, see forge.c."""

    def start(what):
        process = tools.start(forger, what, output="forge.out")
        assert wait_until(lambda: "ready" in process.output.read_text())
        return str(process.pid)

    return start


@pytest.mark.parametrize("what, text", [
    ("empty", "malformed"),
    ("short", "malformed"),
    ("unsealed", "malformed"),
    ("noise", "malformed"),
    ("version", "another version"),
    ("counts", "another version"),
    ("inherited", "does not use libpf"),
])
def test_ignores_a_forged_page(tools, forge, what, text):
    pid = forge(what)
    done = tools.run("pf_info", "--job", pid)
    assert done.returncode == 1 and not done.stdout
    assert f"process {pid}" in done.stderr and text in done.stderr


def test_survives_counters_without_sense(tools, forge):
    pid = forge("wild")
    done = tools.run("pf_info", "--job", pid)
    assert done.returncode == 0 and has("  forge$", done.stdout)
    done = tools.run("pf_info", "--json", "--job", pid)
    assert done.returncode == 0 and '"age_seconds":0.000000' in done.stdout


def test_counts_each_page_once(tools, forge):
    done = tools.run("pf_info", "--job", forge("twice"))
    assert done.returncode == 0 and len(done.stdout.split("forge")) == 3


def test_kinds_bytes_and_percentiles(tools, forge):
    pid = forge("counted")
    done = tools.run("pf_info", "--job", pid)
    assert done.returncode == 0
    (row,) = [line.split()[2:] for line in done.stdout.splitlines() if has(rf"^ *\S+ +{pid} ", line)]
    assert " ".join(row) == "98 0 0 0 0 1 1 0 100 0 0 3.00M 0 512ns 262us more forge"

# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests, and the option --tap."""

import functools
import os
import subprocess
from pathlib import Path

import pytest

from made_up import MadeUp
from pfbench import hosts
from pfbench.results import Results, Sample

BUILD = Path(os.environ.get("BUILD", "/nonexistent"))


def pytest_addoption(parser):
    parser.addoption("--tap", action="store_true", help="print TAP; needs -p no:terminal")


def pytest_configure(config):
    if config.getoption("--tap"):
        config.pluginmanager.register(Tap())


def pytest_collection_modifyitems(items):
    if "PF_TEST_QUICK" in os.environ:
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip("PF_TEST_QUICK is set"))


class Tap:
    """Prints a line for each test, and the traceback of each failure."""

    def __init__(self):
        self.count = 0

    def pytest_collection_finish(self, session):
        print(f"1..{len(session.items)}", flush=True)

    def pytest_collectreport(self, report):
        if report.failed:
            self.print("not ok", report)

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            reason = report.longrepr[2].removeprefix("Skipped: ")
            self.print("ok", report, f" # SKIP {reason}")
        elif report.failed or report.when == "call":
            self.print("ok" if report.passed else "not ok", report)

    def print(self, word, report, note=""):
        self.count += 1
        print(f"{word} {self.count} - {report.nodeid.replace('#', '')}{note}")
        if report.failed:
            for line in str(report.longrepr).splitlines():
                print(f"# {line}")
        print(end="", flush=True)


@pytest.fixture
def made_up(tmp_path):
    return MadeUp(tmp_path)


@pytest.fixture
def build():
    """The build tree."""
    if not (BUILD / "benchmarks/mpi/latency").exists():
        pytest.skip("BUILD does not name a build tree")
    return BUILD


@functools.lru_cache(maxsize=None)
def hosts_obstacle():
    env = {**os.environ, "EXANEST_HOSTS": f"test-{os.getpid()}"}
    done = subprocess.run(
        [hosts.SCRIPT, "up", "1"], env=env, capture_output=True, text=True
    )
    subprocess.run([hosts.SCRIPT, "down"], env=env, check=True)
    return done.stderr.strip() if done.returncode else ""


@pytest.fixture
def real_hosts():
    if hosts_obstacle():
        pytest.skip(f"tests/hosts cannot make hosts: {hosts_obstacle()}")


@pytest.fixture
def results():
    """Makes results from {transport: {size: [value of each repetition]}}."""

    def make(measure, values):
        made = Results(values)
        for transport, sizes in values.items():
            for size, repetitions in sizes.items():
                for index, value in enumerate(repetitions):
                    made.add(Sample(measure, transport, size, index, value))
        return made

    return make

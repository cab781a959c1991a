# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests."""

import functools
import os
import subprocess
from pathlib import Path

import pytest

from made_up import MadeUp
from pfbench import environment, hosts, streams
from pfbench.memory_group import MemoryGroup
from pfbench.results import Results, Sample

BUILD = Path(os.environ.get("BUILD", "/nonexistent"))


@pytest.fixture(autouse=True)
def committed(monkeypatch):
    """What tests in this process publish counts as measured with a commit's sources."""
    monkeypatch.setattr(environment, "revision", lambda top: "abc1234")


@pytest.fixture
def made_up(tmp_path):
    return MadeUp(tmp_path)


@pytest.fixture
def build():
    """The build tree."""
    if not (BUILD / "benchmarks/mpi/latency").exists():
        pytest.skip("BUILD does not name a build tree")
    return BUILD


@pytest.fixture
def limits_of_memory():
    """Skips the test where no memory cgroup with a limit can be made."""
    try:
        with MemoryGroup().made() as group:
            group.limit(64 << 20)
    except (ValueError, OSError) as error:
        pytest.skip(str(error))


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
def patient_streams(monkeypatch, capfd):
    """Runs a main function of streams on a busy machine, where mpirun takes its time to start."""
    # Ranks sleep after 20 idle polls, and leave the processors to other tests.
    monkeypatch.setenv("OMPI_MCA_btl_exanest_idle_polls", "20")

    def run(main, options):
        for warm_up in (10.0, 40.0):
            monkeypatch.setattr(streams, "WARM_UP", warm_up)
            status = main(options)
            shown = capfd.readouterr()
            print(shown.out + shown.err)
            # Also of a peer, whose failure the status does not tell.
            if "BEGIN" not in shown.err:
                break
        return status

    return run


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

# SPDX-License-Identifier: BSD-3-Clause
"""The hosts of a run, with a script in place of tests/hosts."""

import os
import signal
import subprocess
import sys

import pytest

from made_up import BENCHMARKS
from pfbench.hosts import Hosts
from waiting import LIMIT

COMMAND = """\
import signal, sys
from pathlib import Path
from pfbench import cli, hosts

def run():
    hosts.SCRIPT = Path(sys.argv[1])
    with hosts.Hosts(1500).made():
        print("made", flush=True)
        signal.pause()

sys.exit(cli.guarded("compare", run))
"""


@pytest.fixture(autouse=True)
def script(made_up, monkeypatch):
    made_up.hosts(monkeypatch)


def commands(made_up):
    return [call.split()[0] for call in made_up.hosts_calls()]


def test_a_set_of_its_own(made_up):
    hosts = Hosts(1500)
    with hosts.made():
        hosts.prepare({"loss": "1"})
        hosts.prepare({"loss": "1"})
        subprocess.run([*hosts.placement.launcher], check=True)
    assert commands(made_up) == ["up", "set", "run", "down"]


def test_incomplete_hosts_are_removed(made_up):
    (made_up.folder / "FAILING").write_text("up")
    with pytest.raises(ValueError, match="hosts up .*made-up reason"):
        with Hosts(1500).made():
            pass
    assert commands(made_up) == ["up", "down"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_hosts_are_removed_by_a_signal(made_up, number):
    process = subprocess.Popen(
        [sys.executable, "-B", "-c", COMMAND, str(made_up.folder / "hosts")],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "made\n"
    process.send_signal(number)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert commands(made_up) == ["up", "down"]

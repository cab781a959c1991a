# SPDX-License-Identifier: BSD-3-Clause
"""The commands of benchmarks/README.md, with made-up programs."""

import shlex

import pytest

from made_up import BENCHMARKS
from pfbench import (
    applications,
    bfs,
    collectives,
    compare,
    fairness,
    faults,
    incast,
    interfaces,
    papers,
    promises,
)
from pfbench.packaged import APPLICATIONS
from pfbench.suite import COST_TESTS

TEXT = (BENCHMARKS / "README.md").read_text()
COMMANDS = [
    line.strip() for line in TEXT.splitlines() if line.startswith("    benchmarks/")
]


def test_there_are_commands():
    assert len(COMMANDS) > 8


@pytest.mark.parametrize("line", COMMANDS)
def test_command(made_up, monkeypatch, line):
    listed = ["btl:exanest", "btl:vader", "btl:tcp", "pml:ucx", "smsc:exanest", "smsc:cma"]
    made_up.listing(listed)
    program, *arguments = shlex.split(line, comments=True)
    command = program.partition("/")[2]
    slow = {
        "applications": applications,
        "bfs": bfs,
        "fairness": fairness,
        "incast": incast,
        "interfaces": interfaces,
        "papers": papers,
        "promises": promises,
    }
    if command in slow:
        # They take their time: the test of each command has a short run.
        slow[command].parser().parse_args(arguments)
        return
    # Repetitions take their time: --rules takes no fewer than 5.
    arguments += ["-r", "5" if "--rules" in line else "1"]
    if "--hosts" in line:
        made_up.hosts(monkeypatch)
        between_hosts = {"collectives": collectives, "compare": compare, "faults": faults}
        assert between_hosts[command].main([*made_up.folders(), *arguments]) == 0
        return
    done = made_up.start(command, *arguments)
    assert done.returncode == 0, done.stderr


def test_every_application_is_described():
    for application in APPLICATIONS:
        row = f"| `{application.name}` | {application.packages.replace(' ', ', ')} |"
        assert row in TEXT


def test_every_test_of_fault_cost_is_described():
    for test in COST_TESTS:
        assert f"| `{test.name}` |" in TEXT

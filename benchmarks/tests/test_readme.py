# SPDX-License-Identifier: BSD-3-Clause
"""The commands that benchmarks/README.md shows, run with programs made up for it."""

import shlex
import unittest
from pathlib import Path

from pfbench import fairness
from pfbench.suite import COST_TESTS, TESTS

from hosts_here import hosts_obstacle
from made_up import MadeUp
from quick import thorough

README = Path(__file__).resolve().parents[1] / "README.md"


def commands():
    lines = README.read_text().splitlines()
    return [line.strip() for line in lines if line.startswith("    benchmarks/")]


class Readme(MadeUp):
    programs = tuple(test.program for test in TESTS)

    @thorough
    def test_commands(self):
        self.listing(["btl:exanest", "btl:vader", "btl:tcp", "pml:ucx"])
        self.assertGreater(len(commands()), 8)
        for line in commands():
            with self.subTest(line):
                if "--hosts" in line and hosts_obstacle():
                    self.skipTest(f"there can be no hosts: {hosts_obstacle()}")
                program, *arguments = shlex.split(line, comments=True)
                self.command_name = Path(program).name
                if "--hosts" in line:
                    # Hosts take their time: one repetition, and few sizes.
                    arguments += ["-r", "1", "--max", "8192"]
                if self.command_name == "fairness":
                    # Its streams take the time that they take: test_fairness has a short one.
                    fairness.parser().parse_args(arguments)
                    continue
                done = self.start(*arguments)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_test_of_fault_cost_is_there(self):
        for test in COST_TESTS:
            self.assertIn(f"| `{test.name}` |", README.read_text())


if __name__ == "__main__":
    unittest.main()

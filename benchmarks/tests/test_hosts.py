# SPDX-License-Identifier: BSD-3-Clause
"""Hosts made for a comparison, with a script made up in place of tests/hosts."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from pfbench.hosts import Hosts

# Not at the start of a line, where it would be this file's own.
SCRIPT = """#!/bin/sh
echo "$EXANEST_HOSTS $1" >>"$0.log"
[ "$1" != "$(cat "$0.failing" 2>/dev/null)" ]
"""
COMPARISON = """\
import signal, sys
from pathlib import Path
from pfbench import cli, hosts

def run():
    with hosts.Hosts(1500, Path(sys.argv[1])).made():
        print("made", flush=True)
        signal.pause()

sys.exit(cli.guarded("compare", run))
"""


class Made(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.script = self.folder / "hosts"
        self.script.write_text(SCRIPT)
        self.script.chmod(0o755)

    def calls(self):
        lines = (self.folder / "hosts.log").read_text().splitlines()
        names, commands = zip(*(line.split() for line in lines))
        self.assertEqual(len(set(names)), 1)
        self.assertRegex(names[0], r"^compare-\d+$")
        return list(commands)

    def test_a_set_of_its_own(self):
        hosts = Hosts(1500, self.script)
        with hosts.made():
            hosts.prepare({"loss": "1"})
            done = subprocess.run([*hosts.placement.launcher])
            self.assertEqual(done.returncode, 0)
        self.assertEqual(self.calls(), ["up", "set", "run", "down"])

    def test_what_could_not_be_made_whole_is_removed(self):
        (self.folder / "hosts.failing").write_text("up")
        with self.assertRaisesRegex(ValueError, "hosts up"):
            with Hosts(1500, self.script).made():
                pass
        self.assertEqual(self.calls(), ["up", "down"])

    def test_nothing_is_left_when_stopped(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                (self.folder / "hosts.log").unlink(missing_ok=True)
                env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
                process = subprocess.Popen(
                    [sys.executable, "-B", "-c", COMPARISON, str(self.script)],
                    env=env,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                self.assertEqual(process.stdout.readline(), "made\n")
                process.send_signal(number)
                process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + number)
                self.assertEqual(self.calls(), ["up", "down"])


if __name__ == "__main__":
    unittest.main()

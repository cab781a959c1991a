# SPDX-License-Identifier: BSD-3-Clause
"""A folder with an mpirun, an ompi_info and benchmark programs made up for tests of commands."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MPIRUN = """\
import re, sys

line = " ".join(sys.argv)
if "--version" in line:
    sys.exit("mpirun (made up) 4.1.4")
for failing in open("FAILING").read().split():
    if f" {failing},self " in line:
        sys.exit(f"made-up reason: {failing}")
for rank in (0, 1):
    print(f"[h:1] MCW rank {rank} bound to core {rank}", file=sys.stderr)
sizes = re.search(r"-m (\\d+):(\\d+)", line)
low, high = map(int, sizes.groups()) if sizes else (0, 0)
value = 1.0 if "exanest" in line else 2.0
print("# MPI Made-Up Test")
while low <= high:
    print(low, *[value] * 8) if high else print(value)
    if not high:
        break
    low *= 2
"""


FAULT_COST = """\
import sys

test = sys.argv[1]
if test in open("FAILING").read().split():
    sys.exit(f"made-up reason: {test}")
if "-m" in sys.argv:
    for size in (4096, 8192, 16384):
        print(size, 1.5, 0.5, 2.25)
else:
    print(10, 8, *[4] * 5)
"""


class MadeUp(unittest.TestCase):
    # Of benchmarks/.
    command_name = ""
    arguments = ()
    programs = ()

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.script("mpirun", MPIRUN)
        self.listing(["btl:exanest", "btl:vader", "btl:tcp"])
        (self.folder / "FAILING").write_text("")
        for name in self.programs:
            self.script(f"benchmarks/mpi/{name}", "")
        self.script("benchmarks/pf/fault_cost", FAULT_COST)

    def script(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Hundreds are started: without site-packages, and without the environment.
        path.write_text(f"#!{sys.executable} -IS\n{text}")
        path.chmod(0o755)

    def listing(self, components):
        components = ["btl:self", *components]
        lines = "".join(f"mca:{component}:version:1\\n" for component in components)
        self.script("ompi_info", f'print("{lines}")')

    def start(self, *arguments, path=None):
        command, env = self.command(arguments, path)
        return subprocess.run(
            command,
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def command(self, arguments, path=None):
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OSU_", "OMPI_", "EBROOT"))
        }
        env["PATH"] = path or f"{self.folder}:/usr/bin:/bin"
        program = Path(__file__).resolve().parents[1] / self.command_name
        command = [sys.executable, str(program), *self.arguments]
        command += ["--build", str(self.folder), "--out", str(self.folder / "out")]
        return [*command, *arguments], env

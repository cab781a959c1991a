# SPDX-License-Identifier: BSD-3-Clause
"""A build tree and an Open MPI with scripts as programs, for tests of the commands."""

import os
import subprocess
import sys
from pathlib import Path

from pfbench.suite import COLLECTIVES, TESTS

BENCHMARKS = Path(__file__).resolve().parents[1]
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
value = 1.0 if "exanest" in line else 0.5 if "--udp" in line else 2.0
print("# MPI Made-Up Test")
while low <= high:
    if "--line" in line:
        columns = (2 if "--cpu" in line or "mbw_mr" in line else 1) * (4 if "--cold" in line else 1)
        print(*[low] * bool(high), *[value] * columns, 54, 54)
    else:
        print(*[low] * bool(high), *[value] * 8)
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
# Prints the first line of CACHE_LINE, and removes it unless it is the last one.
PF_PERF = """\
lines = open("CACHE_LINE").read().splitlines()
print("# cache line:", lines[0])
open("CACHE_LINE", "w").write("\\n".join(lines[1:] or lines))
"""
# In place of tests/hosts: records the calls. Receivers of a stream have 10 MB/s.
HOSTS = """\
import os, sys

arguments = sys.argv[1:]
folder = os.path.dirname(sys.argv[0])
with open(f"{folder}/hosts.log", "a") as log:
    print(os.environ["EXANEST_HOSTS"], *arguments, file=log)
if arguments[0] == open(f"{folder}/FAILING").read():
    sys.exit("made-up reason: hosts")
if "sink" in arguments or any(part.endswith("/flow") for part in arguments):
    begin, end, step = map(float, arguments[-3:])
    for index in range(round((end - begin) / step)):
        print(f"{(index + 1) * step:.3f} {round(step * 10e6)}")
elif arguments[0] == "run" and arguments[1:]:
    os.execv(f"{folder}/mpirun", ["mpirun", *arguments[1:]])
"""


class MadeUp:
    def __init__(self, folder):
        self.folder = folder
        self.out = folder / "out"
        self.script("mpirun", MPIRUN)
        self.listing(["btl:exanest", "btl:vader", "btl:tcp"])
        (folder / "FAILING").write_text("")
        (folder / "CACHE_LINE").write_text("54 ns from one core to the other")
        for name in {test.program for test in (*TESTS, *COLLECTIVES)} | {"flow"}:
            self.script(f"benchmarks/mpi/{name}", "")
        self.script("benchmarks/pf/fault_cost", FAULT_COST)
        self.script("libpf/tools/pf_perf", PF_PERF)

    def script(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Hundreds of them run: start Python without site-packages and variables.
        path.write_text(f"#!{sys.executable} -IS\n{text}")
        path.chmod(0o755)
        return path

    def listing(self, components):
        components = ["btl:self", *components]
        lines = "".join(f"mca:{component}:version:1\\n" for component in components)
        self.script("ompi_info", f'print("{lines}")')

    def hosts(self, monkeypatch):
        """Replace tests/hosts in this process, for commands that run in it."""
        monkeypatch.setattr("pfbench.hosts.SCRIPT", self.script("hosts", HOSTS))
        monkeypatch.chdir(self.folder)
        for name, value in self.environment().items():
            monkeypatch.setenv(name, value)

    def hosts_calls(self):
        """The calls of tests/hosts without the name of the hosts, which is one."""
        lines = (self.folder / "hosts.log").read_text().splitlines()
        names = {line.split()[0] for line in lines}
        assert len(names) == 1 and names.pop().startswith("compare-")
        return [line.partition(" ")[2] for line in lines]

    def environment(self):
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OSU_", "OMPI_", "EBROOT"))
        }
        return {**env, "PATH": f"{self.folder}:/usr/bin:/bin"}

    def command(self, command, *arguments):
        program = [sys.executable, str(BENCHMARKS / command)]
        return [*program, *self.folders(), *arguments]

    def folders(self):
        return ["--build", str(self.folder), "--out", str(self.out)]

    def start(self, command, *arguments, **changes):
        return subprocess.run(
            self.command(command, *arguments),
            cwd=self.folder,
            env={**self.environment(), **changes},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def environment_text(self):
        return (self.out / "environment.txt").read_text()

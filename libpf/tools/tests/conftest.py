# SPDX-License-Identifier: BSD-3-Clause
"""The tools of the build tree that BUILD or top_builddir names; by default build/ at the top."""

import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from waiting import LIMIT

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
BUILD = Path(os.environ.get("BUILD") or os.environ.get("top_builddir") or TOP / "build").resolve()
TOOLS = BUILD / "libpf/tools"


def pytest_configure():
    if not (TOOLS / "pf_perf").exists():
        pytest.exit(f"there is no pf_perf in {TOOLS}: BUILD must name a built tree", 2)


def has(pattern, text):
    """Whether a line has the pattern."""
    return re.search(pattern, text, re.MULTILINE)


class Tools:
    """Runs the tools without the user's options and calibration."""

    def __init__(self, folder):
        self.folder = folder
        self.calibration = folder / "cache/libpf/calibration"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("LIBPF_")}
        self.environment["XDG_CACHE_HOME"] = str(folder / "cache")
        self.environment["PATH"] = f"{TOOLS}:{os.environ['PATH']}"
        self.started = []

    def run(self, *command, **variables):
        done = subprocess.run(
            command, env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LIMIT)
        print(done.stdout, done.stderr, f"exit status {done.returncode}", sep="\n")
        return done

    def start(self, *command, output="output", **variables):
        """A process in the background; .output is the file that it writes to."""
        path = self.folder / output
        with open(path, "w") as file:
            process = subprocess.Popen(
                command, env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT)
        process.output = path
        self.started.append(process)
        return process

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    def compile(self, source, name, *flags):
        command = [*shlex.split(os.environ.get("CC", "cc")), "-D_GNU_SOURCE", *flags]
        if not shutil.which(command[0]):
            pytest.skip(f"there is no {command[0]}")
        subprocess.run([*command, "-o", self.folder / name, source], check=True)
        return str(self.folder / name)


@pytest.fixture
def tools(tmp_path):
    tools = Tools(tmp_path)
    yield tools
    tools.end()


@pytest.fixture(scope="module")
def module_tools(tmp_path_factory):
    """The same for all tests of a file."""
    tools = Tools(tmp_path_factory.mktemp("tools"))
    yield tools
    tools.end()


@pytest.fixture(scope="session")
def deny_cma(tmp_path_factory):
    """A command before another one, for which seccomp forbids single copy."""
    tools = Tools(tmp_path_factory.mktemp("deny"))
    program = tools.compile(TOP / "ompi-btl-exanest/tests/deny_cma.c", "deny_cma")
    if subprocess.run([program, "true"]).returncode:
        pytest.skip("seccomp is not available")
    return program

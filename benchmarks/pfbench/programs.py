# SPDX-License-Identifier: BSD-3-Clause
"""Finds the benchmark programs: OSU's where the machine has them, or our own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional

_MODULES = ("osu-micro-benchmarks", "OSU-Micro-Benchmarks", "osu")
# Set by users, sites and EasyBuild modules.
_VARIABLES = ("OSU_HOME", "OSU_DIR", "EBROOTOSUMINMICROMINBENCHMARKS")


class NoPrograms(Exception):
    """There is nothing to run; the text says what to do."""


@dataclass(frozen=True)
class Programs:
    # "OSU" or "own"
    kind: str
    # Where they were found, for people.
    origin: str
    # File name without "osu_" to path.
    paths: dict[str, Path]

    def get(self, program: str) -> Optional[Path]:
        return self.paths.get(program)


def own(build: Optional[Path]) -> Optional[Programs]:
    folder = build / "benchmarks" / "mpi" if build else None
    if not folder or not _executable(folder / "latency"):
        return None
    return Programs(
        "own",
        str(folder),
        {
            path.name: path
            for place in (folder, folder.parent / "pf")
            for path in (place.iterdir() if place.is_dir() else ())
            if _executable(path)
        },
    )


def osu_in(folder: Path) -> Optional[Programs]:
    """OSU's programs anywhere below a folder, or beside it as installed."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("osu_*")):
        if _executable(path):
            found.setdefault(path.name[len("osu_") :], path)
    return Programs("OSU", str(folder), found) if "latency" in found else None


def osu_anywhere(env: dict[str, str]) -> Iterator[Programs]:
    """OSU's programs in PATH, by variables, from Spack, from environment modules."""
    for place in _places(env):
        if not place.is_dir():
            continue
        programs = osu_in(place)
        if programs:
            yield programs


def _places(env: dict[str, str]) -> Iterator[Path]:
    in_path = shutil.which("osu_latency", path=env.get("PATH"))
    if in_path:
        yield _root_of(Path(in_path))
    for variable in _VARIABLES:
        if env.get(variable):
            yield Path(env[variable])
    if shutil.which("spack", path=env.get("PATH")):
        prefix = _output(["spack", "location", "-i", "osu-micro-benchmarks"], env)
        if prefix:
            yield Path(prefix)
    modules = env.get("LMOD_CMD") or env.get("MODULES_CMD")
    for name in _MODULES if modules else ():
        script = f'eval "$("{modules}" bash load {name})"; command -v osu_latency'
        in_path = _output(["bash", "-c", script], env)
        if in_path:
            yield _root_of(Path(in_path))


def _root_of(program: Path) -> Path:
    """OSU installs pt2pt, collective and one-sided side by side."""
    folder = program.parent
    return folder.parent if folder.name == "pt2pt" else folder


def _output(command: list[str], env: dict[str, str]) -> str:
    """The last line that a command prints; empty if it fails."""
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.split("\n") if done.returncode == 0 else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def version_in(output: str) -> str:
    """The first line of a program's output: '# OSU MPI Latency Test v5.7'."""
    match = re.search(r"^# (.*Test.*)$", output, re.MULTILINE)
    return match.group(1).strip() if match else ""

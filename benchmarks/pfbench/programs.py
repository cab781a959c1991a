# SPDX-License-Identifier: BSD-3-Clause
"""Finds the benchmark programs: those of OSU, or those of the build tree."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional

from .launch import PATIENCE

_MODULES = ("osu-micro-benchmarks", "OSU-Micro-Benchmarks", "osu")
# Set by users, sites and EasyBuild modules.
_VARIABLES = ("OSU_HOME", "OSU_DIR", "EBROOTOSUMINMICROMINBENCHMARKS")


@dataclass(frozen=True)
class Programs:
    folder: Path
    # By file name without "osu_".
    paths: dict[str, Path]


def own(build: Optional[Path]) -> Optional[Programs]:
    folder = build / "benchmarks" / "mpi" if build else None
    if not folder or not _executable(folder / "latency"):
        return None
    return Programs(
        folder,
        {
            path.name: path
            for place in (folder, folder.parent / "pf")
            if place.is_dir()
            for path in place.iterdir()
            if _executable(path)
        },
    )


def osu_in(folder: Path) -> Optional[Programs]:
    """OSU's programs anywhere below a folder."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("osu_*")):
        if _executable(path):
            found.setdefault(path.name[len("osu_") :], path)
    return Programs(folder, found) if "latency" in found else None


def osu_anywhere(env: dict[str, str]) -> Iterator[Programs]:
    """OSU's programs of PATH, of variables, of Spack, of environment modules."""
    for place in _places(env):
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
    """The folder of the programs' folders: pt2pt, collective and one-sided."""
    folder = program.parent
    return folder.parent if folder.name == "pt2pt" else folder


def _output(command: list[str], env: dict[str, str]) -> str:
    """The last line that a command prints; empty if the command fails."""
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60 * PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.split("\n") if done.returncode == 0 else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)

# SPDX-License-Identifier: BSD-3-Clause
"""How the benchmark programs are found."""

import pytest

from pfbench import programs


@pytest.fixture
def add(tmp_path):
    def make(path, mode=0o755, text=""):
        path = tmp_path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(mode)
        return path

    return make


def test_osu_as_installed(tmp_path, add):
    latency = add("libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency")
    put = add("libexec/osu-micro-benchmarks/mpi/one-sided/osu_put_bw")
    found = programs.osu_in(tmp_path)
    assert found.paths == {"latency": latency, "put_bw": put}


def test_osu_sources_are_no_programs(tmp_path, add):
    add("mpi/pt2pt/osu_latency.c", 0o644)
    assert programs.osu_in(tmp_path) is None


def test_osu_in_path_and_by_variable(tmp_path, add):
    latency = add("mpi/pt2pt/osu_latency")
    add("mpi/collective/osu_barrier")
    for env in (
        {"PATH": str(latency.parent)},
        {"PATH": "", "OSU_HOME": str(tmp_path)},
        {"PATH": "", "OSU_DIR": str(tmp_path / "absent"), "OSU_HOME": str(tmp_path)},
    ):
        assert "barrier" in next(programs.osu_anywhere(env)).paths, env


def test_osu_by_spack(tmp_path, add):
    add("osu/pt2pt/osu_latency")
    spack = add("bin/spack", text=f"echo {tmp_path}/osu")
    env = {"PATH": f"{spack.parent}:/usr/bin:/bin"}
    assert next(programs.osu_anywhere(env), None) is not None


def test_own(tmp_path, add):
    assert programs.own(tmp_path) is None
    latency = add("benchmarks/mpi/latency")
    assert programs.own(tmp_path).paths == {"latency": latency}

# SPDX-License-Identifier: BSD-3-Clause
"""pf_perf shows the time of a cache line between the two processors, or why it does not."""

import os
import pathlib
import re
import subprocess

import pytest

BUILD = os.environ.get("BUILD") or os.environ.get("top_builddir")
TOOLS = pathlib.Path(BUILD or pathlib.Path(__file__).parents[3] / "build") / "libpf" / "tools"
SHORT = ["--test", "put-latency", "--sizes", "8", "--iterations", "10", "--repetitions", "1"]
needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only")


def cache_line(*arguments):
    result = subprocess.run([TOOLS / "pf_perf", *SHORT, *arguments], capture_output=True, text=True,
                            timeout=120)
    assert result.returncode == 0, result.stderr
    (text,) = re.findall(r"^# cache line: (.*)$", result.stdout, re.MULTILINE)
    return text


@needs_two_cores
def test_it_is_a_plausible_time():
    match = re.fullmatch(r"(\d+) ns from one core to the other", cache_line())
    # From a part of a processor's shared cache to a machine that is far too busy.
    assert match and 1 <= int(match[1]) <= 10_000_000


@needs_two_cores
def test_the_processors_are_those_of_the_measurement():
    first, second = sorted(os.sched_getaffinity(0))[:2]
    assert "ns from one core" in cache_line("--cores", f"{second},{first}")


def test_one_core_has_none():
    core = min(os.sched_getaffinity(0))
    assert cache_line("--cores", f"{core},{core}").startswith("not measured: ")


def test_processes_that_are_not_bound_have_none():
    assert cache_line("--cores", "none").startswith("not measured: ")


def test_a_partner_of_its_own_has_none(tmp_path):
    address = tmp_path / "address"
    with subprocess.Popen([TOOLS / "pf_perf", "--listen", address, "--cores", "none"]) as partner:
        text = cache_line("--connect", address, "--cores", "none")
        assert partner.wait(timeout=60) == 0
    assert text == "not measured: the partner is not a child of this process"


def test_values_have_no_remarks():
    result = subprocess.run([TOOLS / "pf_perf", *SHORT, "--csv"], capture_output=True, text=True,
                            timeout=120)
    assert result.returncode == 0 and "#" not in result.stdout

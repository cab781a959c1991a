# SPDX-License-Identifier: BSD-3-Clause
"""pf_perf shows the time of a cache line between the two processors, or why it does not."""

import os
import re

import pytest

from waiting import LIMIT

SHORT = ["--test", "put-latency", "--sizes", "8", "--iterations", "10", "--repetitions", "1"]
needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only")


def cache_line(tools, *arguments):
    result = tools.run("pf_perf", *SHORT, *arguments)
    assert result.returncode == 0, result.stderr
    (text,) = re.findall(r"^# cache line: (.*)$", result.stdout, re.MULTILINE)
    return text


@needs_two_cores
def test_it_is_a_plausible_time(tools):
    match = re.fullmatch(r"(\d+) ns from one core to the other", cache_line(tools))
    # From a part of a processor's shared cache to a machine that is far too busy.
    assert match and 1 <= int(match[1]) <= 10_000_000


@needs_two_cores
def test_the_processors_are_those_of_the_measurement(tools):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    assert "ns from one core" in cache_line(tools, "--cores", f"{second},{first}")


def test_one_core_has_none(tools):
    core = min(os.sched_getaffinity(0))
    assert cache_line(tools, "--cores", f"{core},{core}").startswith("not measured: ")


def test_processes_that_are_not_bound_have_none(tools):
    assert cache_line(tools, "--cores", "none").startswith("not measured: ")


def test_a_partner_of_its_own_has_none(tools):
    address = tools.folder / "address"
    partner = tools.start("pf_perf", "--listen", address, "--cores", "none")
    text = cache_line(tools, "--connect", address, "--cores", "none")
    assert partner.wait(timeout=LIMIT) == 0
    assert text == "not measured: the partner is not a child of this process"


def test_values_have_no_remarks(tools):
    result = tools.run("pf_perf", *SHORT, "--csv")
    assert result.returncode == 0 and "#" not in result.stdout

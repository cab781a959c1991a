# SPDX-License-Identifier: BSD-3-Clause
"""The command lines of the tools: what they show and what they refuse."""

import pytest

from conftest import has

EACH = pytest.mark.parametrize("tool", ["pf_info", "pf_perf", "pf_trace"])


def refused(tools, text, *command):
    done = tools.run(*command)
    assert done.returncode == 2 and text in done.stderr and not done.stdout


@EACH
def test_help(tools, tool):
    done = tools.run(tool, "--help")
    assert done.returncode == 0 and has(f"^Usage: {tool}", done.stdout) and not done.stderr


@EACH
def test_version(tools, tool):
    done = tools.run(tool, "--version")
    assert done.returncode == 0 and has(rf"^{tool} \d+\.\d+\.\d+(-rc\d+)?$", done.stdout)


@pytest.mark.parametrize("tool, argument", [
    ("pf_info", "--nonsense"),
    ("pf_info", "nonsense"),
    ("pf_perf", "--nonsense"),
    ("pf_perf", "nonsense"),
    ("pf_trace", "--nonsense"),
])
def test_unknown(tools, tool, argument):
    refused(tools, argument, tool, argument)


@pytest.mark.parametrize("option, value", [
    ("--sizes", "8:4"),
    ("--sizes", "0:4"),
    ("--sizes", "8:"),
    ("--sizes", "1e3"),
    ("--iterations", "0"),
    ("--seconds", "fast"),
    ("--seconds", "nan"),
    ("--repetitions", "0"),
    ("--warm-up", "-1"),
    ("--window", "0"),
    ("--cores", "0"),
    ("--cores", "0,1,2"),
    ("--cores", "0,99999"),
    ("--test", "send-latency,nonsense"),
    ("--calibrate=maybe", None),
])
def test_perf_refuses(tools, option, value):
    refused(tools, option.partition("=")[0], "pf_perf", *filter(None, [option, value]))


@pytest.mark.parametrize("text, command", [
    ("--job many", "pf_info --job many"),
    ("--job 0", "pf_info --job=0"),
    ("is for --job", "pf_info --interval 1"),
    ("--interval 0", "pf_info --job --interval 0"),
    ("ask for either", "pf_info --job --paths"),
    ("command is missing", "pf_trace --"),
    ("--listen", "pf_perf --listen a --connect b"),
])
def test_refuses(tools, text, command):
    refused(tools, text, *command.split())


@pytest.mark.parametrize("command", ["pf_info", "pf_perf --sizes 1"])
@pytest.mark.parametrize("name, value, text", [
    ("LIBPF_RING_SIZE", "12345", ""),
    ("LIBPF_POLICY", "pinned", " is invalid: must be touch, ahead, huge or adaptive"),
])
def test_invalid_variable(tools, command, name, value, text):
    done = tools.run(*command.split(), **{name: value})
    assert done.returncode == 1 and f"{name}={value}{text}" in done.stderr

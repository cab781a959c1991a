# SPDX-License-Identifier: BSD-3-Clause
"""What bash completes on the command lines of the tools."""

import pathlib

import pytest

from waiting import wait_until

FOLDER = pathlib.Path(__file__).parent.parent / "completions"
# As bash calls it: the words in COMP_WORDS, the last one being completed.
CALL = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_$1 "$1" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(tools, *words):
    done = tools.run("bash", "-uc", CALL, "bash", str(FOLDER / words[0]), *words)
    assert done.returncode == 0 and not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("words, expected", [
    (["pf_info", "--cali"], ["--calibration", "--calibrated"]),
    (["pf_info", "--live", "--js"], ["--json"]),
    (["pf_info", "--job", "--int"], ["--interval"]),
    (["pf_info", "--interval", ""], []),
    (["pf_perf", "--it"], ["--iterations"]),
    (["pf_perf", "--iterations", ""], []),
    (["pf_perf", "--test", "send-l"], ["send-latency"]),
    (["pf_perf", "-t", "send-rate,atomic-r"], ["send-rate,atomic-rate"]),
    (["pf_perf", "--calibrate", "="], ["show"]),
    (["pf_perf", "--calibrate", "=", "s"], ["show"]),
    (["pf_trace", "--out"], ["--output"]),
    (["pf_trace", "--svg", "x", "--", "unama"], []),
    (["pf_trace", "-o", "x", "basena"], ["basename"]),
])
def test_words(tools, words, expected):
    assert complete(tools, *words) == expected


@pytest.mark.parametrize("tool", ["pf_info", "pf_perf", "pf_trace"])
def test_options(tools, tool):
    """Each option in the help is completed, and nothing else."""
    options = complete(tools, tool, "--")
    assert options and all(option in tools.run(tool, "--help").stdout for option in options)
    assert {"--help", "--version"} <= set(options)


def test_processes(tools):
    """After --job, processes that have opened a context."""
    process = tools.start("pf_perf", "--test", "send-latency", "--seconds", "60")
    assert wait_until(lambda: str(process.pid) in complete(tools, "pf_info", "--job", ""))

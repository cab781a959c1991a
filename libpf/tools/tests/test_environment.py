# SPDX-License-Identifier: BSD-3-Clause
"""What pf_info and pf_perf say of LIBPF_* variables that are wrong."""

import json

import pytest

TOOL = {
    "pf_info": ["--options"],
    "pf_perf": ["--test", "put-latency", "--sizes", "8", "--iterations", "10",
                "--repetitions", "1", "--cores", "none"],
}
each_tool = pytest.mark.parametrize("tool", TOOL)


def option(tools, name, **variables):
    result = tools.run("pf_info", "--json", "--options", **variables)
    (found,) = [entry for entry in json.loads(result.stdout)["options"] if entry["name"] == name]
    return found["value"], found["origin"]


@pytest.fixture
def calibrated(tools):
    """The tools with a calibration of this machine that sets eager_limit to 12288."""
    shown = json.loads(tools.run("pf_info", "--json", "--calibration").stdout)["calibration"]
    tools.calibration.parent.mkdir(parents=True)
    tools.calibration.write_text(
        f"# libpf calibration 2\nmachine = {shown['machine']}\neager_limit = 12288\n")
    return tools


def test_an_invalid_variable_leaves_the_calibrated_value_and_its_origin(calibrated):
    assert option(calibrated, "eager_limit") == (12288, "calibration")
    assert option(calibrated, "eager_limit", LIBPF_EAGER_LIMIT="abc") == (12288, "calibration")
    assert option(calibrated, "eager_limit", LIBPF_EAGER_LIMIT="8K") == (8192, "environment")


def test_an_invalid_variable_leaves_the_default_and_its_origin(tools):
    assert option(tools, "eager_limit", LIBPF_EAGER_LIMIT="abc")[1] == "default"


@each_tool
def test_every_invalid_variable_is_reported(tools, tool):
    result = tools.run(tool, *TOOL[tool], LIBPF_EAGER_LIMIT="abc", LIBPF_RING_SIZE="100000")
    assert result.returncode == 1
    assert "LIBPF_EAGER_LIMIT=abc is invalid: must be from 64 to 16777216" in result.stderr
    assert "LIBPF_RING_SIZE=100000 is invalid: must be a power of two" in result.stderr


@each_tool
@pytest.mark.parametrize("name, nearest", [
    ("LIBPF_RNG_SIZE", "LIBPF_RING_SIZE"),
    ("LIBPF_EAGERLIMIT", "LIBPF_EAGER_LIMIT"),
    ("LIBPF_IF_INCLUDES", "LIBPF_IF_INCLUDE"),
])
def test_a_misspelt_variable_is_a_warning_with_the_nearest_name(tools, tool, name, nearest):
    result = tools.run(tool, *TOOL[tool], **{name: "1"})
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert name in line and line.endswith(nearest)


@each_tool
def test_an_unknown_variable_is_a_warning(tools, tool):
    result = tools.run(tool, *TOOL[tool], LIBPF_BUFFALO="1")
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert "LIBPF_BUFFALO is not an option of libpf" in line


@each_tool
def test_valid_variables_cause_no_warning(tools, tool):
    result = tools.run(
        tool, *TOOL[tool], LIBPF_RING_SIZE="64K", LIBPF_IF_INCLUDE="lo", LIBPF_TEST_ANYTHING="1")
    assert result.returncode == 0
    assert result.stderr == ""

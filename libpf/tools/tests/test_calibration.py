# SPDX-License-Identifier: BSD-3-Clause
"""pf_perf --calibrate writes a file that libpf uses, or ignores with a reason."""

import os

import pytest

from conftest import has


def origin(tools, option, **variables):
    """Where pf_info says that the value of the option comes from."""
    shown = tools.run("pf_info", "--options", **variables).stdout
    return has(rf"^ *{option} +\S+ +(\S+)", shown)[1]


def state(tools, text, **variables):
    done = tools.run("pf_info", "--calibration", "--options", **variables)
    assert done.returncode == 0 and has(f"^  state  *{text}", done.stdout)
    return done.stdout


@pytest.fixture(scope="module")
def calibrated(module_tools):
    """Tools that have calibrated this machine."""
    if os.cpu_count() < 2:
        pytest.skip("there is only one core")
    assert module_tools.run("pf_perf", "--calibrate", "--force").returncode == 0
    return module_tools


def test_none(tools):
    state(tools, "none: .*pf_perf --calibrate")
    assert tools.run("pf_info", "--calibrated").returncode == 1


def test_needs_two_cores(tools):
    assert "needs two cores" in tools.run("pf_perf", "--calibrate", "--cores", "0,0").stderr


def test_file(calibrated):
    file = calibrated.calibration
    first, machine, *values = file.read_text().splitlines()
    assert first == "# libpf calibration 2" and has("^machine = .", machine)
    assert all(has(r"^(#.*|[a-z_.]+ = \d+)$", line) for line in values)
    assert file.stat().st_mode & 0o777 == 0o644
    assert os.listdir(file.parent) == ["calibration"]


def test_in_force(calibrated):
    state(calibrated, "in force")
    for option in "eager_limit", "share_min", "ring_size", "run_max":
        assert origin(calibrated, option) == "calibration"
    assert origin(calibrated, "wake") == "default"
    done = calibrated.run("pf_info", "--calibrated")
    assert done.returncode == 0 and not done.stdout


def test_environment_goes_first(calibrated):
    assert origin(calibrated, "share_min", LIBPF_SHARE_MIN="64K") == "environment"
    assert origin(calibrated, "eager_limit", LIBPF_SHARE_MIN="64K") == "calibration"


def ignored(tools, text, **variables):
    assert not has(" calibration$", state(tools, f"ignored: .*{text}", **variables))
    done = tools.run("pf_info", "--calibrated", **variables)
    assert done.returncode == 1 and not done.stdout + done.stderr


@pytest.mark.parametrize("text, number, line", [
    ("another machine", 1, "machine = another"),
    ("malformed", 3, "eager_limit = many"),
    ("malformed", 3, "eager_limit = 1"),
    ("malformed", 0, None),
], ids=["another machine", "not a number", "out of range", "another kind of file"])
def test_ignored(calibrated, text, number, line):
    good = calibrated.calibration.read_text()
    lines = good.splitlines()
    lines[number:number + 1] = [line] if line else []
    calibrated.calibration.write_text("\n".join(lines) + "\n")
    try:
        ignored(calibrated, text)
    finally:
        calibrated.calibration.write_text(good)


def test_option_off(calibrated):
    ignored(calibrated, "LIBPF_CALIBRATE is 0", LIBPF_CALIBRATE="0")


def test_cannot_write(tools):
    blocked = tools.folder / "blocked"
    blocked.touch()
    done = tools.run("pf_perf", "--calibrate", "--force", XDG_CACHE_HOME=str(blocked))
    assert done.returncode == 1 and str(blocked) in done.stderr


def test_single_copy_forbidden(tools, deny_cma):
    done = tools.run(deny_cma, "pf_perf", "--calibrate=show", "--force")
    assert done.returncode == 0
    assert "not measured: transfers go through the ring" in done.stdout
    assert has("^ring_size = ", done.stdout) and not has("^share_min = ", done.stdout)
    assert not tools.calibration.exists()

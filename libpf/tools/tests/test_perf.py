# SPDX-License-Identifier: BSD-3-Clause
"""The measurements of pf_perf: that they run and verify what they move, not how fast it is."""

import csv
import subprocess

import pytest

from conftest import HERE, TOOLS, has

TESTS = [line.split()[0] for line in subprocess.run(
    [TOOLS / "pf_perf", "--test", "help"], capture_output=True, text=True).stdout.splitlines()]
WAYS = {
    "default": {},
    "through the ring": {"LIBPF_SINGLE_COPY": "0", "LIBPF_RING_SIZE": "256K"},
    "all from both ends": {"LIBPF_SHARE_MIN": "4K", "LIBPF_RUN_MAX": "4K"},
}


def verified(tools, test, *command, **variables):
    """Every size has a row, and its contents were verified."""
    done = tools.run(
        *command, "pf_perf", "--test", test, "--sizes", "1:64K", "--iterations", "100",
        "--repetitions", "2", "--window", "16", "--verify", **variables)
    rows = [line for line in done.stdout.splitlines() if has(r"^ *\d", line)]
    assert done.returncode == 0 and len(rows) == (2 if test.startswith("atomic-") else 17)
    assert all(row.endswith("contents ok") for row in rows)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("way", WAYS)
def test_verified(tools, way, test):
    verified(tools, test, **WAYS[way])


# What the ring moves is verified by the way above.
@pytest.mark.parametrize("test", ["put-bandwidth", "get-latency"])
def test_verified_single_copy_forbidden(tools, deny_cma, test):
    verified(tools, test, deny_cma)


def test_csv(tools):
    done = tools.run(
        "pf_perf", "--csv", "--verify", "--sizes", "1000:5000", "--iterations", "50",
        "--repetitions", "3", "--test", "put-bandwidth,send-latency")
    assert done.returncode == 0
    head, *rows = csv.reader(done.stdout.splitlines())
    assert head[:6] == ["test", "bytes", "unit", "median", "lowest", "highest"]
    assert [int(row[1]) for row in rows] == 2 * [1000, 2000, 4000, 5000]
    for row in rows:
        median, lowest, highest = map(float, row[3:6])
        assert lowest <= median <= highest and row[6:] == ["3", "50", "ok"]


def test_seconds(tools):
    done = tools.run(
        "pf_perf", "--sizes", "8", "--test", "put-latency", "--seconds", "0.002",
        "--repetitions", "3", "--warm-up", "10")
    assert done.returncode == 0 and has(r"^ *8 .*\d$", done.stdout)


def test_not_bound(tools):
    done = tools.run(
        "pf_perf", "--cores", "none", "--test", "put-latency", "--sizes", "8", "--iterations", "20")
    assert done.returncode == 0 and "cores: not bound" in done.stdout


def test_one_core(tools):
    done = tools.run(
        "pf_perf", "--cores", "0,0", "--sizes", "8:64K", "--iterations", "20", "--repetitions",
        "2", "--verify")
    assert done.returncode == 0 and "0, both processes on it" in done.stdout
    assert "contents ok" in done.stdout


@pytest.mark.parametrize("test", ["put-bandwidth", "get-latency"])
def test_verify_notices_a_wrong_byte(tools, test):
    symbols = subprocess.run(["nm", "-D", TOOLS / "pf_perf"], capture_output=True, text=True).stdout
    if has("__[at]san_", symbols):
        pytest.skip("a sanitizer must be loaded first")
    corrupt = tools.compile(HERE / "corrupt.c", "corrupt.so", "-shared", "-fPIC")
    done = tools.run(
        "pf_perf", "--test", test, "--sizes", "4K", "--iterations", "10", "--verify",
        LD_PRELOAD=corrupt)
    assert done.returncode == 1 and f"{test}, 4096 bytes: contents WRONG" in done.stderr
    assert "contents ok" not in done.stdout

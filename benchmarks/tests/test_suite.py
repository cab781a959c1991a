# SPDX-License-Identifier: BSD-3-Clause
import pytest

from pfbench import hosts, suite
from pfbench.suite import KIB, MIB, Span, doubled, size_text


@pytest.mark.parametrize(
    "low, high, sizes",
    [(1, 8, [1, 2, 4, 8]), (1, 9, [1, 2, 4, 8]), (3, 3, [3]), (0, 0, [0])],
)
def test_doubled(low, high, sizes):
    assert doubled(low, high) == sizes


@pytest.mark.parametrize(
    "span, arguments",
    [
        (Span(1, 8), "-m 1:8"),
        (Span(1, 8, 100, 10, 64), "-m 1:8 -i 100 -x 10 -W 64"),
        (Span(0, 0, 5, 0), "-i 5 -x 0"),
    ],
)
def test_arguments(span, arguments):
    assert span.arguments() == arguments.split()


def test_size_text():
    sizes = (1, 1000, KIB, 1536, 64 * KIB, 16 * MIB)
    assert [size_text(s) for s in sizes] == ["1", "1000", "1 K", "1536", "64 K", "16 M"]


def sizes(name, depth, largest=1 << 40):
    test = next(test for test in suite.TESTS if test.name == name)
    return [size for span in test.cut(depth, largest) for size in span.sizes()]


@pytest.mark.parametrize("depth", ["default", "full"])
def test_sizes_of_the_goals_are_measured_once_each(depth):
    assert sizes("latency", depth) == doubled(1, 16 * MIB)
    assert sizes("bandwidth", depth) == doubled(1, 128 * MIB)


def test_cut():
    assert sizes("latency", "default", 32 * KIB) == doubled(1, 32 * KIB)
    assert sizes("latency", "quick") == doubled(1, 4 * MIB)


def test_full_leaves_iterations_and_window_to_the_programs():
    bandwidth = next(test for test in suite.TESTS if test.name == "bandwidth")
    for span in bandwidth.cut("full", 1 << 40):
        assert (span.iterations, span.warmup, span.window) == (None,) * 3


@pytest.mark.parametrize("tests", [suite.TESTS, hosts.TESTS])
def test_names_are_unique(tests):
    names = [test.name for test in tests]
    assert len(set(names)) == len(names)


def test_tests_between_hosts_have_a_network():
    assert all(test.network for test in (*hosts.TESTS, *hosts.COLD_TESTS))

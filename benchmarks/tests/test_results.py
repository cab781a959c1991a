# SPDX-License-Identifier: BSD-3-Clause
import math

import pytest

from pfbench.measures import BANDWIDTH, FILE_WAITS, LATENCY
from pfbench.results import Paired, Results, Sample, geometric_mean, paired


def test_median_of_an_odd_number(results):
    summary = results(LATENCY, {"a": {1: [9.0, 1.0, 2.0]}}).summary(LATENCY, "a", 1)
    assert (summary.median, summary.minimum, summary.maximum) == (2, 1, 9)
    assert summary.repetitions == 3


def test_median_of_an_even_number(results):
    made = results(LATENCY, {"a": {1: [4.0, 1.0, 2.0, 3.0]}})
    assert made.summary(LATENCY, "a", 1).median == 2.5


def test_spread(results):
    made = results(LATENCY, {"a": {1: [8.0, 10.0, 13.0]}})
    assert made.summary(LATENCY, "a", 1).spread == pytest.approx(0.5)


def test_counts_of_nothing(results):
    made = results(FILE_WAITS, {"us": {1: [2.0]}, "none": {1: [0.0]}, "less": {1: [1.0]}})
    assert made.summary(FILE_WAITS, "none", 1).spread == 0
    assert made.ratio(FILE_WAITS, "us", ["none", "less"], 1).peer == "less"
    assert made.ratio(FILE_WAITS, "none", ["us", "less"], 1) is None


def test_not_measured(results):
    made = results(LATENCY, {"a": {1: [1.0]}})
    assert made.summary(LATENCY, "a", 2) is None
    assert made.summary(BANDWIDTH, "a", 1) is None


@pytest.mark.parametrize(
    "measure, value, peer", [(LATENCY, 0.5, "x"), (BANDWIDTH, 0.4, "y")]
)
def test_ratio_to_the_best_peer(results, measure, value, peer):
    made = results(measure, {"us": {1: [2.0]}, "x": {1: [4.0]}, "y": {1: [5.0]}})
    ratio = made.ratio(measure, "us", ["us", "x", "y"], 1)
    assert (ratio.value, ratio.peer) == (value, peer)


def test_no_ratio_to_itself(results):
    assert results(LATENCY, {"us": {1: [2.0]}}).ratio(LATENCY, "us", ["us"], 1) is None


def test_best_peer_is_chosen_for_every_size(results):
    made = results(
        LATENCY,
        {"us": {1: [1.0], 2: [1.0]}, "x": {1: [2.0], 2: [9.0]}, "y": {2: [4.0]}},
    )
    ratios = made.ratios(LATENCY, "us", ["x", "y"])
    assert [(r.size, r.peer) for r in ratios] == [(1, "x"), (2, "y")]


def test_failed_peer_is_left_out(results):
    made = results(LATENCY, {"us": {1: [2.0]}, "x": {1: [1.0]}, "y": {1: [4.0]}})
    made.fail(LATENCY, "x", "exit code 1")
    assert made.ratio(LATENCY, "us", ["x", "y"], 1).peer == "y"


def test_a_bound_is_not_a_peer(results):
    made = results(LATENCY, {"us": {1: [2.0]}, "limit": {1: [1.0]}, "y": {1: [4.0]}})
    made.bounds["limit"] = "what it is"
    assert made.ratio(LATENCY, "us", made.transports, 1).peer == "y"
    assert made.ratio(LATENCY, "us", ["limit"], 1) is None
    assert made.ratio_to_bound(LATENCY, "us", "limit", 1) == 2.0
    assert made.ratio_to_bound(LATENCY, "us", "limit", 2) is None
    assert made.shown(LATENCY) == ["us", "limit", "y"]
    assert made.shown(BANDWIDTH) == ["us", "y"]


def test_failed_subject_has_no_ratio(results):
    made = results(LATENCY, {"us": {1: [2.0]}, "x": {1: [1.0]}})
    made.fail(LATENCY, "us", "exit code 1")
    assert made.ratio(LATENCY, "us", ["x"], 1) is None
    assert made.ratios(LATENCY, "us", ["x"]) == []


def test_failures_are_of_one_measure(results):
    made = results(LATENCY, {"x": {1: [2.0]}})
    made.fail(BANDWIDTH, "x", "exit code 1")
    assert made.summary(LATENCY, "x", 1) is not None
    assert made.measures() == [LATENCY, BANDWIDTH]


def test_the_first_failure_is_kept(results):
    made = results(LATENCY, {"x": {}})
    made.fail(LATENCY, "x", "first")
    made.fail(LATENCY, "x", "second")
    assert made.failures[LATENCY, "x"] == "first"


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
    with pytest.raises(ValueError):
        geometric_mean([])


def test_states_of_the_machine_apart(results):
    made = results(LATENCY, {"a": {1: []}})
    for value, state, line in ((1.0, "close", 30), (3.0, "far", 200), (9.0, "changed", 200)):
        made.add(Sample(LATENCY, "a", 1, 0, value, state, line))
    made.add(Sample(BANDWIDTH, "a", 1, 0, 5.0))
    close, far = made.by_state()
    assert (close[0], far[0]) == ("close", "far")
    assert (close[1].line(), far[1].line()) == (30, 200)
    assert [part.summary(LATENCY, "a", 1).maximum for _, part in (close, far)] == [1, 3]
    # What was measured without its state counts in each.
    assert all(part.summary(BANDWIDTH, "a", 1).median == 5 for _, part in (close, far))


def test_one_state(results):
    made = results(LATENCY, {"a": {1: [1.0]}})
    assert made.by_state() == [("", made)]


@pytest.mark.parametrize(
    "count, low, high",
    [(1, 0, math.inf), (4, 0, math.inf), (5, 1, 5), (7, 1, 7), (8, 2, 7), (10, 2, 9), (20, 6, 15)],
)
def test_interval_of_paired_ratios(count, low, high):
    """The values of binomial tables."""
    found = paired(float(n) for n in range(count, 0, -1))
    assert found == Paired((count + 1) / 2, low, high)


def test_ratios_are_of_the_same_repetition():
    results = Results(["a", "b"])
    for repetition, (mine, other) in enumerate([(1.0, 2.0), (30.0, 60.0), (5.0, None)]):
        results.add(Sample(LATENCY, "a", 1, repetition, mine))
        if other:
            results.add(Sample(LATENCY, "b", 1, repetition, other))
    assert results.paired(LATENCY, "a", "b", 1).median == 0.5
    assert results.paired(LATENCY, "a", "b", 2) is None

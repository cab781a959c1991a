# SPDX-License-Identifier: BSD-3-Clause
import pytest

from pfbench import goals
from pfbench.goals import Bound, Goal, Limit
from pfbench.measures import BANDWIDTH, CPU, LATENCY
from pfbench.results import Figure, Sample

EVERY = Goal("every", LATENCY, ("vader", "ucx"), 1.05, 1, 4)
MEAN = Goal("mean", LATENCY, ("vader", "ucx"), 0.85, 1, 4, mean=True)
BOUND = Goal(
    "bound", LATENCY, ("vader", "ucx"), 0.75, 1, 4, bound=Bound("limit", 1.15)
)
FAST = Goal("fast", BANDWIDTH, ("vader",), 1.7, 1, 2)
FAST_BOUND = Goal("fast", BANDWIDTH, ("vader",), 1.7, 1, 1, bound=Bound("limit", 0.9))


@pytest.fixture
def latency(results):
    return lambda *ours: results(
        LATENCY,
        {
            "exanest": {size: [value] for size, value in zip((1, 2, 4), ours)},
            "vader": {1: [1.0], 2: [2.0], 4: [9.0]},
            "ucx": {1: [3.0], 2: [4.0], 4: [4.0]},
            "tcp": {1: [0.1], 2: [0.1], 4: [0.1]},
        },
    )


def test_met(latency):
    finding = EVERY.judge(latency(1.05, 1.0, 1.0))
    assert finding.met is True
    assert "1.05 of vader at 1" in finding.measured


def test_one_size_misses(latency):
    finding = EVERY.judge(latency(0.5, 1.0, 4.4))
    assert finding.met is False
    assert "1.10 of ucx at 4" in finding.measured
    assert "1 of 3" in finding.measured


def test_mean(latency):
    assert MEAN.judge(latency(0.5, 1.0, 4.0)).met is True
    assert MEAN.judge(latency(0.9, 1.8, 3.6)).met is False


@pytest.mark.parametrize("goal", [EVERY, MEAN])
def test_a_size_not_measured(latency, goal):
    finding = goal.judge(latency(0.5, 0.5))
    assert finding.met is None
    assert "at 4" in finding.measured


def test_beyond_the_spread(latency, results):
    goal = Goal("apart", LATENCY, ("vader", "ucx"), 1.05, 1, 1, apart=True)
    made = latency(1.2)
    assert goal.judge(made).met is False
    made.add(Sample(LATENCY, "vader", 1, 1, 1.15))
    made.add(Sample(LATENCY, "ucx", 1, 1, 1.15))
    made.add(Sample(LATENCY, "exanest", 1, 1, 1.3))
    assert goal.judge(made).met is True
    # vader has the smallest median, but a wide spread; exanest is certainly slower than ucx.
    peers = {"vader": [0.5, 1.4], "ucx": [1.1, 1.1]}
    made = results(LATENCY, {name: {1: times} for name, times in {"exanest": [1.2, 1.3], **peers}.items()})
    found = goal.judge(made)
    assert (found.met, "of ucx" in found.measured) == (False, True)


@pytest.fixture
def bounded(latency):
    def judge(*limits):
        # 0.70, 0.80 and 0.90 of the best peer.
        made = latency(0.7, 1.6, 3.6)
        for size, value in zip((1, 2, 4), limits):
            made.add(Sample(LATENCY, "limit", size, 0, value))
        return BOUND.judge(made)

    return judge


def test_near_the_bound_where_the_ratio_to_the_best_peer_misses(bounded):
    finding = bounded(0.1, 1.4, 3.2)
    assert finding.met is True
    assert "0.90 of ucx, 1.12 of limit at 4" in finding.measured
    assert finding.measured.endswith("; met by the ratio to limit at 2 of 3 sizes")


def test_neither_near_the_bound_nor_the_ratio_to_the_best_peer(bounded):
    finding = bounded(0.1, 1.3, 3.2)
    assert finding.met is False
    assert "0.80 of vader, 1.23 of limit at 2" in finding.measured
    assert "met by" not in finding.measured
    assert "1 of 3" in finding.measured


def test_a_bound_not_measured(bounded):
    finding = bounded(0.1, 1.4)
    assert finding.met is None
    assert "0.90 of ucx, limit not measured at 4" in finding.measured
    # Another size misses, whatever the bound is there.
    assert bounded(0.1, 1.3).met is False


@pytest.mark.parametrize("mtu, limit", [(9000, 4.0), (1500, 2.5)])
def test_longest_message_between_hosts(mtu, limit):
    longest = [
        goal.limit
        for goal in goals.between_hosts(mtu)
        if isinstance(goal, Goal) and goal.measure == BANDWIDTH and goal.low == 4 << 20
    ]
    assert longest == [limit]


def test_subject_failed(latency):
    made = latency(0.5, 1.0, 4.0)
    made.fail(LATENCY, "exanest", "exit code 1")
    assert EVERY.judge(made).met is False


@pytest.mark.parametrize("ours, met", [((17.0, 30.0), True), ((30.0, 16.9), False)])
def test_higher_is_better(results, ours, met):
    own = {1: [ours[0]], 2: [ours[1]]}
    values = {"exanest": own, "vader": {1: [10.0], 2: [10.0]}}
    assert FAST.judge(results(BANDWIDTH, values)).met is met


@pytest.mark.parametrize(
    "ours, met, by",
    [(17.0, True, "the best peer"), (13.5, True, "limit"), (13.4, False, None)],
)
def test_a_bound_where_higher_is_better(results, ours, met, by):
    values = {"exanest": {1: [ours]}, "vader": {1: [10.0]}, "limit": {1: [15.0]}}
    made = results(BANDWIDTH, values)
    made.bounds["limit"] = "a bound"
    finding = FAST_BOUND.judge(made)
    assert finding.met is met
    assert finding.measured.partition("; met by the ratio to ")[2] == (by or "")


@pytest.fixture
def limit(latency):
    def judge(figure, limit, at_most=True):
        made = latency(1.0, 2.0, 8.0)
        for size in (1, 2, 4):
            made.add(Sample(BANDWIDTH, "exanest", size, 0, 4.0))
        return Limit("limit", figure, limit, 1, 4, at_most).judge(made)

    return judge


def test_limit_of_a_difference(limit):
    difference = Figure((LATENCY,), less=(BANDWIDTH,))
    finding = limit(difference, 4.0)
    assert finding.met is True
    assert "4.000 us at 4" in finding.measured
    assert limit(difference, 3.9).met is False


def test_limit_of_a_quotient(limit):
    quotient = Figure((LATENCY,), over=BANDWIDTH)
    finding = limit(quotient, 0.25, at_most=False)
    assert finding.met is True
    assert "0.250 at 1" in finding.measured
    assert limit(quotient, 0.26, at_most=False).met is False


def test_limit_not_measured(limit):
    assert limit(Figure((LATENCY,), over=CPU), 1.0).met is None


def test_text(latency):
    text = goals.render(latency(0.5, 1.0, 4.4), [EVERY, MEAN])
    assert "NOT MET  every" in text
    assert "met      mean" in text

# SPDX-License-Identifier: BSD-3-Clause
import unittest

from pfbench import goals
from pfbench.goals import Goal, Limit, judge
from pfbench.measures import BANDWIDTH, CPU, LATENCY
from pfbench.results import Figure, Sample

from sample import results

EVERY = Goal("every", LATENCY, ("vader", "ucx"), 1.05, 1, 4)
MEAN = Goal("mean", LATENCY, ("vader", "ucx"), 0.85, 1, 4, mean=True)
FAST = Goal("fast", BANDWIDTH, ("vader",), 1.7, 1, 2)


def latency(*ours):
    return results(
        LATENCY,
        {
            "exanest": {size: [value] for size, value in zip((1, 2, 4), ours)},
            "vader": {1: [1.0], 2: [2.0], 4: [9.0]},
            "ucx": {1: [3.0], 2: [4.0], 4: [4.0]},
            "tcp": {1: [0.1], 2: [0.1], 4: [0.1]},
        },
    )


class Judge(unittest.TestCase):
    def one(self, made, goal):
        return judge(made, [goal])[0]

    def test_met(self):
        finding = self.one(latency(1.05, 1.0, 1.0), EVERY)
        self.assertIs(finding.met, True)
        self.assertIn("1.05 of vader at 1", finding.measured)

    def test_one_size_misses(self):
        finding = self.one(latency(0.5, 1.0, 4.4), EVERY)
        self.assertIs(finding.met, False)
        self.assertIn("1.10 of ucx at 4", finding.measured)
        self.assertIn("1 of 3", finding.measured)

    def test_mean(self):
        self.assertIs(self.one(latency(0.5, 1.0, 4.0), MEAN).met, True)
        self.assertIs(self.one(latency(0.9, 1.8, 3.6), MEAN).met, False)

    def test_a_size_not_measured(self):
        for goal in (EVERY, MEAN):
            finding = self.one(latency(0.5, 0.5), goal)
            self.assertIsNone(finding.met)
            self.assertIn("at 4", finding.measured)

    def test_subject_failed(self):
        made = latency(0.5, 1.0, 4.0)
        made.fail(LATENCY, "exanest", "exit code 1")
        self.assertIs(self.one(made, EVERY).met, False)

    def test_higher_is_better(self):
        def bandwidth(*ours):
            return results(
                BANDWIDTH,
                {
                    "exanest": {1: [ours[0]], 2: [ours[1]]},
                    "vader": {1: [10.0], 2: [10.0]},
                },
            )

        self.assertIs(self.one(bandwidth(17.0, 30.0), FAST).met, True)
        self.assertIs(self.one(bandwidth(30.0, 16.9), FAST).met, False)

    def limit(self, figure, limit, at_most=True):
        made = latency(1.0, 2.0, 8.0)
        for size in (1, 2, 4):
            made.add(Sample(BANDWIDTH, "exanest", size, 0, 4.0))
        return self.one(made, Limit("limit", figure, limit, 1, 4, at_most))

    def test_limit_of_a_difference(self):
        difference = Figure((LATENCY,), less=(BANDWIDTH,))
        finding = self.limit(difference, 4.0)
        self.assertIs(finding.met, True)
        self.assertIn("4.000 us at 4", finding.measured)
        self.assertIs(self.limit(difference, 3.9).met, False)

    def test_limit_of_a_quotient(self):
        quotient = Figure((LATENCY,), over=BANDWIDTH)
        finding = self.limit(quotient, 0.25, at_most=False)
        self.assertIs(finding.met, True)
        self.assertIn("0.250 at 1", finding.measured)
        self.assertIs(self.limit(quotient, 0.26, at_most=False).met, False)

    def test_limit_not_measured(self):
        self.assertIsNone(self.limit(Figure((LATENCY,), over=CPU), 1.0).met)

    def test_text(self):
        text = goals.render(judge(latency(0.5, 1.0, 4.4), [EVERY, MEAN]))
        self.assertIn("NOT MET  every", text)
        self.assertIn("met      mean", text)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: BSD-3-Clause
import unittest

from pfbench.measures import BANDWIDTH, LATENCY
from pfbench.results import geometric_mean

from sample import results


class Summaries(unittest.TestCase):
    def test_median_of_an_odd_number(self):
        summary = results(LATENCY, {"a": {1: [9.0, 1.0, 2.0]}}).summary(LATENCY, "a", 1)
        self.assertEqual((summary.median, summary.minimum, summary.maximum), (2, 1, 9))
        self.assertEqual(summary.repetitions, 3)

    def test_median_of_an_even_number(self):
        made = results(LATENCY, {"a": {1: [4.0, 1.0, 2.0, 3.0]}})
        self.assertEqual(made.summary(LATENCY, "a", 1).median, 2.5)

    def test_spread(self):
        made = results(LATENCY, {"a": {1: [8.0, 10.0, 13.0]}})
        self.assertAlmostEqual(made.summary(LATENCY, "a", 1).spread, 0.5)

    def test_not_measured(self):
        made = results(LATENCY, {"a": {1: [1.0]}})
        self.assertIsNone(made.summary(LATENCY, "a", 2))
        self.assertIsNone(made.summary(BANDWIDTH, "a", 1))


class Ratios(unittest.TestCase):
    def test_lower_is_better(self):
        made = results(LATENCY, {"us": {1: [2.0]}, "x": {1: [4.0]}, "y": {1: [5.0]}})
        ratio = made.ratio(LATENCY, "us", ["us", "x", "y"], 1)
        self.assertEqual((ratio.value, ratio.peer), (0.5, "x"))

    def test_higher_is_better(self):
        made = results(BANDWIDTH, {"us": {1: [2.0]}, "x": {1: [4.0]}, "y": {1: [5.0]}})
        ratio = made.ratio(BANDWIDTH, "us", ["us", "x", "y"], 1)
        self.assertEqual((ratio.value, ratio.peer), (0.4, "y"))

    def test_is_never_against_oneself(self):
        made = results(LATENCY, {"us": {1: [2.0]}})
        self.assertIsNone(made.ratio(LATENCY, "us", ["us"], 1))

    def test_best_peer_is_chosen_for_every_size(self):
        made = results(
            LATENCY,
            {"us": {1: [1.0], 2: [1.0]}, "x": {1: [2.0], 2: [9.0]}, "y": {2: [4.0]}},
        )
        ratios = made.ratios(LATENCY, "us", ["x", "y"])
        self.assertEqual([(r.size, r.peer) for r in ratios], [(1, "x"), (2, "y")])

    def test_failed_peer_is_left_out(self):
        made = results(LATENCY, {"us": {1: [2.0]}, "x": {1: [1.0]}, "y": {1: [4.0]}})
        made.fail(LATENCY, "x", "exit code 1")
        self.assertEqual(made.ratio(LATENCY, "us", ["x", "y"], 1).peer, "y")

    def test_failed_subject_has_none(self):
        made = results(LATENCY, {"us": {1: [2.0]}, "x": {1: [1.0]}})
        made.fail(LATENCY, "us", "exit code 1")
        self.assertIsNone(made.ratio(LATENCY, "us", ["x"], 1))
        self.assertEqual(made.ratios(LATENCY, "us", ["x"]), [])


class Failures(unittest.TestCase):
    def test_are_for_one_measure(self):
        made = results(LATENCY, {"x": {1: [2.0]}})
        made.fail(BANDWIDTH, "x", "exit code 1")
        self.assertIsNotNone(made.summary(LATENCY, "x", 1))
        self.assertEqual(made.measures(), [LATENCY, BANDWIDTH])

    def test_the_first_text_stays(self):
        made = results(LATENCY, {"x": {}})
        made.fail(LATENCY, "x", "first")
        made.fail(LATENCY, "x", "second")
        self.assertEqual(made.failures[LATENCY, "x"], "first")


class GeometricMean(unittest.TestCase):
    def test_value(self):
        self.assertAlmostEqual(geometric_mean([0.5, 2.0, 8.0]), 2.0)

    def test_of_nothing(self):
        with self.assertRaises(ValueError):
            geometric_mean([])


if __name__ == "__main__":
    unittest.main()

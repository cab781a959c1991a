# SPDX-License-Identifier: BSD-3-Clause
import unittest

from pfbench import suite
from pfbench.suite import KIB, MIB, Span, doubled, size_text


class Spans(unittest.TestCase):
    def test_doubled(self):
        self.assertEqual(doubled(1, 8), [1, 2, 4, 8])
        self.assertEqual(doubled(1, 9), [1, 2, 4, 8])
        self.assertEqual(doubled(3, 3), [3])
        self.assertEqual(doubled(0, 0), [0])

    def test_arguments(self):
        self.assertEqual(Span(1, 8).arguments(), ["-m", "1:8"])
        self.assertEqual(
            Span(1, 8, 100, 10, 64).arguments(),
            ["-m", "1:8", "-i", "100", "-x", "10", "-W", "64"],
        )
        self.assertEqual(Span(0, 0, 5, 0).arguments(), ["-i", "5", "-x", "0"])

    def test_size_text(self):
        sizes = (1, 1000, KIB, 1536, 64 * KIB, 16 * MIB)
        self.assertEqual(
            [size_text(size) for size in sizes],
            ["1", "1000", "1 K", "1536", "64 K", "16 M"],
        )


class Tests(unittest.TestCase):
    def by_name(self, name):
        return next(test for test in suite.TESTS if test.name == name)

    def sizes(self, name, depth, largest=1 << 40):
        spans = self.by_name(name).cut(depth, largest)
        return [size for span in spans for size in span.sizes()]

    def test_sizes_of_the_goals_are_measured_once_each(self):
        for depth in ("default", "full"):
            with self.subTest(depth):
                self.assertEqual(self.sizes("latency", depth), doubled(1, 16 * MIB))
                self.assertEqual(self.sizes("bandwidth", depth), doubled(1, 128 * MIB))

    def test_cut(self):
        cut = self.sizes("latency", "default", 32 * KIB)
        self.assertEqual(cut, doubled(1, 32 * KIB))
        self.assertEqual(self.sizes("latency", "quick"), doubled(1, 4 * MIB))

    def test_full_leaves_iterations_and_window_to_the_programs(self):
        for span in self.by_name("bandwidth").cut("full", 1 << 40):
            self.assertEqual((span.iterations, span.warmup, span.window), (None,) * 3)

    def test_names_are_unique(self):
        names = [test.name for test in suite.TESTS]
        self.assertEqual(len(set(names)), len(names))


if __name__ == "__main__":
    unittest.main()

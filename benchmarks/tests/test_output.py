# SPDX-License-Identifier: BSD-3-Clause
import csv
import shutil
import tempfile
import unittest
from pathlib import Path

from pfbench import plot, store, table
from pfbench.measures import BANDWIDTH, LATENCY

from sample import results

VALUES = {
    "exanest": {1: [0.20, 0.22, 0.21], 1024: [1.0, 1.0, 1.0]},
    "vader": {1: [0.40, 0.42, 0.44], 1024: [0.8, 0.8, 0.8]},
}


class Table(unittest.TestCase):
    def test_rows(self):
        lines = table.render(results(LATENCY, VALUES), LATENCY, "exanest").splitlines()
        self.assertEqual(lines[1].split(), ["size", "exanest", "vader", "exanest/best"])
        self.assertEqual(
            lines[2].split(),
            ["1", "0.210", "(", "10%)", "0.420", "(", "10%)", "0.50", "vader"],
        )
        self.assertTrue(lines[3].endswith("1.25 vader"))
        self.assertIn("over 2 sizes: 0.791", lines[4])

    def test_failed_transport(self):
        made = results(LATENCY, VALUES)
        made.fail(LATENCY, "vader", "exit code 1")
        lines = table.render(made, LATENCY, "exanest").splitlines()
        self.assertEqual(lines[2].split()[-2:], ["failed", "-"])
        self.assertEqual(lines[-1], "vader FAILED: exit code 1")

    def test_columns_are_aligned(self):
        text = table.render(results(LATENCY, VALUES), LATENCY, "exanest")
        rows = text.splitlines()[1:4]
        self.assertEqual(len({len(row) for row in rows}), 1)

    def test_digits(self):
        values = (26753.4, 101.0, 26.74, 2.674, 0.2674, 0.00026)
        self.assertEqual(
            [table.digits(value) for value in values],
            ["26753", "101", "26.7", "2.67", "0.267", "0.000260"],
        )


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def rows(self, name):
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    def test_samples(self):
        store.write_samples(results(LATENCY, VALUES), self.folder)
        rows = self.rows("latency.csv")
        self.assertEqual(len(rows), 12)
        self.assertEqual(
            rows[1],
            {
                "test": "latency",
                "transport": "exanest",
                "size": "1",
                "repetition": "2",
                "value": "0.22",
                "unit": "us",
            },
        )

    def test_summary(self):
        made = results(LATENCY, VALUES)
        store.write_summary(made, self.folder, "exanest")
        first = self.rows("summary.csv")[0]
        self.assertEqual((first["median"], first["minimum"]), ("0.21", "0.2"))
        self.assertEqual((first["ratio_to_best"], first["best"]), ("0.5000", "vader"))

    def test_failed_transport_in_the_summary(self):
        made = results(LATENCY, VALUES)
        made.fail(LATENCY, "vader", "exit code 1")
        store.write_summary(made, self.folder, "exanest")
        rows = [row for row in self.rows("summary.csv") if row["transport"] == "vader"]
        self.assertEqual([row["median"] for row in rows], ["failed"])

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_plots(self):
        made = results(LATENCY, VALUES)
        for sample in results(BANDWIDTH, VALUES).samples:
            made.add(sample)
        caption = 'a "CPU" with \\ and \'quotes\''
        reason = plot.draw(made, self.folder, "exanest", caption)
        self.assertIsNone(reason)
        for name in ("latency", "bandwidth", "ratio"):
            svg = (self.folder / f"{name}.svg").read_text()
            self.assertIn("</svg>", svg)
        self.assertIn("vader", (self.folder / "latency.svg").read_text())

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_no_plot_where_all_failed(self):
        made = results(LATENCY, VALUES)
        made.fail(LATENCY, "vader", "exit code 1")
        made.fail(LATENCY, "exanest", "exit code 1")
        self.assertIsNone(plot.draw(made, self.folder, "exanest", ""))


if __name__ == "__main__":
    unittest.main()

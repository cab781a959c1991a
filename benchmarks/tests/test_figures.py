# SPDX-License-Identifier: BSD-3-Clause
"""README.md shows what benchmarks/figures makes of doc/summary.csv."""

import subprocess
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SUMMARY = """\
test,hosts,mtu,cache_line_ns,transport,size,unit,repetitions,median,minimum,maximum,ratio_to_best,best
latency,1,,50.0,exanest,8,us,5,0.25,0.2,0.3,1.2500,ucx
latency,1,,50.0,ucx,8,us,5,0.2,0.2,0.3,,
latency,1,,50.0,exanest,4194304,us,5,100,90,110,0.5000,ucx
latency,1,,50.0,ucx,4194304,us,5,200,190,210,,
latency,2,9000,50.0,exanest,8,us,5,7,6,8,0.7000,tcp
latency,2,9000,50.0,tcp,8,us,5,10,9,11,,
"""


def figures(*arguments):
    return subprocess.run(
        [TOP / "benchmarks/figures", *arguments], capture_output=True, text=True
    )


class Figures(unittest.TestCase):
    def test_readme_is_current(self):
        done = figures("--check", TOP / "README.md")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_stale_readme_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            stale = Path(folder) / "README.md"
            text = (TOP / "README.md").read_text()
            stale.write_text(text.replace("| latency", "| Latency"))
            self.assertEqual(figures("--check", stale).returncode, 1)

    def test_cells(self):
        with tempfile.TemporaryDirectory() as folder:
            summary = Path(folder) / "summary.csv"
            summary.write_text(SUMMARY)
            lines = figures(summary).stdout.splitlines()
        self.assertEqual(
            lines[2],
            "| latency, us (lower is better) | 0.250 (1.25) | - | - | 100 (0.50) "
            "| 0.50 to 1.25, weakest at 8 B |",
        )
        self.assertEqual(lines[3:], ["", "the peers have their defaults."])

    def test_origin(self):
        with tempfile.TemporaryDirectory() as folder:
            summary = Path(folder) / "summary.csv"
            summary.write_text(SUMMARY)
            facts = "date: 2026-11-25 01:02:03 UTC\ncpu: Some CPU\nsource: abc\n"
            (Path(folder) / "environment.txt").write_text(facts)
            lines = figures(summary).stdout.splitlines()
        self.assertEqual(
            lines[4], "Measured 2026-11-25, Some CPU, source abc; the peers have their defaults."
        )


if __name__ == "__main__":
    unittest.main()

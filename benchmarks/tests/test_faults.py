# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/faults as a whole, with programs made up for it; its swap space."""

import csv
import re
import tempfile
import unittest
from pathlib import Path

from pfbench import suite, swap
from pfbench.suite import KIB, MIB, doubled

from hosts_here import hosts_obstacle
from made_up import MadeUp
from quick import thorough

class Faults(MadeUp):
    command_name = "faults"
    programs = ("latency", "bw")

    def setUp(self):
        super().setUp()
        self.listing(["btl:exanest", "btl:vader", "pml:ucx"])

    def test_all_well(self):
        done = self.start("--goals", "--tests", self.all_tests())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("repetition 3/3 done", done.stderr)
        for heading in ("4 K, warm", "4 M, destination cold", "64 M, both cold"):
            self.assertIn(f"\n{heading}\n", done.stdout)
        for name in ("latency-warm", "bandwidth-source-cold", "cpu-both-cold"):
            self.assertTrue((self.folder / "out" / f"{name}.csv").exists(), name)
        tables = (self.folder / "out/tables.txt").read_text()
        self.assertIn("Bandwidth, destination cold, MB/s", tables)

    def all_tests(self):
        return ",".join(t.name for t in (*suite.COLD_TESTS, *suite.COST_TESTS))

    def test_every_way_has_its_parameters(self):
        done = self.start("--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.folder / "out/latency-warm.csv", newline="") as file:
            ways = list(dict.fromkeys(row["transport"] for row in csv.DictReader(file)))
        self.assertEqual(
            ways,
            ["exanest", "touch", "ahead", "huge", "prefault", "pin", "pin-cache"]
            + ["vader", "ucx"],
        )
        environment = (self.folder / "out/environment.txt").read_text()
        runs = re.findall("^  mpirun .*/latency.*$", environment, re.MULTILINE)
        self.assertEqual(len(runs), 9, environment)
        parameters = re.findall(r"--mca btl_exanest_(\w+ \d)", "\n".join(runs))
        self.assertEqual(
            parameters,
            ["policy 0", "policy 1", "policy 2", "mode 1", "mode 2", "mode 3"],
        )

    def test_goals(self):
        done = self.start("--quick", "--goals", "--tests", self.all_tests())
        words = dict(
            (line.strip()[8:].strip().partition(":")[0], line.strip()[:8].strip())
            for line in done.stdout.partition("Goals\n")[2].partition("\n\n")[0].splitlines()
        )
        expected = {
            "destination cold, 4 MiB, at least 2.5 of the bandwidth of pin": "NOT MET",
            "a minor destination fault adds at most 2 us to the system's own touch": "met",
            "warm streams beside a pager of 1 ms a page keep at least 0.95": "NOT MET",
            "a forwarded pager fault takes at most 0.5 of a userfaultfd thread's": "met",
        }
        self.assertEqual({text: words.get(text) for text in expected}, expected)

    def test_part_of_it(self):
        done = self.start("--quick", "--ways", "exanest,pin", "--tests", "cold-bandwidth")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("vader", done.stdout)
        self.assertNotIn("userfaultfd", done.stdout)

    @thorough
    def test_between_hosts(self):
        if hosts_obstacle():
            self.skipTest(f"there can be no hosts: {hosts_obstacle()}")
        self.listing(["btl:exanest", "btl:tcp", "pml:ucx"])
        done = self.start("--quick", "--hosts", "--goals")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("destination cold, 4 MiB, at least 2 of the bandwidth of tcp", done.stdout)
        environment = (self.folder / "out/environment.txt").read_text()
        runs = re.findall("^  env .*/hosts run .*/latency.*$", environment, re.MULTILINE)
        self.assertEqual(len(runs), 5, environment)
        parameters = re.findall(r"--mca btl_exanest_(\w+ \d)", "\n".join(runs))
        self.assertEqual(parameters, ["net_fault 0", "net_fault 1"])

    def test_a_cost_cannot_be_measured(self):
        (self.folder / "FAILING").write_text("pager")
        done = self.start("--quick", "--tests", "minor,pager")
        self.assertEqual(done.returncode, 1)
        self.assertIn("made-up reason: pager", done.stderr)
        self.assertIn("failed", done.stdout)
        self.assertIn("0.250", done.stdout)

    def test_wrong_usage(self):
        for arguments in (
            ["--ways", "nonsense"],
            ["--ways", "pin,pin"],
            ["--tests", "nonsense"],
            ["--max", "1", "--tests", "minor"],
            ["-r", "0"],
            ["--hosts", "--ways", "pin"],
            ["--hosts", "--tests", "minor"],
            ["--hosts", "--zram"],
        ):
            with self.subTest(arguments):
                done = self.start(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertNotIn("Traceback", done.stderr)

    def test_help(self):
        done = self.start("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--zram", done.stdout)


class Suite(unittest.TestCase):
    def test_every_size_is_measured_once(self):
        for test in suite.COLD_TESTS:
            with self.subTest(test.name):
                sizes = [s for span in test.cut("default", 1 << 40) for s in span.sizes()]
                self.assertEqual(sizes, doubled(4 * KIB, 64 * MIB))

    def test_columns(self):
        latency, bandwidth = suite.COLD_TESTS
        self.assertEqual(sorted(latency.columns.values()), [1, 2, 3, 4])
        self.assertEqual(sorted(bandwidth.columns.values()), list(range(1, 9)))
        names = {measure.name: place for measure, place in bandwidth.columns.items()}
        self.assertEqual(names["bandwidth-destination-cold"], 5)
        self.assertEqual(names["cpu-destination-cold"], 6)


class Swap(unittest.TestCase):
    def test_present(self):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "swaps"
            self.assertFalse(swap.present(table))
            table.write_text("Filename Type Size Used Priority\n")
            self.assertFalse(swap.present(table))
            table.write_text("Filename Type\n/dev/zram0 partition 4 0 -2\n")
            self.assertTrue(swap.present(table))


if __name__ == "__main__":
    unittest.main()

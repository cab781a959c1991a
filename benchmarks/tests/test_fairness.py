# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/fairness: its arithmetic, its streams, and a short run between hosts."""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from pfbench import fairness, launch
from pfbench.fairness import Case, Shared, jain, parse_steps

from hosts_here import hosts_obstacle
from quick import thorough

BUILD = Path(os.environ.get("BUILD", "/nonexistent"))
FLOW = BUILD / "benchmarks/mpi/flow"
COMMAND = Path(__file__).resolve().parents[1] / "fairness"


class Arithmetic(unittest.TestCase):
    def test_jain(self):
        self.assertAlmostEqual(jain([5, 5]), 1)
        self.assertAlmostEqual(jain([5, 0]), 0.5)
        self.assertAlmostEqual(jain([3, 1]), 0.8)
        self.assertEqual(jain([0, 0]), 0)

    def test_steps(self):
        output = "# a remark\n0.100 1000000\n0.200 500000\n"
        rates = parse_steps(output, 7.0, 7.2)
        self.assertEqual([round(rate, 6) for rate in rates], [10, 5])

    def test_what_is_not_a_stream(self):
        for output in ("", "0.100 1\n", "0.1 x\n", "0.1\n", "0 1\n0 1\n"):
            with self.subTest(output), self.assertRaises(ValueError):
                parse_steps(output, 0.0, 1.0)

    def test_table(self):
        case = Case(("exanest", "tcp"), "1ms")
        alone = Case(("tcp",), "1ms")
        text = fairness.render(
            [
                Shared(alone, 0, ((100.0, 110.0),)),
                Shared(case, 0, ((30.0, 30.0), (90.0, 90.0))),
                Shared(case, 1, ((40.0, 60.0), (50.0, 50.0))),
            ]
        )
        lines = [line.split() for line in text.splitlines()[2:]]
        self.assertEqual(lines[0], ["1ms", "tcp", "105.0"])
        self.assertEqual(lines[1][:3], ["1ms", "exanest+tcp", "40.0"])
        self.assertIn("0.375 (0.250 0.500)", text)
        self.assertIn("0.900 (0.800 1.000)", text)

    def test_wrong_usage(self):
        for arguments in (["--cases", "nonsense"], ["--seconds", "0"], ["-r", "0"]):
            with self.subTest(arguments):
                done = subprocess.run(
                    [sys.executable, "-B", str(COMMAND), *arguments],
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertNotIn("Traceback", done.stderr)


class TcpStream(unittest.TestCase):
    def stream(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-B", str(fairness._STREAM), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def exchange(self, begin, end, control="reno", port="52017"):
        sink = self.stream("sink", port, str(begin), str(end), "0.1")
        source = self.stream("source", "127.0.0.1", port, control)
        errors = source.communicate(timeout=60)[1]
        return sink, source.returncode, errors

    def test_counts_from_begin_to_end(self):
        begin = time.monotonic() + 1
        sink, status, errors = self.exchange(begin, begin + 0.5)
        self.assertEqual((status, errors), (0, ""))
        output, errors = sink.communicate(timeout=60)
        self.assertEqual(errors, "")
        rates = parse_steps(output, begin, begin + 0.5)
        self.assertEqual(len(rates), 5)
        self.assertGreater(sum(rates), 0)

    def test_too_late(self):
        begin = time.monotonic() - 1
        sink, _, _ = self.exchange(begin, begin + 2.5, port="52018")
        _, errors = sink.communicate(timeout=60)
        self.assertEqual(sink.returncode, 1)
        self.assertIn("after BEGIN", errors)

    def test_unknown_control(self):
        source = self.stream("source", "127.0.0.1", "52019", "nonsense")
        _, errors = source.communicate(timeout=60)
        self.assertEqual(source.returncode, 1)
        self.assertIn("congestion control nonsense", errors)


@thorough
@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
@unittest.skipUnless(FLOW.exists(), "BUILD is not set")
class Flow(unittest.TestCase):
    def flow(self, *arguments, ranks=2):
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
        command += ["--mca", "mpi_yield_when_idle", "1"]
        env = launch.environment(None)
        return launch.run([*command, str(FLOW), *map(str, arguments)], env, timeout=60)

    def test_counts_from_begin_to_end(self):
        begin = time.monotonic() + 3
        outcome = self.flow(begin, begin + 0.5, 0.1)
        self.assertEqual(outcome.failure, "", outcome.errors)
        rates = parse_steps(outcome.output, begin, begin + 0.5)
        self.assertEqual(len(rates), 5)
        self.assertGreater(sum(rates), 0)

    def test_too_late(self):
        begin = time.monotonic() - 1
        outcome = self.flow(begin, begin + 3, 0.1)
        self.assertEqual(outcome.failure, "exit code 1")
        self.assertIn("give a later one", outcome.errors)

    def test_wrong_usage(self):
        for arguments in ([], [2, 1, 1], [1, "x", 1]):
            with self.subTest(arguments):
                outcome = self.flow(*arguments)
                self.assertEqual(outcome.failure, "exit code 1")
                self.assertIn("see --help", outcome.errors)
        self.assertIn("mpirun -n 2", self.flow(1, 2, 1, ranks=1).errors)


@thorough
@unittest.skipUnless(FLOW.exists(), "BUILD is not set")
class Run(unittest.TestCase):
    def run_fairness(self, *arguments):
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        command = [sys.executable, str(COMMAND), "--build", str(BUILD)]
        command += ["--out", str(folder), "--quick", "--control", "reno", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(folder / "fairness.csv", newline="") as file:
            return list(csv.DictReader(file)), folder

    def total(self, rows, stream="1"):
        rates = [float(row["MB/s"]) for row in rows if row["stream"] == stream]
        return sum(rates) / len(rates)

    def test_a_pair(self):
        if hosts_obstacle():
            self.skipTest(f"there can be no hosts: {hosts_obstacle()}")
        rows, folder = self.run_fairness("--cases", "exanest+tcp", "--rate", "200mbit")
        self.assertEqual({row["transport"] for row in rows}, {"exanest", "tcp"})
        # Both run, and no faster than the link; some bytes waited when it began.
        both = self.total(rows) + self.total(rows, "2")
        self.assertTrue(10 < both < 27, both)
        environment = (folder / "environment.txt").read_text()
        self.assertIn("tcp_stream.py sink", environment)
        if shutil.which("gnuplot"):
            self.assertIn("<svg", (folder / "exanest+tcp-10ms.svg").read_text())

    def test_marks_slow_tcp(self):
        if hosts_obstacle():
            self.skipTest(f"there can be no hosts: {hosts_obstacle()}")
        # Two short packets under way, which is its least, are less than this link carries.
        case = ("--cases", "tcp", "--rate", "4gbit", "--mtu", "1500")
        rows, _ = self.run_fairness(*case, "--mark", "50")
        marked = self.total(rows)
        rows, _ = self.run_fairness(*case)
        self.assertGreater(self.total(rows), marked)


if __name__ == "__main__":
    unittest.main()

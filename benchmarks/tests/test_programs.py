# SPDX-License-Identifier: BSD-3-Clause
"""Our MPI programs of the build tree that BUILD names."""

import os
import resource
import shutil
import unittest
from pathlib import Path

from pfbench import launch, osu, swap
from pfbench.suite import COLD_TESTS, COST_TESTS, TESTS

from quick import thorough

BUILD = Path(os.environ.get("BUILD", "/nonexistent"))
CORRUPT = BUILD / "benchmarks/tests/.libs/corrupt.so"


def run(program, *arguments, ranks=2, preload=False):
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
    env = launch.environment(None)
    if preload:
        # The second is for builds with sanitizers.
        command += ["-x", f"LD_PRELOAD={CORRUPT}", "-x", "ASAN_OPTIONS"]
        env["ASAN_OPTIONS"] = "verify_asan_link_order=0"
        if program == "barrier":
            command += ["-x", "CORRUPT_BARRIER=1"]
    command += [str(BUILD / "benchmarks/mpi" / program), *arguments]
    return launch.run(command, env, timeout=60)


def run_alone(program, *arguments):
    """A single rank, without mpirun: enough for what the command line is about."""
    command = [str(BUILD / "benchmarks/mpi" / program), *arguments]
    return launch.run(command, launch.environment(None), timeout=60)


def few(test):
    """Arguments that measure two long sizes quickly."""
    return [*(["-m", "4096:8192"] if test.sized else []), "-i", "5", "-x", "1", "-c"]


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
@unittest.skipUnless((BUILD / "benchmarks/mpi/latency").exists(), "BUILD is not set")
class Programs(unittest.TestCase):
    def columns(self, test):
        return {**test.columns, **test.own_columns}

    @thorough
    def test_output_is_as_osu_prints_it(self):
        for test in TESTS:
            with self.subTest(test.program):
                outcome = run(test.program, *few(test), *test.own_arguments)
                self.assertEqual(outcome.failure, "", outcome.errors)
                rows = osu.parse(outcome.output, self.columns(test), test.sized)
                self.assertEqual(sorted(rows), [4096, 8192] if test.sized else [0])
                self.assertIn("Pass", outcome.output)

    @thorough
    def test_validation_notices_wrong_data(self):
        for test in TESTS:
            with self.subTest(test.program):
                outcome = run(test.program, *few(test), preload=True)
                self.assertNotEqual(outcome.failure, "")
                self.assertIn("validation failed", outcome.errors)
                self.assertIn("Fail", outcome.output)

    def test_collectives_of_several_ranks(self):
        for test in TESTS:
            if test.collective:
                with self.subTest(test.program):
                    outcome = run(test.program, *few(test), "-f", ranks=5)
                    self.assertEqual(outcome.failure, "", outcome.errors)
                    values = outcome.output.splitlines()[-1].split()[-5:-2]
                    mean, least, most = map(float, values)
                    self.assertTrue(least <= mean <= most)

    def test_cold_buffers(self):
        for test in COLD_TESTS:
            with self.subTest(test.name):
                outcome = run(test.program, *few(test), *test.arguments)
                self.assertEqual(outcome.failure, "", outcome.errors)
                rows = osu.parse(outcome.output, test.columns)
                self.assertEqual(sorted(rows), [4096, 8192])
                self.assertEqual(outcome.output.count("Pass"), 2)

    @thorough
    def test_validation_of_cold_buffers_notices_wrong_data(self):
        for test in COLD_TESTS:
            for cold in ("none", "source", "destination", "both"):
                with self.subTest(f"{test.name} {cold}"):
                    arguments = ["--cold", cold, "-W", "64"][: 4 if "bw" in test.program else 2]
                    outcome = run(test.program, *few(test), *arguments, preload=True)
                    self.assertNotEqual(outcome.failure, "")
                    self.assertIn("Fail", outcome.output)

    def test_cold_buffers_of_any_size(self):
        outcome = run("latency", "-m", "0:5000", "-i", "3", "-c", "--cold", "both")
        self.assertEqual(outcome.failure, "", outcome.errors)
        outcome = run("bw", "-m", "1:5000", "-W", "3", "-i", "3", "-c", "--cold", "source")
        self.assertEqual(outcome.failure, "", outcome.errors)

    def test_cold_means_page_faults(self):
        """Counted by the system, for as many iterations as make a difference."""
        faults = {}
        for cold in ("none", "destination"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            outcome = run("latency", "-m", "1M:1M", "-i", "200", "-x", "0", "--cold", cold)
            self.assertEqual(outcome.failure, "", outcome.errors)
            after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            faults[cold] = after - before
        # Of 256 pages, in two processes; huge pages may make it fewer.
        self.assertGreater(faults["destination"] - faults["none"], 2 * 200)

    def test_pairs(self):
        outcome = run("mbw_mr", "-m", "1:8", "-i", "5", "-c", ranks=4)
        self.assertEqual(outcome.failure, "", outcome.errors)
        self.assertIn("[ pairs: 2 ]", outcome.output)

    @thorough
    def test_synchronization_of_one_sided_programs(self):
        create = {"flush": "allocate", "lock": "create", "fence": "create"}
        for program in ("put_latency", "get_latency", "put_bw", "get_bw"):
            for sync in ("flush", "lock", "fence"):
                with self.subTest(f"{program} {sync}"):
                    arguments = ["-s", sync, "-w", create[sync], "-m", "1:4096"]
                    outcome = run(program, *arguments, "-i", "5", "-c")
                    self.assertEqual(outcome.failure, "", outcome.errors)
                    self.assertIn(f"MPI_Win_{sync}", outcome.output)
                    self.assertIn(f"MPI_Win_{create[sync]}", outcome.output)

    def test_zero_bytes(self):
        outcome = run("latency", "-m", "0:1", "-i", "5", "-c")
        self.assertEqual(outcome.failure, "", outcome.errors)
        self.assertEqual(list(osu.parse(outcome.output, {"latency": 1})), [0, 1])

    @thorough
    def test_wrong_usage(self):
        for program, arguments, text in (
            ("latency", ["-m", "8:4"], "MIN not above MAX"),
            ("latency", ["-m", "4G"], "below 2G"),
            ("latency", ["-i", "0"], "from 1"),
            ("latency", ["-W", "4"], "no use for -W"),
            ("latency", ["--cpu"], "no use for --cpu"),
            ("bibw", ["--cold", "none"], "no use for --cold"),
            ("bw", ["--cold", "lukewarm"], "--cold lukewarm"),
            ("bw", ["--cold", "both,both"], "--cold both,both"),
            ("bw", ["--cold", ""], "--cold :"),
            ("bw", ["-W", "many"], "-W many"),
            ("bw", ["-q"], "unknown option"),
            ("bw", ["extra"], "not an option"),
            ("put_bw", ["-s", "nonsense"], "flush, lock or fence"),
            ("allreduce", ["-m", "1:8"], "multiple of 4"),
        ):
            with self.subTest(f"{program} {arguments}"):
                outcome = run_alone(program, *arguments)
                self.assertEqual(outcome.failure, "exit code 1")
                self.assertIn(text, outcome.errors)

    def test_wrong_number_of_ranks(self):
        for program, text in (("bw", "mpirun -n 2"), ("mbw_mr", "even")):
            with self.subTest(program):
                outcome = run(program, ranks=3)
                self.assertEqual(outcome.failure, "exit code 1")
                # Rank 0 speaks for all.
                self.assertEqual(outcome.errors.count(text), 1)

    def test_help(self):
        for test in TESTS:
            with self.subTest(test.program):
                outcome = run_alone(test.program, "--help")
                self.assertEqual(outcome.failure, "")
                self.assertIn("Usage:", outcome.output)


COST = BUILD / "benchmarks/pf/fault_cost"


@unittest.skipUnless(COST.exists(), "BUILD is not set")
class Cost(unittest.TestCase):
    def cost(self, *arguments):
        return launch.run([str(COST), *arguments], dict(os.environ), timeout=60)

    @thorough
    def test_output(self):
        for test in COST_TESTS:
            if test.name == "beside-swap" and not swap.present():
                continue
            with self.subTest(test.name):
                outcome = self.cost(test.name, "-i", "20", "-x", "1")
                if "userfaultfd: " in outcome.errors:
                    self.skipTest(outcome.errors.strip())
                self.assertEqual(outcome.failure, "", outcome.errors)
                rows = osu.parse(outcome.output, test.columns, test.sized)
                sizes = [4096, 8192, 16384] if test.sized else [0]
                self.assertEqual(sorted(rows), sizes)

    def test_untouched_pages_cost_more(self):
        outcome = self.cost("minor", "-m", "16K:16K", "-i", "500")
        columns = {"touch": 1, "warm": 2, "cold": 3}
        row = osu.parse(outcome.output, columns)[16384]
        self.assertGreater(row["cold"], row["warm"])

    def test_wrong_usage(self):
        for arguments, text in (
            ([], "name a test first"),
            (["nonsense"], "name a test first"),
            (["minor", "-m", "5000:6000"], "whole pages"),
            (["minor", "-m", "0:4096"], "whole pages"),
            (["minor", "-i", "0"], "from 1"),
            (["pager", "-m", "4096"], "no use for -m"),
        ):
            with self.subTest(arguments):
                outcome = self.cost(*arguments)
                self.assertEqual(outcome.failure, "exit code 2")
                self.assertIn(text, outcome.errors)

    def test_help(self):
        outcome = self.cost("--help")
        self.assertEqual(outcome.failure, "")
        for test in COST_TESTS:
            self.assertIn(f"\n{test.name}: ", outcome.output)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: BSD-3-Clause
"""Our MPI programs of the build tree that BUILD names."""

import os
import shutil
import unittest
from pathlib import Path

from pfbench import launch, osu
from pfbench.suite import TESTS

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

    def test_output_is_as_osu_prints_it(self):
        for test in TESTS:
            with self.subTest(test.program):
                outcome = run(test.program, *few(test), *test.own_arguments)
                self.assertEqual(outcome.failure, "", outcome.errors)
                rows = osu.parse(outcome.output, self.columns(test), test.sized)
                self.assertEqual(sorted(rows), [4096, 8192] if test.sized else [0])
                self.assertIn("Pass", outcome.output)

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

    def test_pairs(self):
        outcome = run("mbw_mr", "-m", "1:8", "-i", "5", "-c", ranks=4)
        self.assertEqual(outcome.failure, "", outcome.errors)
        self.assertIn("[ pairs: 2 ]", outcome.output)

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

    def test_wrong_usage(self):
        for program, arguments, text in (
            ("latency", ["-m", "8:4"], "MIN not above MAX"),
            ("latency", ["-m", "4G"], "below 2G"),
            ("latency", ["-i", "0"], "from 1"),
            ("latency", ["-W", "4"], "no use for -W"),
            ("latency", ["--cpu"], "no use for --cpu"),
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


if __name__ == "__main__":
    unittest.main()

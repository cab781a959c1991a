# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/compare as a whole, with an mpirun and an ompi_info made up for it."""

import shutil
import signal
import subprocess
import unittest

from made_up import MadeUp


class Compare(MadeUp):
    command_name = "compare"
    arguments = ("--own",)
    programs = ("latency", "bw", "mbw_mr", "barrier", "bcast", "allreduce", "alltoall")

    def test_all_well(self):
        done = self.start("--goals", "-r", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("latency.csv", "bandwidth.csv", "cpu.csv", "rate.csv"):
            self.assertTrue((self.folder / "out" / name).exists(), name)
        self.assertIn("0.50 vader", done.stdout)
        self.assertIn("met      latency, geometric mean", done.stdout)
        self.assertIn("repetition 2/2 done", done.stderr)
        environment = (self.folder / "out/environment.txt").read_text()
        self.assertIn("vader rank 1: core 1", environment)
        self.assertIn("--mca btl exanest,self", environment)

    def test_goals_are_not_shown_unasked(self):
        self.assertNotIn("Goals", self.start("-r", "1").stdout)

    def test_a_peer_fails(self):
        (self.folder / "FAILING").write_text("tcp")
        done = self.start("--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("made-up reason: tcp", done.stderr)
        self.assertIn("tcp FAILED: exit code 1", done.stdout)
        self.assertIn("made-up reason", (self.folder / "out/failures.txt").read_text())

    def test_exanest_fails(self):
        (self.folder / "FAILING").write_text("exanest")
        done = self.start("--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exanest FAILED: exit code 1", done.stdout)
        self.assertIn("vader", done.stdout)

    def test_exanest_is_missing(self):
        self.listing(["btl:vader"])
        done = self.start("--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ompi_info shows no btl exanest", done.stderr)

    def test_only_peers(self):
        done = self.start("--quick", "--transports", "vader,tcp")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("exanest", done.stdout)

    def test_collectives(self):
        done = self.start("--collectives", "-n", "9999")
        self.assertEqual(done.returncode, 0, done.stderr)
        environment = (self.folder / "out/environment.txt").read_text()
        self.assertIn("mpirun -n 9999 --oversubscribe", environment)
        self.assertNotIn("tcp", environment)
        self.assertIn("--validate", environment)
        self.assertIn("Barrier", done.stdout)

    def test_interrupted(self):
        command, env = self.command(["--quick", "-r", "2000"])
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while "repetition 1/2000 done" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertIn("0.50 vader", output)
        self.assertTrue((self.folder / "out/latency.csv").exists())

    def test_no_components(self):
        self.script("ompi_info", 'print("ompi:version:full:4.1.4")')
        done = self.start()
        self.assertEqual(done.returncode, 2)
        self.assertIn("OMPI_MCA_mca_base_component_path", done.stderr)

    def test_nothing_to_run(self):
        shutil.rmtree(self.folder / "benchmarks")
        done = self.start()
        self.assertEqual(done.returncode, 2)
        self.assertIn("./quickstart build", done.stderr)

    def test_no_open_mpi(self):
        (self.folder / "ompi_info").unlink()
        done = self.start(path=str(self.folder))
        self.assertEqual(done.returncode, 2)
        self.assertIn("install Open MPI", done.stderr)

    def test_wrong_usage(self):
        for arguments in (
            ["--tests", "nonsense"],
            ["--transports", "nonsense"],
            ["--transports", "vader,vader"],
            ["--add", "nonsense"],
            ["--max", "-1"],
            ["--max", "0"],
            ["--out", "/dev/null/x"],
            ["-r", "0"],
            ["-n", "4"],
            ["--quick", "--full"],
            ["--collectives", "--tests", "latency"],
        ):
            with self.subTest(arguments):
                done = self.start(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertNotIn("Traceback", done.stderr)

    def test_help(self):
        done = self.start("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--transports", done.stdout)


if __name__ == "__main__":
    unittest.main()

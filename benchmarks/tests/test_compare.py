# SPDX-License-Identifier: BSD-3-Clause
"""benchmarks/compare as a whole, with an mpirun and an ompi_info made up for it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMPARE = Path(__file__).resolve().parents[1] / "compare"

MPIRUN = """\
import re, sys

line = " ".join(sys.argv)
if "--version" in line:
    sys.exit("mpirun (made up) 4.1.4")
for failing in open("FAILING").read().split():
    if f" {failing},self " in line:
        sys.exit(f"made-up reason: {failing}")
for rank in (0, 1):
    print(f"[h:1] MCW rank {rank} bound to core {rank}", file=sys.stderr)
sizes = re.search(r"-m (\\d+):(\\d+)", line)
low, high = map(int, sizes.groups()) if sizes else (0, 0)
value = 1.0 if "exanest" in line else 2.0
print("# MPI Made-Up Test")
while low <= high:
    print(low, value, value, value) if high else print(value)
    if not high:
        break
    low *= 2
"""


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.script("mpirun", MPIRUN)
        self.listing(["btl:exanest", "btl:vader", "btl:tcp"])
        (self.folder / "FAILING").write_text("")
        for name in ("latency", "bw", "mbw_mr"):
            self.script(f"benchmarks/mpi/{name}", "")
        for name in ("barrier", "bcast", "allreduce", "alltoall"):
            self.script(f"benchmarks/mpi/{name}", "")

    def script(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)

    def listing(self, components):
        components = ["btl:self", *components]
        lines = "".join(f"mca:{component}:version:1\\n" for component in components)
        self.script("ompi_info", f'print("{lines}")')

    def compare(self, *arguments, path=None):
        command, env = self.command(arguments, path)
        return subprocess.run(
            command,
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def command(self, arguments, path=None):
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OSU_", "OMPI_", "EBROOT"))
        }
        env["PATH"] = path or f"{self.folder}:/usr/bin:/bin"
        command = [sys.executable, str(COMPARE), "--own", "--build", str(self.folder)]
        return [*command, "--out", str(self.folder / "out"), *arguments], env

    def test_all_well(self):
        done = self.compare("--goals")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("latency.csv", "bandwidth.csv", "cpu.csv", "rate.csv"):
            self.assertTrue((self.folder / "out" / name).exists(), name)
        self.assertIn("0.50 vader", done.stdout)
        self.assertIn("met      latency, geometric mean", done.stdout)
        self.assertIn("repetition 5/5 done", done.stderr)
        environment = (self.folder / "out/environment.txt").read_text()
        self.assertIn("vader rank 1: core 1", environment)
        self.assertIn("--mca btl exanest,self", environment)

    def test_goals_are_not_shown_unasked(self):
        self.assertNotIn("Goals", self.compare("-r", "1").stdout)

    def test_a_peer_fails(self):
        (self.folder / "FAILING").write_text("tcp")
        done = self.compare("--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("made-up reason: tcp", done.stderr)
        self.assertIn("tcp FAILED: exit code 1", done.stdout)
        self.assertIn("made-up reason", (self.folder / "out/failures.txt").read_text())

    def test_exanest_fails(self):
        (self.folder / "FAILING").write_text("exanest")
        done = self.compare("--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exanest FAILED: exit code 1", done.stdout)
        self.assertIn("vader", done.stdout)

    def test_exanest_is_missing(self):
        self.listing(["btl:vader"])
        done = self.compare("--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ompi_info shows no btl exanest", done.stderr)

    def test_only_peers(self):
        done = self.compare("--quick", "--transports", "vader,tcp")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("exanest", done.stdout)

    def test_collectives(self):
        done = self.compare("--collectives", "-n", "9999")
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
        done = self.compare()
        self.assertEqual(done.returncode, 2)
        self.assertIn("OMPI_MCA_mca_base_component_path", done.stderr)

    def test_nothing_to_run(self):
        shutil.rmtree(self.folder / "benchmarks")
        done = self.compare()
        self.assertEqual(done.returncode, 2)
        self.assertIn("./quickstart build", done.stderr)

    def test_no_open_mpi(self):
        (self.folder / "ompi_info").unlink()
        done = self.compare(path=str(self.folder))
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
                done = self.compare(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertNotIn("Traceback", done.stderr)

    def test_help(self):
        done = self.compare("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--transports", done.stdout)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: BSD-3-Clause
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from pfbench import launch, programs, transports


class Run(unittest.TestCase):
    def run_shell(self, script, timeout=60):
        return launch.run(["sh", "-c", script], dict(os.environ), timeout)

    def test_output_and_errors_are_kept_apart(self):
        outcome = self.run_shell("echo out; echo err >&2")
        self.assertEqual((outcome.output, outcome.errors), ("out\n", "err\n"))
        self.assertEqual(outcome.failure, "")

    def test_exit_code(self):
        self.assertEqual(self.run_shell("exit 3").failure, "exit code 3")

    def test_signal(self):
        self.assertEqual(self.run_shell("kill -SEGV $$").failure, "killed by SIGSEGV")

    def test_time_limit(self):
        outcome = self.run_shell("echo begun; exec sleep 600", timeout=1)
        self.assertIn("stopped", outcome.failure)
        self.assertEqual(outcome.output, "begun\n")


class Messages(unittest.TestCase):
    def test_error_tail_leaves_out_noise(self):
        text = (
            "[vm:1] MCW rank 0 bound to socket 0[core 0[hwt 0]]: [B/.]\n"
            "------------\nA requested component was not found.\n\n"
            "Component: nonsense\n----------\n"
            "[vm:1] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all\n"
        )
        self.assertEqual(
            launch.error_tail(text),
            ["A requested component was not found.", "Component: nonsense"],
        )

    def test_error_tail_is_the_end(self):
        lines = [f"line {number}" for number in range(100)]
        tail = launch.error_tail("\n".join(lines))
        self.assertEqual(tail, lines[-launch.ERROR_LINES :])

    def test_bindings_of_open_mpi_4(self):
        text = (
            "[vm:1] MCW rank 1 bound to socket 0[core 1[hwt 0]]: [./B]\n"
            "[vm:1] MCW rank 0 is not bound (or bound to all available processors)\n"
        )
        self.assertEqual(
            launch.bindings(text), {0: "", 1: "socket 0[core 1[hwt 0]]: [./B]"}
        )

    def test_bindings_of_open_mpi_5(self):
        text = "[vm:1] Rank 0 bound to package[0][core:0]\n"
        self.assertEqual(launch.bindings(text), {0: "package[0][core:0]"})


class Place(unittest.TestCase):
    def test_a_core_for_each(self):
        placement = launch.place(2, 2)
        self.assertTrue(placement.bound)
        self.assertIn("--bind-to core", " ".join(placement.arguments))

    def test_too_few_cores(self):
        for ranks, cores in ((2, 1), (64, 2)):
            placement = launch.place(ranks, cores)
            self.assertFalse(placement.bound)
            self.assertIn("--oversubscribe", placement.arguments)


class Transports(unittest.TestCase):
    def test_components(self):
        listing = "mca:btl:vader:version:1\nmca:pml:ucx:version:x\noption:a:b\n"
        self.assertEqual(
            transports.parse_components(listing), {("btl", "vader"), ("pml", "ucx")}
        )

    def test_peers_that_are_missing_are_left_out(self):
        names = [t.name for t in transports.default({("btl", "vader"), ("btl", "tcp")})]
        self.assertEqual(names, ["exanest", "vader", "tcp"])

    def test_one_sided_arguments_are_for_one_sided_tests(self):
        vader = transports.by_name("vader")
        self.assertNotIn("osc", vader.mca(one_sided=False))
        self.assertIn("osc", vader.mca(one_sided=True))

    def test_custom(self):
        made = transports.custom("ring=--mca btl exanest,self")
        self.assertEqual((made.name, len(made.arguments)), ("ring", 3))
        for text in ("ring", "ring=", "=--mca", "ring= "):
            with self.subTest(text), self.assertRaises(ValueError):
                transports.custom(text)

    def test_unknown(self):
        with self.assertRaisesRegex(ValueError, "there are exanest"):
            transports.by_name("nonsense")


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def add(self, path, mode=0o755):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
        return path

    def test_osu_as_installed(self):
        latency = self.add("libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency")
        put = self.add("libexec/osu-micro-benchmarks/mpi/one-sided/osu_put_bw")
        found = programs.osu_in(self.folder)
        self.assertEqual(found.get("latency"), latency)
        self.assertEqual(found.get("put_bw"), put)
        self.assertIsNone(found.get("bw"))

    def test_osu_sources_are_no_programs(self):
        self.add("mpi/pt2pt/osu_latency.c", 0o644)
        self.assertIsNone(programs.osu_in(self.folder))

    def test_osu_in_path_and_by_variable(self):
        latency = self.add("mpi/pt2pt/osu_latency")
        self.add("mpi/collective/osu_barrier")
        for env in (
            {"PATH": str(latency.parent)},
            {"PATH": "", "OSU_HOME": str(self.folder)},
        ):
            with self.subTest(env):
                found = next(programs.osu_anywhere(env))
                self.assertIsNotNone(found.get("barrier"))

    def test_osu_by_spack(self):
        self.add("osu/pt2pt/osu_latency")
        spack = self.add("bin/spack")
        spack.write_text(f"#!/bin/sh\necho {self.folder}/osu\n")
        env = {"PATH": f"{spack.parent}:/usr/bin:/bin"}
        self.assertIsNotNone(next(programs.osu_anywhere(env), None))

    def test_own(self):
        self.assertIsNone(programs.own(self.folder))
        latency = self.add("benchmarks/mpi/latency")
        self.assertEqual(programs.own(self.folder).get("latency"), latency)


if __name__ == "__main__":
    unittest.main()

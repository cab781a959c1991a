# SPDX-License-Identifier: BSD-3-Clause
import unittest
from pathlib import Path

from pfbench import launch
from pfbench.measures import BANDWIDTH, CPU
from pfbench.results import Results
from pfbench.runner import Job, Runner, plan
from pfbench.suite import TESTS, Span
from pfbench.transports import Transport

TEST = next(test for test in TESTS if test.name == "bandwidth")
SPANS = (Span(1, 2), Span(4, 8))
JOB = Job(TEST, Path("/p/bw"), SPANS, {BANDWIDTH: 1, CPU: 2}, ("--cpu",))
TRANSPORTS = [Transport(name, ("--mca", "btl", name), ("btl", name)) for name in "abc"]
PLACEMENT = launch.place(2, 2)
BOUND = "[h:1] MCW rank 0 bound to socket 0[core 0]\n[h:1] MCW rank 1 bound to X\n"


def outcome(output="1 5 .5\n2 6 .4\n4 7 .3\n8 8 .2\n", errors=BOUND, failure=""):
    return launch.Outcome(output, errors, 0.1, failure)


class Plan(unittest.TestCase):
    def test_transports_take_turns_at_every_span(self):
        steps = plan([JOB], TRANSPORTS, 1)
        self.assertEqual(
            [(step.span.low, step.transport.name) for step in steps],
            [(1, "a"), (1, "b"), (1, "c"), (4, "a"), (4, "b"), (4, "c")],
        )

    def test_who_is_first_changes(self):
        steps = plan([JOB], TRANSPORTS, 4)
        first = [step.transport.name for step in steps[:: len(steps) // 4]]
        self.assertEqual(first, ["a", "b", "c", "a"])

    def test_every_transport_runs_equally_often(self):
        steps = plan([JOB], TRANSPORTS, 5)
        for transport in TRANSPORTS:
            self.assertEqual(sum(step.transport == transport for step in steps), 10)

    def test_command(self):
        command = plan([JOB], TRANSPORTS, 1)[0].command(PLACEMENT)
        self.assertEqual(command[:3], ["mpirun", "-n", "2"])
        self.assertIn("--bind-to", command)
        self.assertEqual(command[-7:], "--mca btl a /p/bw -m 1:2 --cpu".split())


class Run(unittest.TestCase):
    def runner(self, outcomes):
        self.started = []

        def start(command, env, timeout):
            self.started.append(command)
            made = outcomes[command[command.index("btl") + 1]]
            return made.pop(0) if isinstance(made, list) else made

        return Runner(Results("abc"), PLACEMENT, {}, 1, start)

    def run_all(self, runner, repetitions=2):
        for step in plan([JOB], TRANSPORTS, repetitions):
            if runner.pending(step):
                runner.run(step)

    def test_samples(self):
        runner = self.runner(dict.fromkeys("abc", outcome()))
        self.run_all(runner)
        self.assertEqual(runner.failures, [])
        self.assertEqual(runner.results.sizes(BANDWIDTH), [1, 2, 4, 8])
        summary = runner.results.summary(CPU, "b", 8)
        self.assertEqual((summary.median, summary.repetitions), (0.2, 2))

    def test_failed_transport_is_marked_and_the_rest_go_on(self):
        bad = outcome(errors="cannot\n", failure="exit code 1")
        runner = self.runner({"a": outcome(), "b": bad, "c": outcome()})
        self.run_all(runner)
        self.assertTrue(runner.results.failed(BANDWIDTH, "b"))
        self.assertTrue(runner.results.failed(CPU, "b"))
        self.assertFalse(runner.results.failed(BANDWIDTH, "a"))
        self.assertEqual(runner.results.summary(BANDWIDTH, "c", 8).repetitions, 2)

    def test_failed_transport_is_not_run_again(self):
        bad = outcome(failure="exit code 1")
        runner = self.runner({"a": outcome(), "b": bad, "c": outcome()})
        self.run_all(runner)
        self.assertEqual(sum("b" in command for command in self.started), 1)
        self.assertEqual(len(runner.failures), 1)

    def test_failure_in_a_later_repetition_counts(self):
        late = [outcome(), outcome(), outcome(failure="exit code 1")]
        runner = self.runner({"a": late, "b": outcome(), "c": outcome()})
        self.run_all(runner)
        self.assertIsNone(runner.results.summary(BANDWIDTH, "a", 1))
        kept = [s for s in runner.results.samples if s.transport == "a"]
        self.assertTrue(kept)

    def test_results_in_spite_of_a_bad_exit_do_not_count(self):
        runner = self.runner(dict.fromkeys("abc", outcome(failure="killed by SIGSEGV")))
        self.run_all(runner)
        self.assertEqual(runner.results.samples, [])
        self.assertEqual(runner.results.failures[BANDWIDTH, "a"], "killed by SIGSEGV")

    def test_output_that_ends_early(self):
        runner = self.runner(dict.fromkeys("abc", outcome(output="1 5 .5\n")))
        self.run_all(runner)
        self.assertIn("size 2", runner.results.failures[BANDWIDTH, "a"])

    def test_two_ranks_on_one_core(self):
        errors = "[h:1] MCW rank 0 bound to X\n[h:1] MCW rank 1 bound to X\n"
        runner = self.runner(dict.fromkeys("abc", outcome(errors=errors)))
        self.run_all(runner)
        self.assertIn("same core", runner.results.failures[BANDWIDTH, "a"])

    def test_binding_is_recorded(self):
        runner = self.runner(
            {"a": outcome(), "b": outcome(errors=""), "c": outcome()}
        )
        self.run_all(runner)
        self.assertEqual(runner.bindings["a"][1], "X")
        self.assertEqual(runner.unbound(), ["b"])


if __name__ == "__main__":
    unittest.main()

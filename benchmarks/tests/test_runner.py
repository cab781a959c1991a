# SPDX-License-Identifier: BSD-3-Clause
from pathlib import Path

import pytest

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


def test_transports_are_interleaved_at_every_span():
    steps = plan([JOB], TRANSPORTS, 1)
    order = [(step.span.low, step.transport.name) for step in steps]
    assert order == [(1, "a"), (1, "b"), (1, "c"), (4, "a"), (4, "b"), (4, "c")]


def test_every_repetition_begins_with_another_transport():
    steps = plan([JOB], TRANSPORTS, 4)
    first = [step.transport.name for step in steps[:: len(steps) // 4]]
    assert first == ["a", "b", "c", "a"]


def test_every_transport_runs_equally_often():
    steps = plan([JOB], TRANSPORTS, 5)
    for transport in TRANSPORTS:
        assert sum(step.transport == transport for step in steps) == 10


def test_command():
    command = plan([JOB], TRANSPORTS, 1)[0].command(PLACEMENT)
    assert command[:3] == ["mpirun", "-n", "2"]
    assert "--bind-to" in command
    assert command[-7:] == "--mca btl a /p/bw -m 1:2 --cpu".split()


def test_cache_line_beside_each_figure():
    job = Job(TEST, Path("/p/bw"), (Span(1, 4),), {BANDWIDTH: 1, CPU: 2}, ("--cpu",), True)
    results = Results("a")
    text = "1 5 .5 30 31\n2 6 .4 200 30\n4 7 .3 200 201\n"
    runner = Runner(results, PLACEMENT, {}, 1, lambda *_: outcome(text))
    step = plan([job], TRANSPORTS[:1], 1)[0]
    assert step.command(PLACEMENT)[-2:] == ["--cpu", "--line"]
    assert runner.run(step) is None
    states = [(s.state, s.line) for s in results.samples if s.measure == CPU]
    assert states == [("close", 31), ("changed", 200), ("far", 201)]


@pytest.fixture
def run():
    """Run all steps with given outcomes: one for a transport, or a list of them."""

    def run_all(changed, repetitions=2):
        outcomes = {**dict.fromkeys("abc", outcome()), **changed}

        def start(command, env, timeout):
            runner.started.append(command)
            made = outcomes[command[command.index("btl") + 1]]
            return made.pop(0) if isinstance(made, list) else made

        runner = Runner(Results("abc"), PLACEMENT, {}, 1, start)
        runner.started = []
        for step in plan([JOB], TRANSPORTS, repetitions):
            if runner.pending(step):
                runner.run(step)
        return runner

    return run_all


def test_samples(run):
    runner = run({})
    assert runner.failures == []
    assert runner.results.sizes(BANDWIDTH) == [1, 2, 4, 8]
    summary = runner.results.summary(CPU, "b", 8)
    assert (summary.median, summary.repetitions) == (0.2, 2)


def test_failed_transport_is_marked_and_the_others_continue(run):
    runner = run({"b": outcome(errors="cannot\n", failure="exit code 1")})
    assert runner.results.failed(BANDWIDTH, "b")
    assert runner.results.failed(CPU, "b")
    assert not runner.results.failed(BANDWIDTH, "a")
    assert runner.results.summary(BANDWIDTH, "c", 8).repetitions == 2


def test_failed_transport_is_not_run_again(run):
    runner = run({"b": outcome(failure="exit code 1")})
    assert sum("b" in command for command in runner.started) == 1
    assert len(runner.failures) == 1


def test_failure_in_a_later_repetition_counts(run):
    runner = run({"a": [outcome(), outcome(), outcome(failure="exit code 1")]})
    assert runner.results.summary(BANDWIDTH, "a", 1) is None
    assert any(sample.transport == "a" for sample in runner.results.samples)


@pytest.mark.parametrize(
    "made, text",
    [
        (outcome(failure="killed by SIGSEGV"), "killed by SIGSEGV"),
        (outcome(output="1 5 .5\n"), "size 2"),
        (outcome(errors=BOUND.replace("socket 0[core 0]", "X")), "same core"),
    ],
)
def test_unusable_outcome(run, made, text):
    runner = run(dict.fromkeys("abc", made))
    assert runner.results.samples == []
    assert text in runner.results.failures[BANDWIDTH, "a"]


def test_binding_is_recorded(run):
    runner = run({"b": outcome(errors="")})
    assert runner.bindings["a"][1] == "X"
    assert runner.unbound() == ["b"]

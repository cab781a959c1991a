# SPDX-License-Identifier: BSD-3-Clause
import os
import signal

import pytest

from pfbench import cli, launch, transports
from pfbench.transports import KNOWN


def run_shell(script, timeout=60):
    return launch.run(["sh", "-c", script], dict(os.environ), timeout)


def test_output_and_errors_are_separate():
    outcome = run_shell("echo out; echo err >&2")
    assert (outcome.output, outcome.errors) == ("out\n", "err\n")
    assert outcome.failure == ""


def test_exit_code():
    assert run_shell("exit 3").failure == "exit code 3"


def test_signal():
    assert run_shell("kill -SEGV $$").failure == "killed by SIGSEGV"


def test_time_limit():
    outcome = run_shell("echo begun; exec sleep 600", timeout=5)
    assert "stopped" in outcome.failure
    assert outcome.output == "begun\n"


def test_error_tail_leaves_out_noise():
    text = (
        "[vm:1] MCW rank 0 bound to socket 0[core 0[hwt 0]]: [B/.]\n"
        "------------\nA requested component was not found.\n\n"
        "Component: nonsense\n----------\n"
        '[vm:1] Set MCA parameter "orte_base_help_aggregate" to 0 to see all\n'
    )
    expected = ["A requested component was not found.", "Component: nonsense"]
    assert launch.error_tail(text) == expected


def test_error_tail_is_the_end():
    lines = [f"line {number}" for number in range(100)]
    assert launch.error_tail("\n".join(lines)) == lines[-launch.ERROR_LINES :]


def test_bindings_of_open_mpi_4():
    text = (
        "[vm:1] MCW rank 1 bound to socket 0[core 1[hwt 0]]: [./B]\n"
        "[vm:1] MCW rank 0 is not bound (or bound to all available processors)\n"
    )
    assert launch.bindings(text) == {0: "", 1: "socket 0[core 1[hwt 0]]: [./B]"}


def test_bindings_of_open_mpi_5():
    text = "[vm:1] Rank 0 bound to package[0][core:0]\n"
    assert launch.bindings(text) == {0: "package[0][core:0]"}


def test_a_core_for_each_rank():
    placement = launch.place(2, 2)
    assert placement.bound
    assert "--bind-to core" in " ".join(placement.arguments)


@pytest.mark.parametrize("ranks, cores", [(2, 1), (64, 2)])
def test_too_few_cores(ranks, cores):
    placement = launch.place(ranks, cores)
    assert not placement.bound
    assert "--oversubscribe" in placement.arguments


def test_components():
    listing = "mca:btl:vader:version:1\nmca:pml:ucx:version:x\noption:a:b\n"
    expected = {("btl", "vader"), ("pml", "ucx")}
    assert transports.parse_components(listing) == expected


def test_one_sided_arguments_are_for_one_sided_tests():
    vader = KNOWN[1]
    assert "osc" not in vader.mca(one_sided=False)
    assert "osc" in vader.mca(one_sided=True)


def test_custom_transport():
    made = transports.custom("ring=--mca btl exanest,self")
    assert (made.name, len(made.arguments)) == ("ring", 3)


@pytest.mark.parametrize("text", ["ring", "ring=", "=--mca", "ring= "])
def test_wrong_custom_transport(text):
    with pytest.raises(ValueError):
        transports.custom(text)


@pytest.mark.parametrize(
    "number, before, code",
    [
        (signal.SIGINT, signal.SIG_IGN, 130),  # as a shell starts what is in the background
        (signal.SIGTERM, signal.SIG_DFL, 130),
        (signal.SIGHUP, signal.SIG_DFL, 130),
        (signal.SIGHUP, signal.SIG_IGN, 0),  # nohup
    ],
)
def test_signals_interrupt(number, before, code):
    all_before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(number, before)
    try:
        assert cli.guarded("command", lambda: os.kill(os.getpid(), number) or 0) == code
    finally:
        for each, handler in all_before.items():
            signal.signal(each, handler)

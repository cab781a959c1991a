# SPDX-License-Identifier: BSD-3-Clause
import pytest

from pfbench.cache_line import CacheLine, measure


def test_nanoseconds():
    assert CacheLine("54 ns from one core to the other").nanoseconds == 54
    assert CacheLine("0.5 ns").nanoseconds == 0.5
    assert CacheLine("not measured: 54 ns").nanoseconds is None


@pytest.mark.parametrize(
    "start, end, differs",
    [
        ("54 ns", "74 ns", False),
        ("54 ns", "230 ns", True),
        ("230 ns", "54 ns", True),
        ("54 ns", "not measured", False),
        ("not measured", "not measured", False),
    ],
)
def test_differs(start, end, differs):
    assert CacheLine(start).differs(CacheLine(end)) is differs


def test_measured_by_the_build_tree(made_up, monkeypatch):
    monkeypatch.chdir(made_up.folder)
    line = measure(made_up.folder, {})
    assert line == CacheLine("54 ns from one core to the other")


def test_measured_by_path(made_up, monkeypatch):
    monkeypatch.chdir(made_up.folder)
    line = measure(None, {"PATH": str(made_up.folder / "libpf/tools")})
    assert line.nanoseconds == 54


@pytest.mark.parametrize(
    "script, reason",
    [
        ("print('# pf_perf 0.1')", "pf_perf: its output has no cache line"),
        ("import sys; sys.exit('no processor')", "pf_perf: no processor"),
    ],
    ids=["no line", "no processor"],
)
def test_not_measured(made_up, script, reason):
    made_up.script("libpf/tools/pf_perf", script)
    assert measure(made_up.folder, {}).text == f"not measured: {reason}"


def test_no_program(tmp_path):
    line = measure(tmp_path, {"PATH": str(tmp_path)})
    assert line.text == "not measured: there is no pf_perf"

# SPDX-License-Identifier: BSD-3-Clause
"""incast --simulated: its files, with a script in place of pf_incast and with pf_incast."""

import csv
import shutil

import pytest

from pfbench import incast, plot

PF_INCAST = """\
import sys

value = dict(zip(sys.argv[2::2], sys.argv[3::2]))
count, seed, mark = (int(value.get(f"--{name}", 0)) for name in ("senders", "seed", "mark"))
if count == 3:
    sys.exit("made-up reason: pf_incast")
figures = {"gbit": value["--rate"], "queue": 1000000, "mark": mark, "longest": 3000, "loss": 0.01}
if "--pattern" in value:
    figures.update(hosts=count, goodput=0.8, kib_host=1536, cpu_ms_host=2.25)
else:
    figures.update(senders=count, goodput=0.9 + seed / 100, jain_later=0.5, longest_later=4000)
print(*figures, sep="\\t")
print(*figures.values(), sep="\\t")
"""


@pytest.fixture
def simulate(made_up):
    made_up.script("libpf/tests/pf_incast", PF_INCAST)
    return lambda *arguments: made_up.start("incast", *arguments)


def rows(folder, name="simulated"):
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_files(made_up, simulate):
    done = simulate("--senders", "2,16")
    assert done.returncode == 0, done.stderr
    found = [(row["senders"], row["gbit"], row["mark"], row["goodput"]) for row in rows(made_up.out)]
    # Without marks the seed has no effect.
    one = [("25", "0", "0.91"), *(("25", "200000", f"0.9{seed}") for seed in (1, 2, 3))]
    both = [*one, *(("100", *rest) for _, *rest in one)]
    assert found == [(count, *case) for count in ("2", "16") for case in both]
    found = [(row["hosts"], row["gbit"]) for row in rows(made_up.out, "all-to-all")]
    assert found == [(count, rate) for count in ("2", "16") for rate in ("25", "100")]
    table = (made_up.out / "tables.txt").read_text()
    assert table.rstrip() in done.stdout
    lines = [line.split() for line in table.splitlines()]
    assert ["2", "25", "none", "0.910", "0.500", "4", "1.000"] in lines
    assert ["16", "100", "200", "0.920", "(0.910", "0.930)"] in [line[:6] for line in lines]
    assert lines[-1] == ["16", "100", "none", "0.800", "3", "1.000", "1.50", "2.2"]
    text = made_up.environment_text()
    assert text.count("pf_incast --heads") == 20
    if shutil.which("gnuplot"):
        drawn = (made_up.out / "simulated.svg").read_text()
        for title in ("goodput", "index", "longest queue", "packets lost"):
            assert drawn.count(title) == 1
        assert "100 Gbit/s, marks from 200 kB" in drawn
        drawn = (made_up.out / "all-to-all.svg").read_text()
        for title in ("goodput", "longest queue", "packets lost", "memory", "processor time"):
            assert drawn.count(title) == 1


def test_one_host_has_no_peer(made_up, simulate):
    done = simulate("--senders", "1")
    assert done.returncode == 0, done.stderr
    assert len(rows(made_up.out)) == 8
    assert not (made_up.out / "all-to-all.csv").exists()


def test_too_little_memory(made_up, simulate):
    done = simulate("--senders", "2,65000")
    assert done.returncode == 0, done.stderr
    assert "All to all of 65000 hosts: left out, too little memory" in done.stderr
    assert {row["hosts"] for row in rows(made_up.out, "all-to-all")} == {"2"}


def test_a_run_fails(made_up, simulate):
    done = simulate("--senders", "3,4")
    assert done.returncode == 1
    assert done.stderr.count("FAILED: exit code 1") == 10
    assert {row["senders"] for row in rows(made_up.out)} == {"4"}


def test_every_run_fails(simulate):
    done = simulate("--senders", "3")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["--senders 0", "--senders 4,x", "--senders 70000"])
def test_wrong_usage(simulate, arguments):
    done = simulate(*arguments.split())
    assert done.returncode == 2
    assert "give numbers from 1 to 65535" in done.stderr


def test_program_is_missing(made_up):
    done = made_up.start("incast")
    assert done.returncode == 2
    assert "there is no program pf_incast" in done.stderr


def test_program_is_missing_where_no_build_tree_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pfbench.comparison.find_build", lambda given: given)
    assert incast.main(["--out", str(tmp_path)]) == 2
    assert "there is no program pf_incast" in capsys.readouterr().err


def test_gnuplot_is_missing(made_up, monkeypatch):
    monkeypatch.setenv("PATH", str(made_up.folder))
    panels = [plot.Panel("goodput", {"one": {2: [1.0]}})]
    assert "gnuplot" in plot.draw_panels(made_up.out, "title", "senders", panels)


def test_real_run(build, tmp_path):
    if not (build / "libpf/tests/pf_incast").exists():
        pytest.skip("there is no pf_incast: run make check TESTS=")
    options = ["--build", str(build), "--out", str(tmp_path), "--senders", "2"]
    assert incast.main(options) == 0
    assert len(rows(tmp_path)) == 8
    for row in rows(tmp_path):
        assert 0.5 < float(row["goodput"]) <= 1
        assert 0.5 <= float(row["jain_later"]) <= 1
    assert len(rows(tmp_path, "all-to-all")) == 2

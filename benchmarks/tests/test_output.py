# SPDX-License-Identifier: BSD-3-Clause
"""Tables, CSV files and plots."""

import csv
import shutil
import subprocess

import pytest

from pfbench import plot, store, table
from pfbench.cache_line import CacheLine
from pfbench.environment import revision
from pfbench.launch import place
from pfbench.measures import BANDWIDTH, LATENCY

VALUES = {
    "exanest": {1: [0.20, 0.22, 0.21], 1024: [1.0, 1.0, 1.0]},
    "vader": {1: [0.40, 0.42, 0.44], 1024: [0.8, 0.8, 0.8]},
}
needs_gnuplot = pytest.mark.skipif(
    not shutil.which("gnuplot"), reason="gnuplot is not installed"
)


@pytest.fixture
def made(results):
    return results(LATENCY, VALUES)


def test_rows_of_a_table(made):
    lines = table.render(made, LATENCY, "exanest").splitlines()
    assert lines[1].split() == ["size", "exanest", "vader", "exanest/best"]
    assert lines[2].split() == "1 0.210 ( 10%) 0.420 ( 10%) 0.50 vader".split()
    assert lines[3].endswith("1.25 vader")
    assert "over 2 sizes: 0.791" in lines[4]


def test_failed_transport_in_a_table(made):
    made.fail(LATENCY, "vader", "exit code 1")
    lines = table.render(made, LATENCY, "exanest").splitlines()
    assert lines[2].split()[-2:] == ["failed", "-"]
    assert lines[-1] == "vader FAILED: exit code 1"


def test_columns_are_aligned_and_separated(results):
    long = {"exanest": {1: [0.006061, 1.0]}, "vader": {1: [0.006061, 0.01]}}
    rows = table.render(results(LATENCY, long), LATENCY, "exanest").splitlines()[1:3]
    assert len({len(row) for row in rows}) == 1
    assert "0.503 (198%)  0.00803 ( 49%)  " in rows[1]


def test_digits():
    values = (26753.4, 101.0, 26.74, 2.674, 0.2674, 0.00026)
    expected = ["26753", "101", "26.7", "2.67", "0.267", "0.000260"]
    assert [table.digits(value) for value in values] == expected


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_samples(made, tmp_path):
    store.write_samples(made, tmp_path)
    samples = rows(tmp_path / "latency.csv")
    assert len(samples) == 12
    assert list(samples[1].items()) == [
        ("test", "latency"),
        ("transport", "exanest"),
        ("size", "1"),
        ("repetition", "2"),
        ("value", "0.22"),
        ("unit", "us"),
        ("line_ns", ""),
        ("state", ""),
    ]


def summary(made, folder, line="54 ns"):
    store.write_summary([made], folder, "exanest", place(2, 2), CacheLine(line))
    return rows(folder / "summary.csv")


def test_summary(made, tmp_path):
    assert list(summary(made, tmp_path)[0].items()) == [
        ("test", "latency"),
        ("hosts", "1"),
        ("mtu", ""),
        ("cache_line_ns", "54.0"),
        ("transport", "exanest"),
        ("size", "1"),
        ("unit", "us"),
        ("repetitions", "3"),
        ("median", "0.21"),
        ("minimum", "0.2"),
        ("maximum", "0.22"),
        ("ratio_to_best", "0.5000"),
        ("best", "vader"),
    ]


def test_values_are_as_short_as_they_were_measured(results, tmp_path):
    made = results(LATENCY, {"exanest": {1: [0.3903, 0.3906]}})
    assert summary(made, tmp_path)[0]["median"] == "0.39045"


def test_summary_of_a_machine_in_an_unknown_state(made, tmp_path):
    first = summary(made, tmp_path, "not measured: there is no pf_perf")[0]
    assert first["cache_line_ns"] == ""


def test_failed_transport_in_the_summary(made, tmp_path):
    made.fail(LATENCY, "vader", "exit code 1")
    vader = [row for row in summary(made, tmp_path) if row["transport"] == "vader"]
    assert [(row["hosts"], row["median"]) for row in vader] == [("1", "failed")]


@needs_gnuplot
def test_plots(made, results, tmp_path):
    for sample in results(BANDWIDTH, VALUES).samples:
        made.add(sample)
    caption = "a \"CPU\" with \\ and 'quotes'"
    assert plot.draw(made, tmp_path, "exanest", caption) is None
    for name in ("latency", "bandwidth", "ratio"):
        assert "</svg>" in (tmp_path / f"{name}.svg").read_text()
    assert "vader" in (tmp_path / "latency.svg").read_text()


@needs_gnuplot
def test_no_plot_where_all_failed(made, tmp_path):
    made.fail(LATENCY, "vader", "exit code 1")
    made.fail(LATENCY, "exanest", "exit code 1")
    assert plot.draw(made, tmp_path, "exanest", "") is None


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_revision(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=x", "-c", "user.email=x"]
        subprocess.run(["git", "-C", tmp_path, *who, *arguments], check=True)

    git("init", "-q")
    for name in ("doc/results.md", "source"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("first")
    git("add", ".")
    git("commit", "-qm", "first")
    clean = revision(tmp_path)
    (tmp_path / "doc/results.md").write_text("published")
    (tmp_path / "results").mkdir()
    assert revision(tmp_path) == clean != "not found"
    (tmp_path / "source").write_text("second")
    assert revision(tmp_path) == f"{clean}-dirty"

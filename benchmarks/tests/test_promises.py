# SPDX-License-Identifier: BSD-3-Clause
"""The command promises: its rows, verdicts and output. The groups mpi and timing run the rows."""

import csv

import pytest

from pfbench import hosts, launch, promise_runs, promises, transports
from pfbench.promise_runs import RUNS, Run, Runner, parse, parse_perf
from pfbench.promises import COUNT, TIME, Row, Verdict

RUN = Run("made-up", ("promise", "shape", "3"), {"memory": "row-memory", "time": "row-time"})
ROWS = [
    Row("row-memory", COUNT, "MiB", 8.0, None, True, "memory"),
    Row("row-time", TIME, "ms", 1.0, 1.5, True, "time"),
]


@pytest.mark.parametrize(
    "bound, ratio, kind, peer, tolerance, limit",
    [
        (8.0, None, COUNT, None, 2.0, 8.0),
        (8.0, None, TIME, None, 2.0, 16.0),
        (None, 1.5, TIME, 4.0, 1.0, 6.0),
        (None, 1.5, TIME, None, 1.0, None),
        (10.0, 2.0, TIME, 4.0, 1.0, 10.0),
        (10.0, 2.0, TIME, 7.0, 1.0, 14.0),
        (10.0, 2.0, TIME, None, 1.0, 10.0),
    ],
)
def test_limit(bound, ratio, kind, peer, tolerance, limit):
    row = Row("row", kind, "ms", bound, ratio, True, "")
    assert row.limit(peer, tolerance) == limit


@pytest.mark.parametrize(
    "ours, limit, kept, word",
    [
        (8.0, 8.0, True, "kept"),
        (8.1, 8.0, False, "broken"),
        (8.0, None, None, "no peer"),
        (None, 8.0, False, "failed"),
    ],
)
def test_verdict(ours, limit, kept, word):
    verdict = Verdict(ROWS[0], ours, "vader", 7.0, limit)
    assert verdict.kept is kept
    assert verdict.word == word


def test_figures_of_a_program():
    text = "# MPI Latency Test\n[h:1] bound to core\nmemory 7.5\nmappings 198\nmemory 9\n"
    assert parse(text, "promise") == {"memory": 7.5, "mappings": 198.0}


def test_a_bandwidth_becomes_a_time():
    assert parse("# Size\n1048576 2097.152\n", "bw") == {"1048576": 500.0}


def test_every_run_has_a_name_of_its_own():
    assert len({run.name for run in RUNS}) == len(RUNS)
    rows = [row for run in RUNS for row in run.rows.values()]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    "text",
    [
        "row,kind,unit,bound,ratio,mark,promise\nidle-ranks,count,%,,,reached,no bound\n",
        "row,kind,unit,bound,ratio,mark,promise\nidle-ranks,often,%,8,,reached,no kind\n",
        "row,kind,unit,bound,ratio,mark,promise\nidle-ranks,count,%,8,,reached,others are missing\n",
    ],
)
def test_wrong_bounds(tmp_path, text):
    path = tmp_path / "bounds.csv"
    path.write_text("# a comment\n" + text)
    with pytest.raises(ValueError, match="bounds.csv"):
        promises.read_rows(path)


def test_list(capsys):
    assert promises.main(["--list", "--rows", COUNT]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [
        row.name for row in promises.read_rows() if row.kind == COUNT
    ]


@pytest.mark.parametrize("arguments", ["no-such-row", "--rows some", "--tolerance much"])
def test_wrong_usage(made_up, arguments):
    done = made_up.start("promises", *arguments.split())
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


class Made(Runner):
    """A runner whose runs have these figures, by transport."""

    def __init__(self, figures, absent=False):
        self.order = []
        self._figures = figures
        self._absent = absent

    def __exit__(self, *error):
        pass

    def subject(self, run):
        return None if self._absent else run.among[0]

    def peer(self, run):
        return run.among[1]

    def figures(self, run, transport):
        self.order.append(transport.name)
        values = self._figures[transport.name].pop(0)
        if isinstance(values, Exception):
            raise values
        return dict(zip(run.rows.values(), values))


def judge(figures, with_peer=True, tolerance=1.0, **changes):
    runner = Made(figures)
    run = Run(**{**RUN.__dict__, **changes})
    verdicts = list(
        promises._judge(runner, run, ROWS, tolerance, with_peer, run.repetitions)
    )
    return runner, {verdict.row.name: verdict for verdict in verdicts}


def test_turns():
    figures = {"exanest": [(7, 1), (9, 2), (8, 9)], "vader": [(1, 1), (1, 4), (1, 2)]}
    runner, verdicts = judge(figures, repetitions=3)
    assert runner.order == ["exanest", "vader", "vader", "exanest", "exanest", "vader"]
    assert (verdicts["row-memory"].ours, verdicts["row-memory"].word) == (8, "kept")
    assert (verdicts["row-time"].ours, verdicts["row-time"].theirs) == (2, 2)
    assert verdicts["row-time"].limit == 3.0


def test_the_longest_of_all_repetitions():
    figures = {"exanest": [(1, 1), (2, 5)], "vader": [(1, 1), (1, 3)]}
    _, verdicts = judge(figures, repetitions=2, summary=max)
    assert (verdicts["row-time"].ours, verdicts["row-time"].word) == (5, "broken")


def test_a_peer_that_fails():
    figures = {"exanest": [(1, 1)] * 2, "vader": [ValueError("made-up reason")]}
    runner, verdicts = judge(figures, repetitions=2)
    assert runner.order == ["exanest", "vader", "exanest"]
    assert (verdicts["row-time"].limit, verdicts["row-time"].word) == (1.0, "kept")


def test_exanest_that_fails():
    figures = {"exanest": [ValueError("made-up reason")], "vader": [(1, 1)]}
    _, verdicts = judge(figures)
    assert {verdict.word for verdict in verdicts.values()} == {"failed"}
    assert verdicts["row-time"].failure == "made-up reason"


def test_a_component_for_which_open_mpi_has_no_place():
    made = Made({}, absent=True)
    verdicts = list(promises._judge(made, RUN, ROWS, 1.0, True, 1))
    assert {(verdict.kept, verdict.word) for verdict in verdicts} == {(None, "not in this Open MPI")}
    assert not made.order


@pytest.mark.parametrize(
    "listed, subject, peer",
    [
        (["btl:exanest", "smsc:exanest", "smsc:cma"], "exanest", "cma"),
        (["btl:exanest", "smsc:exanest"], "exanest", None),
        (["btl:exanest"], None, None),
    ],
)
def test_below_btl_sm(listed, subject, peer):
    class Listed:
        own = None
        components = {tuple(one.split(":")) for one in listed}

        def default(self, known):
            return [one for one in known if one.component in self.components]

    runner = Runner(Listed(), print)
    run = next(one for one in promises.RUNS if one.name == "smsc-latency")
    assert getattr(runner.subject(run), "name", None) == subject
    assert getattr(runner.peer(run), "name", None) == peer
    Listed.components = {("smsc", "cma")}
    with pytest.raises(ValueError, match="ompi_info shows no smsc exanest"):
        runner.subject(run)


def test_table():
    _, verdicts = judge({"exanest": [(9, 1)], "vader": [(2, 3)]})
    text = promises.render(list(verdicts.values()))
    assert ["row-memory", "9", "2", "vader", "8", "MiB", "broken", "memory"] in [
        line.split() for line in text.splitlines()
    ]
    assert text.endswith("\n1 kept, 1 broken")


@pytest.fixture
def one_row(monkeypatch, made_up):
    """Only one run, whose program prints the figure that is set."""
    made_up.listing(["btl:exanest", "btl:vader"])
    made_up.hosts(monkeypatch)
    rows = [Row("idle-ranks", COUNT, "%", 8.0, None, True, "waits")]
    monkeypatch.setattr(promises, "read_rows", lambda: rows)
    monkeypatch.setattr(Runner, "figures", lambda self, run, transport: {"idle-ranks": 7.0})
    return rows


def test_results(one_row, made_up, tmp_path, capsys):
    assert promises.main(made_up.folders()) == 0
    assert "1 kept, 0 broken" in capsys.readouterr().out
    (path,) = tmp_path.rglob("promises.csv")
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert (row["exanest"], row["peer"], row["verdict"]) == ("7", "vader", "kept")


def test_a_broken_row_decides_the_exit_code(one_row, made_up, monkeypatch):
    monkeypatch.setattr(Runner, "figures", lambda self, run, transport: {"idle-ranks": 9.0})
    assert promises.main(made_up.folders()) == 1


def test_tap(one_row, made_up, capsys):
    assert promises.main([*made_up.folders(), "--tap"]) == 0
    assert capsys.readouterr().out == "1..1\nok 1 - idle-ranks: 7 %, at most 8\n"


@pytest.mark.parametrize(
    "figures, runs",
    [([7.0, 9.0, 9.0], 1), ([9.0, 7.0, 7.0, 9.0], 4), ([9.0, 9.0, 9.0, 9.0, 7.0, 9.0], 5)],
)
def test_tap_repeats_only_what_is_not_kept(one_row, monkeypatch, capsys, made_up, figures, runs):
    left = list(figures)
    run = Run("idle", ("promise",), {"idle": "idle-ranks"}, repetitions=3)
    monkeypatch.setattr(promises, "RUNS", [run])
    monkeypatch.setattr(
        Runner, "figures", lambda self, run, transport: {"idle-ranks": left.pop(0)}
    )
    assert promises.main([*made_up.folders(), "--tap"]) == 0
    assert len(figures) - len(left) == runs


def test_command_between_hosts(made_up, monkeypatch):
    """The first run between hosts makes them, and they are removed at the end."""
    made_up.listing(["btl:exanest", "btl:tcp"])
    made_up.hosts(monkeypatch)
    commands = []

    def start(command, env, timeout):
        commands.append(command)
        return launch.Outcome("longest 3\n", "", 0.1, "")

    monkeypatch.setattr(launch, "run", start)
    (run,) = [run for run in RUNS if run.name == "round"]
    with Runner(promises.Setup(made_up.folder), lambda command: None) as runner:
        runner._programs = {"promise": made_up.folder / "promise"}
        assert runner.peer(run) is hosts.TRANSPORTS[1]
        assert runner.figures(run, transports.KNOWN[0]) == {"longest-round": 3.0}
    (command,) = commands
    assert command[-3:] == ["round", "30", "100000"]
    assert "h0,h1,h2,h3" in command


def test_a_test_of_pf_perf(made_up, monkeypatch):
    """Its peer is another test, and both are of libpf."""
    made_up.hosts(monkeypatch)
    commands = []

    def together(both, env, seconds):
        commands.append(both[0])
        test = both[0][both[0].index("--test") + 1]
        value = 11 if test == "signal-latency" else 27
        return [f"test,bytes,unit,median\n{test},8,us,{value},10,12", ""]

    monkeypatch.setattr(promise_runs.streams, "run_together", together)
    (run,) = [run for run in RUNS if run.name == "signal"]
    with Runner(promises.Setup(made_up.folder), lambda command: None) as runner:
        peer = runner.peer(run)
        assert peer.name == "put-send-latency"
        assert runner.figures(run, transports.KNOWN[0]) == {"signal": 11.0}
        assert runner.figures(run, peer) == {"signal": 27.0}
    assert all("h1" in command and "--connect" in command for command in commands)
    with pytest.raises(ValueError, match="did not print get-latency"):
        parse_perf("get-latency,64,us,1", "get-latency")

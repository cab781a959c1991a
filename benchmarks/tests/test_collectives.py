# SPDX-License-Identifier: BSD-3-Clause
"""The command collectives: its sizes, its judgement and rules, and made-up programs."""

import pytest

from pfbench import causes, collective_results, collectives, document, suite, tuned
from pfbench.application_results import Setting
from pfbench.collective_results import Point
from pfbench.results import Summary
from pfbench.suite import KIB, MIB

BY_NAME = {test.name: test for test in suite.COLLECTIVES}
LISTING = "".join(
    f"mca:coll:tuned:param:coll_tuned_{operation}_algorithm:enumerator:value:{number}:{name}\n"
    for operation in ("allreduce", "allgather", "allgatherv")
    for number, name in enumerate(("ignore", "linear", "ring", "two_proc"))
)


def start(made_up, *arguments):
    return made_up.start("collectives", *arguments)


def rows(folder):
    return collective_results.rows(folder / collective_results.FILE)


def point(size=8, operation="allreduce", setting=Setting(1, 4), **medians):
    """Each repetition is within 1 of the median."""
    times = {name: Summary(value, value - 1, value + 1, 3) for name, value in medians.items()}
    return Point(setting, operation, size, times)


def test_all_well(made_up):
    done = start(made_up, "-n", "2,999", "-r", "1", "--goals", "--max", "16K")
    assert done.returncode == 0, done.stderr
    found = rows(made_up.out)
    assert {(row["ranks"], row["transport"]) for row in found} == {
        (ranks, name) for ranks in ("2", "999") for name in ("exanest", "vader", "tcp")
    }
    assert {row["test"] for row in found} == set(BY_NAME)
    environment = (made_up.out / "999-ranks/environment.txt").read_text()
    assert "mpirun -n 999 --oversubscribe" in environment and "--validate" in environment
    assert "met      alltoall, every size" in done.stdout
    # A block for each of 999 ranks would take all memory.
    sizes = {int(row["size"]) for row in found if row["ranks"] == "999" and row["test"] == "bcast"}
    assert sizes == set(suite.doubled(8, 16 * KIB))
    assert "2 ranks: geometric mean of the ratios 0.50; of " in done.stdout
    assert "slower:" not in done.stdout


def test_below_btl_sm(made_up):
    made_up.listing(["btl:sm", "smsc:exanest", "smsc:cma"])
    options = ["--smsc", "-n", "2", "-r", "1", "--max", "16", "--tests", "bcast"]
    done = start(made_up, *options)
    assert done.returncode == 0, done.stderr
    assert {row["transport"] for row in rows(made_up.out)} == {"exanest", "cma"}
    for other in (["--hosts"], ["--rules", "rules"]):
        assert f"without {other[0]}" in start(made_up, "--smsc", *other).stderr


def test_between_hosts(made_up, monkeypatch):
    made_up.hosts(monkeypatch)
    options = ["--hosts", "-n", "8", "-r", "1", "--max", "16", "--tests", "barrier,bcast"]
    assert collectives.main([*made_up.folders(), *options]) == 0
    calls = made_up.hosts_calls()
    assert calls[0] == "up 4 --core --mtu 9000" and calls[-1] == "down"
    runs = [call for call in calls if call.startswith("run ")]
    assert all(run.startswith("run -n 8 ") for run in runs)
    assert any("--mca btl tcp,vader,self" in run for run in runs)
    # Clocks of different hosts cannot be compared.
    assert {"--validate" in run for run in runs if "barrier" in run} == {False}
    assert {"--validate" in run for run in runs if "bcast" in run} == {True}
    assert {(row["hosts"], row["ranks"]) for row in rows(made_up.out)} == {("4", "8")}


def test_exanest_fails(made_up):
    (made_up.folder / "FAILING").write_text("exanest")
    done = start(made_up, "-n", "2,4", "-r", "1", "--tests", "barrier")
    assert done.returncode == 1
    assert "made-up reason: exanest" in done.stderr
    assert "4 ranks: no peer was measured" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    ["-n 0", "-n 2,x", "--tests latency", "--transports nonsense", "--rules f --publish", "--rules f -r 4", "-r 0"],
)
def test_wrong_usage(made_up, arguments):
    done = start(made_up, *arguments.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_spans():
    """Sizes double from one span to the next, and fit into memory."""
    for ranks in (2, 4, 16, 64, 1000):
        for test in suite.COLLECTIVES:
            parts = collectives.spans(test, ranks, 4 * MIB)
            sizes = [size for part in parts for size in part.sizes()]
            assert sizes == (suite.doubled(8, sizes[-1]) if test.sized else [0])
            assert all(part.iterations >= 3 for part in parts)
            held = ranks * sizes[-1] * (ranks if test.program in tuned.OF_ALL_BLOCKS else 1)
            assert held <= 4 * KIB * MIB, (ranks, test.name)
    assert collectives.spans(BY_NAME["alltoall"], 4, 4 * MIB)[-1].high == 4 * MIB
    assert collectives.spans(BY_NAME["alltoall"], 64, 4 * MIB)[-1].high == 64 * KIB
    assert collectives.spans(BY_NAME["bcast"], 64, 4 * MIB)[-1].high == 4 * MIB


def test_finding():
    fast = point(8, exanest=10, vader=20, tcp=40)
    near = point(16, exanest=11, vader=10)
    slow, slower = point(32, exanest=30, vader=20), point(64, exanest=60, vader=90, tcp=20)
    alone = point(128, exanest=5)
    assert (fast.best, fast.ratio, near.slower, str(slow.slower), alone.ratio) == (
        *("vader", 0.5, None, "1.50 of vader"),
        None,
    )
    assert collective_results.finding([fast, near, slow, slower, alone]).endswith(
        "; of 4 sizes 3 slower by more than 2% by the medians, 2 beyond the spread; "
        "the largest ratios: allreduce 64 3.00 of tcp, allreduce 32 1.50 of vader, "
        "allreduce 16 1.10 of vader, allreduce 8 0.50 of vader"
    )
    assert collective_results.finding([alone]) == "no peer was measured"


def test_certainly_slower():
    """Than a peer whose median is not the smallest, but whose repetitions are all faster."""
    times = {
        "exanest": Summary(78, 73, 80, 5),
        "vader": Summary(60, 55, 76, 5),
        "ucx": Summary(62, 61, 72, 5),
    }
    found = collective_results.Point(Setting(1, 4), "bcast", 8, times)
    assert str(found.slower) == "1.26 of ucx"
    assert (found.best, found.ratio) == ("vader", 1.3)


def test_the_peers_of_the_goals(made_up):
    """All but exanest, in whatever order they are named."""
    options = ["-n", "2", "-r", "1", "--tests", "bcast", "--max", "8", "--goals"]
    done = start(made_up, *options, "--transports", "vader,exanest")
    (line,) = [line for line in done.stdout.splitlines() if "best peer beyond the spread" in line]
    assert line.split()[0] == "met" and "0.50 of vader" in line


def test_slower_sizes():
    """Only sizes that follow each other are a range."""
    slow, fast = {"exanest": 30, "tcp": 20}, {"exanest": 10, "tcp": 20}
    kinds = dict(zip(suite.doubled(8, 512), (slow, fast, slow, slow, slow, fast, slow)))
    points = [point(0, "barrier", exanest=40, tcp=10), point(8, "bcast", **fast)]
    points += [point(size, **times) for size, times in kinds.items()]
    assert collective_results.slower(points) == [
        ("barrier (at most 4.00 of tcp)", ""),
        ("allreduce 8, 32 to 128, 512 (at most 1.50 of tcp)", ""),
    ]
    known = [causes.Cause("4 ranks", "allreduce", "64-256", "made up", "", "", "")]

    def tell(of):
        return causes.find(known, of.setting, of.operation, of.size)

    unknown = "cause: not found"
    assert collective_results.slower(points, tell) == [
        ("barrier (at most 4.00 of tcp)", unknown),
        ("allreduce 8, 32, 512 (at most 1.50 of tcp)", unknown),
        (
            "allreduce 64 to 128 (at most 1.50 of tcp)",
            "cause: made up; first attempt: none; second attempt: none",
        ),
    ]


def test_algorithms():
    assert tuned.algorithms(LISTING, "allgather", 2) == {1: "linear", 2: "ring", 3: "two_proc"}
    assert tuned.algorithms(LISTING, "allgather", 4) == {1: "linear", 2: "ring"}
    assert tuned.algorithms(LISTING, "bcast", 4) == {}
    assert [way.name for way in tuned.variants(LISTING, "allreduce", 4)] == ["1-linear", "2-ring"]


def test_choose():
    points = [
        point(8, **{"exanest": 30, "1-linear": 20, "2-ring": 25}),
        point(16, **{"exanest": 30, "1-linear": 20}),
        point(32, **{"exanest": 30, "1-linear": 29}),
        point(64, **{"exanest": 30, "2-ring": 10}),
        point(128, exanest=30),
    ]
    found = [(choice.size, choice.algorithm) for choice in tuned.choose(points)]
    assert found == [(0, 1), (32, 0), (64, 2), (128, 0)]
    assert tuned.choose(points)[2].ratio == pytest.approx(1 / 3)
    assert [each.algorithm for each in tuned.choose(points[2:3])] == [0]


def numbers(text):
    """What Open MPI reads: all numbers that are not in comments."""
    return [int(word) for line in text.splitlines() for word in line.partition("#")[0].split()]


def test_rules():
    choice, own = tuned.Choice, [1, 0, 0, 0, 0]
    text = tuned.rules(
        {
            "allreduce": {4: [choice(0, 3, 0.5)], 2: [choice(0, 0), choice(64, 4, 0.25)]},
            "alltoall": {4: [choice(0, 0), choice(64, 2, 0.8)]},
        },
        ["made up"],
    )
    assert text.startswith("# made up\n")
    assert numbers(text) == [
        *[2],
        *[2, 5, 1, *own, 2, 2, *[0, 0, 0, 0], *[64, 4, 0, 0], 3, *own, 4, 1, *[0, 3, 0, 0], 8, *own],
        # The sizes of rules are those of all blocks of a rank.
        *[3, 4, 1, *own, 3, *own, 4, 2, *[0, 0, 0, 0], *[256, 2, 0, 0], 8, *own],
    ]


def test_rules_of_a_run(made_up):
    made_up.script("ompi_info", f'print("mca:btl:self:\\nmca:btl:exanest:\\n" + {LISTING!r})')
    path = made_up.folder / "rules"
    options = ["-n", "4", "--tests", "allreduce,allgather", "--max", "16", "--rules", str(path)]
    (made_up.folder / "FAILING").write_text("exanest")
    done = start(made_up, *options)
    assert (done.returncode, path.exists()) == (1, False)
    assert "is unchanged, as not all was measured" in done.stdout
    (made_up.folder / "FAILING").write_text("")
    done = start(made_up, *options)
    assert done.returncode == 0, done.stderr
    environment = (made_up.out / "4-ranks/allgather/environment.txt").read_text()
    assert "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allgather_algorithm 2" in environment
    # All take as long as Open MPI's choice.
    own = [1, 0, 0, 0, 0]
    assert numbers(path.read_text()) == [
        *[2, 2, 4, 1, *own, 3, *own, 4, *own, 8, *own],
        *[0, 4, 1, *own, 3, *own, 4, *own, 8, *own],
    ]


def test_settings_are_published_apart(made_up, monkeypatch, tmp_path):
    monkeypatch.setattr(document, "FOLDER", tmp_path)
    monkeypatch.chdir(made_up.folder)
    for name, value in made_up.environment().items():
        monkeypatch.setenv(name, value)

    def publish(*options):
        return collectives.main([*made_up.folders(), "-r", "1", "--publish", *options])

    assert publish("-n", "2", "--max", "8") == 0
    text = (tmp_path / "results.md").read_text()
    assert "**2 ranks**: exanest, vader, tcp.\n`benchmarks/collectives -r 1 -n 2 --max 8`" in text
    assert "\nbarrier: 1.00, 0.50 of vader.\n" in text
    assert "| bcast | 1.00, 0.50 of vader | - |" in text
    assert "**Compared**: geometric mean of the ratios 0.50; of 6 sizes 0 slower by" in text
    assert "\nNot measured: 4 ranks; 16 ranks; 64 ranks; 4 ranks on 4 hosts; " in text
    assert publish("-n", "4", "--max", "8") == 0
    assert {row["ranks"] for row in collective_results.rows(tmp_path / "results-collectives.csv.xz")} == {
        *("2", "4")
    }
    # A size of what is published would be lost.
    assert publish("-n", "4", "--tests", "barrier") == 2
    assert "**4 ranks**" in (tmp_path / "results.md").read_text()

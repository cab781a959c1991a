# SPDX-License-Identifier: BSD-3-Clause
"""The command applications: its checks, its judgement, and runs of programs."""

import argparse
import csv
import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from pfbench import application_results, applications, cli, document, launch, packaged
from pfbench.application_results import Row, Run, Used
from pfbench.data import open_data
from pfbench.packaged import APPLICATIONS, Application, Finished, WrongResult

LAMMPS = next(each for each in APPLICATIONS if each.name == "lammps-lj")
HPCC = next(each for each in APPLICATIONS if each.name == "hpcc")


def made(name):
    return Application(name, "made-up-package", name, (), lambda finished: {})


# ---- the checks of results ----


def finished(tmp_path, output="", **files):
    for name, text in files.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    return Finished(output, tmp_path)


def test_the_result_of_one_rank():
    packaged.compare([1.0, 2.0], [1.0, 2.0 + 1e-9], 1e-6)
    for wrong in ([1.0, 2.1], [1.0], [1.0, float("nan")]):
        with pytest.raises(WrongResult):
            packaged.compare(wrong, [1.0, 2.0], 1e-6)
    with pytest.raises(WrongResult):
        packaged.compare([], [], 1e-6)


LOG = "Step Temp\n 0 1.5\n {step} 1.25\nLoop time of 1 on 2 procs\n 9 9\n"


def test_thermodynamics(tmp_path):
    done = finished(tmp_path, log_lammps=LOG.format(step=20))
    assert packaged.thermodynamics(done) == [0, 1.5, 20, 1.25]
    with pytest.raises(WrongResult):
        packaged.thermodynamics(finished(tmp_path, log_lammps=LOG.format(step="x")))


def test_a_file_that_the_program_did_not_write(tmp_path):
    with pytest.raises(WrongResult, match="no hpccoutf.txt"):
        packaged.hpcc(finished(tmp_path))


def hpcc_output(**changes):
    values = {"Success": 1, "MPIRandomAccess_Errors": 0, "MPIRandomAccess_LCG_Errors": 0}
    values.update(HPL_time=1.5, MPIRandomAccess_time=2, MPIFFT_maxErr=1e-15)
    values.update({f"MPIFFT_time{step}": 0.5 for step in range(7)})
    values.update(changes)
    lines = [f"{name}={value}" for name, value in values.items() if value is not None]
    return "\n".join(["  0 tests completed and failed residual checks", *lines]) + "\n"


def test_hpcc(tmp_path):
    parts = packaged.hpcc(finished(tmp_path, hpccoutf_txt=hpcc_output()))
    assert parts == {"hpl": 1.5, "fft": 3.5, "randomaccess": 2}
    assert set(parts) == set(HPCC.parts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"Success": 0},
        {"MPIRandomAccess_Errors": 1},
        {"MPIRandomAccess_LCG_Errors": 1},
        {"MPIFFT_maxErr": "nan"},
        {"MPIFFT_maxErr": 1},
        {"HPL_time": None},
    ],
)
def test_wrong_hpcc(tmp_path, wrong):
    with pytest.raises(WrongResult):
        packaged.hpcc(finished(tmp_path, hpccoutf_txt=hpcc_output(**wrong)))
    text = hpcc_output().replace(" 0 tests", " 1 tests")
    with pytest.raises(WrongResult):
        packaged.hpcc(finished(tmp_path, hpccoutf_txt=text))


def test_netpipe(tmp_path):
    rows = [f"{size} 100.0 0.5" for size in [*range(1, 60), 1 << 20]]
    packaged.netpipe(finished(tmp_path, np_out="\n".join(rows)))
    for wrong in (rows[:-1], [*rows, "2000000 0 0"], []):
        with pytest.raises(WrongResult):
            packaged.netpipe(finished(tmp_path, np_out="\n".join(wrong)))


def test_integrity(tmp_path):
    packaged.integrity(finished(tmp_path, "Integrity check passed"))
    for wrong in ("", "Integrity check passed\n Integrity check failed: 7"):
        with pytest.raises(WrongResult):
            packaged.integrity(finished(tmp_path, wrong))


RESIDUALS = """\
   10 tests completed and passed residual checks.
    {failed} tests completed and failed residual checks.
    {skipped} tests skipped because of illegal input values.
"""


def test_residuals(tmp_path):
    packaged.residuals(finished(tmp_path, RESIDUALS.format(failed=0, skipped=0)))
    for failed, skipped in ((1, 0), (10, 0), (0, 2)):
        text = RESIDUALS.format(failed=failed, skipped=skipped)
        with pytest.raises(WrongResult):
            packaged.residuals(finished(tmp_path, text))


def test_solution(tmp_path):
    right = [f"{i:.12f}" for i in range(1, 121)]
    text = "Solution is  {}     \n\nEntering DMUMPS 5.5.1 with JOB = -2\n"
    packaged.solution(finished(tmp_path, text.format("  ".join(right))))
    for wrong in (right[:50], [*right[:-1], "121.0"], ["NaN", *right]):
        with pytest.raises(WrongResult):
            packaged.solution(finished(tmp_path, text.format("  ".join(wrong))))


def parts_of(side, part):
    lines = [f"{v} {part(v)}" for v in range(side**3)]
    return "\n".join([str(side**3), *lines])


def test_partition(tmp_path):
    side = 8

    def cube(v):
        x, y, z = v % side, v // side % side, v // side**2
        return (x >= 4) + 2 * (y >= 4) + 4 * (z >= 4)

    packaged.partition(finished(tmp_path, parts=parts_of(side, cube)))
    for wrong in (lambda v: v % 8, lambda v: 0, lambda v: 8 if v == 5 else cube(v)):
        with pytest.raises(WrongResult):
            packaged.partition(finished(tmp_path, parts=parts_of(side, wrong)))


def test_an_empty_result(tmp_path):
    application = replace(made("a"), check=lambda finished: [][0])
    with pytest.raises(WrongResult):
        application.verify(finished(tmp_path), None)


def test_numbers(tmp_path):
    done = finished(tmp_path, "  etotal    -7.5E+00\n etotal 1 2\netotal Energy\n")
    assert packaged.numbers(r"^\s*etotal")(done) == [-7.5, 1]


def test_probes(tmp_path):
    (tmp_path / "postProcessing/probes/0").mkdir(parents=True)
    lines = "# Probe 0 (0.5 0.9 0.5)\n 0.05 (1e-02 -2 3) (4 5 -6.5e+01)\n 0.1 (1 2 3) (4 5 -0.25)\n"
    (tmp_path / "postProcessing/probes/0/U").write_text(lines)
    assert packaged.probes(finished(tmp_path)) == [0.1, 1, 2, 3, 4, 5, -0.25]


FIELDS = """\
  ** Computed fields on cells
v  Velocity[X]           -0.10911         0.65504      0.00018009      0.00018009
v  \u01c1Velocity\u01c1          4.5016e-05         0.65504        0.054811        0.054811
v  Pressure              {pressure}          1.0008     -6.9389e-18     -6.9389e-18
v  Total Pressure      1.0132e+05      1.0133e+05      1.0132e+05      1.0132e+05

  ** Computed fields on boundary_faces
v  Yplus        0.040324          1.9768          0.4904          0.4904
"""


def test_fields(tmp_path):
    steps = "".join(FIELDS.format(pressure=each) for each in ("-0.9", "-0.82519"))
    (tmp_path / "run_solver.log").write_text(steps)
    velocity, pressure = [-0.10911, 0.65504, 0.00018009], [-0.82519, 1.0008, -6.9389e-18]
    assert packaged.fields(finished(tmp_path)) == [
        *(*velocity, velocity[-1]),
        *(*pressure, pressure[-1]),
    ]
    with pytest.raises(WrongResult, match="did not end"):
        packaged.saturne(finished(tmp_path))
    (tmp_path / "run_solver.log").write_text(steps + "      END OF CALCULATION      \n")
    assert packaged.saturne(finished(tmp_path)) == {}


# ---- inputs ----


@pytest.mark.parametrize("depth", ["quick", "default"])
@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda each: each.name)
def test_inputs(tmp_path, application, depth):
    arguments = application.prepare(tmp_path, depth, 4)
    assert not any("@" in argument for argument in arguments)
    for name in application.inputs:
        assert "@" not in (tmp_path / name).read_text()
    if application.make:
        assert (tmp_path / application.make[0]).stat().st_size > 0
    if application.standard_input != "/dev/null":
        assert (tmp_path / application.standard_input).exists()


def test_one_rank_gets_no_empty_argument(tmp_path):
    application = replace(made("a"), arguments=("first", "@parallel@"))
    assert application.prepare(tmp_path, "default", 1) == ["first"]
    assert application.prepare(tmp_path, "default", 2) == ["first", "-parallel"]


def test_equation(tmp_path):
    packaged.poisson(tmp_path / "input", {"side": "3"})
    lines = (tmp_path / "input").read_text().splitlines()
    order, count = (int(line.split()[0]) for line in lines[:2])
    entries = [line.split() for line in lines[2 : 2 + count]]
    right = [0.0] * order
    for row, column, value in entries:
        right[int(row) - 1] += float(value) * int(column)
    assert [float(line) for line in lines[2 + count :]] == right


def test_cube(tmp_path):
    packaged.cube(tmp_path / "mesh", {"cells": "2"})
    text = (tmp_path / "mesh").read_text()
    count, *nodes = text.partition("$Nodes\n")[2].partition("$End")[0].splitlines()
    at = {int(number): [float(x) for x in point] for number, *point in map(str.split, nodes)}
    assert len(at) == int(count) == 27
    count, *lines = text.partition("$Elements\n")[2].partition("$End")[0].splitlines()
    elements = [[int(word) for word in line.split()] for line in lines]
    assert [element[0] for element in elements] == list(range(1, int(count) + 1))
    # Two tags: the group, and the part of the geometry.
    assert all(element[2] == 2 and element[3] == element[4] for element in elements)
    assert {(element[1], element[3]) for element in elements} == {(3, 1), (3, 2), (5, 3)}
    cubes = [element[5:] for element in elements if element[1] == 5]
    for corners in cubes:
        x, y, z = at[corners[0]]
        around = ((0, 0), (0.5, 0), (0.5, 0.5), (0, 0.5))
        expected = [[x + a, y + b, z + c] for c in (0, 0.5) for a, b in around]
        assert [at[corner] for corner in corners] == expected
    assert len({corners[0] for corners in cubes}) == 8
    # Each square of the surface is a face of a cube, and there once; only the lid is in group 1.
    squares = [(element[3], element[5:]) for element in elements if element[1] == 3]
    assert len({frozenset(corners) for _, corners in squares}) == len(squares) == 24
    for group, corners in squares:
        assert sum(set(corners) <= set(cube) for cube in cubes) == 1
        for one, other in zip(corners, corners[1:] + corners[:1]):
            assert math.dist(at[one], at[other]) == 0.5
        normal = [[at[corner][axis] for corner in corners] for axis in range(3)]
        assert any(set(values) in ({0.0}, {1.0}) for values in normal)
        assert (group == 1) == (set(normal[2]) == {1.0})


# ---- what a rank used ----


def test_usage_of_a_rank(tmp_path):
    program = """if True:
        import ctypes, mmap, sys, time
        memory = mmap.mmap(-1, 64 << 20)
        memory.write(bytes(64 << 20))
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if ctypes.CDLL(None).mlock(ctypes.c_void_p(address), 32 << 10):
            sys.exit(9)
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        print(open("input").read(), open("/dev/stdin").read())
        sys.exit(3)
    """
    (tmp_path / "input").write_text("some text")
    command = [sys.executable, "-IS", str(applications._USAGE), str(tmp_path), "input"]
    done = subprocess.run(
        [*command, sys.executable, "-c", program],
        env={**os.environ, "OMPI_COMM_WORLD_RANK": "0"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (3, "some text some text\n"), done.stderr
    used = applications.usage(tmp_path, 1)
    assert used.cpu >= 0.3
    assert used.seconds >= 0.3
    assert used.resident > 64 << 10
    assert 32 <= used.locked < 1024
    with pytest.raises(WrongResult, match="rank 1"):
        applications.usage(tmp_path, 2)


def test_usage_of_several_ranks(tmp_path):
    (tmp_path / "usage.0").write_text("2.0 1.0 0.25 1000 8 0\n")
    (tmp_path / "usage.1").write_text("3.0 2.0 0.5 2000 4 5\n")
    assert applications.usage(tmp_path, 2) == Used(3.0, 3.0, 0.75, 3000, 9)


def test_end_of_a_rank_by_a_signal(tmp_path):
    command = [sys.executable, "-IS", str(applications._USAGE), str(tmp_path), "/dev/null"]
    rank = subprocess.Popen(
        [*command, "/bin/sh", "-c", "echo; exec sleep 60"],
        env={**os.environ, "PMIX_RANK": "0"},
        stdout=subprocess.PIPE,
    )
    rank.stdout.readline()
    rank.terminate()
    assert rank.wait(timeout=30) == 128 + 15


# ---- the goal ----


def runs(row, transport, seconds, cpu=1.0, parts=None):
    return [
        Run(row, transport, index, Used(each, cpu, 0.0, 1000, 0), parts or {})
        for index, each in enumerate(seconds)
    ]


def judged(times):
    """The finding for rows with these times of the subject, and SAME of the peer."""
    rows = [Row(made(f"a{index}"), 2) for index in range(len(times))]
    done = []
    for row, seconds in zip(rows, times):
        done += runs(row, "exanest", seconds)
        done += runs(row, "vader", SAME)
    return application_results.goal(application_results.collect(done, [], ["exanest", "vader"]), rows)


# The peer's times change as much as a machine's may: what counts is the ratio in each repetition.
SAME = [1.0, 3.0, 1.2, 2.9, 1.1]
FAST, SLOW = [0.9 * time for time in SAME], [1.1 * time for time in SAME]
UNCLEAR = [0.9, *SLOW[1:]]


@pytest.mark.parametrize(
    "times, state",
    [
        ([FAST] * 4 + [SAME], "met"),
        ([FAST] * 3 + [SAME], "not met"),
        ([FAST] * 4 + [SLOW], "not met"),
        ([FAST] * 4 + [UNCLEAR], "undecided"),
        ([FAST] * 3 + [[1.1, *FAST[1:]]], "undecided"),
        # Few repetitions may agree by chance.
        ([FAST[:4]] * 4, "undecided"),
        ([FAST[:2]] * 3 + [SAME[:2]], "undecided"),
    ],
)
def test_goal(times, state):
    assert judged(times).state == state


def told(found):
    return [f"{kind}: {row.name} {ratio}".rstrip() for kind, row, ratio in found.lines()]


def test_goal_names_what_is_slower():
    found = judged([FAST] * 4 + [SLOW, UNCLEAR])
    assert found.summary().startswith("1 of 6 slower than the best peer by more than 2%; 4 appl")
    assert "1 may be chance" in found.summary()
    assert told(found)[:2] == [
        "slower: a4 1.10 of vader (1.10 to 1.10)",
        "may be chance: a5 1.10 of vader (0.90 to 1.10)",
    ]
    assert [line.partition(":")[0] for line in told(found)[2:]] == ["faster"] * 4


def test_the_best_peer_has_the_largest_ratio():
    """Its median may be larger than that of a peer that met a better state of the machine."""
    row = Row(made("a"), 2)
    done = runs(row, "exanest", SAME) + runs(row, "tcp", [1.1, 1.1, 1.1, 1.1, 1.1])
    done += runs(row, "vader", [0.9, 2.7, 1.0, 2.6, 1.0]) + runs(row, "ucx", SAME)
    names = ["exanest", "tcp", "vader", "ucx", "failed"]
    failures = [application_results.Failure(row, "failed", (), "made-up reason", "")]
    results = application_results.collect(done + runs(row, "failed", FAST), failures, names)
    compared = application_results.compare(results, row, application_results.TIME)
    assert compared.peer == "vader" and compared.ratio.median > 1.1
    alone = application_results.collect(runs(row, "exanest", SAME), [], ["exanest"])
    assert application_results.compare(alone, row, application_results.TIME) is None


def test_a_certain_loss_is_not_hidden_by_a_larger_one_that_may_be_chance():
    row = Row(made("a"), 2)
    done = runs(row, "exanest", [1.06] * 5) + runs(row, "tcp", [1.0] * 5)
    done += runs(row, "vader", [0.98, 0.98, 0.98, 0.98, 1.18])
    results = application_results.collect(done, [], ["exanest", "tcp", "vader"])
    (lost,) = application_results.goal(results, [row]).slower
    assert lost.peer == "tcp"


def test_parts_are_not_applications():
    row = Row(HPCC, 2)
    done = [
        replace(one, parts=dict.fromkeys(HPCC.parts, one.used.seconds))
        for one in runs(row, "exanest", FAST) + runs(row, "vader", SAME)
    ]
    found = application_results.goal(
        application_results.collect(done, [], ["exanest", "vader"]), [row]
    )
    assert found.state == "not met"
    assert "0 of 3 slower" in found.summary() and "1 application faster" in found.summary()


def test_short_parts_are_not_judged():
    row = Row(HPCC, 2)
    done = runs(row, "exanest", SAME, parts={"hpl": 2.0, "fft": 0.004, "randomaccess": 0.02})
    done += runs(row, "vader", SAME, parts={"hpl": 1.0, "fft": 0.002, "randomaccess": 0.008})
    results = application_results.collect(done, [], ["exanest", "vader"])
    assert told(application_results.goal(results, [row])) == [
        "slower: hpcc randomaccess 2.50 of vader (2.50 to 2.50)",
        "slower: hpcc hpl 2.00 of vader (2.00 to 2.00)",
        "not judged, below 10 ms: hpcc fft 2.00 of vader (2.00 to 2.00)",
    ]


def test_rows_by_setting():
    rows = [Row(LAMMPS, 4, hosts=4), Row(LAMMPS, 4), Row(HPCC, 2), Row(HPCC, 4)]
    found = application_results.by_setting(rows)
    assert [str(setting) for setting in found] == ["2 ranks", "4 ranks", "4 ranks on 4 hosts"]
    assert list(found.values()) == [rows[2:3], [rows[1], rows[3]], rows[:1]]


def test_a_failure_does_not_meet_the_goal():
    rows = [Row(made(f"a{index}"), 2) for index in range(5)]
    done = []
    for row in rows:
        done += runs(row, "exanest", FAST) + runs(row, "vader", SAME)
    failures = [application_results.Failure(rows[4], "exanest", (), "made-up reason", "")]
    results = application_results.collect(done, failures, ["exanest", "vader"])
    found = application_results.goal(results, rows)
    assert found.state == "not met" and "1 failed" in found.summary()
    assert told(found)[0] == "failed: a4"


def test_a_failed_run_of_one_rank_is_a_failure_of_each_transport(tmp_path, monkeypatch):
    """It runs once."""
    failed = []

    def execute(self, row, transport, folder):
        failed.append(row)
        raise applications.Failed(
            application_results.Failure(row, transport.name, (), "made-up reason", "")
        )

    monkeypatch.setattr(applications.Runs, "_execute", execute)
    options = argparse.Namespace(depth="quick", timeout=None)
    one = applications.Runs(None, None, tmp_path, options)
    row = Row(replace(made("a"), as_one=lambda finished: []), 2)
    for transport in applications.KNOWN[:2]:
        with pytest.raises(applications.Failed) as raised:
            one.run(row, transport, 0)
        assert raised.value.failure.row is row
        assert raised.value.failure.transport == transport.name
    assert len(failed) == 1


def test_a_failure_with_four_ranks_says_nothing_of_two():
    application = made("a")
    rows = [Row(application, 2), Row(application, 4)]
    done = runs(rows[0], "exanest", SAME) + runs(rows[0], "vader", SAME)
    failures = [application_results.Failure(rows[1], "exanest", (), "made-up reason", "")]
    results = application_results.collect(done, failures, ["exanest", "vader"])
    lines = [line.split() for line in application_results.render(results, rows, done).splitlines()]
    assert ["a,", "2", "ranks", "1.20", "(167%)"] in [line[:5] for line in lines]
    assert ["a,", "4", "ranks", "failed", "-", "-"] in lines


def test_more_cpu_time_is_told():
    row = Row(made("a"), 2)
    done = runs(row, "exanest", SAME, cpu=1.5) + runs(row, "vader", SAME)
    text = application_results.render(
        application_results.collect(done, [], ["exanest", "vader"]), [row], done
    )
    assert "More CPU time" in text and "a, 2 ranks: 1.50 of vader" in text


# ---- the command ----


@pytest.mark.parametrize(
    "arguments",
    ["--applications nonsense", "--transports nonsense", "-r 0", "-n 0", "--add x"],
)
def test_wrong_usage(made_up, arguments):
    done = made_up.start("applications", *arguments.split())
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr


def test_what_is_not_installed():
    lines = applications.absent([made("a"), made("b")])
    assert lines[:2] == [f"not installed: {name}: package made-up-package" for name in "ab"]
    assert lines[2].endswith("apt-get install --no-install-recommends made-up-package")
    assert not applications.absent([])
    installed = replace(made("a"), program="/bin/sh")
    assert installed.path()
    assert not replace(installed, before=(("absent-program",),)).path()


def test_programs_outside_of_path(tmp_path, monkeypatch):
    (tmp_path / "lib-1").mkdir()
    program = tmp_path / "lib-1" / "made-up-program"
    program.touch(0o755)
    monkeypatch.setattr(packaged, "_FOLDERS", (str(tmp_path / "lib-*"),))
    application = replace(made("a"), program=program.name, before=((program.name, "-x"),))
    assert application.path() == program
    assert application.preparations() == [[str(program), "-x"]]


# Runs the ranks one after the other; WRONG names a transport that disturbs the results.
MPIRUN = """\
import os, subprocess, sys

if "--version" in sys.argv:
    sys.exit("mpirun (made up) 4.1.4")
ranks = int(sys.argv[sys.argv.index("-n") + 1])
wrong = open("{folder}/WRONG").read()
for rank in range(ranks):
    env = {{**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)}}
    env["WRONG"] = str(int(bool(wrong) and f"{{wrong}},self" in sys.argv))
    code = subprocess.call(sys.argv[sys.argv.index("{python}"):], env=env)
    if code:
        sys.exit(code)
"""
PREPARE = """\
import os, sys

with open(sys.argv[1], "w") as file:
    file.write(os.environ["SETTING"])
"""
PROGRAM = """\
import os, sys

assert open("prepared").read() == os.environ["SETTING"]
number = open("number").read().strip()
print("energy", float(number) + int(os.environ["WRONG"]))
"""


@pytest.fixture
def command(made_up, monkeypatch):
    """Runs the command with one made-up application; returns its exit code."""
    mpirun = MPIRUN.format(folder=made_up.folder, python=sys.executable)
    made_up.script("mpirun", mpirun)
    program = made_up.script("program", PROGRAM)
    application = Application(
        "made-up",
        "made-up-package",
        str(program),
        (),
        packaged.contains("^energy"),
        {"number": "number"},
        {"quick": {"value": "4.5"}, "default": {"value": "5.5"}},
        before=((str(made_up.script("prepare", PREPARE)), "prepared"),),
        variables={"SETTING": "on"},
        as_one=lambda done: packaged.numbers("^energy")(done)[:1],
    )
    pair = replace(application, name="pair", ranks=3)
    missing = Application("missing", "absent-package", "absent-program", (), application.check)
    (made_up.folder / "inputs").mkdir()
    (made_up.folder / "inputs" / "number").write_text("@value@\n")
    (made_up.folder / "WRONG").write_text("")
    monkeypatch.setattr(packaged, "_INPUTS", made_up.folder / "inputs")
    monkeypatch.setattr(packaged, "APPLICATIONS", (application, pair, missing))
    monkeypatch.chdir(made_up.folder)
    for name, value in made_up.environment().items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: applications.main([*made_up.folders(), *arguments])


def rows(folder, name):
    with open_data(folder / name) as file:
        return list(csv.DictReader(file))


def test_run(made_up, command, capsys):
    assert command("--quick", "-n", "1,2") == 0
    printed = capsys.readouterr()
    assert "not installed: missing: package absent-package" in printed.err
    assert "repetition 2/2 done, 12/12 runs" in printed.err
    goals = [line for line in printed.out.splitlines() if line.startswith("goal, ")]
    assert [line.partition(": ")[0] for line in goals] == ["goal, 1 rank", "goal, 2 ranks"]
    made_rows = rows(made_up.out, "applications.csv")
    assert len(made_rows) == 2 * 2 * 3
    assert [row["transport"] for row in made_rows[:3]] == ["exanest", "vader", "tcp"]
    assert [row["transport"] for row in made_rows[6:9]] == ["vader", "tcp", "exanest"]
    assert all(float(row["seconds"]) > 0 for row in made_rows)
    summary = rows(made_up.out, "summary.csv")
    assert {row["test"] for row in summary} == {
        f"made-up-{quantity}" for quantity in ("time", "cpu", "resident")
    }
    assert {row["size"] for row in summary} == {"1", "2"}
    assert "rank_usage.py FOLDER /dev/null" in made_up.environment_text()
    # For ranks on other hosts, which do not have this environment.
    assert "-x SETTING=on" in made_up.environment_text()


ABORT = """\
ARMCI DASSERT fail
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
with errorcode -1.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
"""
CRASH = """\
Program received signal SIGSEGV: Segmentation fault - invalid memory reference.

Backtrace for this error:
#0  0x7f3a in ???
#10  0x55d0 in ???
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[51346,1],0]
  Exit code:    139
--------------------------------------------------------------------------
"""


# Of Open MPI 5.0.
FAILED = """\
ARMCI DASSERT fail
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
  Proc: [[51346,1],0]
  Errorcode: -1
--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-x-1@1,0]
   Exit code:    255
"""


@pytest.mark.parametrize(
    "output, errors, text",
    [
        ("", FAILED, "code 1: ARMCI DASSERT fail"),
        ("", ABORT, "code 1: ARMCI DASSERT fail"),
        ("", CRASH, f"code 1: {CRASH.splitlines()[0]}"),
        # What the program prints, if the errors are mpirun's.
        ("energy\nno convergence\n", ABORT.partition("\n")[2], "code 1: no convergence"),
        ("", "", "code 1"),
        ("", "word " * 100, "code 1: " + "word " * 24 + " ..."),
    ],
)
def test_a_failure_tells_its_reason(output, errors, text):
    assert applications.reason(launch.Outcome(output, errors, 1.0, "code 1")) == text


def test_command_of_a_run():
    arguments = "--quick -n 2,4 --out x --hosts --publish --timeout 9 --build y -r 3".split()
    assert cli.command("applications", arguments) == "benchmarks/applications --quick -n 2,4 --hosts -r 3"


def test_publish(made_up, command, monkeypatch, capsys):
    place = made_up.folder / "doc"
    place.mkdir()
    monkeypatch.setattr(document, "FOLDER", place)
    (made_up.folder / "WRONG").write_text("exanest")
    assert command("--quick", "-r", "1", "--publish") == 1
    assert "not published: a run failed" in capsys.readouterr().err
    assert not list(place.iterdir())
    (made_up.folder / "WRONG").write_text("vader")
    assert command("--quick", "-r", "1", "-n", "1,2", "--publish") == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(place / "results.md")
    text = (place / "results.md").read_text()
    assert "`benchmarks/applications --quick -r 1 -n 1,2`" in text
    assert "54 ns at the start, 54 ns at the end" in text
    assert ", source " in text
    assert "Failed, and left out: made-up, 1 rank vader: " in text
    assert "**1 rank, 2 ranks**: exanest, tcp, vader; repetitions: 1; small inputs" in text
    assert "\nNot measured: 4 ranks; 2 ranks on 2 hosts; 4 ranks on 2 hosts; 4 ranks on" in text
    assert "| made-up | 2 ranks |" in text and "| tcp " in text
    steps = {row["step"] for row in rows(place, "results-machine.csv.xz")}
    assert steps == {"applications, 1 rank", "applications, 2 ranks"}


def test_merge(tmp_path):
    lu, mumps = (next(a for a in packaged.APPLICATIONS if a.name == name)
                 for name in ("scalapack-lu", "mumps"))
    new, target = tmp_path / "new", tmp_path / "target"

    def merged(*of):
        application_results.write([run for row in of for run in runs(row, "exanest", SAME)], [], new)
        application_results.merge(new, target)
        return sorted({str(run.row) for run in application_results.read(target)[0]})

    assert merged(Row(lu, 2), Row(mumps, 2)) == ["mumps, 2 ranks", "scalapack-lu, 2 ranks"]
    assert merged(Row(lu, 4)) == ["mumps, 2 ranks", "scalapack-lu, 2 ranks", "scalapack-lu, 4 ranks"]
    with pytest.raises(ValueError, match="target also has mumps, 2 ranks, which this run has not"):
        merged(Row(lu, 2))
    assert len(merged(Row(lu, 2), Row(mumps, 2))) == 3


def test_an_unknown_application_in_a_file(tmp_path):
    application_results.write(runs(Row(made("a"), 2), "exanest", SAME), [], tmp_path / "file")
    with pytest.raises(ValueError, match="file: there is no application a"):
        application_results.read(tmp_path / "file")


def test_wrong_result(made_up, command, capsys):
    (made_up.folder / "WRONG").write_text("exanest")
    assert command("--quick", "-r", "1") == 1
    printed = capsys.readouterr()
    reason = "wrong result: 5.5 is 4.5 with one rank"
    assert f"FAILED: made-up, 2 ranks exanest: {reason}" in printed.err
    failures = {r["transport"]: r["failure"] for r in rows(made_up.out, "applications.csv")}
    assert failures == {"vader": "", "tcp": "", "exanest": reason}
    assert reason in (made_up.out / "failures.txt").read_text()
    assert "1 failed\n    failed: made-up\n" in printed.out


def test_wrong_result_of_a_peer(made_up, command):
    (made_up.folder / "WRONG").write_text("vader")
    assert command("--quick", "-r", "1") == 0
    assert "failed" in (made_up.out / "tables.txt").read_text()


@pytest.mark.parametrize("wrong", [["--per-host", "2"], ["--hosts", "-n", "3", "--per-host", "2"],
                                   ["--hosts", "-n", "2", "--per-host", "2"]])
def test_ranks_that_no_hosts_can_have(command, wrong):
    try:
        assert command(*wrong) == 2
    except SystemExit as error:
        assert error.code == 2


def test_real_run(build, real_hosts, tmp_path):
    if not LAMMPS.path():
        pytest.skip("LAMMPS is not installed (Debian: lammps)")
    options = ["--build", str(build), "--out", str(tmp_path), "--quick", "-r", "1"]
    options += ["--applications", LAMMPS.name, "--transports", "exanest,tcp"]
    options += ["--hosts", "-n", "4", "--per-host", "2"]
    assert applications.main(options) == 0
    made_rows = rows(tmp_path, "applications.csv")
    assert [row["transport"] for row in made_rows] == ["exanest", "tcp"]
    assert {(row["ranks"], row["hosts"]) for row in made_rows} == {("4", "2")}
    for row in made_rows:
        # Two ranks with libmpi have more than 20 MiB; exanest locks nothing.
        assert int(row["resident_kib"]) > 20 << 10
        assert int(row["locked_kib"]) == 0
        assert float(row["user_s"]) > 0

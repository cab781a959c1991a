# SPDX-License-Identifier: BSD-3-Clause
"""
The packaged programs of benchmarks/applications: their inputs, and how the result of
each is checked. A result is checked against what is known (residuals, a solution, every
element), or against the result of one rank, which uses no transport.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from glob import glob
from itertools import product
from pathlib import Path
from typing import Callable, Iterator, Mapping, Optional, Sequence

_INPUTS = Path(__file__).resolve().parents[1] / "inputs"
# Programs of Debian's packages that are in no folder of PATH.
_FOLDERS = (
    "/usr/lib/code_saturne",
    "/usr/lib/mumps",
    "/usr/lib/*/scalapack/openmpi-tests",
)
# The distribution's Python: mpi4py is packaged for it.
_PYTHON = "/usr/bin/python3"
_MODULES = "/usr/lib/python3/dist-packages"
_NUMBER = r"[-+]?\d[.\d]*(?:[Ee][-+]?\d+)?"


class WrongResult(Exception):
    """The program ended, but its result is wrong or incomplete."""


@dataclass(frozen=True)
class Finished:
    """What a run left: its standard output, and its folder with the files."""

    output: str
    folder: Path

    def file(self, name: str) -> str:
        """Raises WrongResult if the program did not write it."""
        try:
            return (self.folder / name).read_text(errors="replace")
        except FileNotFoundError:
            raise WrongResult(f"there is no {name}") from None


# Returns the times of parts of the run, which the program tells, s. Raises WrongResult.
Check = Callable[[Finished], Mapping[str, float]]
# Writes an input that is made and not kept: gets the file and the run's values.
Make = Callable[[Path, Mapping[str, str]], None]


@dataclass(frozen=True, eq=False)
class Application:
    name: str
    # Debian's packages.
    packages: str
    # A name in PATH or in _FOLDERS, or a path.
    program: str
    arguments: tuple[str, ...]
    check: Check
    # Files of inputs/ by the name in the folder of the run; @NAME@ is replaced by a value,
    # and an argument that becomes empty is left out.
    inputs: Mapping[str, str] = field(default_factory=dict)
    # By depth: values of the inputs and of the arguments.
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    make: Optional[tuple[str, Make]] = None
    # Programs, each with its arguments, that run in the folder first, one after another and
    # not timed.
    before: tuple[tuple[str, ...], ...] = ()
    # Variables that the packages' own scripts would set.
    variables: Mapping[str, str] = field(default_factory=dict)
    standard_input: str = "/dev/null"
    # Files, or patterns, without which it cannot run.
    needs: tuple[str, ...] = ()
    # The part of the output that has to be that of one rank; None: check knows the result.
    as_one: Optional[Callable[[Finished], list[float]]] = None
    # How far the numbers may be from those of one rank, whose sums have another order.
    tolerance: float = 1e-6
    # It is judged by the times of these parts; without any, by the time of the whole run.
    parts: tuple[str, ...] = ()
    # The only number of ranks that it runs with; None: any.
    ranks: Optional[int] = None

    def path(self) -> Optional[Path]:
        """The program, if it is installed with what it needs."""
        found = _which(self.program)
        complete = all(map(glob, self.needs)) and all(
            _which(program) for program, *_ in self.before
        )
        return found if complete else None

    def preparations(self) -> list[list[str]]:
        """The commands of before. Only if path() found the program."""
        return [[str(_which(program)), *words] for program, *words in self.before]

    def prepare(self, folder: Path, depth: str, ranks: int) -> list[str]:
        """Write the inputs; returns the arguments."""
        values = {**self.values.get(depth, {}), **_of_ranks(ranks)}
        for name, source in self.inputs.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            text = (_INPUTS / source).read_text()
            (folder / name).write_text(_replace(text, values))
        if self.make:
            name, write = self.make
            write(folder / name, values)
        replaced = [_replace(argument, values) for argument in self.arguments]
        return [argument for argument in replaced if argument]

    def verify(
        self, finished: Finished, alone: Optional[Finished]
    ) -> Mapping[str, float]:
        """The times of the parts. Raises WrongResult."""
        try:
            parts = self.check(finished)
            if self.as_one and alone:
                compare(self.as_one(finished), self.as_one(alone), self.tolerance)
        except (ValueError, IndexError) as error:
            raise WrongResult(f"unreadable: {error}") from None
        missing = set(self.parts) - set(parts)
        if missing:
            raise WrongResult(f"no time of {', '.join(sorted(missing))}")
        return parts


def _which(program: str) -> Optional[Path]:
    folders = [place for pattern in _FOLDERS for place in sorted(glob(pattern))]
    found = shutil.which(program) or shutil.which(program, path=":".join(folders))
    return Path(found) if found else None


def _of_ranks(ranks: int) -> dict[str, str]:
    """The number of ranks, and two factors of it that are as close as can be."""
    rows = max(d for d in range(1, int(ranks**0.5) + 1) if ranks % d == 0)
    return {
        "ranks": str(ranks),
        "rows": str(rows),
        "columns": str(ranks // rows),
        # OpenFOAM's option; it refuses one rank with it.
        "parallel": "-parallel" if ranks > 1 else "",
    }


def _replace(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda match: values[match.group(1)], text)


def compare(
    numbers: Sequence[float], alone: Sequence[float], tolerance: float
) -> None:
    """Raises WrongResult if the numbers are not those of one rank."""
    if not alone or len(numbers) != len(alone):
        raise WrongResult(
            f"there are {len(numbers)} numbers, and {len(alone)} with one rank"
        )
    for number, one in zip(numbers, alone):
        # Not "more than": a comparison with NaN is false.
        if not abs(number - one) <= tolerance * max(1.0, abs(one)):
            raise WrongResult(f"{number!r} is {one!r} with one rank")


# ---- checks ----


def contains(*patterns: str) -> Check:
    """The output has lines with each of the patterns."""

    def check(finished: Finished) -> Mapping[str, float]:
        for pattern in patterns:
            if not re.search(pattern, finished.output, re.MULTILINE):
                raise WrongResult(f"the output has no '{pattern}'")
        return {}

    return check


def numbers(pattern: str) -> Callable[[Finished], list[float]]:
    """The numbers in the output that follow a pattern."""

    def find(finished: Finished) -> list[float]:
        found = re.findall(rf"{pattern}\s*({_NUMBER})", finished.output, re.MULTILINE)
        return [float(text) for text in found]

    return find


def thermodynamics(finished: Finished) -> list[float]:
    """The table of LAMMPS's log: step, temperature, energies, pressure."""
    rows: list[float] = []
    inside = False
    for line in finished.file("log.lammps").splitlines():
        if line.split()[:1] == ["Step"]:
            inside = True
        elif line.startswith("Loop time"):
            inside = False
        elif inside:
            try:
                rows += [float(text) for text in line.split()]
            except ValueError:
                raise WrongResult(f"in LAMMPS's table: {line.strip()}") from None
    return rows


def probes(finished: Finished) -> list[float]:
    """The velocities at OpenFOAM's probes, at the end; the output is a line for each step."""
    last = finished.file("postProcessing/probes/0/U").splitlines()[-1]
    return [float(text) for text in re.findall(_NUMBER, last)]


_SATURNE_LOG = "run_solver.log"


def saturne(finished: Finished) -> Mapping[str, float]:
    if "END OF CALCULATION" not in finished.file(_SATURNE_LOG):
        raise WrongResult("Code_Saturne did not end its calculation")
    return {}


def fields(finished: Finished) -> list[float]:
    """Minimum, maximum and means of Code_Saturne's velocity and pressure, after the last step."""
    last = finished.file(_SATURNE_LOG).rpartition("Computed fields on cells")[2]
    found = re.findall(rf"^v  (?:Velocity|Pressure).*?((?:\s+{_NUMBER})+)$", last, re.MULTILINE)
    return [float(text) for row in found for text in row.split()]


def hpcc(finished: Finished) -> Mapping[str, float]:
    text = finished.file("hpccoutf.txt")
    summary = dict(re.findall(r"^(\w+)=(\S+)$", text, re.MULTILINE))
    if summary.get("Success") != "1" or "FAILED" in text:
        raise WrongResult("HPCC reports a failure")
    for errors in ("MPIRandomAccess_Errors", "MPIRandomAccess_LCG_Errors"):
        if summary.get(errors) != "0":
            raise WrongResult(f"{errors}={summary.get(errors)}")
    if " 0 tests completed and failed residual checks" not in text:
        raise WrongResult("HPL's residual check failed")
    if not float(summary.get("MPIFFT_maxErr", "inf")) < 1e-10:
        raise WrongResult(f"MPIFFT_maxErr={summary.get('MPIFFT_maxErr')}")
    try:
        # The steps of the transform, without those of its check.
        transform = sum(float(summary[f"MPIFFT_time{step}"]) for step in range(7))
        return {
            "hpl": float(summary["HPL_time"]),
            "fft": transform,
            "randomaccess": float(summary["MPIRandomAccess_time"]),
        }
    except (KeyError, ValueError) as error:
        raise WrongResult(f"hpccoutf.txt lacks {error}") from None


def netpipe(finished: Finished) -> Mapping[str, float]:
    """A time for each size, up to beyond the last power of two."""
    rows = [line.split() for line in finished.file("np.out").splitlines()]
    sizes = [int(row[0]) for row in rows if len(row) == 3 and float(row[2]) > 0]
    if len(sizes) < 50 or len(sizes) != len(rows) or sizes[-1] < 1 << 20:
        raise WrongResult(f"{len(sizes)} of {len(rows)} sizes have a time")
    return {}


def integrity(finished: Finished) -> Mapping[str, float]:
    if re.search("integrity check failed", finished.output, re.IGNORECASE):
        raise WrongResult("NetPIPE found wrong contents")
    return contains("Integrity check passed")(finished)


def residuals(finished: Finished) -> Mapping[str, float]:
    """ScaLAPACK's tests judge themselves."""
    return contains(
        r"[1-9]\d* tests completed and passed residual",
        r"\b0 tests completed and failed residual",
        r"\b0 tests skipped",
    )(finished)


def solution(finished: Finished) -> Mapping[str, float]:
    """Of MUMPS: 1, 2, 3, ... by the choice of the right-hand side."""
    found = re.search(rf"Solution is((?:\s+{_NUMBER})+)", finished.output)
    values = [float(text) for text in found.group(1).split()] if found else []
    wrong = [i for i, x in enumerate(values, 1) if not abs(x - i) <= 1e-6 * i]
    if len(values) < 100 or wrong:
        raise WrongResult(f"{len(wrong)} of {len(values)} unknowns are wrong")
    return {}


def partition(finished: Finished) -> Mapping[str, float]:
    """Of PT-Scotch: a part for each vertex, and all parts of nearly equal size."""
    lines = finished.file("parts").split()
    vertices = int(lines[0])
    of = {int(v): int(part) for v, part in zip(lines[1::2], lines[2::2])}
    sizes = [list(of.values()).count(part) for part in range(_PARTS)]
    if sorted(of) != list(range(vertices)) or sum(sizes) != vertices:
        raise WrongResult("a vertex has no part, or a part that does not exist")
    if max(sizes) > 1.1 * vertices / _PARTS:
        raise WrongResult(f"the parts have {min(sizes)} to {max(sizes)} vertices")
    side = round(vertices ** (1 / 3))
    cut = sum(of[v] != of[w] for v in of for w in neighbours(v, side, 3) if v < w)
    # Eight cubes have three faces in common; strips, or chance, have many more.
    if not 0 < cut <= 6 * side * side:
        raise WrongResult(f"the parts cut {cut} edges")
    return {}


# ---- inputs that are made ----

_PARTS = 8


def neighbours(vertex: int, side: int, dimensions: int) -> Iterator[int]:
    """Of a vertex of a regular grid."""
    stride = 1
    for _ in range(dimensions):
        at = vertex // stride % side
        if at:
            yield vertex - stride
        if at < side - 1:
            yield vertex + stride
        stride *= side


def grid_graph(path: Path, values: Mapping[str, str]) -> None:
    """A grid of three dimensions, in Scotch's format."""
    side = int(values["side"])
    rows = [list(neighbours(v, side, 3)) for v in range(side**3)]
    with open(path, "w") as file:
        print(f"0\n{len(rows)} {sum(map(len, rows))}\n0 000", file=file)
        for row in rows:
            print(len(row), *row, file=file)


def poisson(path: Path, values: Mapping[str, str]) -> None:
    """Poisson's equation on a square, in the format of MUMPS's test; solution 1, 2, 3, ..."""
    side = int(values["side"])
    entries = []
    right = []
    for vertex in range(side * side):
        others = list(neighbours(vertex, side, 2))
        entries.append((vertex + 1, vertex + 1, 4))
        entries += [(vertex + 1, other + 1, -1) for other in others]
        right.append(4 * (vertex + 1) - sum(other + 1 for other in others))
    with open(path, "w") as file:
        print(f"{side * side} :N\n{len(entries)} :NZ", file=file)
        for row, column, value in entries:
            print(f"{row} {column} {value:.1f}", file=file)
        for value in right:
            print(f"{value:.1f}", file=file)


def cube(path: Path, values: Mapping[str, str]) -> None:
    """
    A cube of hexahedra, in Gmsh's format 2.2. The faces of its lid are in group 1, those of its
    walls in group 2.
    """
    side = int(values["cells"])

    def square(x: int, y: int, z: int, turn: int) -> list[int]:
        """The corners, counted from 1; a turn by 0 is normal to z, by 1 to y, by 2 to x."""
        corners = ((x, y, z), (x + 1, y, z), (x + 1, y + 1, z), (x, y + 1, z))
        turned = [(*corner[turn:], *corner[:turn]) for corner in corners]
        return [1 + a + (side + 1) * (b + (side + 1) * c) for a, b, c in turned]

    # Gmsh's types of elements.
    squares, cubes = 3, 5
    elements = [
        (squares, 1 if turn == 0 and z else 2, square(x, y, z, turn))
        for turn, z, y, x in product(range(3), (0, side), range(side), range(side))
    ]
    elements += [
        (cubes, 3, square(x, y, z, 0) + square(x, y, z + 1, 0))
        for z, y, x in product(range(side), repeat=3)
    ]
    with open(path, "w") as file:
        print("$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes", file=file)
        print((side + 1) ** 3, file=file)
        for number, (z, y, x) in enumerate(product(range(side + 1), repeat=3), 1):
            print(number, x / side, y / side, z / side, file=file)
        print(f"$EndNodes\n$Elements\n{len(elements)}", file=file)
        for number, (kind, group, corners) in enumerate(elements, 1):
            print(number, kind, 2, group, group, *corners, file=file)
        print("$EndElements", file=file)


# ---- the applications, the light ones first ----


def _lammps(name: str, extra: Mapping[str, str], **values: Mapping[str, str]) -> Application:
    return Application(
        f"lammps-{name}",
        "lammps",
        "lmp",
        ("-in", "in.lammps", "-log", "log.lammps"),
        lambda finished: {},
        {"in.lammps": f"lammps-{name}", **extra},
        values,
        as_one=thermodynamics,
    )


def _scalapack(name: str, program: str, file: str) -> Application:
    return Application(
        f"scalapack-{name}",
        "scalapack-mpi-test",
        program,
        (),
        residuals,
        {file: f"scalapack-{name}"},
        {
            "quick": {"count": "3", "orders": "100 200 300"},
            "default": {
                "count": "9",
                "orders": "100 200 250 300 350 400 420 450 480",
            },
        },
    )


APPLICATIONS = (
    _lammps(
        "lj",
        {},
        quick={"cells": "12", "steps": "60"},
        default={"cells": "26", "steps": "100"},
    ),
    _lammps(
        "chain",
        {"chain.molecule": "lammps-molecule"},
        quick={"across": "2", "cells": "20", "steps": "200"},
        default={"across": "4", "cells": "40", "steps": "400"},
    ),
    _lammps(
        "ions",
        {},
        quick={"cells": "5", "mesh": "24", "steps": "40"},
        default={"cells": "10", "mesh": "48", "steps": "60"},
    ),
    Application(
        "netpipe",
        "netpipe-openmpi",
        "NPopenmpi",
        ("-n", "@repeats@", "-u", "@largest@", "-o", "np.out"),
        netpipe,
        ranks=2,
        values={
            "quick": {"repeats": "10", "largest": "1048576"},
            "default": {"repeats": "40", "largest": "8388608"},
        },
    ),
    Application(
        "netpipe-integrity",
        "netpipe-openmpi",
        "NPopenmpi",
        # Without -n it repeats as often as fits into a time: the faster, the more work.
        ("-i", "-n", "400", "-u", "@largest@"),
        integrity,
        ranks=2,
        values={"quick": {"largest": "1048576"}, "default": {"largest": "8388608"}},
    ),
    _scalapack("lu", "xdlu", "LU.dat"),
    _scalapack("inverse", "xdinv", "INV.dat"),
    Application(
        "mumps",
        "mumps-test",
        "dsimpletest",
        (),
        solution,
        values={"quick": {"side": "60"}, "default": {"side": "200"}},
        make=("input", poisson),
        standard_input="input",
    ),
    Application(
        "ptscotch",
        "ptscotch",
        "dgpart",
        (str(_PARTS), "grid", "parts"),
        partition,
        values={"quick": {"side": "20"}, "default": {"side": "40"}},
        make=("grid", grid_graph),
    ),
    Application(
        "mpi4py",
        "python3-mpi4py python3-numpy",
        _PYTHON,
        ("collectives.py", "@exponent@", "@steps@"),
        contains(r"^elements checked: [1-9]"),
        {"collectives.py": "numpy-collectives.py"},
        {
            "quick": {"exponent": "16", "steps": "4"},
            "default": {"exponent": "20", "steps": "6"},
        },
        needs=(f"{_MODULES}/mpi4py", f"{_MODULES}/numpy"),
    ),
    Application(
        "hdf5",
        "python3-h5py-mpi",
        _PYTHON,
        ("collective.py", "@edge@", "@steps@"),
        contains(r"^elements checked: [1-9]"),
        {"collective.py": "hdf5-collective.py"},
        {
            "quick": {"edge": "100", "steps": "2"},
            "default": {"edge": "300", "steps": "3"},
        },
        needs=(f"{_MODULES}/h5py/_debian_h5py_mpi",),
    ),
    Application(
        "hpcc",
        "hpcc",
        "hpcc",
        (),
        hpcc,
        {"hpccinf.txt": "hpcc"},
        {
            "quick": {"order": "1000", "transposed": "1000"},
            "default": {"order": "2000", "transposed": "2000"},
        },
        # Not PTRANS: HPCC prints the time of one run of that of its sizes which was fastest.
        parts=("hpl", "fft", "randomaccess"),
    ),
    Application(
        "openfoam",
        "openfoam",
        "icoFoam",
        ("@parallel@",),
        contains(r"^End$"),
        {
            # OpenFOAM takes from each dictionary only what it knows.
            **dict.fromkeys(
                (
                    "constant/transportProperties",
                    "system/blockMeshDict",
                    "system/controlDict",
                    "system/decomposeParDict",
                    "system/fvSchemes",
                    "system/fvSolution",
                ),
                "openfoam-cavity",
            ),
            "0/U": "openfoam-velocity",
            "0/p": "openfoam-pressure",
        },
        {
            "quick": {"cells": "16", "steps": "5"},
            "default": {"cells": "32", "steps": "20"},
        },
        before=(("blockMesh",), ("decomposePar",)),
        variables={"WM_PROJECT_DIR": "/usr/share/openfoam"},
        needs=("/usr/share/openfoam/etc/controlDict",),
        as_one=probes,
    ),
    Application(
        "code-saturne",
        "code-saturne-bin",
        "cs_solver",
        (),
        saturne,
        # The flow that OpenFOAM has above. Code_Saturne refuses comments in this file.
        {"setup.xml": "code-saturne-cavity"},
        {
            "quick": {"cells": "16", "steps": "5"},
            "default": {"cells": "32", "steps": "20"},
        },
        make=("cavity.msh", cube),
        before=(("cs_preprocess", "--log", "preprocessor.log", "cavity.msh"),),
        as_one=fields,
        # It prints five digits.
        tolerance=1e-4,
    ),
    Application(
        "abinit",
        "abinit",
        "abinit",
        ("silicon.abi",),
        contains(r"^ Calculation completed"),
        {"silicon.abi": "abinit-silicon", "silicon.hgh": "abinit-pseudopotential"},
        {
            "quick": {"cutoff": "6", "points": "2"},
            "default": {"cutoff": "20", "points": "8"},
        },
        as_one=numbers(r"^\s+etotal"),
    ),
    Application(
        "nwchem",
        "nwchem-openmpi",
        "nwchem.openmpi",
        ("water.nw",),
        contains("Total SCF energy"),
        {"water.nw": "nwchem-water"},
        {"quick": {"basis": "sto-3g"}, "default": {"basis": "cc-pvtz"}},
        as_one=numbers("Total SCF energy ="),
    ),
    Application(
        "espresso",
        "quantum-espresso quantum-espresso-data",
        "pw.x",
        ("-in", "silicon.in"),
        contains("JOB DONE"),
        {"silicon.in": "espresso-silicon"},
        {
            "quick": {"cutoff": "16", "points": "2"},
            "default": {"cutoff": "40", "points": "6"},
        },
        needs=("/usr/share/espresso/pseudo/Si.pz-vbc.UPF",),
        as_one=numbers("^!    total energy              ="),
    ),
    Application(
        "cp2k",
        "cp2k cp2k-data",
        "cp2k",
        ("-i", "water.inp"),
        contains("PROGRAM ENDED AT"),
        {"water.inp": "cp2k-water"},
        {
            "quick": {"cutoff": "100", "cells": "1", "basis": "SZV"},
            "default": {"cutoff": "200", "cells": "1", "basis": "DZVP"},
        },
        needs=("/usr/share/cp2k/BASIS_MOLOPT", "/usr/share/cp2k/GTH_POTENTIALS"),
        as_one=numbers(r"ENERGY\| Total FORCE_EVAL \( QS \) energy \[a.u.\]:"),
    ),
)

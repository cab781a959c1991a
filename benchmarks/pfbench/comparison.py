# SPDX-License-Identifier: BSD-3-Clause
"""One run: measures what was chosen, writes the results and prints them."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Mapping, Optional, Sequence, Union

from . import cache_line, environment, goals, launch, plot, programs, store, table
from . import transports
from .cache_line import CacheLine
from .cli import Unusable
from .hosts import Hosts
from .programs import Programs
from .progress import Progress
from .results import Results
from .runner import Failure, Job, Runner, plan
from .suite import Test
from .transports import SUBJECT, Transport

_TOP = Path(__file__).resolve().parents[2]
BUSY = 0.5
BUSY_WARNING = (
    "warning: other processes are running; they will disturb the measurement"
)
EXIT_CODES = f"""\
exit codes: 0 done; 1 {SUBJECT} failed a test (others may have failed: see the
tables); 2 nothing could be run; 130 interrupted, the tables show what was
measured until then.
"""
_BUILD_IT = ': build it, then eval "$(./quickstart env)", or give --build'
SUBJECT_ABSENT = f"ompi_info shows no btl {SUBJECT}{_BUILD_IT}"


class Setup:
    """The build tree, its environment, and what Open MPI and the build tree have."""

    def __init__(self, build: Optional[Path]) -> None:
        self.build = find_build(build)
        self.env = launch.environment(self.build)
        self.components = transports.components(self.env)
        if ("btl", "self") not in self.components:
            path = self.env.get("OMPI_MCA_mca_base_component_path", "")
            raise ValueError(
                "ompi_info does not even list btl self: does every folder of "
                f"OMPI_MCA_mca_base_component_path exist? ({path})"
            )
        self.own = programs.own(self.build)

    def default(self, known: Sequence[Transport]) -> list[Transport]:
        return [t for t in known if not t.optional or t.component in self.components]

    def require_subject(self) -> None:
        """Raises Unusable if Open MPI does not have its component."""
        if transports.KNOWN[0].component not in self.components:
            raise Unusable(SUBJECT_ABSENT)

    def find(self, *places: str) -> dict[str, Path]:
        """Programs of the build tree, by file name. Raises Unusable if one is missing."""
        build = self.build or Path("/nonexistent")
        found = {path.name: path for path in (build / place for place in places)}
        for name, path in found.items():
            if not path.exists():
                raise Unusable(f"there is no program {name}: run ./quickstart build")
        return found

    def line(self) -> CacheLine:
        return cache_line.measure(self.build, self.env)


@dataclass(frozen=True)
class Comparison:
    """What to run, and how to show it."""

    setup: Setup
    chosen: Sequence[Transport]
    placement: launch.Placement
    jobs: Sequence[Job]
    repetitions: int
    # Prints the tables.
    show: Callable[[Results], None]
    goals: Sequence[Union[goals.Goal, goals.Limit]]
    made: Optional[Hosts] = None


def carry_out(comparison: Comparison, options: argparse.Namespace) -> int:
    """Run it, write and print the results. Returns the exit code."""
    setup, chosen, jobs = comparison.setup, comparison.chosen, comparison.jobs
    placement, repetitions = comparison.placement, comparison.repetitions
    folder = results_folder(options.out)

    results = Results(
        (transport.name for transport in chosen),
        {transport.name: transport.bound for transport in chosen if transport.bound},
    )
    runner = Runner(
        results,
        placement,
        setup.env,
        options.timeout or (3600 if options.depth == "full" else 120),
        prepare=comparison.made.prepare if comparison.made else None,
    )
    line = setup.line()
    print(
        f"{placement.text}; cache line: {line.text}; repetitions: {repetitions}; "
        "programs: " + ", ".join(sorted({str(job.program.parent) for job in jobs})),
        file=sys.stderr,
    )
    if environment.busy() > BUSY:
        print(BUSY_WARNING, file=sys.stderr)
    for transport in chosen:
        if transport.component[0] and transport.component not in setup.components:
            _absent(transport, jobs, results)

    start = time.monotonic()
    interrupted = _run_all(runner, jobs, chosen, repetitions)
    facts = {
        "programs": "; ".join(f"{job.test.name}: {job.program}" for job in jobs),
        "placement": placement.text,
        **line_facts(line, setup.line()),
        "repetitions": str(repetitions),
        "duration": f"{time.monotonic() - start:.0f} s",
        "interrupted": "yes" if interrupted else "no",
    }
    _write(comparison, runner, folder, facts, line)
    print("\nMedians; in brackets (maximum - minimum) / median of the repetitions.")
    for state, part in results.by_state():
        if state:
            print(f"\n==== {state_text(state, part)} ====")
        comparison.show(part)
        if options.goals:
            print("\n" + goals.render(part, comparison.goals))
    unbound = runner.unbound()
    if unbound:
        print(f"\nmpirun reports no binding to cores for: {', '.join(unbound)}")
    print(f"\nResults: {folder}")
    if interrupted:
        return 130
    return 1 if any(name == SUBJECT for _, name in results.failures) else 0


def show_measures(results: Results) -> None:
    """Print a table of all sizes for each measure."""
    for measure in results.measures():
        print("\n" + table.render(results, measure, SUBJECT))


def state_text(state: str, part: Results) -> str:
    words = {cache_line.CLOSE: "close together", cache_line.FAR: "far apart"}
    return f"processors {words[state]}: a cache line took {part.line():.0f} ns"


def results_folder(given: Optional[Path]) -> Path:
    folder = given or Path("results") / time.strftime("%Y-%m-%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def line_facts(start: CacheLine, end: CacheLine) -> dict[str, str]:
    """For environment.txt: the state of the machine. Warns if it changed in the run."""
    if end.differs(start):
        print(
            "warning: the processors changed their distance during the run, so the "
            "figures are of two states of the machine; a cache line took "
            f"{start.text} at the start, {end.text} at the end",
            file=sys.stderr,
        )
    return {"cache line at the start": start.text, "cache line at the end": end.text}


def write_texts(
    setup: Setup,
    folder: Path,
    text: str,
    facts: Mapping[str, str],
    start: CacheLine,
    commands: Sequence[Sequence[str]],
) -> None:
    """Write tables.txt and environment.txt, with the cache line's time at the start and now."""
    (folder / "tables.txt").write_text(text + "\n")
    facts = {**facts, **line_facts(start, setup.line())}
    (folder / "environment.txt").write_text(
        environment.describe(setup.env, facts, {}, commands)
    )


class Measurement:
    """The runs of a command, and what it writes and prints of them."""

    def __init__(self, setup: Setup, options: argparse.Namespace) -> None:
        self.setup = setup
        self.repetitions = options.repetitions or (1 if options.depth == "quick" else 3)
        self.folder = results_folder(options.out)
        # A run failed that decides the exit code.
        self.failed = False
        self._interrupted = False
        # Distinct command lines, in order.
        self._commands: dict[tuple[str, ...], None] = {}
        self._line = setup.line()
        print(f"cache line: {self._line.text}", file=sys.stderr)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """An interrupt ends what is inside, and the command shows what it measured until then."""
        try:
            yield
        except KeyboardInterrupt:
            self._interrupted = True

    def attempt(
        self,
        repetition: int,
        text: str,
        results: list,
        run: Callable,
        *arguments,
        decides: bool = True,
        detail: str = "",
    ) -> None:
        """
        Append to the results what the run returns, or report why it failed. decides: whether a
        failure decides the exit code; detail: of the text when the run starts.
        """
        print(f"{repetition + 1}/{self.repetitions} {text}{detail}", file=sys.stderr)
        try:
            results.append(run(*arguments, repetition))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"FAILED: {text}: {error}", file=sys.stderr)
            self.failed |= decides

    def note(self, command: Sequence[str], span: Sequence[str] = ()) -> None:
        """Note a command line for environment.txt, without the two times of its span."""
        shown = ("TIME" if part in span[:2] else part for part in command)
        self._commands.setdefault(tuple(shown))

    def finish(self, text: str, facts: Mapping[str, str]) -> int:
        """Write and print the tables. Returns the exit code."""
        write_texts(self.setup, self.folder, text, facts, self._line, self._commands)
        print(f"\n{text}\n\nResults: {self.folder}")
        return 130 if self._interrupted else int(self.failed)


def find_build(given: Optional[Path]) -> Optional[Path]:
    if given:
        return given.resolve()
    for folder in (_TOP / "build", Path.cwd(), _TOP):
        if (folder / "benchmarks" / "mpi" / "latency").exists():
            return folder.resolve()
    return None


def make_jobs(
    tests: Sequence[Test],
    osu: Optional[Programs],
    own: Optional[Programs],
    depth: str,
    largest: int,
    pair: bool = False,
) -> list[Job]:
    """pair: they run between two ranks of one host."""
    jobs = []
    for test in tests:
        spans = tuple(test.cut(depth, largest))
        from_osu = osu.paths.get(test.program) if osu else None
        from_own = own.paths.get(test.program) if own else None
        line = pair and test.tells_line
        if test.own_only:
            from_osu = None
        if from_osu:
            jobs.append(Job(test, from_osu, spans, test.columns))
            if from_own and test.own_columns:
                jobs.append(
                    Job(test, from_own, spans, test.own_columns, test.own_arguments, line)
                )
        elif from_own:
            columns = {**test.columns, **test.own_columns}
            jobs.append(Job(test, from_own, spans, columns, test.own_arguments, line))
        else:
            raise Unusable(
                f"there is no program {test.program}: run ./quickstart build, or give "
                "a build tree (--build)"
                + ("" if test.own_only else " or the folder of OSU's programs (--osu)")
            )
    if not any(job.spans for job in jobs):
        raise ValueError(f"--max {largest}: every test begins with a larger size")
    return jobs


def _absent(transport: Transport, jobs: Sequence[Job], results: Results) -> None:
    framework, component = transport.component
    text = f"ompi_info shows no {framework} {component}"
    if transport.name == SUBJECT:
        text += _BUILD_IT
    print(f"{transport.name}: {text}", file=sys.stderr)
    for job in jobs:
        runs = job.test.mpi and transport.largest(job.test.name) >= 0
        for measure in job.columns if runs else ():
            results.fail(measure, transport.name, text)


def _run_all(
    runner: Runner, jobs: Sequence[Job], chosen: Sequence[Transport], repetitions: int
) -> bool:
    """Returns True if the user interrupted it."""
    steps = plan(jobs, chosen, repetitions)
    progress = Progress(sys.stderr, len(steps), repetitions)
    try:
        for index, step in enumerate(steps):
            if runner.pending(step):
                progress.begin(str(step), step.repetition)
                start = time.monotonic()
                failure = runner.run(step)
                progress.done(
                    (step.job.test.name, step.span, step.transport.name),
                    time.monotonic() - start,
                )
                if failure:
                    _report(progress, failure)
            else:
                progress.skipped()
            following = steps[index + 1].repetition if index + 1 < len(steps) else None
            if following != step.repetition:
                progress.repetition_done(step.repetition)
    except KeyboardInterrupt:
        progress.say("interrupted")
        return True
    return False


def _report(progress: Progress, failure: Failure) -> None:
    progress.say(f"FAILED: {failure.step}: {failure.text}")
    for line in launch.error_tail(failure.errors):
        progress.say(f"    {line}")


def _write(
    comparison: Comparison,
    runner: Runner,
    folder: Path,
    facts: dict[str, str],
    line: CacheLine,
) -> None:
    results, placement = runner.results, runner.placement
    parts = results.by_state()
    store.write_samples(results, folder)
    store.write_summary([part for _, part in parts], folder, SUBJECT, placement, line)
    store.write_failures(runner.failures, folder)
    (folder / "environment.txt").write_text(
        environment.describe(
            comparison.setup.env, facts, runner.bindings, runner.commands
        )
    )
    tables = []
    for state, part in parts:
        tables += [state_text(state, part)] if state else []
        tables += [table.render(part, measure, SUBJECT) for measure in part.measures()]
    (folder / "tables.txt").write_text("\n\n".join(tables) + "\n")
    caption = (
        f"{environment.cpu_model()}, {placement.text}, "
        f"median of {comparison.repetitions}"
    )
    for state, part in parts:
        nanoseconds = part.line() or line.nanoseconds
        place = folder / state if len(parts) > 1 else folder
        place.mkdir(exist_ok=True)
        text = f", cache line {nanoseconds:.0f} ns" if nanoseconds else ""
        no_plots = plot.draw(part, place, SUBJECT, caption + text)
        if no_plots:
            print(no_plots, file=sys.stderr)
            break

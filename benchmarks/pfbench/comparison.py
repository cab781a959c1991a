# SPDX-License-Identifier: BSD-3-Clause
"""One comparison: chooses what to run, runs it, writes and prints what came out."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence, Union

from . import environment, goals, hosts, launch, plot, programs, store, table, transports
from .programs import NoPrograms, Programs
from .progress import Progress
from .results import Results
from .runner import Failure, Job, Runner, plan
from .suite import DEFAULT_TESTS, TESTS, Test
from .transports import SUBJECT, Transport

_TOP = Path(__file__).resolve().parents[2]
_BUSY = 0.5
SUBJECT_ABSENT = (
    f"ompi_info shows no btl {SUBJECT}: build it, then "
    'eval "$(./quickstart env)", or give --build'
)


@dataclass(frozen=True)
class Comparison:
    """What to run, decided."""

    env: dict[str, str]
    # What Open MPI has.
    present: set[tuple[str, str]]
    chosen: Sequence[Transport]
    placement: launch.Placement
    jobs: Sequence[Job]
    repetitions: int
    # Prints the tables.
    show: Callable[[Results], None]
    goals: Sequence[Union[goals.Goal, goals.Limit]]
    # Makes the network as a test wants it.
    prepare: Callable[[Mapping[str, str]], None] = lambda network: None


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    if options.hosts:
        with hosts.Hosts(options.mtu).made() as made:
            return _run(options, made)
    return _run(options, None)


def _run(options: argparse.Namespace, made: Optional[hosts.Hosts]) -> int:
    depth = options.depth or "default"
    build = find_build(options.build)
    env = launch.environment(build)
    present = components(env)
    chosen = _transports(options, present)
    placement = (
        made.placement
        if made
        else launch.place(
            options.n or 64 if options.collectives else 2, launch.cores()
        )
    )

    own = programs.own(build)
    osu = None if options.own else _usable_osu(options.osu, env)
    largest = options.max or (hosts.LARGEST if made else sys.maxsize)
    jobs = make_jobs(_tests(options), osu, own, depth, largest)
    return carry_out(
        Comparison(
            env,
            present,
            chosen,
            placement,
            jobs,
            options.repetitions or _repetitions(options, depth),
            _show,
            _goals(options),
            *((made.prepare,) if made else ()),
        ),
        options,
    )


def carry_out(comparison: Comparison, options: argparse.Namespace) -> int:
    """Run it, write and print the results. Returns the exit code."""
    env, chosen, jobs = comparison.env, comparison.chosen, comparison.jobs
    placement, repetitions = comparison.placement, comparison.repetitions
    folder = options.out or Path("results") / time.strftime("%Y-%m-%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)

    results = Results(transport.name for transport in chosen)
    runner = Runner(
        results,
        placement,
        env,
        options.timeout or (3600 if options.depth == "full" else 120),
        prepare=comparison.prepare,
    )
    print(
        f"{placement.text}; {repetitions} repetitions; programs: "
        + ", ".join(sorted({str(job.program.parent) for job in jobs})),
        file=sys.stderr,
    )
    if environment.busy() > _BUSY:
        print(
            "warning: other processes are running here, which will disturb the results",
            file=sys.stderr,
        )
    for transport in chosen:
        if transport.component[0] and transport.component not in comparison.present:
            _absent(transport, jobs, results)

    start = time.monotonic()
    interrupted = _run_all(runner, jobs, chosen, repetitions)
    caption = f"{environment.cpu_model()}, {placement.text}, median of {repetitions}"
    facts = {
        "programs": "; ".join(f"{job.test.name}: {job.program}" for job in jobs),
        "placement": placement.text,
        "repetitions": str(repetitions),
        "duration": f"{time.monotonic() - start:.0f} s",
        "interrupted": "yes" if interrupted else "no",
    }
    _write(runner, folder, facts, env, caption)
    print("\nMedians; in brackets (maximum - minimum) / median of the repetitions.")
    comparison.show(results)
    if options.goals:
        print("\n" + goals.render(goals.judge(results, comparison.goals)))
    unbound = runner.unbound()
    if unbound:
        print(f"\nmpirun reports no binding to cores for: {', '.join(unbound)}")
    print(f"\nResults: {folder}")
    if interrupted:
        return 130
    return 1 if any(name == SUBJECT for _, name in results.failures) else 0


def components(env: dict[str, str]) -> set[tuple[str, str]]:
    present = transports.components(env)
    if ("btl", "self") not in present:
        path = env.get("OMPI_MCA_mca_base_component_path", "")
        raise ValueError(
            "ompi_info does not even list btl self: does every folder of "
            f"OMPI_MCA_mca_base_component_path exist? ({path})"
        )
    return present


def find_build(given: Optional[Path]) -> Optional[Path]:
    if given:
        return given.resolve()
    for folder in (_TOP / "build", Path.cwd(), _TOP):
        if (folder / "benchmarks" / "mpi" / "latency").exists():
            return folder.resolve()
    return None


def _transports(
    options: argparse.Namespace, present: set[tuple[str, str]]
) -> list[Transport]:
    known = hosts.TRANSPORTS if options.hosts else transports.KNOWN
    if options.transports:
        names = options.transports.split(",")
        chosen = [transports.by_name(name, known) for name in names]
    else:
        chosen = transports.default(present, known)
        if options.collectives:
            chosen = [t for t in chosen if t.name in (SUBJECT, "vader", "sm")]
    chosen += [transports.custom(text) for text in options.add]
    names = [transport.name for transport in chosen]
    if len(set(names)) < len(names):
        raise ValueError(f"a transport is named twice: {', '.join(names)}")
    return sorted(chosen, key=lambda transport: transport.name != SUBJECT)


def _tests(options: argparse.Namespace) -> list[Test]:
    if options.collectives:
        return [test for test in TESTS if test.collective]
    all_tests = hosts.TESTS if options.hosts else TESTS
    known = {test.name: test for test in all_tests if not test.collective}
    usual = known if options.hosts else DEFAULT_TESTS
    wanted = options.tests.split(",") if options.tests else usual
    for name in wanted:
        if name not in known:
            raise ValueError(f"no test {name}: there are {', '.join(known)}")
    return [known[name] for name in wanted]


def _goals(options: argparse.Namespace) -> Sequence[Union[goals.Goal, goals.Limit]]:
    if options.hosts:
        return goals.HOSTS
    return goals.COLLECTIVES if options.collectives else goals.TWO_RANKS


def _repetitions(options: argparse.Namespace, depth: str) -> int:
    if depth == "quick":
        return 2
    return 3 if options.collectives or options.hosts else 5


def _usable_osu(given: Optional[Path], env: dict[str, str]) -> Optional[Programs]:
    """OSU's programs, if they run under the mpirun of this environment."""
    if given:
        found = programs.osu_in(given.resolve())
        if not found:
            raise NoPrograms(f"--osu {given}: no osu_latency there or below")
        reason = _probe(found, env)
        if reason:
            raise NoPrograms(f"--osu {given}: {reason}")
        return found
    for found in programs.osu_anywhere(env):
        reason = _probe(found, env)
        if not reason:
            return found
        print(f"not used: OSU in {found.origin}: {reason}", file=sys.stderr)
    return None


def _probe(found: Programs, env: dict[str, str]) -> str:
    """Empty if the programs work; those of another MPI each see one rank only."""
    command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none"]
    command += [str(found.paths["latency"]), "-m", "8:8", "-i", "10"]
    outcome = launch.run(command, env, timeout=60)
    if not outcome.failure:
        return ""
    tail = launch.error_tail(outcome.errors or outcome.output)
    return f"does not run under this mpirun ({outcome.failure}): {' '.join(tail[-1:])}"


def make_jobs(
    tests: Sequence[Test],
    osu: Optional[Programs],
    own: Optional[Programs],
    depth: str,
    largest: int,
) -> list[Job]:
    jobs = []
    for test in tests:
        spans = tuple(test.cut(depth, largest))
        from_osu = osu.get(test.program) if osu else None
        from_own = own.get(test.program) if own else None
        if test.collective and from_own:
            # Ours verify what arrives.
            from_osu = None
        if from_osu:
            jobs.append(Job(test, from_osu, spans, test.columns))
            if from_own and test.own_columns:
                jobs.append(
                    Job(test, from_own, spans, test.own_columns, test.own_arguments)
                )
        elif from_own:
            columns = {**test.columns, **test.own_columns}
            jobs.append(Job(test, from_own, spans, columns, test.own_arguments))
        else:
            raise NoPrograms(
                f"no benchmark program {test.program}: run ./quickstart build, or say "
                "where a build tree (--build) or OSU's programs (--osu) are"
            )
    if not any(job.spans for job in jobs):
        raise ValueError(f"--max {largest}: no test has so small a size")
    return jobs


def _absent(transport: Transport, jobs: Sequence[Job], results: Results) -> None:
    framework, component = transport.component
    text = f"ompi_info shows no {framework} {component}"
    if transport.name == SUBJECT:
        text = SUBJECT_ABSENT
    print(f"{transport.name}: {text}", file=sys.stderr)
    for job in jobs:
        for measure in job.columns if job.test.mpi else ():
            results.fail(measure, transport.name, text)


def _run_all(
    runner: Runner, jobs: Sequence[Job], chosen: Sequence[Transport], repetitions: int
) -> bool:
    """True if the user stopped it."""
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
                    _complain(progress, failure)
            else:
                progress.skipped()
            following = steps[index + 1].repetition if index + 1 < len(steps) else None
            if following != step.repetition:
                progress.repetition_done(step.repetition)
    except KeyboardInterrupt:
        progress.say("interrupted")
        return True
    return False


def _complain(progress: Progress, failure: Failure) -> None:
    progress.say(f"FAILED: {failure.step}: {failure.text}")
    for line in launch.error_tail(failure.errors):
        progress.say(f"    {line}")


def _write(
    runner: Runner,
    folder: Path,
    facts: dict[str, str],
    env: dict[str, str],
    caption: str,
) -> None:
    store.write_samples(runner.results, folder)
    store.write_summary(runner.results, folder, SUBJECT)
    store.write_failures(runner.failures, folder)
    (folder / "environment.txt").write_text(
        environment.describe(env, facts, runner.bindings, runner.commands)
    )
    (folder / "tables.txt").write_text(
        "\n\n".join(
            table.render(runner.results, measure, SUBJECT)
            for measure in runner.results.measures()
        )
        + "\n"
    )
    reason = plot.draw(runner.results, folder, SUBJECT, caption)
    if reason:
        print(reason, file=sys.stderr)


def _show(results: Results) -> None:
    for measure in results.measures():
        print("\n" + table.render(results, measure, SUBJECT))

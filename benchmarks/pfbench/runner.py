# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests, interleaved and repeated."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence, Union

from . import cache_line, launch, osu
from .measures import Measure
from .results import Results, Sample
from .suite import Span, Test
from .transports import SUBJECT, Transport

# Columns that are no measures.
_BEFORE, _AFTER = "line before", "line after"


@dataclass(frozen=True)
class Job:
    """A test and the program that runs it."""

    test: Test
    program: Path
    spans: tuple[Span, ...]
    columns: Mapping[Measure, int]
    arguments: tuple[str, ...] = ()
    # The program tells the time of a cache line, in two columns behind the others.
    line: bool = False

    def all_columns(self) -> dict[Union[Measure, str], int]:
        columns: dict[Union[Measure, str], int] = dict(self.columns)
        if self.line:
            last = max(self.columns.values())
            columns.update({_BEFORE: last + 1, _AFTER: last + 2})
        return columns


@dataclass(frozen=True)
class Step:
    """One run of one program."""

    repetition: int
    job: Job
    span: Span
    transport: Transport

    def command(self, placement: launch.Placement) -> list[str]:
        if not self.job.test.mpi:
            return [str(self.job.program), *self.job.test.arguments] + (
                self.span.arguments()
            )
        return [
            *placement.launcher,
            "-n",
            str(placement.ranks),
            *placement.arguments,
            *self.transport.mca(self.job.test.one_sided),
            str(self.job.program),
            *self.span.arguments(),
            *self.job.test.arguments,
            *self.job.arguments,
            *(("--line",) if self.job.line else ()),
            *self.transport.program_arguments,
        ]

    def __str__(self) -> str:
        return f"{self.job.test.name} {self.span} {self.transport.name}".replace(
            "  ", " "
        )


@dataclass(frozen=True)
class Failure:
    step: Step
    command: list[str]
    text: str
    errors: str


def plan(
    jobs: Sequence[Job], transports: Sequence[Transport], repetitions: int
) -> list[Step]:
    """
    All runs, in order. The transports are interleaved at every span, so that a
    slow phase of the machine affects all of them, and each repetition begins
    with another one. Tests without MPI run for the subject only, and a bound
    only in its tests and up to its largest size there.
    """
    steps = []
    for repetition in range(repetitions):
        first = repetition % len(transports)
        order = [*transports[first:], *transports[:first]]
        steps += [
            Step(repetition, job, cut, transport)
            for job in jobs
            for span in job.spans
            for transport in order
            if job.test.mpi or transport.name == SUBJECT
            if (cut := span.within(transport.largest(job.test.name)))
        ]
    return steps


class Runner:
    def __init__(
        self,
        results: Results,
        placement: launch.Placement,
        env: dict[str, str],
        timeout: float,
        start: Callable[..., launch.Outcome] = launch.run,
        prepare: Optional[Callable[[Mapping[str, str]], None]] = None,
    ) -> None:
        self.results = results
        self.placement = placement
        self.failures: list[Failure] = []
        # By transport and rank, from the first report of mpirun.
        self.bindings: dict[str, dict[int, str]] = {}
        # Distinct command lines, in order.
        self.commands: dict[tuple[str, ...], None] = {}
        # Transports with results of MPI programs, in order.
        self._bindable: dict[str, None] = {}
        self._env = env
        self._timeout = timeout
        self._start = start
        self._prepare = prepare

    def pending(self, step: Step) -> bool:
        """False if the transport failed in this test before."""
        return not any(
            self.results.failed(measure, step.transport.name)
            for measure in step.job.columns
        )

    def run(self, step: Step) -> Optional[Failure]:
        command = step.command(self.placement)
        self.commands.setdefault(tuple(command))
        if self._prepare:
            try:
                self._prepare(step.job.test.network)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                return self._fail(step, command, str(error))
        outcome = self._start(command, self._env, self._timeout)
        bound = launch.bindings(outcome.errors)
        if bound:
            self.bindings.setdefault(step.transport.name, bound)
        places = [place for place in bound.values() if place]
        try:
            if outcome.failure:
                raise osu.OutputError(outcome.failure)
            if len(set(places)) < len(places):
                raise osu.OutputError("mpirun bound two ranks to the same core")
            rows = osu.parse(
                outcome.output, step.job.all_columns(), step.job.test.sized
            )
            osu.check_sizes(rows, step.span.sizes())
        except osu.OutputError as error:
            return self._fail(step, command, str(error), outcome.errors)
        if step.job.test.mpi:
            self._bindable.setdefault(step.transport.name)
        for size in step.span.sizes():
            row = rows[size]
            state, line = "", None
            if step.job.line:
                state = cache_line.state(row[_BEFORE], row[_AFTER])
                line = max(row[_BEFORE], row[_AFTER])
            for measure in step.job.columns:
                self.results.add(
                    Sample(
                        measure,
                        step.transport.name,
                        size,
                        step.repetition,
                        row[measure],
                        state,
                        line,
                    )
                )
        return None

    def unbound(self) -> list[str]:
        """Transports that ran with an unbound rank although the placement binds all."""
        if not self.placement.bound:
            return []
        return [
            name
            for name in self._bindable
            if not all(self.bindings.get(name, {0: ""}).values())
        ]

    def _fail(self, step: Step, command: list[str], text: str, errors: str = "") -> Failure:
        failure = Failure(step, command, text, errors)
        self.failures.append(failure)
        for measure in step.job.columns:
            self.results.fail(measure, step.transport.name, text)
        return failure

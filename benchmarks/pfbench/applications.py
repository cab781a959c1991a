# SPDX-License-Identifier: BSD-3-Clause
"""The command benchmarks/applications."""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import ContextManager, Iterator, Optional, Sequence

from . import application_results, cli, comparison, document, environment, hosts, launch
from . import packaged, store, transports
from .application_results import FASTER, SLOWER, WANTED, Failure, Row, Run, Used
from .comparison import Setup
from .packaged import Application, Finished, WrongResult
from .progress import Progress
from .transports import KNOWN, SUBJECT, Transport

_ABOUT = f"""\
Run packaged programs, unmodified, over {SUBJECT} and the other transports of
this machine's Open MPI in turns: time, CPU time and memory. Every run is a
sample; its result is checked, and a wrong one is a failure. Programs that are
not installed are listed with the packages that have them.

The results are applications.csv (every run), summary.csv, tables.txt,
environment.txt and, if a run failed, failures.txt, in results/DATE-TIME below
the current folder or where --out says. The last lines compare with the goal, for
each number of ranks: no application slower than over the best peer by more than
{SLOWER:.0%}, and at least {WANTED} faster by {FASTER:.0%}.

--publish replaces the figures in doc/ of the same numbers of ranks, with --hosts or
without, and keeps the others.
"""
_USAGE = Path(__file__).resolve().with_name("rank_usage.py")
# mpirun without a transport between processes, for the run of one rank.
_ALONE = Transport("alone", ("--mca", "pml", "ob1", "--mca", "btl", "self"), ("", ""))
# Lines after an error that do not tell it: of mpirun, and of backtraces.
_NO_REASON = re.compile(
    r"\w+ detected that one or more processes|the job to be terminated|a non-zero exit code"
    r"|Process name:|Exit code:|^\s*Proc: \[|^\s*Errorcode:"
    r"|MPI_ABORT|with errorcode|You may or may not see|exactly when Open MPI kills"
    r"|^#\d+ |[Bb]acktrace|\] \[ ?\d+\] |\*\*\* (Process received|End of error)"
    r"|Signal code:|Failing at address:"
)
# Of the line that tells the reason of a failure, characters.
_REASON_MOST = 120


def usage(folder: Path, ranks: int) -> Used:
    """Read what rank_usage.py wrote. Raises WrongResult if a rank wrote nothing."""
    rows = []
    for rank in range(ranks):
        try:
            text = (folder / f"usage.{rank}").read_text()
        except FileNotFoundError:
            raise WrongResult(f"rank {rank} did not report what it used") from None
        rows.append([float(part) for part in text.split()])
    seconds, user, system, resident, locked, pinned = zip(*rows)
    return Used(
        max(seconds),
        sum(user),
        sum(system),
        int(sum(resident)),
        int(max(map(sum, zip(locked, pinned)))),
    )


def parser() -> argparse.ArgumentParser:
    parse = cli.parser("applications", _ABOUT, comparison.EXIT_CODES)
    what = parse.add_argument_group("what to measure")
    cli.add_quick(what, "small inputs, 2 repetitions")
    cli.add_list(
        what,
        "--applications",
        [application.name for application in packaged.APPLICATIONS],
        " (default: those that are installed)",
    )
    what.add_argument(
        "-n",
        default="2",
        metavar="LIST",
        help="numbers of ranks, separated by commas (default 2)",
    )
    cli.add_hosts(what, "the ranks on several hosts made on this machine (tests/hosts)")
    what.add_argument(
        "--per-host",
        type=cli.positive,
        default=1,
        metavar="N",
        help="with --hosts: so many ranks on each host (default 1)",
    )
    cli.add_mtu(what)
    cli.add_list(
        what,
        "--transports",
        [known.name for known in KNOWN],
        "; with --hosts: "
        + " ".join(known.name for known in hosts.TRANSPORTS)
        + " (default: those that ompi_info shows)",
    )
    what.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME=ARGUMENTS",
        help="one more transport, with arguments of mpirun; can be repeated",
    )
    cli.add_repetitions(what, "5; 2 with --quick")
    cli.add_published(parse.add_argument_group("programs and results"))
    return parse


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parse = parser()
    options = parse.parse_args(arguments)
    if options.per_host > 1 and not options.hosts:
        parse.error("--per-host is for --hosts")
    options.command = cli.command("applications", arguments)
    return cli.guarded("applications", lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    if options.publish:
        document.check_source()
    ranks = cli.counts("-n", options.n, 64)
    known_ones = packaged.APPLICATIONS
    chosen = cli.named("--applications", options.applications, known_ones, known_ones)
    setup = Setup(options.build)
    per_host = options.per_host
    if options.hosts and any(n % per_host for n in ranks):
        raise cli.Unusable(f"-n {options.n} cannot be divided into {per_host} ranks a host")
    if options.hosts and any(n < 2 * per_host for n in ranks):
        raise cli.Unusable(f"-n {options.n}: --hosts needs ranks for two hosts at least")
    between = hosts.TRANSPORTS if per_host == 1 else hosts.WITH_SHARED_MEMORY
    known = between if options.hosts else KNOWN
    peers = cli.named("--transports", options.transports, known, setup.default(known))
    peers += [transports.custom(text) for text in options.add]
    if KNOWN[0] in peers:
        setup.require_subject()
    missing = [application for application in chosen if not application.path()]
    for line in absent(missing):
        print(line, file=sys.stderr)
    rows = [
        Row(each, n, hosts=n // per_host if options.hosts else 1)
        for each in chosen
        if each not in missing
        for n in ranks
        if each.ranks in (None, n)
    ]
    if not rows:
        raise cli.Unusable("no application is installed that runs with so many ranks")
    with _made(options, max(row.hosts for row in rows)) as made:
        with tempfile.TemporaryDirectory(prefix="applications-") as work:
            runs = Runs(setup, made, Path(work), options)
            return _measure(runs, rows, peers, options)


def absent(missing: Sequence[Application]) -> list[str]:
    """What is not installed, and how to install it."""
    if not missing:
        return []
    packages = dict.fromkeys(
        package for application in missing for package in application.packages.split()
    )
    lines = [f"not installed: {each.name}: package {each.packages}" for each in missing]
    command = "apt-get install --no-install-recommends"
    return [*lines, f"to install them: {command} {' '.join(packages)}"]


def _made(
    options: argparse.Namespace, count: int
) -> ContextManager[Optional[hosts.Hosts]]:
    if options.hosts:
        return hosts.Hosts(options.mtu, count).made()
    return contextlib.nullcontext()


class Runs:
    """Runs an application once."""

    def __init__(
        self,
        setup: Setup,
        made: Optional[hosts.Hosts],
        work: Path,
        options: argparse.Namespace,
    ) -> None:
        self.setup = setup
        # Distinct command lines, in order.
        self.commands: dict[tuple[str, ...], None] = {}
        self._made = made
        self._work = work
        self._depth = options.depth
        self._timeout = options.timeout or 300
        self._cores = launch.cores()
        # Results of one rank, by application.
        self._alone: dict[str, Finished | Failure] = {}
        self._count = 0

    def run(self, row: Row, transport: Transport, repetition: int) -> Run:
        """Raises Failed."""
        alone = self._reference(row, transport)
        with self._folder() as folder:
            command, finished = self._execute(row, transport, folder)
            try:
                used = usage(folder, row.ranks)
                parts = row.application.verify(finished, alone)
            except WrongResult as wrong:
                text = f"wrong result: {wrong}"
                raise Failed(Failure(row, transport.name, command, text, "")) from None
        return Run(row, transport.name, repetition, used, parts)

    def _reference(self, row: Row, transport: Transport) -> Optional[Finished]:
        """The result of one rank, which uses no transport; from one run, not timed.
        Its failure is that of each run that it is for."""
        application = row.application
        if not application.as_one:
            return None
        if application.name not in self._alone:
            folder = self._work / f"alone-{application.name}"
            folder.mkdir(exist_ok=True)
            try:
                _, finished = self._execute(Row(application, 1), _ALONE, folder)
                self._alone[application.name] = finished
            except Failed as error:
                self._alone[application.name] = error.failure
        alone = self._alone[application.name]
        if isinstance(alone, Failure):
            raise Failed(replace(alone, row=row, transport=transport.name))
        return alone

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        self._count += 1
        folder = self._work / str(self._count)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _execute(
        self, row: Row, transport: Transport, folder: Path
    ) -> tuple[tuple[str, ...], Finished]:
        application = row.application
        arguments = application.prepare(folder, self._depth, row.ranks)
        variables = [f"{name}={value}" for name, value in application.variables.items()]
        command = [
            *self._mpirun(row, transport),
            *(word for each in variables for word in ("-x", each)),
            *(sys.executable, "-IS", str(_USAGE), str(folder)),
            *(application.standard_input, str(application.path()), *arguments),
        ]
        shown = tuple("FOLDER" if part == str(folder) else part for part in command)
        self.commands.setdefault(shown)
        env = {**self.setup.env, **application.variables}
        for each in (*application.preparations(), command):
            outcome = launch.run(each, env, self._timeout, folder)
            if outcome.failure:
                errors = outcome.errors or outcome.output
                text = reason(outcome)
                raise Failed(Failure(row, transport.name, shown, text, errors))
        # Some programs print their results to standard error.
        return shown, Finished(outcome.output + outcome.errors, folder)

    def _mpirun(self, row: Row, transport: Transport) -> list[str]:
        if self._made and transport is not _ALONE:
            names = ",".join(f"h{number}" for number in range(row.hosts))
            launcher = [*self._made.placement.launcher, "-n", str(row.ranks), "--host", names]
        else:
            placement = launch.place(row.ranks, self._cores)
            launcher = [*placement.launcher, "-n", str(row.ranks), *placement.arguments]
        return [*launcher, *transport.mca(False)]


class Failed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def reason(outcome: launch.Outcome) -> str:
    """How the run failed, with the last line that tells why, shortened."""
    for text in (outcome.errors, outcome.output):
        lines = [line for line in launch.error_lines(text) if not _NO_REASON.search(line)]
        if lines:
            last = " ".join(lines[-1].split())
            more = " ..." if len(last) > _REASON_MOST else ""
            return f"{outcome.failure}: {last[:_REASON_MOST]}{more}"
    return outcome.failure


def plan(
    rows: Sequence[Row], peers: Sequence[Transport], repetitions: int
) -> list[tuple[int, Row, Transport]]:
    """All runs, in order: each repetition begins with another transport."""
    steps = []
    for repetition in range(repetitions):
        first = repetition % len(peers)
        order = [*peers[first:], *peers[:first]]
        steps += [(repetition, row, peer) for row in rows for peer in order]
    return steps


def _measure(
    runs: Runs,
    rows: Sequence[Row],
    peers: Sequence[Transport],
    options: argparse.Namespace,
) -> int:
    repetitions = options.repetitions or (2 if options.depth == "quick" else 5)
    folder = comparison.results_folder(options.out)
    line = runs.setup.line()
    print(f"cache line: {line.text}; repetitions: {repetitions}", file=sys.stderr)
    if environment.busy() > comparison.BUSY:
        print(comparison.BUSY_WARNING, file=sys.stderr)
    done: list[Run] = []
    failures: list[Failure] = []
    start = time.monotonic()
    interrupted = _run_all(runs, plan(rows, peers, repetitions), repetitions, done, failures)
    results = application_results.collect(done, failures, [peer.name for peer in peers])
    text = application_results.render(results, rows, done)
    facts = {
        "command": options.command,
        "hosts": f"{options.per_host} ranks on each, MTU {options.mtu}" if options.hosts else "1",
        "inputs": options.depth,
        "repetitions": str(repetitions),
        "duration": f"{time.monotonic() - start:.0f} s",
        "interrupted": "yes" if interrupted else "no",
    }
    application_results.write(done, failures, folder / application_results.FILE)
    mtu = options.mtu if options.hosts else None
    application_results.write_summary(results, rows, folder, mtu, line.nanoseconds)
    store.write_failures(failures, folder)
    comparison.write_texts(runs.setup, folder, text, facts, line, runs.commands)
    print(f"\n{text}\n\nResults: {folder}")
    for setting, those in application_results.by_setting(rows).items():
        found = application_results.goal(results, those)
        print(f"goal, {setting}: {found.state}: {found.summary()}")
        for kind, row, ratio in found.lines():
            print(f"    {kind}: {row.name} {ratio}".rstrip())
    code = int(any(failure.transport == SUBJECT for failure in failures))
    code = 130 if interrupted else code
    if options.publish and code:
        print(f"not published: {'interrupted' if interrupted else 'a run failed'}", file=sys.stderr)
    elif options.publish:
        print(document.publish_applications(folder))
    return code


def _run_all(
    runs: Runs,
    steps: Sequence[tuple[int, Row, Transport]],
    repetitions: int,
    done: list[Run],
    failures: list[Failure],
) -> bool:
    """Returns True if the user interrupted it."""
    progress = Progress(sys.stderr, len(steps), repetitions)
    failed = set()
    try:
        for index, (repetition, row, peer) in enumerate(steps):
            if (row, peer.name) in failed:
                progress.skipped()
            else:
                progress.begin(f"{row} {peer.name}", repetition)
                start = time.monotonic()
                try:
                    done.append(runs.run(row, peer, repetition))
                except Failed as error:
                    failed.add((row, peer.name))
                    failures.append(error.failure)
                    progress.say(f"FAILED: {error}")
                    for line in launch.error_tail(error.failure.errors):
                        progress.say(f"    {line}")
                progress.done((row, peer.name), time.monotonic() - start)
            following = steps[index + 1][0] if index + 1 < len(steps) else None
            if following != repetition:
                progress.repetition_done(repetition)
    except KeyboardInterrupt:
        progress.say("interrupted")
        return True
    return False

# SPDX-License-Identifier: BSD-3-Clause
"""Options and exit codes that the commands share."""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, Iterable, Optional, Sequence, TypeVar

from . import launch

Named = TypeVar("Named")


class Unusable(Exception):
    """There is nothing to run; the text says what to do."""


def parser(command: str, about: str, exit_codes: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=command,
        description=about,
        epilog=exit_codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_quick(group, about: str) -> None:
    group.add_argument(
        "--quick",
        dest="depth",
        action="store_const",
        const="quick",
        default="default",
        help="a first look: " + about,
    )


def add_list(group, option: str, known: Iterable[str], more: str) -> None:
    about = f"separated by commas, of: {' '.join(known)}{more}"
    group.add_argument(option, metavar="LIST", help=about)


def add_hosts(group, about: str) -> None:
    group.add_argument("--hosts", action="store_true", help=about)


def add_smsc(group) -> None:
    group.add_argument(
        "--smsc",
        action="store_true",
        help="below btl/sm of Open MPI 5 or later: smsc/exanest with the other components of smsc",
    )


def check_smsc(options: argparse.Namespace, *others: str) -> None:
    """others: options that do not go with --smsc."""
    given = [f"--{name}" for name in others if getattr(options, name)]
    if options.smsc and given:
        raise ValueError(f"--smsc: for copies below btl/sm of one host, without {given[0]}")


def add_mtu(group) -> None:
    group.add_argument(
        "--mtu",
        type=positive,
        default=9000,
        metavar="BYTES",
        help="of the network between the hosts (default 9000)",
    )


def add_links(group, queue: str, more: str = "") -> None:
    group.add_argument(
        "--rate", default="1gbit", help="of each link, as for tc(8) (default 1gbit)"
    )
    group.add_argument(
        "--queue",
        default=queue,
        metavar="TIME",
        help=f"of each link, as the time to send what it holds (default {queue}{more})",
    )


def link_facts(options: argparse.Namespace) -> dict[str, str]:
    """For environment.txt: the values of add_links and add_mtu."""
    return {"links": f"rate {options.rate}, queue {options.queue}, MTU {options.mtu}"}


def add_largest(group) -> None:
    group.add_argument(
        "--max",
        type=size,
        metavar="SIZE",
        help="the largest message; K, M or G may follow (--hosts: default 4M)",
    )


def add_repetitions(group, default: str) -> None:
    group.add_argument(
        "-r", "--repetitions", type=positive, metavar="N", help=f"default {default}"
    )


def add_results(group) -> None:
    group.add_argument(
        "--build", type=Path, metavar="DIR", help="the build tree, also of the component (default: build/)"
    )
    group.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="the folder for the results (default: results/DATE-TIME)",
    )


def add_publish(group) -> None:
    group.add_argument(
        "--publish",
        action="store_true",
        help="copy the figures to doc/, in place of those of the same measurement, and make "
        "doc/results.md again",
    )


def add_published(group) -> None:
    """The options of a command that publishes which do not say what is measured."""
    add_results(group)
    add_publish(group)
    add_timeout(group, "default 300")


def command(name: str, arguments: Optional[Sequence[str]]) -> str:
    """The command that measures the same."""
    parse = argparse.ArgumentParser()
    add_published(parse)
    _, others = parse.parse_known_args(arguments)
    return shlex.join([f"benchmarks/{name}", *others])


def add_goals(group) -> None:
    group.add_argument(
        "--goals", action="store_true", help="compare with this project's goals"
    )


def add_timeout(group, about: str) -> None:
    group.add_argument(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help=f"stop a run after this time ({about})",
    )


def positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a number above 0")
    return number


def counts(option: str, text: str, most: int) -> list[int]:
    """The numbers of a list, which are separated by commas."""
    numbers = [int(part) if part.isdigit() else 0 for part in text.split(",")]
    if not all(1 <= number <= most for number in numbers):
        raise ValueError(f"{option} {text}: give numbers from 1 to {most}")
    return numbers


def size(text: str) -> int:
    scale = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    digits = text[:-1] if scale else text
    if not digits.isdigit() or int(digits) < 1:
        raise argparse.ArgumentTypeError(
            f"{text}: give a number of bytes; K, M or G may follow"
        )
    return int(digits) << scale


def named(
    option: str, text: Optional[str], known: Iterable[Named], default: Iterable[Named]
) -> list[Named]:
    """Those whose names the value of an option lists; the default without a value."""
    if text is None:
        return list(default)
    by_name = {each.name: each for each in known}
    names = text.split(",")
    if len(set(names)) < len(names) or not set(names) <= set(by_name):
        raise ValueError(
            f"{option} {text}: give names of {', '.join(by_name)}, each once at most"
        )
    return [by_name[name] for name in names]


def guarded(command: str, run: Callable[[], int]) -> int:
    """
    Run a command and return its exit code. Errors become messages. SIGINT, SIGTERM and SIGHUP interrupt
    it: it removes its hosts, and shows what it has measured. A shell has SIGINT ignored by what it
    starts in the background; that is undone. nohup has SIGHUP ignored; that stays.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        return run()
    except (OSError, ValueError, Unusable, subprocess.SubprocessError) as error:
        print(f"{command}: {_explain(error)}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 2


def _explain(error: Exception) -> str:
    missing = getattr(error, "filename", None)
    if isinstance(error, FileNotFoundError) and missing in ("mpirun", "ompi_info"):
        return f"{missing} is not in PATH: install Open MPI (Debian: openmpi-bin)"
    if isinstance(error, subprocess.CalledProcessError):
        return "\n    ".join((str(error), *launch.error_tail(error.stderr or "")))
    return str(error)

# SPDX-License-Identifier: BSD-3-Clause
"""A plugin for pytest that prints TAP."""

import resource
from pathlib import Path

import pytest

count = 0
used_before = 0.0  # processor seconds


def name_of(report, when):
    """test_tools.py::Class::test_of_something[value] -> tools: of something[value]"""
    file, *names = report.nodeid.split("::", 1)
    name, bracket, value = (names or [""])[0].rpartition("::")[2].partition("[")
    name = f"{file.rpartition('/')[2]}: {name} {bracket}{value}"
    for old, new in (("test_", ""), (".py", ""), ("_", " "), (" [", "["), ("#", "")):
        name = name.replace(old, new)
    return name.strip() + ("" if when == "call" else f", {when}")


def tell(report, ok, skipped="", details="", when="call"):
    global count
    count += 1
    for line in details.splitlines():
        print(f"# {line}")
    name = name_of(report, when)
    print(f"{'ok' if ok else 'not ok'} {count} - {name}{skipped and f' # SKIP {skipped}'}", flush=True)


def processor_seconds():
    """Of this process and of its children that ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


def tell_skipped(report):
    tell(report, True, skipped=report.longrepr[2].removeprefix("Skipped: "))


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    # From version 8 on, pytest needs it for the text of a comparison that failed.
    writer = config.get_terminal_writer()
    config.get_terminal_writer = lambda: writer
    config.pluginmanager.unregister(name="terminalreporter")


def pytest_collectreport(report):
    if report.failed:
        tell(report, False, details=report.longreprtext, when="collect")
    elif report.skipped:
        tell_skipped(report)


def pytest_runtest_logreport(report):
    global used_before
    used, used_before = processor_seconds() - used_before, processor_seconds()
    if report.skipped:
        tell_skipped(report)
    elif report.failed:
        sections = [report.longreprtext, *(f"{title}:\n{text}" for title, text in report.sections)]
        tell(report, False, details="\n".join(sections), when=report.when)
    elif report.when == "call":
        tell(report, True)
    if report.duration > 1:
        name = name_of(report, report.when)
        print(f"# {name}: {report.duration:.1f} s, {used:.1f} s of processor")


def pytest_sessionfinish(session):
    names = " ".join(Path(argument).name for argument in session.config.args)
    print(f"# {names}: {processor_seconds():.1f} s of processor")
    print(f"1..{count}", flush=True)

# SPDX-License-Identifier: BSD-3-Clause
"""pf_info --job reads a statistics page whose file is longer than this version makes it."""

import fcntl
import os
import pathlib
import struct

import pytest

from waiting import wait_until

NAME = "libpf-statistics"
PID_OFFSET = 20  # in struct statistics_page
PAGE = os.sysconf("SC_PAGESIZE")


def find_page(pid):
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(link) == f"/memfd:{NAME} (deleted)":
            return link.read_bytes()
    return None


@pytest.fixture(scope="module")
def page(module_tools):
    """The statistics page of a process that uses libpf."""
    address = module_tools.folder / "address"
    process = module_tools.start("pf_perf", "--listen", address, "--cores", "none")
    assert wait_until(address.exists)
    found = find_page(process.pid)
    process.terminate()
    assert found
    return found


def show(tools, page, length):
    """Show a page of that length as this process's, and return what pf_info says of it."""
    contents = bytearray(page[:length].ljust(length, b"\0"))
    struct.pack_into("i", contents, PID_OFFSET, os.getpid())
    fd = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, contents)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return tools.run("pf_info", "--job", str(os.getpid()))
    finally:
        os.close(fd)


@pytest.mark.parametrize("more", [0, 1, 15 * PAGE])
def test_a_page_of_more_bytes_is_shown(tools, page, more):
    result = show(tools, page, len(page) + more)
    assert result.returncode == 0, result.stderr
    assert f" {os.getpid()} " in result.stdout


def test_a_page_without_room_for_the_counters_is_malformed(tools, page):
    result = show(tools, page, 64)
    assert result.returncode == 1
    assert f"process {os.getpid()} " in result.stderr and "malformed" in result.stderr

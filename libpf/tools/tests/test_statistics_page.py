# SPDX-License-Identifier: BSD-3-Clause
"""pf_info --job reads a statistics page whose file is longer than this version makes it."""

import fcntl
import os
import pathlib
import struct
import subprocess
import time

import pytest

BUILD = os.environ.get("BUILD") or os.environ.get("top_builddir")
TOOLS = pathlib.Path(BUILD or pathlib.Path(__file__).parents[3] / "build") / "libpf" / "tools"
NAME = "libpf-statistics"
PID_OFFSET = 20  # in struct statistics_page
PAGE = os.sysconf("SC_PAGESIZE")


def find_page(pid):
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(link) == f"/memfd:{NAME} (deleted)":
            return link.read_bytes()
    return None


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The statistics page of a process that uses libpf."""
    address = tmp_path_factory.mktemp("listen") / "address"
    with subprocess.Popen([TOOLS / "pf_perf", "--listen", address, "--cores", "none"]) as process:
        deadline = time.monotonic() + 10
        while not address.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        found = find_page(process.pid)
        process.terminate()
    assert found
    return found


def show(page, length):
    """Show a page of that length as this process's, and return what pf_info says of it."""
    contents = bytearray(page[:length].ljust(length, b"\0"))
    struct.pack_into("i", contents, PID_OFFSET, os.getpid())
    fd = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, contents)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return subprocess.run([TOOLS / "pf_info", "--job", str(os.getpid())], capture_output=True,
                              text=True, timeout=60)
    finally:
        os.close(fd)


@pytest.mark.parametrize("more", [0, 1, 15 * PAGE])
def test_a_page_of_more_bytes_is_shown(page, more):
    result = show(page, len(page) + more)
    assert result.returncode == 0, result.stderr
    assert f" {os.getpid()} " in result.stdout


def test_a_page_without_room_for_the_counters_is_malformed(page):
    result = show(page, 64)
    assert result.returncode == 1
    assert f"process {os.getpid()} " in result.stderr and "malformed" in result.stderr

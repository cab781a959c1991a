# SPDX-License-Identifier: BSD-3-Clause
"""pf_trace: what it records of a put with a page fault, and what it makes of forged records."""

import json
import re
import struct
import sys
from xml.dom import minidom

import pytest

from conftest import BUILD, HERE, has

LENGTH, BLOCK = 4 << 20, 16 << 10
# struct trace_header and struct trace_event, and their places in the file.
HEADER = struct.Struct("8sIIQQii64s64s32s56xQ")
EVENT = struct.Struct("8QiBBBB")
EVENTS, EVENTS_AT = 65536, 4096


@pytest.fixture
def program(tools):
    """faulted_put.c, linked with the library that was built."""
    library = BUILD / "libpf/.libs"
    tools.environment["TMPDIR"] = str(tools.folder)
    return tools.compile(HERE / "faulted_put.c", "faulted_put", f"-I{HERE.parents[1] / 'include'}",
                         f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--no-as-needed", "-lpf")


def trace(tools, *command, **variables):
    """Run the command below pf_trace: how that ended, and the events."""
    output, picture = tools.folder / "trace.json", tools.folder / "trace.svg"
    done = tools.run("env", "-C", str(tools.folder), "pf_trace", "-o", str(output), "--svg",
                     str(picture), "--", *command, **variables)
    if done.returncode == 77:
        pytest.skip("the pages of a file in the current folder stay in memory")
    assert not list(tools.folder.glob(".pf_trace-*"))
    tools.svg = minidom.parse(str(picture))
    return done, json.loads(output.read_text())["traceEvents"]


def named(events, pattern, phase=None):
    return [event for event in events if re.search(pattern, event["name"]) and
            (not phase or event["ph"] == phase)]


def end_of(events, span):
    (end,) = [event for event in events if event["ph"] == "e" and event["id"] == span["id"]]
    assert end["ts"] >= span["ts"]
    return end["ts"]


def test_put_with_a_fault(tools, program):
    done, events = trace(tools, program)
    assert done.returncode == 0 and not done.stderr
    (put,) = named(events, "^put 4 MiB", "b")
    assert put["args"]["length"] == LENGTH and put["args"]["peer"] == "rank 1"
    assert "status" not in put["args"]
    target = int(put["args"]["remote"], 16)
    # The page fault is that of the third block, and the put waits for it.
    (fault,) = [event for event in named(events, "fault", "i")
                if int(event["args"]["address"], 16) == target + 2 * BLOCK]
    assert fault["name"] == "major fault, remote" and fault["args"]["length"] == BLOCK
    (resolution,) = [event for event in named(events, "^resolve", "b")
                     if int(event["args"]["address"], 16) == target + 2 * BLOCK]
    (again,) = named(events, "^retransmit$", "i")
    assert resolution["pid"] != put["pid"] == fault["pid"] == again["pid"]
    order = [put["ts"], fault["ts"], resolution["ts"], end_of(events, resolution), again["ts"],
             end_of(events, put)]
    assert order == sorted(order)
    # Every byte was moved, by either process, and the block after its fault.
    moved = {}
    for copy in named(events, "^copy", "b"):
        at = int(copy["args"]["remote" if copy["pid"] == put["pid"] else "address"], 16) - target
        end_of(events, copy)
        for block in range(at // BLOCK, (at + copy["args"]["length"]) // BLOCK):
            assert block not in moved
            moved[block] = copy["ts"]
    assert sorted(moved) == list(range(LENGTH // BLOCK))
    assert moved[2] >= again["ts"]


def test_picture(tools, program):
    done, _ = trace(tools, program)
    assert done.returncode == 0
    texts = [node.firstChild.data for node in tools.svg.getElementsByTagName("text")]
    assert {"rank 0", "rank 1", "page fault", "retransmission"} <= set(texts)
    titles = [node.firstChild.data for node in tools.svg.getElementsByTagName("title")]
    for what in "transfer, 4 MiB", r"page fault \(major, remote\), 16 KiB", "retransmission, 16 KiB", \
            "page fault being resolved, 16 KiB", "blocks moved, ":
        assert any(has(f"^{what}", title) for title in titles), what


def test_put_over_the_network(tools, program):
    done, events = trace(tools, program, LIBPF_NETWORK="always")
    assert done.returncode == 0 and not done.stderr
    (put,) = named(events, "^put 4 MiB", "b")
    target = int(put["args"]["remote"], 16)

    def of(block, pattern, phase):
        return [event for event in named(events, pattern, phase) if event["pid"] != put["pid"] and
                int(event["args"]["address"], 16) == target + block * BLOCK]

    for block in range(LENGTH // BLOCK):
        arrivals = of(block, "^receive 16 KiB$", "b")
        assert arrivals and "status" not in arrivals[-1]["args"], block
    sent = {int(event["args"]["address"], 16) for event in named(events, "^send 16 KiB$", "b")}
    source = int(put["args"]["address"], 16)
    assert sent == {source + block * BLOCK for block in range(LENGTH // BLOCK)}
    # There may be more page faults, but this one there is.
    fault, resolution = of(2, "major fault, local", "i")[0], of(2, "^resolve", "b")[0]
    again, arrival = of(2, "^retransmit$", "i")[-1], of(2, "^receive", "b")[-1]
    order = [fault["ts"], resolution["ts"], end_of(events, resolution), again["ts"],
             end_of(events, arrival), end_of(events, put)]
    assert order == sorted(order)


def test_a_killed_process_leaves_its_events(tools, program):
    done, events = trace(tools, program, "kill")
    assert done.returncode == 0
    (put,) = named(events, "^put 4 MiB", "b")
    assert named(events, "fault, remote", "i")[0]["pid"] == put["pid"]


def test_nothing_is_recorded_without_it(tools, program):
    folder = tools.folder / "cwd"
    folder.mkdir()
    done = tools.run("env", "-C", str(folder), program)
    assert done.returncode in (0, 77) and not list(folder.iterdir())


@pytest.mark.parametrize("command, status", [
    ("exit 3", 3),
    ("kill -9 $$", 137),
])
def test_exit_status_is_the_command_s(tools, command, status):
    done, events = trace(tools, "sh", "-c", command)
    assert done.returncode == status and not events
    assert "no process recorded anything" in done.stderr


def test_command_not_found(tools):
    done, _ = trace(tools, "/nonexistent/command")
    assert done.returncode == 127 and "/nonexistent/command" in done.stderr


def test_output_cannot_be_written(tools):
    done = tools.run("pf_trace", "-o", "/nonexistent/folder/trace.json", "true")
    assert done.returncode == 1 and "/nonexistent/folder" in done.stderr


def test_says_what_is_lost(tools):
    done, events = trace(tools, "pf_perf", "--test", "put-latency", "--sizes", "64", "--iterations",
                         "80000", "--repetitions", "1", "--warm-up", "0", "--cores", "none")
    assert done.returncode == 0 and has(r"\d+ events lost", done.stderr)
    assert len(named(events, "^copy", "b")) > 60000


FORGE = """
import os, random, sys
exec(os.environ["STRUCTS"])
what = sys.argv[1]
path = os.path.join(os.environ["LIBPF_TRACE"], "trace.forged")
size = EVENTS_AT + EVENTS * EVENT.size
generator = random.Random(1)
fields = [b"pftrace1", 1, EVENTS, 5, 6, 7, 0, b"h" * 64, b'"<&\\x01' * 16, b"<a>&" * 8, 100]
events = b""
if what == "version":
    fields[1] = 2
elif what == "size":
    fields[2] = 1 << 31
elif what == "count":
    fields[10] = (1 << 64) - 1
elif what == "wild":
    # Each of these is right but for one field.
    most = (1 << 64) - 1
    wrong = [(0, 0), (0, 77), (1, 1 << 63), (2, most), (6, most), (8, 2), (8, -10), (9, 0), (9, 11),
             (9, 255), (10, 3), (11, 4)]
    for field, value in wrong:
        event = [len(events) // EVENT.size + 1, 10, 20, 0, 4096, 0, 4096, 99, 0, 3, 0, 0, 1]
        event[field] = value
        events += EVENT.pack(*event)
    fields[10] = len(wrong)
elif what == "names":
    fields[6] = -1
    events = EVENT.pack(1, 10, 20, 0, 4096, 0, 4096, 99, 0, 3, 0, 0, 1)
    fields[10] = 1
data = HEADER.pack(*fields).ljust(EVENTS_AT, b"\\0") + events
if what == "fifo":
    os.mkfifo(path)
elif what == "link":
    os.symlink("/etc/hostname", path)
elif what == "noise":
    open(path, "wb").write(generator.randbytes(size))
elif what == "short":
    open(path, "wb").write(data)
elif what == "empty":
    open(path, "wb").close()
else:
    open(path, "wb").write(data.ljust(size, b"\\0"))
"""


@pytest.mark.parametrize("what, text", [
    ("empty", "malformed"),
    ("noise", "malformed"),
    ("short", "another version"),
    ("version", "another version"),
    ("size", "another version"),
    ("fifo", "not a file"),
    ("link", "symbolic link"),
    ("count", "events lost"),
    ("wild", ": 12 events lost"),
    ("names", ""),
])
def test_survives_a_forged_record(tools, what, text):
    structs = f"""import struct
HEADER, EVENT = struct.Struct({HEADER.format!r}), struct.Struct({EVENT.format!r})
EVENTS, EVENTS_AT = {EVENTS}, {EVENTS_AT}"""
    done, events = trace(tools, sys.executable, "-c", FORGE, what, STRUCTS=structs)
    assert done.returncode == 0 and text in done.stderr
    if what == "names":
        (copy,) = named(events, "^copy to the peer 4 KiB$", "b")
        (name,) = named(events, "^process_name$")
        assert name["pid"] == copy["pid"] and "<a>&<a>&" in name["args"]["name"]
        assert "<a>&<a>&<a>&<a>&<a>&<a>&<a>&<a>" in tools.svg.documentElement.toxml().replace(
            "&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    else:
        assert not named(events, "^copy")

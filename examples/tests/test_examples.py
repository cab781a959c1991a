# SPDX-License-Identifier: BSD-3-Clause
"""The examples, with real page faults and processes that die."""

import contextlib
import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from pfbench.memory_group import MemoryGroup
from waiting import LIMIT, wait_until

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD") or os.environ.get("top_builddir") or TOP / "build").resolve()
EXAMPLES = BUILD / "examples"
CC = os.environ.get("CC") or "cc"

# Of the store, which does not fit into the memory that the server may use.
RECORDS = 32 << 10
MEMORY = 12 << 20
GETS = 5000

# The ways of the bytes, by the environment.
WAYS = {
    "host": {},
    "ring": {"LIBPF_SINGLE_COPY": "0"},
    "network": {"LIBPF_NETWORK": "always"},
}
ways = pytest.mark.parametrize("way", WAYS)


class Programs:
    def __init__(self, folder):
        self.folder = folder
        self.started = []

    @staticmethod
    def environment(variables):
        mine = {k: v for k, v in os.environ.items() if not k.startswith("LIBPF_")}
        return {**mine, "XDG_CACHE_HOME": "/nonexistent", **variables}

    def start(self, *command, group=None, **variables):
        line = [str(EXAMPLES / command[0]), *map(str, command[1:])]
        program = subprocess.Popen(group.inside(line) if group else line,
                                   env=self.environment(variables), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.started.append(program)
        return program

    def run(self, *command, **variables):
        return self.end(self.start(*command, **variables))

    @staticmethod
    def end(program):
        """Its exit status, and what it printed."""
        output, _ = program.communicate(timeout=LIMIT)
        print(output)
        return program.returncode, output

    def kill_all(self):
        for program in self.started:
            if program.poll() is None:
                program.kill()
            program.communicate()


@pytest.fixture
def group():
    """A memory cgroup with room for a part of the store; None where none can be made."""
    with contextlib.ExitStack() as stack:
        try:
            group = stack.enter_context(MemoryGroup().made())
            group.limit(MEMORY)
        except (OSError, ValueError) as error:
            print(error)
            group = None
        yield group


# After the group: the processes in it end first.
@pytest.fixture
def programs(group, tmp_path):
    programs = Programs(tmp_path)
    yield programs
    programs.kill_all()


def major_faults(process):
    # The name, in brackets, may contain spaces. majflt is the 12th field.
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[9])


def waited(output):
    """How many gets waited for a page."""
    return int(re.search(r"(\d+) gets waited for a page", output)[1])


def resident_pages(file, length):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    page = os.sysconf("SC_PAGESIZE")
    present = (ctypes.c_ubyte * (length // page))()
    start = ctypes.c_void_p(libc.mmap(None, length, 1, 1, file, 0))
    assert libc.mincore(start, ctypes.c_size_t(length), present) == 0
    libc.munmap(start, ctypes.c_size_t(length))
    return sum(byte & 1 for byte in present)


def make_store(programs):
    """A store of which no page is in memory."""
    store = programs.folder / "store"
    status, _ = programs.run("keyvalue", "--make", store, RECORDS)
    assert status == 0 and store.stat().st_size == RECORDS << 10
    file = os.open(store, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        if resident_pages(file, RECORDS << 10) > RECORDS // 100:
            pytest.skip("the file system keeps the pages of files in memory")
    finally:
        os.close(file)
    return store


def serve(programs, store, **settings):
    contact = programs.folder / "contact"
    server = programs.start("keyvalue", "--serve", store, contact, **settings)
    assert wait_until(lambda: contact.exists() and contact.stat().st_size)
    return server, contact


def job_counter(pid, name):
    """A counter of a process's libpf, as pf_info --job shows it; 0 before its pf_open."""
    output = subprocess.run([BUILD / "libpf/tools/pf_info", "--job", "--json"],
                            capture_output=True, text=True, timeout=LIMIT).stdout
    return sum(process["statistics"][name] for job in json.loads(output or '{"jobs": []}')["jobs"]
               for process in job["processes"] if process["pid"] == pid)


@ways
def test_a_file_comes_from_absent_pages(programs, way):
    store = make_store(programs)
    copy = programs.folder / "copy"
    with open(copy, "wb") as output:
        done = subprocess.run([EXAMPLES / "first", store], stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT,
                              env=programs.environment(WAYS[way]))
    faults = re.fullmatch(r"(\d+) bytes, page faults: \d+ here, (\d+) in the child\n", done.stderr)
    assert done.returncode == 0 and int(faults[1]) == RECORDS << 10
    # Between hosts each process counts its own.
    assert int(faults[2]) > 0 or way == "network"
    assert copy.read_bytes() == store.read_bytes()


@ways
def test_values_come_from_absent_pages_and_a_killed_client_disturbs_nobody(programs, group, way):
    store = make_store(programs)
    server, contact = serve(programs, store, group=group, **WAYS[way])
    before = major_faults(server)
    victim = programs.start("keyvalue", "--get", contact, 10**9, **WAYS[way])
    others = [programs.start("keyvalue", "--get", contact, GETS, **WAYS[way]) for _ in range(2)]
    assert wait_until(lambda: job_counter(victim.pid, "gets"))
    assert victim.poll() is None
    victim.send_signal(signal.SIGKILL)
    outputs = [programs.end(other) for other in others]
    outputs.append(programs.run("keyvalue", "--get", contact, GETS, **WAYS[way]))
    assert [status for status, _ in outputs] == [0, 0, 0]
    assert all(f"{GETS} correct values" in output for _, output in outputs)
    assert server.poll() is None
    faults = major_faults(server) - before
    print(f"{faults} major faults of the server, group: {bool(group)}")
    # The kernel reads several pages for a fault: fewer faults than pages that do not fit.
    assert faults > GETS // 10
    if way == "network":  # where the owner of the memory counts
        assert job_counter(server.pid, "local_faults") > GETS // 10
    else:
        assert sum(waited(output) for _, output in outputs) > GETS // 10


@ways
def test_a_file_streams_through_slots(programs, way):
    # Longer than the slots, and no whole number of pieces.
    file = programs.folder / "file"
    file.write_bytes(os.urandom(5_000_001))
    for _ in range(4):
        done = subprocess.run([EXAMPLES / "stream", file], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, timeout=LIMIT,
                              env=programs.environment(WAYS[way]))
        assert done.returncode == 0 and done.stdout == file.read_bytes()


def test_a_consumer_says_that_the_producer_died(programs):
    consumer = programs.start("stream", "/dev/zero")
    producer = wait_until(lambda: children(consumer))[0]
    assert wait_until(lambda: job_counter(producer, "puts"))
    os.kill(producer, signal.SIGKILL)
    # Standard output is not read before: the pipe is full, and the consumer waits.
    status, output = programs.end(consumer)
    assert status == 1 and "the peer's process is gone" in output


def test_a_client_says_that_the_server_died(programs):
    store = programs.folder / "store"
    programs.run("keyvalue", "--make", store, 100)
    server, contact = serve(programs, store)
    client = programs.start("keyvalue", "--get", contact, 10**9)
    assert wait_until(lambda: job_counter(client.pid, "gets"))
    server.kill()
    status, output = programs.end(client)
    assert status == 1 and "pf_get: the peer's process is gone" in output


def test_mistakes_have_clear_errors(programs):
    missing = programs.folder / "missing"
    for command, error in (
            (("keyvalue", "--get", missing, 5), "missing is not the CONTACT of a server"),
            (("keyvalue", "--serve", missing, "x"), "cannot open .*missing: No such file"),
            (("keyvalue", "--make", missing / "x", 5), "cannot write .*: No such file"),
            (("keyvalue", "--make", missing, "no"), "^Usage: keyvalue"),
            (("keyvalue",), "^Usage: keyvalue"),
            (("first", missing), "Usage: first FILE: No such file"),
            (("stream", missing), "Usage: stream FILE: No such file"),
            (("workqueue", "2"), "^Usage: workqueue")):
        status, output = programs.run(*command)
        assert status == 1 and re.search(error, output)


@pytest.mark.parametrize("name", ["keyvalue", "workqueue"])
def test_help(programs, name):
    status, output = programs.run(name, "--help")
    assert status == 0 and output.startswith(f"Usage: {name} ")


def children(process):
    """Processes of the program: the script by which libtool runs it has children of its own before."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process.pid and (
                    EXAMPLES.resolve() in (stat.parent / "exe").resolve().parents):
                found.append(int(stat.parent.name))
        except OSError:  # it has ended
            pass
    return found


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def preload(programs, name):
    """A library made from NAME.c, as LD_PRELOAD has it."""
    library = programs.folder / f"{name}.so"
    command = [*shlex.split(CC), "-D_GNU_SOURCE", f"-I{TOP}/libpf/include", "-shared", "-fPIC",
               "-o", library, TOP / f"examples/tests/{name}.c"]
    if subprocess.run(command).returncode:
        pytest.skip("cannot compile a library to preload")
    return str(library)


@ways
def test_workers_count_primes(programs, way):
    assert programs.run("workqueue", 4, 300000, **WAYS[way]) == (0, "25997 primes below 300000\n")


@ways
def test_workers_that_die_are_reported_and_their_ranges_counted(programs, way):
    first = programs.start("workqueue", 4, 300000, LD_PRELOAD=preload(programs, "stop"),
                           **WAYS[way])
    try:
        # Each has taken a range. On a busy machine the first ones would else end the work before
        # the others are there.
        workers = wait_until(lambda: len(found := children(first)) == 4 and
                             all(map(is_stopped, found)) and found)
        assert workers
        for worker in workers[:2]:
            os.kill(worker, signal.SIGKILL)
    finally:
        # A stopped worker would keep the pipe of the output open.
        for worker in children(first):
            os.kill(worker, signal.SIGCONT)
    status, output = programs.end(first)
    assert status == 0 and "25997 primes below 300000" in output
    # A process of another host is known to be dead after a PING or peer_timeout: perhaps too late.
    lost = output.count("lost a worker: the peer's process is gone")
    assert output.count("lost a worker: ") == lost
    assert lost <= 2 if way == "network" else lost == 2


def test_workers_end_with_the_first_process(programs):
    first = programs.start("workqueue", 2, 10**8)
    workers = wait_until(lambda: len(found := children(first)) == 2 and found)
    assert wait_until(lambda: all(job_counter(worker, "atomics") for worker in workers))
    first.kill()
    # Its end is that of the last process that can write.
    _, output = programs.end(first)
    assert len(re.findall("pf_(?:atomic|send): the peer's process is gone", output)) == 2


def test_workers_wait_for_room(programs):
    assert programs.run("workqueue", 2, 100000, LD_PRELOAD=preload(programs, "again")) == (
        0, "9592 primes below 100000\n")


@pytest.mark.parametrize("name", ["keyvalue", "workqueue"])
def test_pkg_config_is_enough(programs, name):
    program = programs.folder / name
    # As in libpf(7).
    command = f'{CC} -Wall -Werror -o "$0" "$1" $(pkg-config --cflags --libs libpf)'
    subprocess.run(["sh", "-c", command, program, TOP / "examples" / f"{name}.c"], check=True,
                   env={**os.environ, "PKG_CONFIG_PATH": str(BUILD / "libpf")})
    assert subprocess.run([program, "--help"], capture_output=True).returncode == 0

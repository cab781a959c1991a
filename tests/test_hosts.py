# SPDX-License-Identifier: BSD-3-Clause
"""tests/hosts: several hosts on this machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from waiting import LIMIT, wait_until

HERE = Path(__file__).resolve().parent
SCRIPT = str(HERE / "hosts")
NAME = f"check-{os.getpid()}"
FOLDER = f"{os.environ.get('XDG_RUNTIME_DIR', '/tmp')}/exanest-hosts.{os.getuid()}"
os.environ["PATH"] += ":/usr/sbin:/sbin"


def hosts(*arguments, name=NAME, **variables):
    done = subprocess.run(
        [SCRIPT, *arguments], env={**os.environ, "EXANEST_HOSTS": name, **variables},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    print("hosts", *arguments, "\n", done.stdout, done.stderr, f"exit status {done.returncode}")
    return done


def output_of(*arguments, **variables):
    done = hosts(*arguments, **variables)
    assert done.returncode == 0
    return done.stdout


def refused(status, text, *arguments, **variables):
    done = hosts(*arguments, **variables)
    assert done.returncode == status and text in done.stdout + done.stderr


def links():
    shown = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True).stdout
    return {line.split()[0] for line in shown.splitlines()}


def processes(variable):
    """Processes of another network that have the variable in their environment."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                if os.readlink(process / "ns/net") != os.readlink("/proc/self/ns/net"):
                    yield int(process.name)
        except OSError:
            pass


def left(before):
    """What the machine has of the hosts."""
    state = f"{FOLDER}.{NAME}"
    found = [*processes(f"EXANEST_HOSTS_STATE={state}"), *(links() - before)]
    mounted = state in Path("/proc/self/mounts").read_text()
    return found + [state] * (os.path.lexists(state) or mounted)


def nothing_left(before):
    """It is gone within five seconds."""
    assert wait_until(lambda: not left(before), 5), left(before)


@pytest.fixture(scope="module", autouse=True)
def machine():
    """Its network before there were hosts."""
    before = links()
    done = hosts("up", "1")
    hosts("down")
    if done.returncode:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    return before


@pytest.fixture
def none(machine):
    """There are no hosts, before and after the test."""
    hosts("down")
    yield
    hosts("down")
    nothing_left(machine)


@pytest.fixture(scope="module")
def three(machine):
    """h0, h1 and h2. Tests restore the settings that they change."""
    hosts("down")
    assert hosts("up", "3").returncode == 0
    yield
    hosts("down")


@pytest.fixture
def settings(three):
    """settings(SETTING...) changes settings; the old ones come back."""
    yield lambda *settings: output_of("set", *settings)
    output_of(
        "set", "--mtu", "9000", "--rate", "0", "--loss", "0", "--mark", "0", "--duplicate", "0",
        "--reorder", "0", "--corrupt", "0", "--checksum", "off", "--link", "up")


@pytest.fixture
def traffic(tmp_path):
    def send(name=NAME, **given):
        """What h1 received of the packets that h0 sent to it."""
        ready, sent = tmp_path / "ready", tmp_path / "sent"
        ready.unlink(missing_ok=True)
        sent.unlink(missing_ok=True)
        given = {"version": 4, "count": 4000, "size": 1000, "net": 77, "burst": 1, **given}
        arguments = [f"{k}={v}" for k, v in {**given, "ready": ready, "sent": sent}.items()]
        program = [sys.executable, str(HERE / "traffic.py")]
        receiver = subprocess.Popen(
            [SCRIPT, "exec", "h1", *program, "receive", *arguments], stdout=subprocess.PIPE,
            env={**os.environ, "EXANEST_HOSTS": name})
        wait_until(ready.exists)
        hosts("exec", "h0", *program, "send", *arguments, name=name)
        sent.touch()
        counts = json.loads(receiver.communicate(timeout=LIMIT)[0])
        print(counts)
        return SimpleNamespace(**counts)

    return send


VERSIONS = pytest.mark.parametrize("version", [4, 6])


# ---- making hosts ----


def test_down_without_hosts(none):
    output_of("down")


def test_set_without_hosts_says_what_to_do(none):
    refused(1, "up 2", "set", "--loss", "1")


def test_names_stand_for_the_addresses_of_the_hosts(none):
    output_of("up", "11")
    names = output_of("exec", "h0", "sh", "-c", """
        for i in $(seq 0 10); do
            echo h$i $(getent ahosts h$i | cut -d ' ' -f 1 | sort -u)
        done""")
    for line in names.splitlines():
        host, *addresses = line.split()
        shown = output_of("exec", host, "ip", "-oneline", "address", "show", "dev", "eth0")
        assert len(addresses) == 2 and all(f" {address}/" in shown for address in addresses)


@pytest.mark.parametrize("kind", ["of another user", "link"])
def test_refuses_a_folder(none, tmp_path, kind):
    folder = f"{FOLDER}.{NAME}"
    if kind == "link":
        os.symlink(tmp_path, folder)
    elif os.getuid() == 0:
        os.mkdir(folder)
        os.chown(folder, 65534, -1)
    else:
        pytest.skip("needs root")
    try:
        refused(1, "not a folder of this user", "up", "1")
        refused(1, "not a folder of this user", "down")
    finally:
        os.unlink(folder) if kind == "link" else os.rmdir(folder)


def test_does_not_remove_a_folder_of_something_else(none):
    folder = Path(f"{FOLDER}.{NAME}")
    folder.mkdir()
    valuable = folder / "valuable"
    valuable.touch()
    try:
        refused(1, f"{folder} ", "down")
        assert valuable.exists()
    finally:
        shutil.rmtree(folder)


def test_refuses_a_name_that_is_a_path(none):
    refused(2, "EXANEST_HOSTS=../x", "up", "1", name="../x")


def test_language_that_is_not_installed(none):
    output_of("up", "1", LC_ALL="xx_YY.UTF-8")


def test_second_up_is_refused(three):
    refused(1, "already", "up", "2")


# ---- what a host has ----


@pytest.mark.parametrize("arguments, shown", [
    ("h2 hostname", "h2"),
    ("h1 ls /sys/class/net", "eth0\nlo"),
    ("h1 pwd", os.getcwd()),
    ("h0 printenv LC_ALL", "xx_YY"),
], ids=["name", "network", "current folder", "language of the user"])
def test_host_has(three, arguments, shown):
    assert output_of("exec", *arguments.split(), LC_ALL="xx_YY") == f"{shown}\n"


def test_files(three):
    output_of("exec", "h0", "sh", "-c", 'touch /dev/shm/of-h0 "$TMPDIR/of-h0"')
    assert output_of("exec", "h1", "sh", "-c", 'find /dev/shm "$TMPDIR" -name of-h0') == ""
    assert not os.path.exists("/dev/shm/of-h0")


def test_processes(three):
    # The first process of the host, its sleep, and those of this command.
    assert int(output_of("exec", "h1", "sh", "-c", "ls -d /proc/[0-9]* | wc -l")) <= 5


@pytest.mark.parametrize("text, arguments", [
    ("h0 h1 h2", "exec h7 true"),
    ("h0 h1 h2", "exec .. true"),
    ("one host", "exec h0,h1 true"),
    ("percentage", "set --loss 101"),
    ("100mbit", "set --rate fast"),
    ("500us", "set --queue long"),
    ("--speed", "set --speed 3"),
])
def test_refuses(three, text, arguments):
    refused(2, text, *arguments.split())


# ---- packets; random numbers are about six standard deviations from the limits ----


@VERSIONS
def test_packets_arrive(three, traffic, version):
    counts = traffic(version=version)
    assert counts.received == 4000
    assert counts.marks + counts.repeated + counts.late + counts.wrong == 0


def test_mtu(settings, traffic):
    assert traffic(size=8972, count=100).received == 100
    settings("--mtu", "1500")
    assert traffic(size=8972, count=100).received == 0
    assert traffic(size=1472, count=100).received == 100


@VERSIONS
def test_loss(settings, traffic, version):
    settings("--loss", "10")
    assert 3480 < traffic(version=version).received < 3720


def test_loss_of_one_host(settings, traffic):
    settings("--loss", "10")
    settings("--host", "h0,h2", "--loss", "0")
    assert 3480 < traffic().received < 3720
    settings("--host", "h1", "--loss", "0")
    assert traffic().received == 4000


@VERSIONS
def test_marks(settings, traffic, version):
    settings("--mark", "20")
    counts = traffic(version=version)
    assert counts.received == 4000 and 650 < counts.marks < 950


@pytest.fixture
def rewriting(settings):
    """Settings that need more of the kernel and of nft."""
    done = hosts("set", "--duplicate", "20")
    if done.returncode:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    output_of("set", "--duplicate", "0")
    return settings


@VERSIONS
def test_duplicates(rewriting, traffic, version):
    rewriting("--duplicate", "20")
    counts = traffic(version=version)
    # Copies may be copied: 0.2 + 0.04 + ... of 4000, with a standard deviation of 35.
    assert 790 < counts.repeated < 1210 and counts.wrong == 0
    assert counts.received == 4000 + counts.repeated


@VERSIONS
def test_reordering(rewriting, traffic, version):
    rewriting("--reorder", "20")
    counts = traffic(version=version, burst=20)
    assert counts.received == 4000 and 600 < counts.late < 920
    assert counts.repeated + counts.wrong == 0


@VERSIONS
def test_corruption(rewriting, traffic, version):
    rewriting("--corrupt", "20")
    counts = traffic(version=version)
    assert counts.received == 4000 and 650 < counts.wrong < 950


def test_verified_checksums_drop_corrupted_packets(rewriting, traffic):
    rewriting("--corrupt", "20", "--checksum", "on")
    counts = traffic()
    assert 3050 < counts.received < 3350 and counts.wrong == 0


def test_settings_end(rewriting, traffic):
    rewriting("--duplicate", "20", "--reorder", "20", "--corrupt", "20", "--checksum", "on")
    rewriting("--duplicate", "0", "--reorder", "0", "--corrupt", "0", "--checksum", "off")
    counts = traffic(burst=20)
    assert counts.received == 4000 and counts.repeated + counts.late + counts.wrong == 0


def test_rate(settings, traffic):
    settings("--rate", "20mbit")
    counts = traffic(count=1000)
    # 1 MB takes 0.4 s, less what the queues hold at first.
    assert counts.received > 200 and counts.seconds > counts.received * 8.2e3 / 20e6 - 0.1


def test_link(settings, traffic):
    settings("--host", "h1", "--link", "down")
    assert traffic(count=10).received == 0
    settings("--host", "h1", "--link", "up")
    assert traffic().received == 4000


def test_two_sets_of_hosts_and_two_cables(three, traffic):
    other = f"{NAME}-other"
    try:
        output_of("up", "2", "--cables", "2", name=other)
        assert traffic(name=other, net=78).received == 4000
        output_of("set", "--loss", "10", name=other)
        assert 3480 < traffic(name=other, net=78).received < 3720
        assert output_of("status").count("mtu") == 3
        assert traffic().received == 4000
    finally:
        hosts("down", name=other)


# ---- run ----


needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun")


@needs_mpirun
@pytest.mark.parametrize("arguments, names", [
    ("-n 5", "h0 h0 h1 h1 h2"),
    ("--host h2,h0", "h0 h2"),
])
def test_run_places_ranks(three, arguments, names):
    shown = output_of("run", *arguments.split(), "hostname")
    assert sorted(shown.split()) == names.split()


@needs_mpirun
def test_run_returns_the_status(three):
    refused(3, "", "run", "sh", "-c", "exit 3")


def command_lines():
    """The words of each process of this machine."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_text(errors="replace").split("\0")[:-1]
        except OSError:
            pass  # it has ended


@needs_mpirun
def test_run_that_is_stopped_leaves_no_process(three):
    command = ["sleep", f"300.{os.getpid()}"]

    def running(number):
        return wait_until(lambda: list(command_lines()).count(command) == number)

    process = subprocess.Popen(
        [SCRIPT, "run", "-n", "4", *command], env={**os.environ, "EXANEST_HOSTS": NAME},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert running(4)
    process.terminate()
    assert process.wait(timeout=LIMIT) == 130
    assert running(0)


# ---- nothing is left behind: see the fixture "none" ----


def test_down(none, machine):
    output_of("up", "3")
    output_of("down")
    nothing_left(machine)


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_interrupted_up(none, machine, number, seconds):
    process = subprocess.Popen(
        [SCRIPT, "up", "4"], env={**os.environ, "EXANEST_HOSTS": NAME},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(number)
    status = process.wait(timeout=LIMIT)
    # It tidies up by itself, unless it was killed, or had finished.
    if number == signal.SIGKILL or status == 0:
        hosts("down")
    nothing_left(machine)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_without_root(machine):
    user = [
        "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "-u",
        "XDG_RUNTIME_DIR", "TMPDIR=/tmp", "HOME=/", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"]
    for command in ["cat", __file__], ["unshare", "--user", "--map-root-user", "--net", "true"]:
        done = subprocess.run([*user, *command], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(done.stderr.strip().splitlines()[-1])
    # What needs the user's own namespaces or permissions; --full: everything.
    some = [] if os.environ.get("EXANEST_TEST_FULL") else [
        "-k", "test_files or test_processes or test_packets or test_loss or test_settings "
        "or test_run or test_down"]
    done = subprocess.run(
        [*user, HERE / "run-pytest", __file__, *some], cwd="/", capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    skipped = [line for line in done.stdout.splitlines() if "# SKIP" in line]
    assert all("needs root" in line for line in skipped)

# SPDX-License-Identifier: BSD-3-Clause
"""pf_perf --listen and --connect: two processes that did not start each other."""

import signal

import pytest

from waiting import LIMIT, wait_until


class Listener:
    def __init__(self, tools):
        self.address = tools.folder / "address"
        self.process = tools.start(
            "pf_perf", "--listen", str(self.address), "--cores", "none", output="listener")

    def end(self):
        """Its exit status and output; the address is gone."""
        status = self.process.wait(timeout=LIMIT)
        print(output := self.process.output.read_text())
        return status, output

    def connect(self, tools, *arguments):
        """A caller that runs until it is killed; returns while it measures."""
        caller = tools.start(
            "pf_perf", "--connect", str(self.address), "--cores", "none", "--test",
            "put-bandwidth", "--sizes", "1M", "--seconds", "20", output="caller")
        assert wait_until(lambda: caller.output.stat().st_size)
        return caller


@pytest.fixture
def listener(tools):
    return Listener(tools)


# The caller waits for the file with the address.
def test_connect(tools, listener):
    done = tools.run(
        "pf_perf", "--connect", str(listener.address), "--cores", "none", "--sizes", "8:64K",
        "--iterations", "50", "--verify")
    assert done.returncode == 0 and "contents ok" in done.stdout
    assert listener.end()[0] == 0 and not listener.address.exists()


def test_only_its_user_can_read_the_address_and_a_signal_ends_it(listener):
    assert wait_until(listener.address.exists)
    assert listener.address.stat().st_mode & 0o777 == 0o600
    listener.process.terminate()
    assert listener.end()[0] == 0 and not listener.address.exists()


def test_listener_ends_when_its_caller_is_killed(tools, listener):
    listener.connect(tools).kill()
    status, output = listener.end()
    assert status == 1 and "pf_perf: the partner stops" in output and not listener.address.exists()


def test_caller_ends_when_its_listener_is_killed(tools, listener):
    caller = listener.connect(tools)
    listener.process.kill()
    assert caller.wait(timeout=LIMIT) == 1
    assert "the peer's process is gone" in caller.output.read_text()


def test_tells_that_the_partner_does_not_answer(tools, listener):
    assert wait_until(listener.address.exists)
    listener.process.send_signal(signal.SIGSTOP)
    caller = tools.start(
        "pf_perf", "--connect", str(listener.address), "--cores", "none", output="caller",
        LIBPF_NETWORK="always", LIBPF_CONTACT_TIMEOUT="1")
    assert wait_until(lambda: "pf_perf: warning: no answer" in caller.output.read_text())
    assert caller.poll() is None


def test_does_not_overwrite_a_file(tools):
    file = tools.folder / "file"
    file.write_text("mine")
    done = tools.run("pf_perf", "--listen", str(file))
    assert done.returncode == 1 and f"{file} exists" in done.stderr and file.read_text() == "mine"


@pytest.mark.parametrize("mode, contents, text", [
    (0o644, "", "mode 644"),
    (0o600, "hello\n", "not an address file"),
    (0o600, "# libpf address 1\nabc", "not an address file"),
    (0o600, "# libpf address 1\nabcdef\n", "cannot be reached"),
], ids=["others can read it", "another file", "half an address", "not an address of libpf"])
def test_refuses_the_address(tools, mode, contents, text):
    file = tools.folder / "file"
    file.write_text(contents)
    file.chmod(mode)
    done = tools.run("pf_perf", "--connect", str(file))
    assert done.returncode == 1 and text in done.stderr

# SPDX-License-Identifier: BSD-3-Clause
"""pf_info and pf_perf say what the network options do here, and reject those that cannot work."""

import json

import pytest

MALFORMED = [
    ("LIBPF_IF_INCLUDE", "10.0.0.0/99", "10.0.0.0/99"),
    ("LIBPF_IF_INCLUDE", "lo, fd00::/129 ,eth0", "fd00::/129"),
    ("LIBPF_IF_EXCLUDE", "eth0/8", "eth0/8"),
]


def paths(tools, **variables):
    result = tools.run("pf_info", "--json", "--paths", "--capabilities", **variables)
    assert result.returncode == 0, result.stderr
    info = json.loads(result.stdout)
    return info["paths"], {entry["name"]: entry for entry in info["capabilities"]}


def measure(tools, **variables):
    return tools.run("pf_perf", "--test", "put-latency", "--sizes", "8", "--iterations", "10",
                     "--repetitions", "1", **variables)


def test_other_hosts_are_reached_over_the_interfaces(tools):
    shown, capabilities = paths(tools, LIBPF_IF_INCLUDE="lo")
    assert capabilities["network"]["available"]
    assert "UDP packets, over lo 127.0.0.1" in shown["other hosts"]
    assert "shared memory" in shown["messages"]


def test_other_hosts_are_not_reachable_when_the_network_is_off(tools):
    shown, capabilities = paths(tools, LIBPF_NETWORK="off")
    assert not capabilities["network"]["available"]
    assert shown["other hosts"] == "not reachable: the option network is off"


def test_other_hosts_are_not_reachable_without_an_interface(tools):
    shown, _ = paths(tools, LIBPF_IF_INCLUDE="nosuch0")
    assert shown["other hosts"].startswith("not reachable: ")
    assert "if_include" in shown["other hosts"]


def test_always_replaces_the_paths_on_this_host(tools):
    shown, _ = paths(tools, LIBPF_NETWORK="always", LIBPF_IF_INCLUDE="lo")
    assert "UDP packets" in shown["this host"]
    assert not {"messages", "transfers", "short transfers", "atomics"} & set(shown)


def test_always_is_measured_over_the_network(tools):
    result = measure(tools, LIBPF_NETWORK="always", LIBPF_IF_INCLUDE="lo")
    assert result.returncode == 0, result.stderr
    assert "# transfers: packets over the network" in result.stdout


def test_always_without_an_interface_is_an_error(tools):
    result = measure(tools, LIBPF_NETWORK="always", LIBPF_IF_INCLUDE="nosuch0")
    assert result.returncode == 1
    assert "LIBPF_NETWORK=always" in result.stderr and "if_include" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("tool", ["pf_info", "pf_perf"])
@pytest.mark.parametrize("variable, value, element", MALFORMED)
def test_a_malformed_list_of_interfaces_is_an_error(tools, tool, variable, value, element):
    arguments = ["--test", "put-latency", "--sizes", "8"] if tool == "pf_perf" else ["--paths"]
    result = tools.run(tool, *arguments, **{variable: value})
    assert result.returncode == 1
    assert f"{variable}={value} is invalid" in result.stderr
    assert element in result.stderr
    if tool == "pf_info":
        assert element in result.stdout

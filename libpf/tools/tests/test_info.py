# SPDX-License-Identifier: BSD-3-Clause
"""What pf_info shows of this machine and of the options."""

import json
import re
from pathlib import Path

from conftest import has

TEXTS = {"if_include", "if_exclude"}


def live(tools, path, *command, **variables):
    done = tools.run(*command, "pf_info", "--live", **variables)
    assert done.returncode == 0 and "contents verified" in done.stdout
    assert has(f"^  path  *{path}", done.stdout)


def test_everything(tools):
    done = tools.run("pf_info")
    assert done.returncode == 0 and not has("^Live", done.stdout)
    assert has("^  Open MPI  .*smsc_exanest_priority = 40", done.stdout)
    for title in "Capabilities", "Permission", "Paths", "Options", "Calibration", "Topology", "Page sizes":
        assert has(f"^{title}", done.stdout)


def test_options_have_ranges_variables_and_defaults(tools):
    done = tools.run("pf_info", "--options")
    assert done.returncode == 0 and has("^  eager_limit .* default", done.stdout)
    assert "LIBPF_EAGER_LIMIT, from 64 to 16M" in done.stdout


def test_values_from_the_environment(tools):
    shown = tools.run("pf_info", "--options", LIBPF_EAGER_LIMIT="3K").stdout
    assert has("^  eager_limit  *3K  *environment", shown)
    assert has("^  share_min .* default", shown)
    shown = tools.run("pf_info", "--options", LIBPF_NETWORK="always", LIBPF_POLICY="2").stdout
    assert has("^  network  *always  *environment", shown)
    assert has("^  policy  *huge  *environment", shown)


def test_live(tools):
    live(tools, "")


def test_live_without_single_copy(tools):
    live(tools, "through the ring: single_copy is 0", LIBPF_SINGLE_COPY="0")


def test_json(tools):
    done = tools.run("pf_info", "--json", "--options", "--capabilities", "--topology", "--live")
    assert done.returncode == 0
    info = json.loads(done.stdout)
    options = {option["name"]: option for option in info["options"]}
    assert options["eager_limit"]["variable"] == "LIBPF_EAGER_LIMIT"
    assert options["if_include"]["variable"] == "LIBPF_IF_INCLUDE"
    assert options["policy"]["value"] == "adaptive" and "touch" in options["policy"]["names"]
    for name, option in options.items():
        if name in TEXTS:
            assert isinstance(option["value"], str)
        elif "names" in option:
            assert option["value"] in option["names"]
        else:
            assert option["minimum"] <= option["value"] <= option["maximum"]
    assert any(capability["name"] == "single copy" for capability in info["capabilities"])
    assert info["topology"]["cores"] >= 1
    names = [distance["name"] for distance in info["topology"]["distances"]]
    order = ["same_core", "shared_cache", "same_node", "other_node"]
    assert names == [name for name in order if name in names]
    assert info["topology"]["bound_to"]
    assert info["live"]["bytes_each_way"] > 0


def test_pages(tools):
    done = tools.run("pf_info", "--pages", "--json")
    assert done.returncode == 0
    pages = json.loads(done.stdout)["pages"]
    assert re.fullmatch(r"\d+ KiB", pages["base pages"])
    costs = [float(cost) for cost in re.findall(r"([\d.]+) us in", pages["first touch"])]
    assert costs and all(0 < cost < 1e6 for cost in costs)
    enabled = Path("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled")
    if enabled.exists() and "[always]" in enabled.read_text():
        assert "64 KiB always" in pages["large folios"] and "large folios" in pages["first touch"]


def test_single_copy_forbidden(tools, deny_cma):
    done = tools.run(deny_cma, "pf_info")
    assert done.returncode == 0
    assert has("^  single copy  *no  *process_vm_readv", done.stdout)
    assert has("^  seccomp  *a filter, which may forbid", done.stdout)
    assert has("^  transfers  *through the ring: single copy is not available", done.stdout)
    assert has("^  look-up and copy  *64 KiB by single copy: not permitted here", done.stdout)


def test_live_single_copy_forbidden(tools, deny_cma):
    live(tools, "through the ring: process_vm_readv is not permitted", deny_cma)

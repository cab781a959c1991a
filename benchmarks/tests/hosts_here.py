# SPDX-License-Identifier: BSD-3-Clause
"""Whether tests/hosts can make hosts here."""

import functools
import os
import subprocess
from pathlib import Path

HOSTS = Path(__file__).resolve().parents[2] / "tests" / "hosts"


@functools.lru_cache(maxsize=None)
def hosts_obstacle():
    """Why there can be no hosts here; empty if there can."""
    env = {**os.environ, "EXANEST_HOSTS": f"readme-{os.getpid()}"}
    done = subprocess.run([HOSTS, "up", "1"], env=env, capture_output=True, text=True)
    subprocess.run([HOSTS, "down"], env=env, check=True)
    return done.stderr.strip() if done.returncode else ""

# SPDX-License-Identifier: BSD-3-Clause
"""For tests that wait for another process."""
import os
import time

# Multiplies the limits of time.
PATIENCE = int(os.environ.get("EXANEST_TEST_PATIENCE", 1))
LIMIT = 120 * PATIENCE  # s, for a command that does not hang


def wait_until(condition, seconds=20):
    """What the condition returns when it is true, or after these seconds, times PATIENCE."""
    end = time.monotonic() + seconds * PATIENCE
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value

# SPDX-License-Identifier: BSD-3-Clause
"""For tests that wait for another process."""
import time


def wait_until(condition, seconds=20):
    """What the condition returns when it is true, or after these seconds."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return value

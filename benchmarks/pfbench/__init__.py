# SPDX-License-Identifier: BSD-3-Clause
"""The commands in benchmarks/, and what they share."""

import sys

if sys.version_info < (3, 9):
    sys.exit("benchmarks: Python 3.9 or later is required")

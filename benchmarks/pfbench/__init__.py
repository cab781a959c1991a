# SPDX-License-Identifier: BSD-3-Clause
"""The runner of compare, faults and fairness."""

import sys

if sys.version_info < (3, 9):
    sys.exit("benchmarks: Python 3.9 or later is required")

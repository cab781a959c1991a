# SPDX-License-Identifier: BSD-3-Clause
"""The comparison runner behind benchmarks/compare."""

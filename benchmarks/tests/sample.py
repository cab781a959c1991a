# SPDX-License-Identifier: BSD-3-Clause
"""Results made up for the tests."""

from pfbench.results import Results, Sample


def results(measure, values):
    """values: transport -> size -> list of one value for each repetition"""
    made = Results(values)
    for transport, sizes in values.items():
        for size, repetitions in sizes.items():
            for index, value in enumerate(repetitions):
                made.add(Sample(measure, transport, size, index, value))
    return made

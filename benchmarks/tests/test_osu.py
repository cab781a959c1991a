# SPDX-License-Identifier: BSD-3-Clause
import pytest

from pfbench import osu
from pfbench.measures import FILE_WAITS

LATENCY = """\
# OSU MPI Latency Test v5.7
# Size          Latency (us)
1                       0.21
2                       0.22
4096                    2.26
"""
OSU_7 = """\
# OSU MPI Bandwidth Test v7.4
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)        Validation
1                       7.59              Pass
2                      14.52              Pass
"""
RATE = """\
# OSU MPI Multiple Bandwidth / Message Rate Test v5.7
# [ pairs: 1 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1                       6.39        6385003.80
"""
BARRIER = """\
# OSU MPI Barrier Latency Test v5.8
# Avg Latency(us)
             8.32
"""


def test_sizes_and_values():
    rows = osu.parse(LATENCY, {"latency": 1})
    assert rows == {1: {"latency": 0.21}, 2: {"latency": 0.22}, 4096: {"latency": 2.26}}


def test_headers_of_osu_7():
    assert osu.parse(OSU_7, {"bw": 1})[2] == {"bw": 14.52}


def test_several_columns():
    rows = osu.parse(RATE, {"bandwidth": 1, "rate": 2})
    assert rows == {1: {"bandwidth": 6.39, "rate": 6385003.80}}


def test_without_sizes():
    rows = osu.parse(BARRIER, {"barrier": 0}, sized=False)
    assert rows == {osu.NO_SIZE: {"barrier": 8.32}}


def test_warnings_in_between():
    text = LATENCY.replace("2  ", "[host:1] some warning\nWARNING: 3 of 4\n2  ", 1)
    assert len(osu.parse(text, {"latency": 1})) == 3


UNUSABLE = {
    "no rows": ("# OSU MPI Latency Test\n", 1, "no results"),
    "no column": ("1  7.5\n", 2, "column 3"),
    "incomplete line": (LATENCY + "8192\n", 1, "column 2"),
    "wrong contents": (OSU_7.replace("Pass", "Fail"), 1, "validation"),
    "zero": ("1  0.00\n", 1, "impossible"),
    "negative": ("1  -1\n", 1, "impossible"),
    "nan": ("1  nan\n", 1, "impossible"),
    "inf": ("1  inf\n", 1, "impossible"),
    "no size": ("1.5  2\n", 1, "invalid size"),
}


@pytest.mark.parametrize("text, column, reason", UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_output(text, column, reason):
    with pytest.raises(osu.OutputError, match=reason):
        osu.parse(text, {"latency": column})


def test_a_count_may_be_zero():
    assert osu.parse("1  0.0\n", {FILE_WAITS: 1}) == {1: {FILE_WAITS: 0.0}}


def test_all_sizes_present():
    osu.check_sizes({1: {}, 2: {}}, [1, 2])


def test_output_that_ends_early():
    with pytest.raises(osu.OutputError, match="size 4"):
        osu.check_sizes({1: {}, 2: {}}, [1, 2, 4, 8])

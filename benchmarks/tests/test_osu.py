# SPDX-License-Identifier: BSD-3-Clause
import pytest

from pfbench import osu

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


@pytest.mark.parametrize(
    "text, columns, reason",
    [
        ("# OSU MPI Latency Test\n", {"latency": 1}, "no results"),
        ("1  7.5\n", {"cpu": 2}, "column 3"),
        (LATENCY + "8192\n", {"latency": 1}, "column 2"),
        (OSU_7.replace("Pass", "Fail"), {"bw": 1}, "validation"),
        ("1  0.00\n", {"latency": 1}, "impossible"),
        ("1  -1\n", {"latency": 1}, "impossible"),
        ("1  nan\n", {"latency": 1}, "impossible"),
        ("1  inf\n", {"latency": 1}, "impossible"),
        ("1.5  2\n", {"latency": 1}, "invalid size"),
    ],
)
def test_unusable_output(text, columns, reason):
    with pytest.raises(osu.OutputError, match=reason):
        osu.parse(text, columns)


def test_all_sizes_present():
    osu.check_sizes({1: {}, 2: {}}, [1, 2])


def test_output_that_ends_early():
    with pytest.raises(osu.OutputError, match="size 4"):
        osu.check_sizes({1: {}, 2: {}}, [1, 2, 4, 8])

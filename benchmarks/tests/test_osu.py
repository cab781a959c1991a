# SPDX-License-Identifier: BSD-3-Clause
import unittest

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


class Parse(unittest.TestCase):
    def test_sizes_and_values(self):
        rows = osu.parse(LATENCY, {"latency": 1})
        self.assertEqual(
            rows, {1: {"latency": 0.21}, 2: {"latency": 0.22}, 4096: {"latency": 2.26}}
        )

    def test_headers_of_osu_7(self):
        self.assertEqual(osu.parse(OSU_7, {"bw": 1})[2], {"bw": 14.52})

    def test_several_columns(self):
        rows = osu.parse(RATE, {"bandwidth": 1, "rate": 2})
        self.assertEqual(rows, {1: {"bandwidth": 6.39, "rate": 6385003.80}})

    def test_without_sizes(self):
        rows = osu.parse(BARRIER, {"barrier": 0}, sized=False)
        self.assertEqual(rows, {osu.NO_SIZE: {"barrier": 8.32}})

    def test_warnings_in_between(self):
        text = LATENCY.replace("2  ", "[host:1] some warning\nWARNING: 3 of 4\n2  ", 1)
        self.assertEqual(len(osu.parse(text, {"latency": 1})), 3)

    def test_no_results(self):
        with self.assertRaisesRegex(osu.OutputError, "no results"):
            osu.parse("# OSU MPI Latency Test\n", {"latency": 1})

    def test_missing_column(self):
        with self.assertRaisesRegex(osu.OutputError, "column 3"):
            osu.parse("1  7.5\n", {"cpu": 2})

    def test_a_line_cut_off(self):
        with self.assertRaises(osu.OutputError):
            osu.parse(LATENCY + "8192\n", {"latency": 1})

    def test_failed_validation(self):
        with self.assertRaisesRegex(osu.OutputError, "validation"):
            osu.parse(OSU_7.replace("Pass", "Fail"), {"bw": 1})

    def test_impossible_values(self):
        for value in ("0.00", "-1", "nan", "inf"):
            with self.subTest(value), self.assertRaises(osu.OutputError):
                osu.parse(f"1  {value}\n", {"latency": 1})


class CheckSizes(unittest.TestCase):
    def test_all_there(self):
        osu.check_sizes({1: {}, 2: {}}, [1, 2])

    def test_output_that_ends_early(self):
        with self.assertRaisesRegex(osu.OutputError, "size 4"):
            osu.check_sizes({1: {}, 2: {}}, [1, 2, 4, 8])


if __name__ == "__main__":
    unittest.main()

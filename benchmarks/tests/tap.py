# SPDX-License-Identifier: BSD-3-Clause
"""Runs the unit tests of this folder and prints TAP."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


class TapResult(unittest.TestResult):
    def _line(self, ok: bool, test: unittest.TestCase, note: str = "") -> None:
        word = "ok" if ok else "not ok"
        name = test.id().replace("#", "")
        print(f"{word} {self.testsRun} - {name}{note}", flush=True)

    def _trouble(self, test: unittest.TestCase, error) -> None:
        self._line(False, test)
        for line in self._exc_info_to_string(error, test).splitlines():
            print(f"# {line}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(True, test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(True, test, f" # SKIP {reason}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._trouble(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._trouble(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._trouble(subtest, err)


def main() -> int:
    sys.path.insert(0, str(HERE.parent))
    suite = unittest.defaultTestLoader.discover(str(HERE), top_level_dir=str(HERE))
    print(f"1..{suite.countTestCases()}")
    result = TapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

"""The closing line of tools/dev test counts test cases truthfully, whoever ran them."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "dev.d"))
from counts import Counts, of_junit, of_meson_test, said_by_program  # noqa: E402

DOCTEST = "[doctest] test cases:  7 |  6 passed | 1 failed | 0 skipped\n[doctest] assertions: 9"
TAP = "1..3\nok 1 - a\nnot ok 2 - b\n#   why\nok 3 - c # SKIP no GPU\n"
UNITTEST = "..s\n----\nRan 5 tests in 0.003s\n\nFAILED (failures=1, errors=1, skipped=1)\n"


def record(result: str, stdout: str = "", stderr: str = "") -> dict:
    return {"name": "x", "result": result, "stdout": stdout, "stderr": stderr}


class ReadingRunners(unittest.TestCase):
    def test_doctest_counts_its_cases(self):
        self.assertEqual(said_by_program(DOCTEST), Counts(6, 1, 0))

    def test_doctest_in_colour_counts_the_same(self):
        coloured = DOCTEST.replace("[doctest]", "\x1b[0;36m[doctest]\x1b[0m")
        self.assertEqual(said_by_program(coloured), Counts(6, 1, 0))

    def test_tap_counts_its_points(self):
        self.assertEqual(said_by_program(TAP), Counts(1, 1, 1))

    def test_unittest_counts_its_methods(self):
        self.assertEqual(said_by_program(UNITTEST), Counts(2, 2, 1))
        self.assertEqual(said_by_program("Ran 3 tests in 0.1s\n\nOK\n"), Counts(3, 0, 0))

    def test_a_program_that_says_nothing_says_nothing(self):
        self.assertIsNone(said_by_program("all is well\n"))


class ReadingMeson(unittest.TestCase):
    def test_a_silent_program_counts_as_one(self):
        self.assertEqual(of_meson_test(record("OK")), Counts(1, 0, 0))

    def test_a_skipped_program_is_not_passed(self):
        self.assertEqual(of_meson_test(record("SKIP", DOCTEST)), Counts(0, 0, 1))

    def test_a_crash_counts_as_a_failure(self):
        for result in ("FAIL", "TIMEOUT", "INTERRUPT", "ERROR", "UNEXPECTEDPASS"):
            self.assertEqual(of_meson_test(record(result, "half a line")), Counts(0, 1, 0))

    def test_a_bad_exit_after_good_cases_counts_as_a_failure(self):
        clean = DOCTEST.replace("6 passed | 1 failed", "7 passed | 0 failed")
        self.assertEqual(of_meson_test(record("FAIL", clean, "LeakSanitizer")), Counts(7, 1, 0))

    def test_a_failed_case_is_not_counted_twice(self):
        self.assertEqual(of_meson_test(record("FAIL", DOCTEST)), Counts(6, 1, 0))


class ReadingPytest(unittest.TestCase):
    def test_errors_in_set_up_are_failures(self):
        text = ('<testsuites><testsuite tests="6" failures="1" errors="2" skipped="1"/>'
                "</testsuites>")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "junit.xml"
            path.write_text(text)
            self.assertEqual(of_junit(path), Counts(2, 3, 1))


if __name__ == "__main__":
    unittest.main()

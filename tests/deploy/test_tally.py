"""scripts/tally: what it counts, and what it says of tests that were tried again."""

import subprocess

import pytest

from harness import ROOT

OF_ANOTHER = "<error message='failed on teardown with why'>AddressSanitizer</error>"
PASSED, FAILED, SKIPPED = "", "<failure message='why'>where</failure>", "<skipped message='because'/>"


@pytest.fixture
def logs(tmp_path):
    (tmp_path / "expected").write_text("# a comment\none test_s no reason\n")

    def lane(name, code, **outcomes):
        (tmp_path / f"{name}.status").write_text(f"{code}\n")
        if outcomes:
            results(name, **outcomes)

    def results(name, **outcomes):
        cases = "".join(f"<testcase classname='tests.api.test_x' name='{test}'>{outcome}</testcase>" for test, outcome in outcomes.items())
        (tmp_path / f"{name}.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")

    lane.results = results
    lane.directory = tmp_path
    return lane


def tally(logs, strict=True):
    """-> (exit code, lines)"""
    done = subprocess.run([ROOT / "scripts/tally", logs.directory, logs.directory / "expected"], capture_output=True, text=True,
                          env={"CI": "true"} if strict else {})
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_counts(logs):
    logs("one", 0, test_a=PASSED, test_s=SKIPPED)
    logs("two", 0)
    assert tally(logs) == (0, ["2 passed, 0 failed, 1 skipped"])
    logs("two", 3)
    code, lines = tally(logs)
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 1 skipped"


def test_a_skip_that_was_not_expected(logs):
    logs("two", 0, test_s=SKIPPED)
    assert tally(logs)[0] == 1 and tally(logs, strict=False)[0] == 0


def test_what_passes_again_is_told(logs):
    logs("one", 1, test_a=PASSED, test_b=FAILED, test_c=FAILED)
    listed = subprocess.run([ROOT / "scripts/tally", "--failed", logs.directory / "one.xml"], capture_output=True, text=True, check=True)
    assert listed.stdout == "tests/api/test_x.py::test_b\ntests/api/test_x.py::test_c\n"
    logs.results("one.again", test_b=PASSED, test_c=FAILED)
    code, lines = tally(logs)
    assert code == 1 and lines[-1] == "2 passed, 1 failed, 0 skipped"
    assert any("test_b: failed, and passed when it was tried again" in line for line in lines)
    assert any("test_c: FAILED" in line for line in lines)
    logs.results("one.again", test_b=PASSED, test_c=PASSED)
    assert tally(logs)[0] == 0


def test_what_may_be_of_another_test_stays_failed(logs):
    logs("one", 1, test_a=OF_ANOTHER)
    listed = subprocess.run([ROOT / "scripts/tally", "--failed", logs.directory / "one.xml"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    logs.results("one.again", test_a=PASSED)
    assert tally(logs)[0] == 1


def test_a_lane_that_was_interrupted_stays_failed(logs):
    logs("one", 2, test_a=FAILED)
    logs.results("one.again", test_a=PASSED)
    code, lines = tally(logs)
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_lane_that_fails_without_a_failed_test_stays_failed(logs):
    logs("one", 1, test_a=PASSED)
    logs.results("one.again", test_a=PASSED)
    code, lines = tally(logs)
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"

"""scripts/tally: what it counts, and what it shows."""

import subprocess

import pytest

from harness import ROOT

PASSED, FAILED, SKIPPED = "", "<failure message='why'>where</failure>", "<skipped message='because'/>"


@pytest.fixture
def logs(tmp_path):
    (tmp_path / "expected").write_text("# a comment\none test_s no reason\n")

    def lane(name, code, **outcomes):
        (tmp_path / f"{name}.status").write_text(f"{code}\n")
        if outcomes:
            cases = "".join(f"<testcase classname='tests.api.test_x' name='{test}'>{outcome}</testcase>" for test, outcome in outcomes.items())
            (tmp_path / f"{name}.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")

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


def test_a_failed_test_is_shown(logs):
    logs("one", 1, test_a=PASSED, test_b=FAILED)
    code, lines = tally(logs)
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"
    assert any("test_b: FAILED" in line for line in lines)


def test_a_lane_that_was_interrupted_is_a_failure_of_its_own(logs):
    logs("one", 2, test_a=FAILED)
    code, lines = tally(logs)
    assert code == 1 and lines[-1] == "0 passed, 2 failed, 0 skipped"


def test_a_lane_that_fails_without_a_failed_test_is_a_failure(logs):
    logs("one", 1, test_a=PASSED)
    code, lines = tally(logs)
    assert code == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"

"""What the fault tests have tried is told at the end, whatever the verbosity."""

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

TRIED = Counter()


@pytest.fixture
def tried():
    """tried[OUTCOME] += 1"""
    return TRIED


def pytest_terminal_summary(terminalreporter):
    if TRIED:
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in TRIED.most_common())
        terminalreporter.write_line(f"faults: {sum(TRIED.values())} tried: {outcomes}")

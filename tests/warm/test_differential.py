"""Every program of the corpus behaves the same, whether it gets an interpreter of its own or one that was started before.

On this host, in no jail: /usr/bin/python3.11 against the template program with a stand-in for its jails, once with streams
that are buffered, once without. Through a server: one that starts an interpreter for every job against one with parked
jails."""

import re
from dataclasses import astuple, replace

import pytest

from harness import BUILD, ROOT, Server, wait_for
from program import PROGRAMS
from template import Host, Outcome

STANDIN = BUILD / "tests/warm/immure-python3.11"
POLICY = (ROOT / "config/policies/python.textproto").read_text()
PRELOAD = re.findall(r'"([^"]+)"', re.search(r"^preload: \[(.*?)\]", POLICY, re.M | re.S)[1])
SHIPPED = (ROOT / "config/server.textproto").read_text()
NAMES = [program.name for program in PROGRAMS]


def rub_out(pattern, replacement=b"..."):
    """Both outcomes are compared without what the pattern matches."""
    return lambda outcome: Outcome(*(re.sub(pattern, replacement, text) for text in (outcome.stdout, outcome.stderr)), outcome.code)


def sort_lines(outcome):
    return replace(outcome, stdout=b"".join(sorted(outcome.stdout.splitlines(True))))


# What differs, and why it may.
PERMITTED = {
    # Imported modules are seen to be imported. Hiding them would cost each job its gain.
    "finds_modules_not_imported_yet": rub_out(rb"True|False"),
    # Modules that the template has imported have registered theirs.
    "finds_number_of_exit_callbacks": rub_out(rb"\d+"),
    # What the template has made is out of the collector's sight: the collector would copy every page of it.
    "finds_collector_frozen_objects": rub_out(rb"True|False"),
    # A module that is imported already is not looked for again, although the program has just made a file of that name.
    "library_import_by_name_of_library_made_at_run_time": rub_out(rb".*"),
    # At the end modules go in the order of their import, which for these was the template's.
    "end_del_of_attributes_of_library_modules": sort_lines,
    # What the collector finds goes in an order that depends on when it ran, to the single allocation.
    "end_del_in_several_modules": sort_lines,
}

# Differs from run to run anyway.
ADDRESS = rub_out(rb"0x[0-9a-f]{8,16}", b"0x...")


def assert_same(program, first, second):
    permitted = PERMITTED.get(program.name, lambda outcome: outcome)
    assert astuple(permitted(ADDRESS(first))) == astuple(permitted(ADDRESS(second)))


@pytest.fixture(scope="module", params=["buffered", "unbuffered"])
def host(request, tmp_path_factory):
    environment = {"PYTHONUNBUFFERED": "1"} if request.param == "unbuffered" else {}
    made = Host(STANDIN, PRELOAD, tmp_path_factory.mktemp("host"), **environment)
    yield made
    made.close()


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_on_this_host(host, program):
    assert_same(program, host.warm(program), host.bare(program))


WHO = b"import os\nprint(os.readlink('/proc/self/exe'))"


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_runs_in_the_started_interpreter(host, program):
    """Or, where the program asks for what that cannot become, in one of its own."""
    outcome = host.warm(replace(program, code=WHO, stdin=b"", merged=False))
    assert outcome.stdout.decode().splitlines()[-1] == ("/usr/bin/python3.11" if program.fresh else str(STANDIN))

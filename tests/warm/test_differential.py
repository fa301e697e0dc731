"""Every program of the corpus behaves the same, whether it gets an interpreter of its own or one that was started before.

On this host, in no jail: an interpreter (IMMURE_TEST_PYTHON, or the shipped runtime's) against itself with the shared object
and a stand-in for its jails, once with streams that are buffered, once without. Through a server: one that starts an
interpreter for every job against one with parked jails."""

import base64
import re
import subprocess
from dataclasses import astuple, replace

import pytest

from harness import BUILD, ROOT, Server, shipped_policy, wait_for
from program import PROGRAMS
from template import INTERPRETER, Host, Outcome

STANDIN = BUILD / "tests/warm/immure-python.so"
POLICY = shipped_policy("python")
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
    "end_del_in_cycles": sort_lines,
    "end_del_in_several_modules": sort_lines,
}

VERSION = subprocess.run([*INTERPRETER, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True).stdout
if VERSION and int(VERSION) < 11:
    # What has been printed so late is lost in a fresh one.
    PERMITTED["signal_handler_during_end"] = rub_out(rb"handled\n|^$")
if VERSION and int(VERSION) == 12:
    # No thread can be started there once the main program has ended: asked for by a function of atexit, it starts.
    PERMITTED["end_atexit_starts_thread"] = lambda outcome: replace(outcome, stdout=b"", stderr=b"")
if VERSION and int(VERSION) in (12, 13):
    # The first of these versions complain of a SystemExit's value at the wrong place.
    for name in "exit_huge_integer", "exit_object_that_cannot_be_printed":
        PERMITTED[name] = lambda outcome: replace(outcome, stderr=b"")

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


WHO = b"print('warm' if '/proc/self/fd/9' in open('/proc/self/cmdline').read() else 'fresh')"


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_runs_in_the_started_interpreter(host, program):
    """Or, where the program asks for what that cannot become, in one of its own."""
    outcome = host.warm(replace(program, code=WHO, stdin=b"", merged=False))
    assert outcome.stdout.decode().splitlines()[-1] == ("fresh" if program.fresh else "warm")


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """One with parked jails, one where each job starts an interpreter."""
    place = tmp_path_factory.mktemp("servers")
    cold = place / "cold.textproto"
    cold.write_text(re.sub(r"\s*(template|warm_jails):.*", "", SHIPPED))
    with Server(place / "warm.log") as warm, Server(place / "cold.log", SANDBOX_EXECUTOR_CONFIG=str(cold)) as cold:
        wait_for(lambda: warm.execute(WHO.decode())["stdout"] == "warm\n", "a job in a started interpreter")
        assert cold.execute(WHO.decode())["stdout"] == "fresh\n"
        yield warm, cold


def is_text(program):
    try:
        program.code.decode(), program.stdin.decode(), [arg.encode() for arg in program.args]
    except UnicodeError:
        return False
    return program.code != b"" and b"\0" not in program.code


def execute(server, program):
    files = [{"name": name, "data": base64.b64encode(content.encode()).decode()} for name, content in program.files.items()]
    return server.execute(program.code.decode(), stdin=program.stdin.decode(), args=program.args, env=program.env, files=files,
                          timeout_ms=30000)


def outcome_of(verdict):
    return Outcome(verdict["stdout"].encode(), verdict["stderr"].encode(), verdict["exit_code"])


SENT = [program for program in PROGRAMS if is_text(program)]
SAME = ["signal", "status", "error_message", "killed", "oom", "output_files", "denied_syscalls"]


@pytest.mark.parametrize("program", SENT, ids=[program.name for program in SENT])
def test_through_a_server(servers, program):
    warm, cold = (execute(server, program) for server in servers)
    assert_same(program, outcome_of(warm), outcome_of(cold))
    assert {field: warm[field] for field in SAME} == {field: cold[field] for field in SAME}

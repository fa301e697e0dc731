"""`immure policy test`: the tests of the shipped policies (tests/policies), and what it says of tests that fail or are none."""

import json
import subprocess

import pytest
from harness import BUILD, CGROUP, PATIENCE, ROOT

MODE = "required" if CGROUP == "REQUIRED" else "best-effort"
TESTS = ROOT / "tests/policies"
# Node is slow where a machine is emulated, and neither cgroups nor another kernel change what it is denied.
SLOW = {"node", "node-kernel", "isolate"}


def policy_test(*files, options=()):
    return subprocess.run([BUILD / "immure", "policy", "test", "--cgroup", MODE, *options, *files], capture_output=True, text=True,
                          timeout=PATIENCE * 120)


def told(*files):
    done = policy_test(*files, options=["--json"])
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", [pytest.param(path.stem, marks=[pytest.mark.host_only] if path.stem in SLOW else [])
                                  for path in sorted(TESTS.glob("*.textproto"))])
def test_shipped_policy(name):
    code, report = told(TESTS / f"{name}.textproto")
    assert [test for test in report["tests"] if not test["passed"]] == []
    assert (code, report["failed"]) == (0, 0)
    kinds = [test["kind"] for test in report["tests"]]
    assert kinds.count("run") >= 1 and kinds.count("refuse") >= 7


def test_every_shipped_policy_has_tests():
    assert {path.name for path in TESTS.iterdir()} == {path.name for path in (ROOT / "config/policies").glob("*.textproto")}


@pytest.mark.parametrize("name", ["python", "strict", "bash", "isolate"])
def test_no_refusal_holds_under_a_policy_that_refuses_nothing(name, tmp_path):
    (tmp_path / "open.textproto").write_text('name: "open" mount { destination: "/workspace" scratch { directory: WORK } }\n'
                                             'seccomp { default_action: ALLOW }\n')
    text = (TESTS / f"{name}.textproto").read_text().replace(f'policy: "{name}"', 'policy: "open.textproto"')
    (tmp_path / "test.textproto").write_text(text[:text.index("\nrun {")])
    code, report = told(tmp_path / "test.textproto")
    assert code == 1
    assert not [test for test in report["tests"] if test["kind"] == "refuse" and test["passed"]]


@pytest.fixture
def case(tmp_path):
    """The lines about a file with these tests of `python`, without its name, and the exit code."""
    def run(*lines):
        path = tmp_path / "case.textproto"
        path.write_text("\n".join(['policy: "python"', *lines]))
        done = policy_test(path)
        assert done.stderr == ""
        return [line.replace(str(path), "") for line in done.stdout.splitlines()], done.returncode
    return run


def test_a_flag_is_refused_with_any_others(tmp_path):
    (tmp_path / "mine.textproto").write_text('name: "mine" use: "bash" seccomp { rule { action: ALLOW syscall: "clone" '
                                             'where { arg: flags in: "CLONE_NEWUSER|0x11" } } }\n')
    (tmp_path / "test.textproto").write_text('policy: "mine.textproto"\nrefuse { call: clone arg: CLONE_NEWUSER }\n')
    code, report = told(tmp_path / "test.textproto")
    assert (code, report["tests"][0]["why"]) == (1, "clone(flags 0x10000011) is answered ALLOW")


def test_one_line_for_each_case(case):
    assert case("refuse { call: clone arg: CLONE_NEWUSER }", "allow { call: mount }",
                'run { name: "prints" argv: ["python3", "-c", "print(1)"] expect { stdout: "2\\n" } }') == ([
                    "ok   :2:8: refuse clone(CLONE_NEWUSER)",
                    "FAIL :3:7: allow mount: mount() is answered NOTIFY",
                    'FAIL :4:5: run prints: stdout is "1\\n", not "2\\n"',
                    "1 passed, 2 failed"], 1)


@pytest.mark.parametrize("run, why", [
    ('argv: ["sh", "-c", "exit 3"]', "exit code is 3, not 0"),
    ('argv: ["true"] expect { exit_code: 3 }', "exit code is 0, not 3"),
    ('argv: ["true"] expect { signal: SIGKILL }', "signal is none, not SIGKILL"),
    ('argv: ["sh", "-c", "kill -9 $$"] expect { signal: SIGTERM }', "signal is SIGKILL, not SIGTERM"),
    ('argv: ["true"] expect { status: TIMEOUT }', "status is success, not timeout"),
    ('argv: ["sleep", "60"] timeout_ms: 200', "exit code is -1, not 0 (Execution timed out after 0.2 seconds.)"),
    ('argv: ["sh", "-c", "echo no; echo why >&2; exit 1"]', 'exit code is 1, not 0; stderr is "why\\n"'),
    ('argv: ["echo", "a"] expect { stdout_has: "b" stderr: "c" }', 'stdout has no "b": it is "a\\n"; stderr is "", not "c"'),
    ('argv: ["unshare", "-U"] expect { exit_code: 1 }', "unshare was denied"),
    ('argv: ["true"] expect { denied: unshare }', "unshare was not denied"),
    ('argv: ["/nothing"]', "the program was not run: "),
    ('argv: ["true"] env: "LD_PRELOAD=x"', "the program was not run: env: policy python does not allow the variable LD_PRELOAD "),
])
def test_programs_that_end_otherwise(case, run, why):
    lines, code = case(f"run {{ name: 'it' {run} }}")
    assert lines[0].startswith(f"FAIL :2:5: run it: {why}")
    assert (lines[1:], code) == (["0 passed, 1 failed"], 1)


@pytest.mark.parametrize("run", [
    'argv: ["sh", "-c", "exit 3"] expect { exit_code: 3 status: EXECUTION_ERROR }',
    'argv: ["sh", "-c", "kill -9 $$"] expect { signal: SIGKILL }',
    'argv: ["sleep", "60"] timeout_ms: 200 expect { status: TIMEOUT }',
    'argv: ["cat", "-", "d/f"] stdin: "a\\000" file { name: "d/f" content: "b" } expect { stdout: "a\\000b" }',
    'argv: ["sh", "-c", "echo $A"] env: "A=b=c" expect { stdout: "b=c\\n" stderr: "" }',
    'argv: ["unshare", "-U"] expect { exit_code: 1 denied: unshare stderr_has: "unshare" }',
    'argv: ["unshare", "-U"] expect { exit_code: 1 denied: "*" }',
    # More than a pipe holds, of both streams.
    'argv: ["sh", "-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; echo end"] expect { stdout_has: "end" }',
])
def test_programs_that_end_as_expected(case, run):
    assert case(f"run {{ name: 'it' {run} }}") == (["ok   :2:5: run it", "1 passed, 0 failed"], 0)


def test_a_name_forges_no_line(case):
    assert case('run { name: "a\\nok   :9:9: refuse mount" argv: ["false"] }') == (
        ['FAIL :2:5: run "a\\nok   :9:9: refuse mount": exit code is 1, not 0', "0 passed, 1 failed"], 1)


def test_an_error_that_the_filter_answers_is_not_denied(tmp_path):
    """The filter answers it itself, and nobody sees the call."""
    (tmp_path / "mine.textproto").write_text('name: "mine" use: "bash" seccomp { rule { action: ERRNO syscall: "unshare" } }\n')
    (tmp_path / "test.textproto").write_text('policy: "mine.textproto"\n'
                                             'run { argv: ["unshare", "-U"] expect { exit_code: 1 denied: none } }\n')
    assert told(tmp_path / "test.textproto")[1]["failed"] == 0


def test_a_policy_beside_its_tests(tmp_path):
    (tmp_path / "mine.textproto").write_text('name: "mine" use: "python"\n'
                                             'seccomp { rule { action: KILL_PROCESS syscall: "rmdir" } }\n')
    (tmp_path / "test.textproto").write_text('policy: "mine.textproto"\nrefuse { call: rmdir answer: KILL_PROCESS }\n'
                                             'run { argv: ["python3", "-c", "import os; os.rmdir(str())"] expect { signal: SIGSYS denied: rmdir } }\n')
    code, report = told(tmp_path / "test.textproto")
    assert (code, report["passed"], report["failed"]) == (0, 2, 0)
    assert report["tests"][0] == {"file": str(tmp_path / "test.textproto"), "line": 2, "kind": "refuse",
                                  "name": "rmdir with KILL_PROCESS", "passed": True, "why": None}


def test_a_file_that_is_none_does_not_hide_the_others(tmp_path):
    broken, good = tmp_path / "broken.textproto", tmp_path / "good.textproto"
    broken.write_text('policy: "python"\nrefuse { cal: mount }\n')
    good.write_text('policy: "python"\nrefuse { call: mount }\n')
    done = policy_test(broken, good)
    assert done.returncode == 2
    assert done.stderr == f'immure policy test: {broken}:2:10: refuse[0]: CallTest has no field "cal"; did you mean call?\n'
    assert done.stdout == f"ok   {good}:2:8: refuse mount\n1 passed, 0 failed\n"
    code, report = told(broken, good)
    assert (code, report["passed"], report["failed"]) == (2, 1, 0)
    assert report["errors"] == [{"file": str(broken), "at": f"{broken}:2:10",
                                 "why": 'refuse[0]: CallTest has no field "cal"; did you mean call?'}]


@pytest.mark.parametrize("policy, words", [
    ("pyhton", ":1:9: policy: pyhton: no such policy; did you mean python?"),
    ("none.textproto", ":1:9: policy: {}/none.textproto: cannot be read: No such file or directory"),
])
def test_a_policy_that_is_not_there(tmp_path, policy, words):
    path = tmp_path / "test.textproto"
    path.write_text(f'policy: "{policy}"\nrefuse {{ call: mount }}\n')
    done = policy_test(path)
    assert done.returncode == 2 and done.stderr.startswith(f"immure policy test: {path}{words.format(tmp_path)}")


@pytest.mark.parametrize("arguments", [[], ["--nonsense"], ["--cgroup", "some", "x"]])
def test_wrong_usage(arguments):
    done = subprocess.run([BUILD / "immure", "policy", "test", *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("immure policy test: ")

"""The command line itself, and `immure policy`."""

import subprocess

import pytest

from harness import BUILD, IMMURE, shipped_policy


def immure(*arguments, **popen):
    return subprocess.run([IMMURE, *arguments], capture_output=True, text=True, timeout=60, **popen)


def test_help_names_every_command():
    for arguments in (["--help"], ["-h"], ["help"]):
        done = immure(*arguments)
        assert done.returncode == 0
        for command in ("serve", "run", "check", "policy"):
            assert f"\n  {command} " in done.stdout
        assert "front" not in done.stdout


def test_no_command_is_wrong_usage():
    done = immure()
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("usage: immure")


@pytest.mark.parametrize("command", ["serve", "run", "check", "policy", "policy lint", "policy explain"])
def test_help_of_each(command):
    done = immure(*command.split(), "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"usage: immure {command} ")
    if " " not in command:
        assert immure("help", command).stdout == done.stdout


def test_version():
    done = immure("--version")
    assert done.returncode == 0 and done.stdout.startswith("immure 0.")


def test_a_command_that_is_nearly_right():
    done = immure("serv")
    assert done.returncode == 2 and "did you mean 'serve'?" in done.stderr


def test_the_front_is_not_for_people():
    done = subprocess.run([BUILD / "immure-front"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "immure serve" in done.stderr


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        done = subprocess.run([IMMURE, "--help"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1


@pytest.mark.parametrize("policy", ["python", "strict", "node", "bash"])
def test_shipped_policies_pass(policy):
    done = immure("policy", "lint", policy)
    assert (done.returncode, done.stdout) == (0, f"{policy}: nothing found\n"), done.stderr


def test_lint_of_files(tmp_path):
    policy = tmp_path / "own.textproto"
    policy.write_text(shipped_policy("python").replace('name: "python"', 'name: "own"'))
    assert immure("policy", "lint", str(policy)).returncode == 0
    assert immure("policy", "lint", "own.textproto", cwd=tmp_path).returncode == 0
    policy.write_text('name: "own"\nmount { destination: "/a/../b" tmpfs {} }\n')
    done = immure("policy", "lint", str(policy))
    assert done.returncode == 1
    assert done.stderr.startswith("immure policy lint: ") and "own.textproto" in done.stderr


def test_lint_says_where(tmp_path):
    policy = tmp_path / "p.textproto"
    policy.write_text('name: "p"\nhostnam: "x"\n')
    done = immure("policy", "lint", str(policy))
    assert done.returncode == 1
    assert f"{policy}:2:1" in done.stderr and "did you mean" in done.stderr


def test_one_bad_file_among_good_ones(tmp_path):
    (tmp_path / "bad.textproto").write_text("name: 1\n")
    done = immure("policy", "lint", "python", str(tmp_path / "bad.textproto"), "strict")
    assert done.returncode == 1
    assert "python: nothing found" in done.stdout and "strict: nothing found" in done.stdout


def test_sets_are_listed_with_reasons():
    done = immure("policy", "lint", "--sets")
    assert done.returncode == 0 and "@basic-io" in done.stdout


def test_explain_is_the_plan():
    done = immure("policy", "explain", "python")
    assert done.returncode == 0
    for word in ("/workspace", "seccomp", "memory", "exec"):
        assert word in done.stdout
    assert immure("policy", "explain", "python").stdout == done.stdout


@pytest.mark.parametrize("arguments", [["policy"], ["policy", "lint"], ["policy", "explain"], ["policy", "expl", "python"],
                                       ["policy", "explain", "python", "strict"], ["policy", "lint", "--strct", "python"]])
def test_wrong_usage_of_policy(arguments):
    done = immure(*arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


def test_explain_of_nothing():
    done = immure("policy", "explain", "no-such-policy")
    assert done.returncode == 1 and "no-such-policy" in done.stderr

"""The command line itself, and `immure policy`."""

import json
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


@pytest.mark.parametrize("command", ["serve", "run", "check", "policy", "policy lint", "policy explain", "policy diff", "policy test"])
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


@pytest.mark.parametrize("policy", ["python", "strict", "node", "bash", "isolate"])
@pytest.mark.parametrize("options", [[], ["--strict"]])
def test_shipped_policies_pass(policy, options):
    done = immure("policy", "lint", *options, policy)
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


BAD = """name: "bad"
use: "python"
env { name: "LD_PRELOAD" value: "/workspace/hook.so" }
mount { destination: "/dev/kvm" bind { source: "/dev/kvm" } optional: true }
mount { destination: "/opt/none" bind { source: "/opt/none" } }
limits { memory_bytes: "32MiB" }
preload: ["jso"]
"""


def test_lint_as_json(tmp_path):
    policy = tmp_path / "bad.textproto"
    policy.write_text(BAD)
    done = immure("policy", "lint", "--json", "strict", str(policy))
    assert done.returncode == 1 and done.stderr == ""
    found = json.loads(done.stdout)["findings"]
    assert {"policy", "file", "line", "column", "rule", "severity", "field", "about", "message", "fix", "fixable"} == set(found[0])
    assert {(row["rule"], row["line"], row["column"]) for row in found if row["file"] == str(policy)} >= {
        ("env-writable", 3, 33), ("device-blocked", 4, 7), ("bind-missing", 5, 49), ("tmpfs-large", 6, 24),
        ("preload-missing", 7, 11)}
    policy.write_text('name: "bad"\nnam: 1\nnome: 2\nnime: 3\n')
    done = immure("policy", "lint", "--json", str(policy))
    errors = [row for row in json.loads(done.stdout)["findings"] if row["severity"] == "error"]
    assert done.returncode == 1 and [row["line"] for row in errors] == [2, 3, 4]
    done = immure("policy", "lint", "--json", "strict")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"findings": []})


def test_lint_fixes(tmp_path):
    policy = tmp_path / "mine.textproto"
    policy.write_text('name: "mine" use: "python"  # as it is\nseccomp { rule { action: ERRNO errno: "38" syscall: "statx" reason: "x" } }\n')
    done = immure("policy", "lint", "--fix", "mine.textproto", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine.textproto: nothing found\n", "mine.textproto: 1 corrected\n")
    assert policy.read_text() == ('name: "mine" use: "python"  # as it is\n'
                                  'seccomp { rule { action: ERRNO errno: "ENOSYS" syscall: "statx" reason: "x" } }\n')
    assert [path.name for path in tmp_path.iterdir()] == ["mine.textproto"]
    assert "--fix takes files" in immure("policy", "lint", "--fix", "python").stderr


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


def test_what_two_policies_do_not_have_in_common(tmp_path):
    mine = tmp_path / "mine.textproto"
    mine.write_text('name: "mine" use: "strict" limits { pids: 8 }\n'
                    'seccomp { rule { action: ALLOW syscall: "socket" where { arg: family in: AF_UNIX } } }\n')
    done = immure("policy", "diff", "strict", mine)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == ("limits\n  * pids: 16 -> 8\n"
                           f"system calls that only {mine} allows\n  + NOTIFY -> ALLOW\n      socket(family AF_UNIX)\n")
    told = json.loads(immure("policy", "diff", "--json", mine, "strict").stdout)
    assert told == {"a": str(mine), "b": "strict", "same": False, "mounts": [], "environment": [], "other": [],
                    "limits": [{"name": "pids", "a": "8", "b": "16"}],
                    "system_calls": [{"call": "socket", "arguments": "family AF_UNIX", "a_allows": True, "b_allows": False,
                                      "a": "ALLOW", "b": "NOTIFY"}]}


def test_values_of_variables_forge_no_rows(tmp_path):
    for name, value in [("a", "1"), ("b", "1 -> 2\\n  + Z: 3")]:
        (tmp_path / f"{name}.textproto").write_text(f'name: "{name}" use: "strict" env {{ name: "A" value: "{value}" }}\n')
    a, b = tmp_path / "a.textproto", tmp_path / "b.textproto"
    assert immure("policy", "diff", a, b).stdout == 'environment\n  * A: 1 -> "1 -> 2\\n  + Z: 3"\n'
    assert json.loads(immure("policy", "diff", "--json", a, b).stdout)["environment"] == [
        {"name": "A", "a": "1", "b": "1 -> 2\n  + Z: 3"}]


def test_policies_of_which_too_much_is_told_apart(tmp_path):
    mine = tmp_path / "mine.textproto"
    rules = "".join(f'rule {{ action: ERRNO syscall: "unshare" condition {{ arg: 0 op: MASKED_EQ value: 0 mask: {1 << bit} }} }}\n'
                    for bit in range(13))
    mine.write_text(f'name: "mine" use: "bash" seccomp {{ {rules} }}\n')
    done = immure("policy", "diff", "bash", mine)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "immure policy diff: unshare: argument 0: more values are told apart than can be tried\n"


def test_no_difference_between_policies(tmp_path):
    flat = tmp_path / "flat.textproto"
    flat.write_text(shipped_policy("python"))
    done = immure("policy", "diff", "python", flat)
    assert done.returncode == 0 and done.stdout.endswith(": no difference\n")


@pytest.mark.parametrize("arguments", [["python"], ["python", "nobody"], ["python", "strict", "bash"], ["--nonsense"]])
def test_policies_that_cannot_be_compared(arguments):
    done = immure("policy", "diff", *arguments)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("immure policy diff: ")

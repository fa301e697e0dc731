"""`immure policy learn`: what it writes, and that programs run under it."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import IMMURE, MODE
from harness import PATIENCE, wait_for

LINES_MAX = 60


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The working directory, with nothing in it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def outside():
    """A directory elsewhere that everybody may read, as a jail of root's has to."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="immure-learn-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def learn(*command, options=(), **popen):
    popen = {"stdin": subprocess.DEVNULL, **popen}
    if "input" in popen:
        del popen["stdin"]
    return subprocess.run([IMMURE, "policy", "learn", "--cgroup", MODE, *options, "--", *command], capture_output=True, text=True,
                          timeout=PATIENCE * 120, **popen)


def sh(script, **kwargs):
    return learn("sh", "-c", script, **kwargs)


def git(directory, *arguments):
    own = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com"}
    subprocess.run(["git", "-C", directory, *arguments], check=True, env={**os.environ, **own}, timeout=60)


def clone(home, outside):
    (outside / "repo").mkdir()
    git(outside / "repo", "init", "--quiet")
    for number in range(3):
        (outside / "repo/text").write_text(f"{number}\n")
        git(outside / "repo", "add", "text")
        git(outside / "repo", "commit", "--quiet", "--message", str(number))
    # In a jail of root's the repository belongs to somebody else.
    (outside / "gitconfig").write_text("[safe]\n\tdirectory = *\n")
    subprocess.run(["chmod", "-R", "a+rX", outside], check=True)
    return (["sh", "-c", f"git clone --quiet file://{outside}/repo out && cat out/text && git -C out rev-list --count HEAD"], "2\n3\n", [],
            {"GIT_CONFIG_GLOBAL": str(outside / "gitconfig")})


def gcc(home, _outside):
    (home / "main.c").write_text('#include <stdio.h>\n#include "answer.h"\nint main(void) { printf("%d\\n", ANSWER); return 0; }\n')
    (home / "answer.h").write_text("#define ANSWER 42\n")
    return ["sh", "-c", "gcc -O1 -Wall -o main main.c && ./main"], "42\n", ["main.c", "answer.h"], {}


def judge(home, _outside):
    (home / "judge.cc").write_text("#include <iostream>\n#include <vector>\nint main() { std::vector<int> v; int n, sum = 0;"
                                   " while (std::cin >> n) v.push_back(n); for (int x : v) sum += x; std::cout << sum << std::endl; }\n")
    (home / "in").write_text("1 2 39\n")
    (home / "expected").write_text("42\n")
    return (["sh", "-c", "g++ -O1 -o judge judge.cc && ./judge <in >out && cmp out expected && echo accepted"], "accepted\n",
            ["judge.cc", "in", "expected"], {})


def pandas(home, _outside):
    (home / "in.csv").write_text("a,b\n1,2\n3,4\n")
    code = "import numpy, pandas; f = pandas.read_csv('in.csv'); print(int(numpy.linalg.det(f.to_numpy()).round()), f.b.sum())"
    return ["/usr/bin/python3", "-c", code], "-2 6\n", ["in.csv"], {}


def ffmpeg(_home, _outside):
    source = ["-f", "lavfi", "-i", "testsrc=duration=1:size=64x64:rate=10"]
    count = "ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of csv=p=0 out.mkv"
    return ["sh", "-c", f"ffmpeg -v error {' '.join(source)} -y out.mkv </dev/null && {count}"], "10\n", [], {}


def jvm(_home, _outside):
    """A program of the runtime itself: without a compiler there is no other to run."""
    store = "-keystore store -storepass secret1"
    return (["sh", "-c", f"keytool -genkeypair -keyalg EC -alias a -dname CN=a {store} 2>/dev/null; keytool -list {store} | grep -c PrivateKeyEntry"],
            "1\n", [], {})


def sqlite3(home, _outside):
    (home / "in.sql").write_text("create table t(a); insert into t values (40), (2); select sum(a) from t;\n")
    return ["sqlite3", "-init", "in.sql", "t.db", "select count(*) from t"], "42\n2\n", ["in.sql"], {}


def node(home, _outside):
    package = home / "node_modules/answer"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "answer", "version": "1.0.0", "main": "lib/index.js"}')
    (package / "lib").mkdir()
    (package / "lib/index.js").write_text("exports.answer = () => 42\n")
    (home / "main.js").write_text('console.log(require("answer").answer())\n')
    names = ["main.js", "node_modules/answer/package.json", "node_modules/answer/lib/index.js"]
    return ["node", "main.js"], "42\n", names, {}


@pytest.mark.host_only
@pytest.mark.parametrize("program", [clone, gcc, judge, pandas, ffmpeg, jvm, sqlite3, node])
def test_real_programs(program, home, outside, tmp_path):
    argv, stdout, files, variables = program(home, outside)
    name = f"learned-{program.__name__}"
    policy = tmp_path / f"{name}.textproto"
    given = [option for item in variables.items() for option in ("--env", "=".join(item))]
    done = learn(*argv, options=["-o", str(policy), *given])
    text = policy.read_text() if policy.exists() else ""
    assert done.returncode == 0, done.stderr + text
    assert text.count("\n") <= LINES_MAX, text
    lint = subprocess.run([IMMURE, "policy", "lint", str(policy)], capture_output=True, text=True, timeout=60)
    assert (lint.returncode, lint.stdout) == (0, f"{policy}: nothing found\n"), lint.stdout + lint.stderr + text
    given = [f"--file={name}={name}" for name in files]
    done = subprocess.run([IMMURE, "run", "--policy", str(policy), "--cgroup", MODE, *given, "--", *argv], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE * 120)
    assert (done.returncode, done.stdout) == (0, stdout), done.stderr + text


def test_the_policy_goes_to_stdout_and_the_program_to_stderr(home):
    done = sh("echo said; exit 3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Learned by `immure policy learn` from 1 run, ")
    assert '\nname: "sh"\nuse: ["debian", "processes", "scratch", "limits"]\n' in done.stdout
    same = "immure policy learn: it ended with exit code 3 both times; its output says whether for the same reason\n"
    assert done.stderr == f"said\nsaid\n{same}"
    assert os.listdir(home) == []


def test_input_is_there_for_each_run(home):
    done = learn("cat", options=["--runs", "2"], input="piped\n")
    assert (done.returncode, done.stderr) == (0, "piped\n" * 3)
    assert " from 2 runs, " in done.stdout


def test_runs_are_merged(home, outside):
    (outside / "a").write_text("a\n")
    (outside / "b").write_text("b\n")
    (outside / "a").chmod(0o644)
    (outside / "b").chmod(0o644)
    script = f"if test -e seen; then cat {outside}/b; else : >seen; cat {outside}/a; fi"
    done = sh(script, options=["--runs", "2"])
    assert done.returncode == 0, done.stderr
    for name in "a", "b":
        assert f'mount {{ destination: "{outside}/{name}" bind {{ source: "{outside}/{name}" }} }}\n' in done.stdout


def test_variables(home, monkeypatch):
    monkeypatch.setenv("MINE", "of the caller")
    monkeypatch.setenv("HIDDEN_VARIABLE", "very secret")
    done = sh('test "$MINE,$OTHER,$HIDDEN_VARIABLE,$HOME" = "of the caller,x=\\"y\\",,$(pwd)"', options=["--env", "MINE", "--env", 'OTHER=x="y"'])
    assert done.returncode == 0, done.stderr
    assert 'env { name: "MINE" value: "of the caller" }\n' in done.stdout
    assert "very secret" not in done.stdout + done.stderr


def test_a_variable_of_the_parent_is_replaced(home):
    done = sh('test "$LANG" = C', options=["--env", "LANG=C"])
    assert done.returncode == 0, done.stderr
    assert 'without { env: "LANG" }\nenv { name: "LANG" value: "C" }\n' in done.stdout


def test_a_variable_is_set_once(home):
    done = learn("/usr/bin/env", options=["--env", "LANG=a", "--env", "LANG=C", "--env", "USER=me"])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("LANG=") == 2 and done.stderr.count("LANG=C\n") == 2
    assert 'without { env: "USER" env: "LANG" }\n' in done.stdout
    assert done.stdout.count('name: "LANG"') == 1


def test_calls_without_a_name(home):
    done = learn("/usr/bin/python3", "-c", "import ctypes; ctypes.CDLL(None).syscall(999)")
    assert done.returncode == 0, done.stderr
    assert "syscall_999" not in done.stdout and "without a name were made" in done.stdout


def test_a_run_that_did_not_start_is_no_success(home):
    """Its exit code may be that of the program."""
    done = sh("exit 2", options=["--cgroup", "absent"])
    assert done.returncode == 1 and "under the policy no program could be started" in done.stderr
    assert 'name: "sh"' in done.stdout


def test_files_are_not_replaced_unasked(home, tmp_path):
    policy = home / "p.textproto"
    policy.write_text("mine\n")
    done = sh(": >ran", options=["-o", "p.textproto"])
    assert (done.returncode, done.stdout) == (1, "") and "p.textproto: is there already; --force replaces it" in done.stderr
    assert policy.read_text() == "mine\n" and not (home / "ran").exists()
    done = sh("true", options=["-o", "p.textproto", "--force"])
    assert done.returncode == 0 and policy.read_text().startswith("# Learned"), done.stderr
    policy.unlink()
    policy.symlink_to(tmp_path / "target")
    done = sh("true", options=["-o", "p.textproto", "--force"])
    assert done.returncode == 1 and "no regular file" in done.stderr and not (tmp_path / "target").exists()
    assert sorted(os.listdir(home)) == ["p.textproto"]


def test_what_lies_beside_is_not_what_was_tried(home):
    (home / "limits.textproto").write_text("name: 'limits' part: true\n")
    done = sh("true", options=["-o", "p.textproto"])
    assert done.returncode == 1 and "a file beside it comes before the shipped one" in done.stderr


def test_names_are_no_text_of_the_policy(home):
    """A directory of somebody else's may have any name."""
    name = "x\nmount { destination: '/etc' bind { source: '/etc' } }\n#y"
    (home / name).mkdir(parents=True)
    (home / name / ".env").write_text("x\n")
    done = sh("cd x*; cat .env >/dev/null", env={**os.environ, "A\nname: 'b'": "c"})
    assert done.stdout.startswith("# Learned") and "/etc'" not in done.stdout and "'b'" not in done.stdout
    assert "# Paths with control characters in their names were used. No policy can name them.\n" in done.stdout
    done = sh("true", options=["--env", "A\nB=c"])
    assert done.returncode == 1 and done.stdout == "" and "--env" in done.stderr
    done = sh("true", options=["--use", 'strict"] name: "b'])
    assert done.returncode == 1 and done.stdout == "" and "--use" in done.stderr


def test_arguments_are_not_told(home):
    done = sh("true # password1")
    assert done.returncode == 0 and "password1" not in done.stdout, done.stderr
    assert "\n#   sh\n" in done.stdout


def test_too_much_to_be_tried(home):
    """The policy is there all the same."""
    for number in range(1030):
        (home / str(number)).write_text("x\n")
    done = sh("cat [0-9]* >/dev/null")
    assert done.returncode == 1 and 'name: "sh"' in done.stdout
    assert "too many to be given" in done.stderr and "the policy has not been tried" in done.stderr


def test_a_process_that_cannot_be_read(home):
    code = "import ctypes, os\nif os.fork(): os.wait()\nelse: ctypes.CDLL(None).prctl(4, 0); open('/etc/debian_version').close()"
    done = learn("/usr/bin/python3", "-c", code)
    assert 'use: ["python"]\n' in done.stdout, done.stderr
    assert os.geteuid() == 0 or "let nobody read its memory" in done.stdout


def test_children_that_are_ignored(home):
    done = sh("true", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 0, done.stderr


def started(script):
    """A learning whose program has written its process id to `pid`."""
    process = subprocess.Popen([IMMURE, "policy", "learn", "--cgroup", MODE, "--", "sh", "-c", f"echo $$ >pid.new; mv pid.new pid; {script}"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_for(Path("pid").exists, "the program")
    return process, int(Path("pid").read_text())


def test_an_end_by_a_signal_ends_the_program(home):
    process, child = started("sleep 1000")
    process.terminate()
    process.communicate(timeout=PATIENCE * 30)
    assert process.returncode == -signal.SIGTERM
    assert not Path(f"/proc/{child}").exists()


def test_control_c_ends_the_program_alone(home):
    process, child = started("exec sleep 1000")
    # A shell goes on where a command of its own has survived the signal.
    wait_for(lambda: Path(f"/proc/{child}/comm").read_text() == "sleep\n", "the program that it becomes")
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE * 30)
    assert process.returncode == 1 and 'name: "sh"' in stdout
    assert "the policy has not been tried, since it was interrupted" in stderr


def test_files_of_the_working_directory(outside, monkeypatch):
    monkeypatch.chdir(home := outside)
    (home / "d").mkdir()
    (home / "d/in").write_text("x\n")
    (home / "tool").write_text("#!/bin/sh\ncat d/in\n")
    (home / "tool").chmod(0o755)
    (home / "many").mkdir()
    for number in range(20):
        (home / f"many/{number}").write_text(f"{number}\n")
    for path in home.rglob("*"):
        path.chmod(0o755)
    done = sh("./tool && cat many/* >/dev/null")
    assert done.returncode == 0, done.stderr + done.stdout
    assert f'mount {{ destination: "/workspace/many" bind {{ source: "{home}/many" }} }}\n' in done.stdout
    assert f'mount {{ destination: "/workspace/tool" bind {{ source: "{home}/tool" }} }}\n' in done.stdout
    assert "gives them:\n#     d/in\n" in done.stdout


def test_what_is_not_given_is_told(home):
    code = "import ctypes, os\nctypes.CDLL(None).unshare(0x10000000)\nos.memfd_create('x')"
    done = learn("/usr/bin/python3", "-c", f"{code}\ntry: open('/etc/shadow')\nexcept OSError: pass", options=["-o", "p.textproto"])
    text = (home / "p.textproto").read_text()
    assert done.returncode == 1 and done.stdout == ""
    assert "immure policy learn: under the policy it ended with exit code 1, before with 0\n" in done.stderr
    assert "immure policy learn: denied system calls: " in done.stderr
    assert "unshare 1" in done.stderr and "memfd_create 1" in done.stderr
    assert "the end of the policy says what was not given, and why" in done.stderr
    assert 'name: "p"\nuse: ["python"]\n' in text
    assert "#   unshare(CLONE_NEWUSER), 1 time: brings every capability back" in text
    assert "#   memfd_create(MFD_CLOEXEC), 1 time: " in text
    assert ": /etc/shadow\n" in text and "rule" not in text


def test_a_chosen_parent(home):
    code = "import os; os.fork() or os._exit(0); os.wait()"
    done = learn("/usr/bin/python3", "-c", code, options=["--use", "strict"])
    assert done.returncode == 0, done.stderr
    assert 'use: ["strict"]\n' in done.stdout
    assert '  # wait4 1\n  rule { action: ALLOW syscall: ["wait4"] reason: "learned" }\n' in done.stdout
    assert 'syscall: "clone" where { arg: "flags" in: ["CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|' in done.stdout


def test_the_working_directory_by_its_whole_name(home):
    (home / "in").write_text("x\n")
    done = learn("cat", f"{home}/in")
    assert (done.returncode, done.stderr) == (0, "x\nx\n")
    assert f'mount {{ destination: "{home}" symlink {{ target: "/workspace" }} }}\n' in done.stdout


def test_a_working_directory_that_others_may_not_enter(home):
    (home / "many").mkdir()
    for number in range(70):
        (home / f"many/{number}").write_text(f"{number}\n")
    home.chmod(0o700)
    done = sh("cat many/* | wc -l")
    assert (done.returncode, done.stderr) == (0, "70\n70\n")
    if os.geteuid() == 0:
        assert f'source: "{home}' not in done.stdout and " and 50 more\n" in done.stdout


def test_files_that_are_only_looked_at(home):
    """They are no mounts, unless the program needs them."""
    done = sh("test -f /etc/debian_version; exit 0")
    assert done.returncode == 0 and 'source: "/etc/debian_version"' not in done.stdout, done.stderr
    done = sh("test -f /etc/debian_version")
    assert done.returncode == 0, done.stderr
    assert 'source: "/etc/debian_version"' in done.stdout
    assert done.stderr == "immure policy learn: it needs files that it only looks at: the policy has them now\n"


def test_loopback(home):
    code = """import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname())"""
    done = learn("/usr/bin/python3", "-c", code)
    assert done.returncode == 0, done.stderr
    assert 'use: ["python"]\nloopback: true\n' in done.stdout and "no network" not in done.stdout


@pytest.mark.parametrize("options, command, code, words", [
    ([], [], 2, "which program?"),
    (["--runs", "0"], ["true"], 2, "--runs"),
    ([], ["no-such-program"], 1, "no-such-program: no such program"),
    ([], ["./absent"], 1, "./absent: cannot be run: No such file"),
    (["--use", "pyhton"], ["true"], 1, "pyhton"),
    (["--env", "NOT_SET_ANYWHERE"], ["true"], 1, "--env"),
    (["-o", "/nonexistent/p.textproto"], ["true"], 1, "/nonexistent/p.textproto"),
])
def test_mistakes(options, command, code, words, home):
    done = learn(*command, options=options)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr

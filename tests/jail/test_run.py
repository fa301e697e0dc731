"""`immure run`: the command's own input, output and exit code, and everything else told apart from them."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import BUILD, CGROUP, PATIENCE, children, wait_for

IMMURE = str(BUILD / "immure")

TRUE = "/usr/bin/true"


@pytest.mark.parametrize("code", [0, 1, 2, 3, 124, 125, 126, 127, 128, 137, 255])
def test_exit_codes_pass_through(run, code):
    done = run.python(f"import os; os._exit({code})")
    assert (done.returncode, done.stderr) == (code, b"")
    verdict = run.verdict
    assert verdict["exit_code"] == code
    assert verdict["status"] == ("success" if code == 0 else "execution_error")
    assert (verdict["signal"], verdict["killed"], verdict["oom"], verdict["step"], verdict["error_message"]) == (
        None, False, False, None, None)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM", "SIGINT", "SIGFPE", "SIGPIPE", "SIGHUP"])
def test_signals_become_128_and_the_number(run, name):
    number = getattr(signal, name)
    done = run.python(f"import os, signal; signal.signal({int(number)}, signal.SIG_DFL) if {int(number)} != 9 else 0\n"
                      f"os.kill(os.getpid(), {int(number)})\nimport time; time.sleep(5)")
    assert done.returncode == 128 + number
    verdict = run.verdict
    assert (verdict["status"], verdict["signal"], verdict["exit_code"]) == ("execution_error", name, 128 + number)
    assert not verdict["killed"] and not verdict["oom"]


def test_abort_is_sigabrt(run):
    assert run.python("import os; os.abort()").returncode == 134
    assert run.verdict["signal"] == "SIGABRT"


def test_input_and_output_are_the_callers(run):
    payload = bytes(range(256)) * 1000
    done = run.python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); print('e', file=sys.stderr)",
                      input=payload)
    assert (done.stdout, done.stderr, done.returncode) == (payload, b"e\n", 0)


def test_descriptors_are_handed_on_as_they_are(run):
    read_end, write_end = os.pipe()
    inode = os.fstat(write_end).st_ino
    try:
        done = run.python("import os, sys; print(os.fstat(1).st_ino, file=sys.stderr)", stdout=write_end,
                          stderr=subprocess.PIPE, capture_output=False)
    finally:
        os.close(read_end)
        os.close(write_end)
    assert int(done.stderr) == inode


def test_no_other_descriptor_is_inherited(run):
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    try:
        code = ("import os\n"
                "def is_open(fd):\n"
                "    try: os.fstat(fd); return True\n"
                "    except OSError: return False\n"
                "print([fd for fd in range(1024) if is_open(fd)])")
        done = run.python(code, pass_fds=[read_end])
    finally:
        os.close(read_end)
        os.close(write_end)
    assert done.stdout == b"[0, 1, 2]\n", done.stderr


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_closed_standard_descriptors(run, closed):
    """What we open ourselves must not land where the command's stdio is."""
    argv = run.argv("/usr/bin/python3", "-c", "import os; os._exit(3)")
    shell = 'exec "$@" ' + " ".join(f"{fd}>&-" for fd in closed)
    assert subprocess.run(["/bin/sh", "-c", shell, "sh", *argv]).returncode == 3


def test_nothing_of_the_environment_is_inherited(run):
    done = run.python("import os; print(sorted(os.environ))", env={**os.environ, "SECRET_OF_THE_CALLER": "x"})
    assert b"SECRET" not in done.stdout and b"PATH" in done.stdout


def test_variables_can_be_added(run):
    done = run.python("import os; print(os.environ['GREETING'])", options=["--env", "GREETING=a=b c"])
    assert done.stdout == b"a=b c\n", done.stderr


def test_variables_that_the_policy_does_not_admit(run):
    done = run(TRUE, options=["--env", "LD_PRELOAD=/workspace/x.so"])
    assert done.returncode == 125 and b"LD_PRELOAD" in done.stderr


def test_files(run, tmp_path):
    (tmp_path / "a").write_bytes(b"content \0 of a")
    done = run.python("print(open('in/a.bin', 'rb').read())", options=["--file", f"in/a.bin={tmp_path / 'a'}"])
    assert done.stdout == b"b'content \\x00 of a'\n", done.stderr


@pytest.mark.parametrize("name", ["../x", "/x", "a/../b", "", ".", "a//b"])
def test_file_names_that_lead_elsewhere(run, tmp_path, name):
    (tmp_path / "a").write_text("x")
    done = run(TRUE, options=["--file", f"{name}={tmp_path / 'a'}"])
    assert done.returncode == 125 and done.stderr.startswith(b"immure run: ")


def test_timeout(run):
    started = time.monotonic()
    done = run.python("while True: pass", options=["--timeout", "400"])
    assert 0.4 <= time.monotonic() - started
    assert done.returncode == 137
    assert done.stderr == b"immure run: Execution timed out after 0.4 seconds.\n"
    verdict = run.verdict
    assert (verdict["status"], verdict["killed"], verdict["exit_code"], verdict["signal"]) == ("timeout", True, -1, None)


def test_a_sleeping_command_times_out_too(run):
    assert run("/usr/bin/sleep", "60", options=["--timeout", "200"]).returncode == 137
    assert run.verdict["status"] == "timeout"


def test_out_of_memory(run):
    code = "x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('survived')"
    done = run.python(code, options=["--memory", str(64 << 20), "--timeout", "20000"])
    assert done.returncode in (1, 137) and b"survived" not in done.stdout
    verdict = run.verdict
    assert not verdict["killed"]
    assert verdict["limits"]["memory_bytes"] == 64 << 20
    assert (verdict["status"], verdict["oom"], verdict["exit_code"], verdict["signal"]) == ("oom", True, 137, "SIGKILL")


def test_cpu_time(run):
    done = run.python("while True: pass", options=["--cpu", "300", "--timeout", "20000"])
    assert done.returncode == 152
    assert b"CPU time limit of 300 ms used up." in done.stderr
    assert (run.verdict["status"], run.verdict["signal"]) == ("execution_error", "SIGXCPU")


def test_report_of_a_success(run):
    assert run(TRUE).returncode == 0
    verdict = run.verdict
    assert verdict["status"] == "success" and verdict["policy"] == "python"
    assert re.fullmatch("[0-9a-f]{64}", verdict["policy_sha256"])
    assert verdict["enforced_by"] == ("cgroup2" if CGROUP == "REQUIRED" else "rlimit")
    assert verdict["usage"]["cpu_ms"] > 0 and verdict["setup_ms"] > 0 and verdict["duration_ms"] > 0
    if CGROUP == "REQUIRED":
        assert verdict["usage"]["memory_peak_bytes"] > 0 and verdict["usage"]["pids_peak"] >= 1


def test_denied_calls_are_named(run):
    done = run.python("import ctypes; print(ctypes.CDLL(None).mount(b'a', b'/', b'tmpfs', 0, None))")
    assert done.stdout == b"-1\n", done.stderr
    assert {"name": "mount", "count": 1} in run.verdict["denied_syscalls"]


SOME_CALLS = """
import ctypes, fcntl, socket
libc = ctypes.CDLL(None)
libc.prctl(41, 1, 0, 0, 0)
for _ in range(3):
    try: fcntl.ioctl(0, 0x5422)
    except OSError: pass
try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except PermissionError: pass
libc.unshare(0x10000000)
"""


def test_denied_calls_say_which(run):
    done = run.python(SOME_CALLS)
    rows = {row["name"]: row for row in run.verdict["denied_syscalls"]}
    assert rows["ioctl"] == {"name": "ioctl", "count": 3, "calls": [{"call": "ioctl(TIOCNOTTY)", "count": 3}]}
    assert rows["prctl"]["calls"] == [{"call": "prctl(PR_SET_THP_DISABLE)", "count": 1}]
    assert rows["socket"]["calls"][0]["call"] == "socket(AF_PACKET, SOCK_RAW|SOCK_CLOEXEC)"
    assert rows["unshare"]["calls"][0]["call"] == "unshare(CLONE_NEWUSER)"
    said = done.stderr.decode()
    assert said == "".join(f"{'' if line.startswith(' ') else 'immure run: '}{line}\n" for line in run.verdict["hint"].splitlines())
    assert "denied ioctl(TIOCNOTTY), 3 times; a policy's seccomp would allow it with\n" in said
    assert "denied unshare(CLONE_NEWUSER); no policy should allow it: " in said
    assert "rule { action: ALLOW syscall: \"unshare\"" not in said and "AF_PACKET\"" not in said


def test_the_rules_can_be_pasted(run, tmp_path):
    """What is denied under `python` is allowed by a policy that uses it, together with the rules of the hint."""
    code = SOME_CALLS + "libc.setsockopt(socket.socket().fileno(), 1, 12, b'\\0\\0\\0\\0', 4)\nsocket.socket().setsockopt(1, 9, 1)\n"
    hint = run.python(code).stderr.decode()
    path = tmp_path / "more.textproto"
    path.write_text('name: "more"\nuse: "python"\nseccomp {\n' + "".join(line + "\n" for line in hint.splitlines() if line[0] == " ") + "}\n")
    done = run.python(code, policy=str(path))
    assert done.returncode == 0, done.stderr
    assert {row["name"] for row in run.verdict["denied_syscalls"]} == {"socket", "unshare"}
    assert all(b"no policy should" in line for line in done.stderr.splitlines())


def test_no_call_crowds_out_the_others(run):
    run.python("import ctypes\nlibc = ctypes.CDLL(None)\nfor i in range(1000): libc.ioctl(i, 0x9900 + i, ctypes.byref(ctypes.c_int(i)))\n"
               "libc.prctl(41, 1, 0, 0, 0)")
    rows = {row["name"]: row for row in run.verdict["denied_syscalls"]}
    assert rows["ioctl"]["count"] == 1000 and [call["count"] for call in rows["ioctl"]["calls"]] == [1] * 8
    assert rows["prctl"]["calls"] == [{"call": "prctl(PR_SET_THP_DISABLE)", "count": 1}]


def test_nothing_is_said_where_nothing_was_denied(run):
    assert run.python("pass").stderr == b""
    assert run.verdict["denied_syscalls"] == [] and "hint" not in run.verdict


def test_a_command_that_is_not_there(run):
    done = run("/usr/bin/no-such-command")
    assert done.returncode == 125
    assert re.match(rb"immure run: step \d+ \(exec /usr/bin/no-such-command\): .*No such file or directory\n$", done.stderr)
    verdict = run.verdict
    assert (verdict["status"], verdict["exit_code"]) == ("setup_error", -1)
    assert "exec" in verdict["step"] and "No such file" in verdict["error_message"]


WITHOUT_LIBRARIES = """
name: "own"
mount { destination: "/usr/bin" bind { source: "/usr/bin" } }
mount { destination: "/bin" symlink { target: "usr/bin" } }
mount { destination: "/workspace" scratch { directory: WORK } }
mount { destination: "/away" symlink { target: "/else/where" } }
mount { destination: "/round" symlink { target: "round" } }
mount { destination: "/script" file { content: "#!/opt/none -x\\n" mode: 0755 } }
mount { destination: "/linked" file { content: "#! /away\\n" mode: 0755 } }
mount { destination: "/twice" file { content: "#!/script\\n" mode: 0755 } }
mount { destination: "/windows" file { content: "#!/bin/sh\\r\\n" mode: 0755 } }
env { name: "PATH" value: "/nowhere:/bin" }
working_directory: "/workspace"
seccomp { default_action: ALLOW }
"""


@pytest.mark.parametrize("command, why", [
    ("/opt/tool/bin/x", "not in the jail, where there is no /opt"),
    ("/usr/bin/no-such", "not in the jail, where there is no /usr/bin/no-such"),
    ("/bin/no-such", "not in the jail, where there is no /usr/bin/no-such"),
    ("no-such", "not in the jail, in no directory of its PATH"),
    ("./x", "not in the jail, where there is no /workspace/x"),
    ("/away", "a link leads to /else/where, which is not in the jail"),
    ("/away/bin/x", "a link leads to /else/where/bin/x, which is not in the jail"),
    ("/bin/true", "its loader /lib.* is not in the jail"),
    ("true", "its loader /lib.* is not in the jail"),
    ("/script", "its interpreter /opt/none is not in the jail"),
    ("../script", "its interpreter /opt/none is not in the jail"),
    ("/twice", "its interpreter /opt/none is not in the jail"),
    ("/linked", "its interpreter /else/where is not in the jail"),
    ("/windows", r"its interpreter /bin/sh\? is not in the jail"),
])
def test_what_an_exec_does_not_find(run, tmp_path, command, why):
    path = tmp_path / "own.textproto"
    path.write_text(WITHOUT_LIBRARIES)
    done = run(command, policy=str(path))
    assert done.returncode == 125
    assert re.fullmatch(rf"immure run: step \d+ \(exec {re.escape(command)}\): execve: {why}: No such file or directory\n", done.stderr.decode())
    assert run.verdict["error_message"] in done.stderr.decode()


def test_a_link_that_leads_in_a_circle(run, tmp_path):
    path = tmp_path / "own.textproto"
    path.write_text(WITHOUT_LIBRARIES)
    assert run("/round", policy=str(path)).stderr.endswith(b": execve: Too many levels of symbolic links\n")


def policy_with(tmp_path, more):
    """A policy of one's own: Debian's programs, no filter, and `more`."""
    path = tmp_path / "own.textproto"
    path.write_text('name: "own"\n'
                    'mount { destination: "/usr" bind { source: "/usr" } }\n'
                    'mount { destination: "/lib" symlink { target: "usr/lib" } }\n'
                    'mount { destination: "/lib64" symlink { target: "usr/lib64" } }\n'
                    'mount { destination: "/workspace" scratch { directory: WORK } }\n'
                    f'seccomp {{ default_action: ALLOW }}\n{more}')
    return str(path)


@pytest.mark.parametrize("missing", ["/usr/nothing", "/usr/nothing/below", "/etc/passwd/below", "/etc/passwd/far/below"])
def test_a_source_that_is_not_there(run, tmp_path, missing):
    """An optional bind is left out, also where what would hold its source is a file."""
    mount = f'mount {{ destination: "/there" bind {{ source: "{missing}" }} '
    done = run.python("import os; os._exit(os.path.exists('/there'))",
                      policy=policy_with(tmp_path, mount + "optional: true }"))
    assert (done.returncode, done.stderr) == (0, b"")
    done = run(TRUE, policy=policy_with(tmp_path, mount + "}"))
    assert done.returncode == 125 and b"(bind /there)" in done.stderr


@pytest.mark.parametrize("recursive", ["true", "false"])
def test_mounts_below_a_source_come_along_or_nothing_does(run, tmp_path, recursive):
    """They are locked to what they hide: the kernel refuses the source alone, and /dev has mounts below it everywhere."""
    assert any(os.path.ismount(f"/dev/{name}") for name in os.listdir("/dev"))
    mount = f'mount {{ destination: "/there" bind {{ source: "/dev" recursive: {recursive} }} }}'
    done = run(TRUE, policy=policy_with(tmp_path, mount))
    if recursive == "true":
        assert (done.returncode, done.stderr) == (0, b"")
    else:
        assert done.returncode == 125 and b"(bind /there): open_tree: Invalid argument; a source with mounts" in done.stderr


def test_few_descriptors(run, tmp_path):
    """What building the jail needs is not held against the program: Landlock takes one, which only a policy without mounts has."""
    policy = tmp_path / "few.textproto"
    policy.write_text(Path(policy_with(tmp_path, 'rlimit { resource: NOFILE soft: 5 }')).read_text().replace(
        "default_action: ALLOW", 'default_action: ALLOW rule { action: ERRNO syscall: ["mount", "move_mount"] }'))
    assert (run(TRUE, policy=str(policy)).returncode, run.verdict["status"]) == (0, "success")


def test_a_policy_that_is_not_there(run):
    done = run(TRUE, policy="no-such-policy")
    assert done.returncode == 125 and b"no-such-policy" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert run.verdict["status"] == "setup_error"


@pytest.mark.parametrize("arguments, words", [
    ([], "no command"),
    (["--policy", "python"], "no command"),
    (["--policy", "python", "--"], "no command"),
    (["--polcy", "python", "--", TRUE], "did you mean --policy?"),
    (["--policy"], "needs a value"),
    (["--policy", "python", "--timeout", "1GiB", "--", TRUE], "--timeout: '1GiB' is not a whole number"),
    (["--policy", "python", "--memory", "5s", "--", TRUE], "--memory: '5s' is not a whole number"),
    (["--net", "host", TRUE], "--net: 'host': a command has no network"),
    (["--env", "NO_SUCH_VARIABLE_HERE", TRUE], "--env: NO_SUCH_VARIABLE_HERE is not set here"),
    (["--out", "/etc/passwd", TRUE], "--out: '/etc/passwd' must be a name or a glob"),
    (["--ro", "/no/such/directory", TRUE], "--ro: /no/such/directory: No such file"),
    (["--rw", "/usr:here", TRUE], "DEST must be an absolute path"),
    (["--policy", "python", "--cgroup", "maybe", "--", TRUE], "neither required nor best-effort"),
    (["--policy", "python", "--report", "/no/such/directory/r", "--", TRUE], "/no/such/directory/r"),
    (["--policy", "python", "--file", "x", "--", TRUE], "NAME=PATH"),
    (["--policy", "python", "--memory", str(1 << 60), "--cgroup", "best-effort", "--", TRUE], "memory_bytes"),
])
def test_wrong_usage_is_one_sentence_and_125(arguments, words):
    done = subprocess.run([IMMURE, "run", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 125
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("immure run: ") and words in done.stderr


def test_help():
    done = subprocess.run([IMMURE, "run", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    for word in ("--policy", "--report", "125", "best-effort"):
        assert word in done.stdout


def test_options_behind_the_command_are_its_own(run):
    assert run("/usr/bin/printf", "%s|", "--help", "--policy", "--").stdout == b"--help|--policy|--|"


@pytest.mark.skipif(CGROUP == "REQUIRED", reason="this host has what REQUIRED needs")
def test_less_is_never_chosen_silently():
    environment = {name: value for name, value in os.environ.items() if name != "SANDBOX_EXECUTOR_CGROUP"}
    argv = [IMMURE, "run", "--policy", "python", "--", TRUE]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    assert done.returncode == 125
    assert "cgroup" in done.stderr and "--cgroup best-effort" in done.stderr
    environment["SANDBOX_EXECUTOR_CGROUP"] = "BEST_EFFORT"
    assert subprocess.run(argv, env=environment).returncode == 0


def begin(run, number, code):
    """A Python program that has printed "up". Signals are not ignored, as a shell has it for what it runs in the background."""
    process = run.start("/usr/bin/python3", "-c", f"import signal, time\n{code}\nprint('up', flush=True)\ntime.sleep(60)",
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    assert process.stdout.readline() == b"up\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_the_programs_first(run, number):
    process = begin(run, number, f"signal.signal({int(number)}, lambda *_: (print('heard', flush=True), exit(3)))")
    process.send_signal(number)
    output, errors = process.communicate(timeout=PATIENCE * 60)
    assert (output, errors, process.returncode) == (b"heard\n", b"", 3)
    assert run.verdict["status"] == "execution_error"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_a_signal_ends(run, number):
    process = begin(run, number, f"signal.signal({int(number)}, signal.SIG_DFL)")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE * 60)
    assert process.returncode == 128 + number
    assert run.verdict["signal"] == signal.Signals(number).name


def test_a_second_signal_ends_the_jail(run):
    process = begin(run, signal.SIGINT, "signal.signal(2, lambda *_: print('heard', flush=True))")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"heard\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE * 60)
    assert (process.returncode, errors) == (130, b"immure run: cancelled by SIGINT\n")
    assert run.verdict["status"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_jail_that_does_not_heed_signals_is_ended(run, number):
    """SIGTERM after some seconds, SIGHUP at once."""
    process = begin(run, number, f"signal.signal({int(number)}, signal.SIG_IGN)")
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE * 60)
    assert process.returncode == 128 + number
    assert errors.decode() == f"immure run: cancelled by {signal.Signals(number).name}\n"
    assert run.verdict["status"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_from_the_start_cancels_nothing(run, number):
    """nohup, and what a shell starts in the background."""
    process = run.start("/usr/bin/python3", "-c", "print('up', flush=True)\ninput()", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    assert process.stdout.readline() == b"up\n"
    process.send_signal(number)
    process.communicate(b"\n", timeout=PATIENCE * 60)
    assert process.returncode == 0 and run.verdict["status"] == "success"


def test_a_report_that_cannot_be_written_is_told_and_leaves_the_exit_code(run):
    run.report = "/dev/full"
    done = run("/bin/sh", "-c", "exit 3")
    assert (done.returncode, done.stderr) == (3, b"immure run: writing the report: No space left on device\n")


def test_the_jail_dies_with_its_launcher(run):
    """kill -9 cannot be caught: the kernel has to end the jail."""
    process = run.start("/usr/bin/python3", "-c", "print('up', flush=True)\nimport time; time.sleep(60)",
                        stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    process.kill()
    process.wait()
    assert process.stdout.read() == b""  # end of file: nobody has it open any more


def test_a_detached_child_ends_with_the_command(run):
    code = ("import os, time\n"
            "if os.fork() == 0:\n"
            "    os.setsid(); time.sleep(60)\n"
            "print('done')")
    assert run.python(code).stdout == b"done\n"
    assert run.verdict["status"] == "success"  # it did not wait until the time was over


def test_many_at_once(run, tmp_path):
    code = "import os, time; print(os.getuid()); time.sleep(0.2)"
    processes = []
    for i in range(8):
        argv = run.argv("/usr/bin/python3", "-c", code)
        argv[argv.index("--report") + 1] = str(tmp_path / f"r{i}")
        processes.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
    assert [process.communicate(timeout=PATIENCE * 60)[0] for process in processes] == [b"1000\n"] * 8
    assert [json.loads((tmp_path / f"r{i}").read_text())["status"] for i in range(8)] == ["success"] * 8


def outer_uid(launcher):
    """The uid outside of the command, the grandchild of `immure run`, once it is there."""
    def look():
        try:
            for command in (command for jail in children(launcher) for command in children(jail)):
                with open(f"/proc/{command}/status") as file:
                    status = file.read()
                if "Name:\tsleep\n" in status:
                    return int(re.search(r"^Uid:\t(\d+)", status, re.M).group(1))
        except OSError:
            pass  # a process has gone between two looks, or while it was looked at
        return None
    return wait_for(look, "the command")


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's jails are all that user outside")
def test_concurrent_jails_of_root_have_different_uids_outside(run):
    processes = [run.start("/usr/bin/sleep", "60", stdout=subprocess.DEVNULL) for _ in range(3)]
    try:
        outer = {outer_uid(process.pid) for process in processes}
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
    assert len(outer) == 3 and not outer & {0, 1000}

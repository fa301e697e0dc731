"""`immure run` and `immure shell` as people type them: no policy, their own files, a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

import images
from harness import BUILD, CGROUP, PATIENCE

IMMURE = str(BUILD / "immure")
MODE = "required" if CGROUP == "REQUIRED" else "best-effort"


def immure(*arguments, cwd, command="run", **popen):
    environment = {**os.environ, "SANDBOX_EXECUTOR_CGROUP": MODE}
    return subprocess.run([IMMURE, command, *arguments], cwd=cwd, env={**environment, **popen.pop("env", {})}, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE * 60, **popen)


@pytest.fixture
def here(tmp_path):
    """A directory of the caller's, which nobody else can enter."""
    directory = tmp_path / "project"
    directory.mkdir(mode=0o700)
    (directory / "script.py").write_text("import os, sys\nprint(os.getcwd(), sys.argv)\nopen('made.txt', 'w').write('made')\n")
    (directory / "script.py").chmod(0o600)
    (directory / "data").mkdir()
    (directory / "data" / "in.txt").write_text("input\n")
    (directory / "run.sh").write_text("#!/bin/sh\necho \"$(basename $0) $*\"\n")
    (directory / "run.sh").chmod(0o700)
    (directory / ".ssh").mkdir()
    (directory / ".ssh" / "id").write_text("secret")
    return directory


def test_a_command_alone(here):
    done = immure("ls", "-a", cwd=here)
    assert (done.returncode, done.stderr) == (0, "") and "script.py" not in done.stdout


def test_a_script_of_the_callers_directory(here):
    done = immure("python3", "script.py", "--policy", "x", cwd=here)
    assert (done.stdout, done.stderr, done.returncode) == ("/workspace ['script.py', '--policy', 'x']\n", "", 0)
    assert not (here / "made.txt").exists()


@pytest.mark.parametrize("arguments, output", [
    (["cat", "./data/in.txt"], "input\n"),
    (["./run.sh", "a"], "run.sh a\n"),
    (["--", "sh", "run.sh", "b"], "run.sh b\n"),
])
def test_files_that_arguments_name(here, arguments, output):
    done = immure(*arguments, cwd=here)
    assert (done.stdout, done.stderr) == (output, "")


def test_a_file_with_its_whole_path(here):
    assert immure("cat", str(here / "data/in.txt"), cwd="/").stdout == "input\n"
    assert immure("/bin/echo", "/etc/passwd", cwd="/").stdout == "/etc/passwd\n"
    # The jail's own, not the host's.
    assert immure("cat", "/etc/passwd", cwd="/").stdout.startswith("immure:x:1000:")


@pytest.mark.parametrize("name", [".ssh/id", "data", "../project/script.py", "missing"])
def test_what_a_name_alone_does_not_show(here, name):
    done = immure("cat", name, cwd=here)
    assert done.returncode == 1 and done.stdout == ""


def test_under_a_policy_of_the_callers_choice_a_name_shows_nothing(here):
    done = immure("--policy", "python", "cat", "script.py", cwd=here)
    assert done.returncode == 1 and "No such file" in done.stderr


def test_what_the_default_policy_does_not_give(here):
    code = """
import ctypes, os, socket
print([name for name in ("home", "root", "var", "srv", "opt", "run", "sys", "boot") if os.path.exists("/" + name)])
print(sorted(set(os.listdir("/etc")) - {"alternatives", "ld.so.cache"}))
for attempt in (lambda: socket.create_connection(("1.1.1.1", 53), 2), lambda: socket.socket(socket.AF_NETLINK), lambda: os.mkdir("/usr/x")):
    try: attempt(); print("done")
    except OSError: print("refused")
libc = ctypes.CDLL(None)
print(libc.unshare(0x10000000), libc.mount(b"x", b"/tmp", b"tmpfs", 0, None), libc.ptrace(16, 1, 0, 0), os.getuid())
"""
    assert immure("python3", "-c", code, cwd=here).stdout.splitlines() == [
        "[]", "['group', 'hosts', 'nsswitch.conf', 'passwd']", "refused", "refused", "refused", "-1 -1 -1 1000"]


def test_directories_read_only(here):
    done = immure("--ro", "data", "--ro", "data:/in", "sh", "-c", f"cat {here}/data/in.txt /in/in.txt; echo x >/in/in.txt", cwd=here)
    assert done.stdout == "input\ninput\n"
    assert "Read-only" in done.stderr or "Permission denied" in done.stderr
    assert (here / "data/in.txt").read_text() == "input\n"


def test_a_writable_directory_belongs_to_its_owner(here):
    done = immure("--rw", "data:/out", "sh", "-c", "echo new >/out/new; echo more >>/out/in.txt; stat -c %u /out/in.txt", cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000\n", "")
    assert (here / "data/new").read_text() == "new\n" and (here / "data/in.txt").read_text() == "input\nmore\n"
    assert (here / "data/new").stat().st_uid == (here / "data").stat().st_uid == os.getuid()


def test_nothing_set_user_id_is_left_in_it(here):
    code = "\n".join(["import os", "open('/out/f', 'w').close()",
                      "for attempt in (lambda: os.chmod('/out/f', 0o4755), lambda: os.open('/out/g', os.O_CREAT, 0o4755),",
                      "                lambda: os.mknod('/out/h', 0o104755), lambda: os.chmod('/out/f', 0o755)):",
                      "    try: attempt(); print('done')",
                      "    except PermissionError: print('refused')"])
    assert immure("--rw", "data:/out", "python3", "-c", code, cwd=here).stdout.split() == ["refused"] * 3 + ["done"]
    assert {file.name: file.stat().st_mode & 0o7777 for file in (here / "data").iterdir() if file.name != "in.txt"} == {"f": 0o755}


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs a jail for somebody else's directory")
def test_a_directory_of_somebody_elses(here):
    os.chown(here / "data", 65534, 65534)
    assert immure("--rw", "data:/out", "touch", "/out/new", cwd=here).returncode == 0
    assert (here / "data/new").stat().st_uid == 65534


def test_the_callers_directory(here):
    os.rename(here / ".ssh", here.parent / "kept")
    done = immure("--cwd", "sh", "-c", "pwd; cat data/in.txt; touch new", cwd=here)
    assert done.stdout == f"{here}\ninput\n" and "touch" in done.stderr
    done = immure("--cwd", "--rw", ".", "python3", "script.py", cwd=here)
    assert done.stdout == f"{here} ['script.py']\n" and (here / "made.txt").read_text() == "made"


@pytest.mark.parametrize("options, words", [
    (["--ro", "."], ".ssh in it, which holds keys"),
    (["--cwd"], ".ssh in it, which holds keys"),
    (["--rw", ".ssh"], "which holds keys"),
    (["--ro", "/etc"], "which holds passwords"),
    (["--ro", "/run:/x"], "sockets"),
    (["--ro", "/"], "give --policy FILE with a mount of it"),
    (["--ro", "data:/workspace/../x"], "must not hold '.' or '..'"),
    (["--ro", "data:/etc"], "would hide /etc/passwd"),
    (["--ro", "data:/"], "must not be the root"),
])
def test_what_is_not_shown(here, options, words):
    done = immure(*options, "true", cwd=here)
    assert done.returncode == 125 and words in done.stderr and done.stderr.count("\n") == 1


def test_outputs(here):
    script = "mkdir -p d; echo 1 >a.txt; echo 2 >d/b.txt; echo 3 >c.log; ln -s /etc/passwd l.txt"
    done = immure("--out", "*.txt", "--out", "d/*", "sh", "-c", script, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert (here / "a.txt").read_text() == "1\n" and (here / "d/b.txt").read_text() == "2\n"
    assert not (here / "c.log").exists() and not (here / "l.txt").exists()
    assert (here / "a.txt").stat().st_uid == os.getuid()


def test_nothing_is_written_over(here):
    (here / "a.txt").write_text("mine")
    (here / "elsewhere").symlink_to("/tmp")
    script = "mkdir elsewhere; echo 1 | tee a.txt b.txt >elsewhere/immure-escaped; exit ${1:-0}"
    done = immure("--out", "*.txt", "--out", "elsewhere/*", "sh", "-c", script, cwd=here)
    assert done.returncode == 1 and "a.txt: is here already" in done.stderr
    assert "elsewhere/immure-escaped: its directory here is a link" in done.stderr
    assert (here / "a.txt").read_text() == "mine" and (here / "b.txt").read_text() == "1\n"
    assert not Path("/tmp/immure-escaped").exists()
    assert immure("--out", "a.txt", "sh", "-c", script, "sh", "3", cwd=here).returncode == 3


def test_what_was_brought_is_no_output_and_what_is_missing_is_told(here):
    done = immure("--out", "*.py", "--out", "*.png", "python3", "script.py", cwd=here)
    assert done.returncode == 0 and done.stderr == "immure run: --out *.png: there is no such file\n"


def test_variables_of_the_callers(here):
    done = immure("--env", "MINE", "--env", "OTHER=1", "sh", "-c", "echo $MINE $OTHER $SECRET", cwd=here,
                  env={"MINE": "a b", "SECRET": "x"})
    assert done.stdout == "a b 1\n"


def test_limits_have_units(here):
    assert immure("--memory", "1GiB", "--timeout", "5m", "--cpu", "2s", "--pids", "9", "--net", "none", "true", cwd=here).returncode == 0
    done = immure("--timeout", "300ms", "sleep", "60", cwd=here)
    assert (done.returncode, done.stderr) == (137, "immure run: Execution timed out after 0.3 seconds.\n")
    assert "limits.memory_bytes" in immure("--memory", "1TiB", "true", cwd=here).stderr


def test_no_image(here, tmp_path):
    assert "SANDBOX_EXECUTOR_IMAGE_DIRECTORY" in immure("--image", "x", "true", cwd=here).stderr
    (tmp_path / "images").mkdir()
    done = immure("--image", "x", "true", cwd=here, env={"SANDBOX_EXECUTOR_IMAGE_DIRECTORY": str(tmp_path / "images")})
    assert done.returncode == 125 and "image" in done.stderr


def test_an_image(here, tmp_path):
    images.make_root(tmp_path / "root", "/usr/bin/cat", "/usr/bin/ls")
    assert images.image("import", "tools", tmp_path / "root", directory=tmp_path / "images").returncode == 0
    variable = {"SANDBOX_EXECUTOR_IMAGE_DIRECTORY": str(tmp_path / "images")}
    done = immure("--image", "tools", "--ro", "data:/deep/in/it", "cat", "/etc/image", "/deep/in/it/in.txt", "script.py", cwd=here, env=variable)
    assert done.stdout.startswith("of the image\ninput\nimport os") and done.stderr == ""
    assert immure("--image", "tools", "ls", "/usr/bin", cwd=here, env=variable).stdout == "cat\nls\n"


def test_a_compiler(here):
    (here / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    done = immure("sh", "-c", "gcc -o hello $0 && ./hello", "hello.c", cwd=here)
    assert (done.stdout, done.stderr) == ("hello\n", "")
    assert immure("--out", "hello", "gcc", "-o", "hello", "hello.c", cwd=here).returncode == 0
    assert (here / "hello").read_bytes()[:4] == b"\x7fELF"


# ---- At a terminal ----


class Terminal:
    """A command at a terminal of ours, as a person has it before them."""

    def __init__(self, *command, rows=33, columns=101):
        self.seen = ""
        environment = {name: value for name, value in os.environ.items() if name != "SANDBOX_EXECUTOR_CGROUP"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(IMMURE, [IMMURE, *command], environment)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern):
        """Waits until that has been printed, and forgets it."""
        deadline = time.monotonic() + PATIENCE * 60
        while not (match := re.search(pattern, self.seen)):
            assert time.monotonic() < deadline, (pattern, self.seen)
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096).decode()
                except OSError:
                    assert re.search(pattern, self.seen), (pattern, self.seen)
        self.seen = self.seen[match.end():]
        return match

    def code(self):
        """Its exit code, once it has ended."""
        while True:
            try:
                if not os.read(self.fd, 4096):
                    break
            except OSError:
                break
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return code


def test_less_is_told_at_a_terminal():
    terminal = Terminal("run", "echo", "he" + "re")
    if MODE == "best-effort":
        terminal.until(r"immure run: no cgroup holds the limits here, .*best-effort.*--cgroup chooses\r\n")
    terminal.until("here")
    assert terminal.code() == 0


def test_a_shell():
    terminal = Terminal("shell")
    terminal.until(r"\$ ")
    terminal.type("stty size; test -t 0 && echo it is $((6 * 7)); id -un; ls /home /root 2>&1 | wc -l\n")
    terminal.until(r"33 101\r\n")
    terminal.until(r"it is 42\r\nimmure\r\n2\r\n")
    terminal.type("exit 7\n")
    assert terminal.code() == 7


def test_the_window_changes():
    terminal = Terminal("shell", "python3", "-uc", "import os, signal\n"
                        "signal.signal(signal.SIGWINCH, lambda *_: print('now', *os.get_terminal_size()))\n"
                        "print('ready')\nwhile True: signal.pause()")
    terminal.until("ready")
    terminal.resize(44, 120)
    terminal.until("now 120 44")
    terminal.type("\x03")
    terminal.until("KeyboardInterrupt")
    assert terminal.code() == 130


def test_job_control():
    terminal = Terminal("shell")
    terminal.until(r"\$ ")
    terminal.type("echo be'gin'; sleep 1000\n")
    terminal.until("begin\r\n")
    wait_for_sleep(terminal)
    terminal.type("\x1a")
    terminal.until(r"Stopped +sleep 1000")
    terminal.type("fg\n")
    terminal.until(r"sleep 1000\r\n")
    wait_for_sleep(terminal)
    terminal.type("\x03")
    terminal.until(r"\^C")
    terminal.type("kill %% 2>&1 | wc -l; exit 3\n")
    assert terminal.code() == 3


def wait_for_sleep(terminal):
    """Until the sleep below that immure has the foreground, and takes what is typed."""
    deadline = time.monotonic() + PATIENCE * 60
    while not any("sleep" in name for name in names_below(terminal.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def names_below(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        try:
            yield Path(f"/proc/{child}/comm").read_text()
        except OSError:
            continue
        yield from names_below(child)


def test_nothing_is_typed_into_a_terminal():
    code = ("import fcntl, termios\n"
            "for request in (termios.TIOCSTI, 0x541c):\n"
            "    try: fcntl.ioctl(0, request, b'x'); print('typed')\n"
            "    except OSError as error: print('refused', error.errno)\n")
    terminal = Terminal("shell", "python3", "-c", code)
    terminal.until(r"refused 1\r\nrefused 1\r\n")
    assert terminal.code() == 0


def test_the_callers_terminal_is_as_it_was():
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    environment = {**os.environ, "SANDBOX_EXECUTOR_CGROUP": MODE}
    process = subprocess.Popen([IMMURE, "shell", "sleep", "1000"], stdin=slave, stdout=slave, stderr=slave, env=environment,
                               preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    deadline = time.monotonic() + PATIENCE * 60
    while termios.tcgetattr(slave) == before or not any("sleep" in name for name in names_below(process.pid)):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE * 60) == 143
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)


def test_a_shell_wants_a_terminal(here):
    done = immure(cwd=here, command="shell")
    assert done.returncode == 125 and "no terminal; for a script: `immure run bash`" in done.stderr

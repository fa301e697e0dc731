"""`immure policy import`: policies of other launchers become ours, and programs run under them."""

import re
import subprocess
from pathlib import Path

import pytest

from harness import BUILD, TOOLS, syscalls

IMMURE = str(BUILD / "immure")
LIBRARIES = "".join(f'mount {{ src: "{path}" dst: "{path}" is_bind: true mandatory: {mandatory} }}\n'
                    for path, mandatory in [("/lib", "true"), ("/lib64", "false"), ("/lib32", "false"), ("/usr/lib", "true")])
TOOLS_OF_THE_HOST = "".join(f'mount {{ src: "{path}" dst: "{path}" is_bind: true }}\n' for path in ["/bin", "/usr"])

# In the style of nsjail's own samples: each with a command that runs, what it prints, and what is not covered.
SAMPLES = {
    "shell-with-surprises": (
        """
name: "shell-with-surprises"
description: "A shell in which some calls answer"
description: "what nobody expects."
mode: ONCE
hostname: "SHELL"
cwd: "/tmp"
time_limit: 100
envar: "GREETING=a \\"b\\""
envar: "TERM"
keep_caps: true
cap: "CAP_SYS_ADMIN"
pass_fd: 100
rlimit_as: 1024
rlimit_fsize: 0
uidmap { inside_id: "0" outside_id: "" count: 1 }
gidmap { inside_id: "4" }
mount { src: "/lib" dst: "/lib" is_bind: true }
mount { src: "/lib64" dst: "/lib64" is_bind: true mandatory: false }
""" + TOOLS_OF_THE_HOST + """
mount { dst: "/tmp" fstype: "tmpfs" rw: true noexec: true }
mount { src: "/dev/null" dst: "/dev/null" rw: true is_bind: true }
mount { dst: "/proc" fstype: "proc" rw: false }
mount { src_content: "made\\n" dst: "/MADE" }
mount { src: "/nonexistent_777" dst: "/nonexistent_777" is_bind: true mandatory: false }
mount { src: "/proc/self/fd" dst: "/dev/fd" is_symlink: true }
mount { src: "/x" dst: "/proc/no/link/can/be/made" is_symlink: true mandatory: false }
user_net { }
seccomp_string: "ERRNO(13) { uname }  ERRNO(1) { ptrace, sched_setaffinity }"
seccomp_string: "KILL_PROCESS { syslog } "
seccomp_string: "DEFAULT ALLOW "
exec_bin { path: "/bin/bash" arg0: "sh" arg: "-i" }
""",
        ["/bin/bash", "-c", 'echo "$GREETING"; cat /MADE; uname 2>/dev/null || echo no name; pwd; echo x 2>/dev/null >/etc/y || echo no write'],
        'a "b"\nmade\nno name\n/tmp\nno write\n',
        ["uidmap 0", "TERM", "CAP_SYS_ADMIN", "pass_fd", "user_net", "/nonexistent_777", "/proc/no/link", "exec_bin /bin/bash -i"],
    ),
    "converter": (
        'name: "converter"\nhostname: "CONVERT"\ncwd: "/user"\nenvar: "HOME=/user"\nrlimit_as: 2048\n' + LIBRARIES + """
mount { dst: "/tmp" fstype: "tmpfs" rw: true is_bind: false }
mount { dst: "/user" fstype: "tmpfs" rw: true }
mount { src: "/nonexistent/in" dst: "/user/in" is_bind: true }
seccomp_string: "ALLOW {"
seccomp_string: "  read, write, open, openat, close, newstat, newfstat, newlstat, lseek, mmap, mprotect, munmap, brk,"
seccomp_string: "  rt_sigaction, access, execveat, exit_group, arch_prctl, set_tid_address, set_robust_list, pread64, prlimit64"
seccomp_string: "}"
seccomp_string: "DEFAULT KILL_PROCESS"
exec_bin { path: "" arg0: "/nonexistent/bin/convert" exec_fd: true }
""",
        ["/usr/bin/printf", "done"],
        "done",
        ["/nonexistent/in", "exec_bin /nonexistent/bin/convert"],
    ),
    "one-program": (
        """
name: "one-program"
cwd: "/"
keep_env: false
uidmap { inside_id: "99999" }
mount { dst: "/proc" fstype: "proc" }
seccomp_string: "ERRNO(0) { ptrace } DEFAULT ALLOW"
exec_bin { path: "/usr/bin/env" exec_fd: true }
""",
        ["/usr/bin/env"],
        None,
        ["ERRNO(0)", "working directory /", "mount /usr/bin: nothing but the program"],
    ),
}

MINIJAIL = """
# cat, and no more
@frequency ./cat.frequency
read: 1
write: arg0 == 1 || arg0 == 2; return EBADF
fstat: 1
mmap: arg2 in ~PROT_EXEC || arg2 in ~PROT_WRITE
mprotect: arg2 in ~PROT_EXEC || arg2 in ~PROT_WRITE
fadvise64: 1
exit_group: 1
"""

UNIT = """[Unit]
Description=A service of one's own
After=network.target

[Service]
Type=oneshot
ExecStart=/usr/bin/printf %s
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EACCES
SystemCallArchitectures=native
ProtectSystem=strict
PrivateTmp=yes
RestrictAddressFamilies=AF_UNIX
MemoryDenyWriteExecute=yes
Environment="GREETING=a b" HOME=/tmp
LimitNOFILE=64
MemoryMax=256M
Restart=always

[Install]
WantedBy=multi-user.target
"""


def importing(source, *options):
    return subprocess.run([IMMURE, "policy", "import", *options, str(source)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def imported(tmp_path):
    """Imports a text, lints what comes out, and returns it with what was said."""

    def run(form, text, *options):
        source, policy = tmp_path / "source.cfg", tmp_path / "imported.textproto"
        source.write_text(text)
        done = importing(source, "--from", form, "-o", str(policy), *options)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        lint = subprocess.run([IMMURE, "policy", "lint", str(policy)], capture_output=True, text=True, timeout=60)
        assert lint.stderr == ""  # findings are for the author, errors would be ours
        return policy, done.stderr

    return run


@pytest.mark.parametrize("name", SAMPLES)
def test_nsjail(name, imported, run):
    text, command, output, notes = SAMPLES[name]
    policy, said = imported("nsjail", text)
    for words in notes:
        assert words in said and words in " ".join(policy.read_text().replace("#     ", "").split("\n# ")), words
    done = run(*command, policy=str(policy))
    assert done.returncode == 0, done.stderr
    assert output is None or done.stdout.decode() == output


def test_kafel_with_what_it_includes(tmp_path, run):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/output.policy").write_text("#define OUT 1\nPOLICY output { ALLOW { write(fd, b, n) { fd == OUT, fd == 2 } } }\n")
    source, policy = tmp_path / "a.policy", tmp_path / "a.textproto"
    source.write_text('#include "more/output.policy"\nUSE output\nERRNO(9) { write }\nDEFAULT KILL\n')
    done = importing(source, "--from", "nsjail", "-o", policy, "--with-libc")
    assert done.returncode == 0, done.stderr
    assert 'name: "a"' in policy.read_text()
    assert run("/usr/bin/printf", "hi", policy=str(policy)).stdout == b"hi"


def test_a_profile_of_containers(tmp_path, run):
    profiles = [path for path in (TOOLS / "containers-seccomp.json", Path("/usr/share/containers/seccomp.json")) if path.exists()]
    assert profiles, "scripts/test fetches Debian's golang-github-containers-common"
    policy = tmp_path / "containers.textproto"
    done = importing(profiles[0], "--from", "docker", "-o", policy)
    assert done.returncode == 0, done.stderr
    assert "CAP_SYS_ADMIN" in done.stderr and "no system call of this architecture" in done.stderr
    script = "ls / | sort | head -n 1; echo 1 >f && cp f g && cat g; (exit 3); echo $?"
    done = run("/usr/bin/bash", "-c", script, policy=str(policy))
    assert (done.returncode, done.stdout) == (0, b"bin\n1\n3\n"), done.stderr


def test_minijail(imported, run):
    policy, said = imported("minijail", MINIJAIL)
    assert "not covered: @frequency" in said and re.search("suggested: .*brk.*--with-libc", said)
    assert "# Suggested:" in policy.read_text()
    policy, said = imported("minijail", MINIJAIL, "--with-libc")
    assert "suggested" not in said
    done = run("/usr/bin/cat", policy=str(policy), input=b"through")
    assert (done.returncode, done.stdout) == (0, b"through"), done.stderr


def test_a_unit(imported, run):
    policy, said = imported("systemd", UNIT)
    assert "Type=, Restart=: no counterpart" in said and "ExecStart=" in said
    assert "ProtectSystem" not in said  # every jail has it
    done = run("/usr/bin/bash", "-c", 'echo "$GREETING $HOME"; nice -n 1 true 2>/dev/null || echo; ulimit -n', policy=str(policy))
    assert done.returncode == 0 and done.stdout.startswith(b"a b /tmp\n") and done.stdout.endswith(b"64\n"), done.stderr


def test_units_of_the_host(tmp_path):
    units = sorted(Path("/usr/lib/systemd/system").glob("systemd-*.service"))
    assert units
    for unit in units:
        done = importing(unit, "--from", "systemd", "-o", tmp_path / "unit.textproto")
        assert done.returncode == 0, f"{unit}: {done.stderr}"


def test_groups_of_systemd():
    """The table names nothing that systemd's own group does not have; younger ones have more."""
    table = (Path(__file__).resolve().parents[2] / "policy/import/systemd_groups.c").read_text()
    listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True).stdout
    groups = {name: set(re.findall(r"^    ([@\w-]+)$", body, re.M)) for name, body in re.findall(r"^(@[\w-]+)\n((?:    .*\n?)*)", listed, re.M)}
    rows = re.findall(r'\{"(@[\w-]+)",\s*((?:"[^"]*"\s*)+)\}', table)
    assert len(rows) > 25
    native = set(syscalls())
    for name, text in rows:
        calls = {call for call in "".join(re.findall('"([^"]*)"', text)).split() if call[0] == "@" or call in native}
        assert calls <= groups[name], name


def test_what_cannot_be_imported(tmp_path):
    source, policy = tmp_path / "x.cfg", tmp_path / "out.textproto"
    source.write_text("ALLOW { read }\nDEFAULT PERHAPS\n")
    done = importing(source, "--from", "nsjail", "-o", policy)
    assert done.returncode == 1 and f"{source}:2: " in done.stderr and not policy.exists()
    for options in (["--from", "jails"], []):
        assert importing(source, *options).returncode == 2
    assert importing(tmp_path / "none", "--from", "oci").returncode == 1

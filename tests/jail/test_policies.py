"""The shipped policies in force: what they promise to carry runs and is denied nothing; what they promise to stop is stopped,
by name."""

import errno
import platform
import signal

import pytest

from harness import syscalls

# Each: a name and a program that ends with 0 under `python` without a denied system call.
COMFORTS = {
    "threads": """
import concurrent.futures, threading
results = []
threads = [threading.Thread(target=results.append, args=(number,), name=f"t{number}") for number in range(32)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sorted(results) == list(range(32))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(abs, range(100))) == 4950
""",
    "subprocess": """
import os, subprocess, sys
assert subprocess.run(["/bin/sh", "-c", "echo hi"], capture_output=True, text=True).stdout == "hi\\n"
assert subprocess.run("echo a | tr a b", shell=True, capture_output=True).stdout == b"b\\n"
assert subprocess.run([sys.executable, "-c", "print(3)"], capture_output=True).stdout == b"3\\n"
cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
assert cat.communicate(b"x")[0] == b"x"
assert subprocess.run(["bash", "-c", "set -o pipefail; false | true"]).returncode == 1
assert os.system("exit 3") == 3 << 8
os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
child = os.fork()
if child == 0: os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
""",
    "tools": """
import subprocess
script = '''set -e
ls -la / >/dev/null; date >/dev/null; id -un | grep -qx immure; uname -a >/dev/null
printf 'b\\na\\n' | sort | head -n 1 | awk '{print $1}' | grep -qx a
mkdir d; echo x >d/a; cp d/a d/b; cp -a d e; mv d/b /tmp/b; rm -r e; ln -s a d/l; mkfifo d/f; touch d/a; chmod 600 d/a
tar -cf t.tar d; tar -tf t.tar >/dev/null; gzip -c t.tar | gunzip >/dev/null; sha256sum t.tar >/dev/null
sed -n 1p /etc/passwd >/dev/null; find /workspace >/dev/null; xargs --version >/dev/null; timeout 5 true; nice true
head -c 3 /dev/zero | od -c >/dev/null; head -c 3 /dev/random | wc -c | grep -qx 3; dd if=/dev/zero of=z bs=1k count=3 2>/dev/null
env >/dev/null; nproc >/dev/null; stat z >/dev/null; df . >/dev/null; which awk >/dev/null; mktemp >/dev/null; kill -0 $$
'''
assert subprocess.run(["sh", "-c", script]).returncode == 0
""",
    "asyncio": """
import asyncio, signal
async def main():
    await asyncio.sleep(0)
    child = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
    assert (await child.communicate())[0] == b"x\\n"
    assert await (await asyncio.create_subprocess_shell("exit 3")).wait() == 3
    assert await asyncio.to_thread(abs, -1) == 1
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)
    async def serve(reader, writer):
        writer.write(await reader.read(1)); await writer.drain(); writer.close()
    server = await asyncio.start_unix_server(serve, "/tmp/socket")
    reader, writer = await asyncio.open_unix_connection("/tmp/socket")
    writer.write(b"x")
    assert await reader.read() == b"x"
    writer.close(); server.close()
asyncio.run(main())
asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
async def again(): assert await (await asyncio.create_subprocess_exec("true")).wait() == 0
asyncio.run(again())
""",
    "sockets": """
import select, selectors, socket
one, two = socket.socketpair()
one.send(b"x"); assert two.recv(1) == b"x"
one.setblocking(False); select.select([], [one], [], 0); select.poll().poll(0)
selector = selectors.DefaultSelector(); selector.register(one, selectors.EVENT_WRITE); assert selector.select(0)
for family in socket.AF_INET, socket.AF_INET6:
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        socket.socket(family, kind).setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen()
assert socket.gethostname() == "immure"
assert socket.gethostbyname("localhost") == "127.0.0.1"
for call in (lambda: socket.getaddrinfo("example.com", 80), lambda: socket.create_connection(("192.0.2.1", 80), timeout=2)):
    try: call()
    except OSError: pass
    else: raise SystemExit("there is a network")
""",
    "sqlite3": """
import sqlite3
for name in ":memory:", "/workspace/x.db":
    base = sqlite3.connect(name)
    base.execute("pragma journal_mode=wal")
    base.execute("create table t(a)"); base.execute("insert into t values (1)"); base.commit()
    assert base.execute("select a from t").fetchall() == [(1,)]
    base.close()
""",
    "ctypes": """
import ctypes
libc = ctypes.CDLL("libc.so.6")
assert libc.abs(-3) == 3
pointer = ctypes.POINTER(ctypes.c_int)
numbers = (ctypes.c_int * 3)(3, 1, 2)
libc.qsort(numbers, 3, 4, ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(lambda a, b: a[0] - b[0]))
assert list(numbers) == [1, 2, 3]
""",
    "files": """
import fcntl, mmap, os, pathlib, shutil, tempfile
with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    (here / "a").write_text("x" * 10000)
    shutil.copy2(here / "a", here / "b"); shutil.copytree(here, "/tmp/tree"); shutil.move("/tmp/tree", "/workspace/tree")
    os.symlink("a", here / "l"); os.link(here / "a", here / "h"); os.chmod(here / "a", 0o755); os.utime(here / "a")
    os.truncate(here / "a", 3); os.mkfifo(here / "f"); os.rename(here / "a", here / "r"); os.statvfs(here); os.chown(here / "r", -1, -1)
    fd = os.open(here / "r", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX); fcntl.lockf(fd, fcntl.LOCK_EX); os.posix_fallocate(fd, 0, 10); os.fsync(fd)
    assert os.pwrite(fd, b"x", 0) == 1 and os.pread(fd, 1, 0) == b"x"
    os.copy_file_range(fd, os.open(here / "c", os.O_CREAT | os.O_RDWR), 3)
    with mmap.mmap(fd, 0) as memory: memory[0:1] = b"y"; memory.flush()
shutil.make_archive("/tmp/archive", "gztar", "/workspace")
assert len(open("/dev/urandom", "rb").read(3)) == 3
open("/dev/null", "w").write("x")
""",
    "library": """
import datetime, getpass, grp, hashlib, locale, os, platform, pwd, readline, resource, shelve, signal, ssl, time, uuid, zoneinfo
platform.platform(); uuid.uuid1(); ssl.create_default_context(); locale.setlocale(locale.LC_ALL, "")
assert locale.getpreferredencoding() == "UTF-8"
assert getpass.getuser() == pwd.getpwuid(os.getuid()).pw_name == "immure" and grp.getgrgid(os.getgid()).gr_name == "immure"
assert datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset() == datetime.timedelta(hours=2)
assert time.tzname[0] == "UTC"
hashlib.scrypt(b"x", salt=b"y", n=2, r=1, p=1); shelve.open("/tmp/shelf").close()
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01); signal.pause(); signal.setitimer(signal.ITIMER_REAL, 0)
signal.pthread_sigmask(signal.SIG_BLOCK, [10]); os.kill(os.getpid(), 10); assert signal.sigtimedwait([10], 1)
os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.setuid(os.getuid()); os.setgid(os.getgid()); os.eventfd(0)
assert os.cpu_count() and os.sysconf("SC_PHYS_PAGES") and os.path.expanduser("~") == os.getcwd() == "/workspace"
""",
}

MULTIPROCESSING = """
import multiprocessing, sys
from multiprocessing import shared_memory

def add(lock, value, array, queue):
    with lock: value.value += 1; array[0] += 1; queue.put(value.value)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    lock, value, array, queue = context.Lock(), context.Value("i", 0), context.Array("i", 4), context.Queue()
    children = [context.Process(target=add, args=(lock, value, array, queue)) for _ in range(3)]
    for child in children: child.start()
    for child in children: child.join()
    assert value.value == array[0] == 3 and sorted(queue.get() for _ in children) == [1, 2, 3]
    with context.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
    with context.Manager() as manager: shared = manager.dict(); shared[1] = 2; assert shared[1] == 2
    memory = shared_memory.SharedMemory(create=True, size=100); memory.buf[0] = 1; memory.close(); memory.unlink()
"""


def assert_carried(run, done):
    assert done.returncode == 0, done.stderr.decode()
    assert run.verdict["denied_syscalls"] == []


@pytest.mark.parametrize("name", COMFORTS)
def test_python_carries(run, name):
    assert_carried(run, run.python(COMFORTS[name]))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_python_carries_multiprocessing(run, tmp_path, method):
    (tmp_path / "main.py").write_text(MULTIPROCESSING)
    assert_carried(run, run("/usr/bin/python3", "main.py", method, options=["--file", f"main.py={tmp_path}/main.py"]))


# What a program finds: exactly this, whatever the host has.
def test_python_sees_only_its_mounts(run):
    done = run.python("import os\nfor path in '/', '/etc', '/dev', '/usr', '/usr/lib': print(*sorted(os.listdir(path)))")
    root, etc, dev, usr, lib = done.stdout.decode().splitlines()
    assert root.split() == ["bin", "dev", "etc", "lib", "lib64", "mnt", "proc", "tmp", "usr", "workspace"]
    assert etc.split() == ["alternatives", "group", "hosts", "nsswitch.conf", "passwd"]
    assert dev.split() == ["fd", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
    assert usr.split() == ["bin", "lib", "share"]
    assert {"python3.11", "locale"} < set(lib.split()) and "python3" not in lib.split()


@pytest.mark.parametrize("path", ["/x", "/usr/x", "/usr/bin/x", "/etc/passwd", "/dev/x", "/proc/sys/kernel/core_pattern",
                                  "/usr/lib/python3.11/x", "/bin/x"])
def test_nothing_but_the_scratch_is_writable(run, path):
    done = run.python(f"open({path!r}, 'w')")
    assert done.returncode == 1
    assert b"Read-only file system" in done.stderr or b"No such file" in done.stderr or b"Permission denied" in done.stderr


ATTACK = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(*[ctypes.c_ulong(int(word, 0)) for word in sys.argv[1:]])
print(result, ctypes.get_errno())
"""

# Arguments that would work or fail in another way if the filter let them through.
ATTACKS = {
    "unshare": (0x10000000,),
    "setns": (0, 0),
    "clone": (0x10000000 | 17, 0, 0, 0, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, 2),
    "pivot_root": (0, 0),
    "chroot": (0,),
    "open_tree": (-100, 0, 1),
    "move_mount": (-100, 0, -100, 0, 0),
    "fsopen": (0, 0),
    "mount_setattr": (-100, 0, 0, 0, 0),
    "ptrace": (0, 0, 0, 0),
    "process_vm_readv": (1, 0, 0, 0, 0, 0),
    "process_vm_writev": (1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (0, 0, 0),
    "kcmp": (1, 1, 0, 0, 0),
    "perf_event_open": (0, 0, -1, -1, 0),
    "bpf": (5, 0, 0),
    "io_uring_setup": (1, 0),
    "userfaultfd": (1,),
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "keyctl": (0, -3, 0),
    "open_by_handle_at": (-100, 0, 0),
    "name_to_handle_at": (-100, 0, 0, 0, 0),
    "memfd_create": (0, 0),
    "memfd_secret": (0,),
    "seccomp": (2, 0, 0),
    "shmget": (0, 4096, 0o1600),
    "mq_open": (0, 0, 0, 0),
    "kexec_load": (0, 0, 0, 0),
    "init_module": (0, 0, 0),
    "reboot": (0, 0, 0, 0),
    "swapon": (0, 0),
    "syslog": (3, 0, 0),
    "clock_settime": (0, 0),
    "settimeofday": (0, 0),
    "sethostname": (0, 0),
    "capset": (0, 0),
    "setgroups": (0, 0),
    "sync": (),
    "inotify_init1": (0,),
    "fanotify_init": (0, 0),
    # Of the directory that the program stands in; DN_ACCESS. And F_SETLEASE, F_RDLCK.
    "fcntl F_NOTIFY": (0, 1026, 1),
    "fcntl F_NOTIFY with unread bits": (0, 0x100000402, 1),
    "fcntl F_SETLEASE": (0, 1024, 0),
    "iopl": (3,),
    "modify_ldt": (0, 0, 0),
    "quotactl": (0, 0, 0, 0),
    "ioctl TIOCSTI": (0, 0x5412, 0),
    "ioctl TIOCSTI with unread bits": (0, 0x100005412, 0),
    "ioctl TIOCLINUX": (0, 0x541C, 0),
    "socket AF_PACKET": (17, 3, 0),
    "socket AF_ALG": (38, 5, 0),
    "socket AF_VSOCK": (40, 1, 0),
    "socket SOCK_RAW": (2, 3, 1),
    "socket IPPROTO_SCTP": (2, 1, 132),
    "personality READ_IMPLIES_EXEC": (0x0400000,),
    "prctl PR_SET_MM": (35, 0, 0, 0, 0),
    "prctl PR_SET_SECCOMP": (22, 2, 0, 0, 0),
    "prlimit64 of PID 1": (1, 7, 0, 0),
    "mknod of a device": (0, 0o020666, 0x0103),
}
# With their numbers, as far as this machine has them.
ATTACKS = {attack: (syscalls()[attack.split()[0]], *arguments) for attack, arguments in ATTACKS.items() if attack.split()[0] in syscalls()}

needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="it has no other ABI of this kind")


@pytest.mark.parametrize("attack", ATTACKS)
def test_python_stops_by_name(run, attack):
    done = run.python(ATTACK, *[str(word) for word in ATTACKS[attack]])
    assert done.stdout == f"-1 {errno.EPERM}\n".encode(), done.stderr
    (row,) = run.verdict["denied_syscalls"]
    assert (row["name"], row["count"]) == (attack.split()[0], 1)
    assert [call["call"].split("(")[0] for call in row.get("calls", [])] in ([], [row["name"]])
    if attack != "prlimit64 of PID 1":
        assert b"; no policy should allow it: " in done.stderr or b"    rule { action: ALLOW syscall: " in done.stderr


def test_netlink_is_answered_quietly(run):
    done = run.python(ATTACK, str(syscalls()["socket"]), "16", "3", "0")
    assert done.stdout == f"-1 {errno.EAFNOSUPPORT}\n".encode()
    assert run.verdict["denied_syscalls"] == []


# getpid by x32's number; and by i386's own entry, whose 20 is writev's number here.
@needs_x86
@pytest.mark.parametrize("policy", ["python", "strict"])
def test_foreign_abis_end_the_program(run, policy):
    done = run("/usr/bin/python3.11", "-c", ATTACK, str(39 | 0x40000000), policy=policy)
    assert (done.returncode, done.stdout) == (128 + signal.SIGSYS, b"")
    assert run.verdict["signal"] == "SIGSYS"


STRICT_CARRIES = """
import concurrent.futures, ctypes, decimal, hashlib, json, math, pickle, random, re, sqlite3, statistics, tempfile, uuid, zlib
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert sum(pool.map(abs, range(100))) == 4950
assert sqlite3.connect(":memory:").execute("select 1").fetchall() == [(1,)]
assert ctypes.CDLL("libc.so.6").abs(-3) == 3
open("x", "w").write("y"); tempfile.TemporaryFile().write(b"x"); random.random(); uuid.uuid4()
"""


def test_strict_carries_computation(run):
    assert_carried(run, run("/usr/bin/python3.11", "-c", STRICT_CARRIES, policy="strict"))


@pytest.mark.parametrize("code, name", [
    ("import os; os.fork()", "clone"),
    ("import subprocess; subprocess.run(['/usr/bin/python3.11'])", "vfork"),
    ("import socket; socket.socket()", "socket"),
    ("import socket; socket.socketpair()", "socketpair"),
    ("import os; os.kill(os.getpid(), 0); os.setpriority(0, 0, 1)", "setpriority"),
])
def test_strict_stops_what_python_carries(run, code, name):
    done = run("/usr/bin/python3.11", "-c", code, policy="strict")
    assert done.returncode == 1
    assert b"Operation not permitted" in done.stderr
    assert name in [denied["name"] for denied in run.verdict["denied_syscalls"]]


@pytest.mark.parametrize("attack", ["unshare", "mount", "ptrace", "bpf", "keyctl", "io_uring_setup", "userfaultfd"])
def test_strict_ends_what_only_exploits_try(run, attack):
    done = run("/usr/bin/python3.11", "-c", ATTACK, *[str(word) for word in ATTACKS[attack]], policy="strict")
    assert done.returncode == 128 + signal.SIGSYS
    verdict = run.verdict
    assert [(row["name"], row["count"]) for row in verdict["denied_syscalls"]] == [(attack, 1)]
    assert verdict["error_message"].startswith(f"The program was ended by SIGSYS, a system call that the policy forbids: {attack}")
    assert f"immure run: denied {attack}".encode() in done.stderr and b"; no policy should allow it: " in done.stderr


def test_a_thread_takes_its_process_along(run, tmp_path):
    """And nobody else: a child is ended for its own calls."""
    policy = tmp_path / "kill.textproto"
    policy.write_text('name: "kill"\nuse: "python"\nseccomp { rule { action: KILL_PROCESS syscall: "ioctl" where { arg: "request" in: "TIOCSTI" } } }\n')
    call = "import fcntl, threading\nthread = threading.Thread(target=fcntl.ioctl, args=(0, 0x5412))\nthread.start()\nthread.join()\nprint('on')\n"
    done = run.python(call, policy=str(policy))
    assert (done.returncode, done.stdout) == (128 + signal.SIGSYS, b"")
    assert run.verdict["denied_syscalls"] == [{"name": "ioctl", "count": 1, "calls": [{"call": "ioctl(TIOCSTI)", "count": 1}]}]
    done = run.python(f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {call!r}]).returncode)", policy=str(policy))
    assert (done.returncode, done.stdout) == (0, b"-9\n")
    assert run.verdict["denied_syscalls"][0]["count"] == 1


def test_all_but_what_is_named_ends_the_program(run, tmp_path):
    """A policy without NOTIFY, of the classic kind."""
    policy = tmp_path / "classic.textproto"
    policy.write_text('name: "classic"\nuse: "python"\nseccomp { default_action: KILL_PROCESS }\n')
    done = run.python("print('fine', flush=True)\nimport os; os.chroot('/')", policy=str(policy))
    assert (done.returncode, done.stdout) == (128 + signal.SIGSYS, b"fine\n")
    assert run.verdict["denied_syscalls"] == [{"name": "chroot", "count": 1}]


def test_strict_has_nothing_to_run(run):
    done = run("/usr/bin/python3.11", "-c", "import os; print(*sorted(os.listdir('/'))); print(*os.listdir('/usr/bin'))",
               policy="strict")
    assert done.stdout.decode().splitlines() == ["lib lib64 tmp usr workspace", "python3.11"]
    for path in "/workspace/x", "/tmp/x":
        code = (f"import os; open({path!r}, 'w').write('#!/usr/bin/python3.11'); os.chmod({path!r}, 0o755)\n"
                f"os.execv({path!r}, ['x'])")
        assert b"Permission denied" in run("/usr/bin/python3.11", "-c", code, policy="strict").stderr

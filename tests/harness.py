"""What tests of the running program share: a server of one's own on loopback, and calls to it."""

import contextlib
import functools
import hashlib
import http.client
import itertools
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("BUILD", ROOT / "build"))
# What scripts/test has fetched of Debian's packages.
TOOLS = Path(os.environ.get("IMMURE_TEST_TOOLS", BUILD.resolve() / "tools"))
IMMURE = os.environ.get("IMMURE_REAL", str(BUILD / "immure"))
CGROUP = os.environ.get("IMMURE_TEST_CGROUP", "BEST_EFFORT")

# Where tests may make cgroups; set where there is such a place.
CGROUP_PARENT = os.environ.get("IMMURE_TEST_CGROUP_PARENT", "")

# How jobs start: "pool" (as shipped: parked jails), "template" (forked when they come), "off" (an interpreter each).
WARM = os.environ.get("IMMURE_TEST_WARM", "pool")
# "off" where a machine is emulated: an interpreter of Node that is to stand ready keeps it busy for minutes.
STANDBY = os.environ.get("IMMURE_TEST_STANDBY", "on")

# "off" there, too, and in files WITHOUT_NODE (conftest.py): each start of a server tries out every runtime that it has.
NODE = os.environ.get("IMMURE_TEST_NODE", "on")

# How much longer everything may take here than on an ordinary machine.
PATIENCE = int(os.environ.get("IMMURE_TEST_PATIENCE", "1"))
READY_S = 60
SANITIZER = re.compile(r"ERROR: \w+Sanitizer|runtime error:")
STOP_S = 100  # longer than the longest job of a server that is left to its defaults


@functools.cache
def syscalls():
    """This machine's system calls, as the compiler's headers have them: name -> number"""
    done = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", os.devnull], stdout=subprocess.PIPE, text=True, check=True)
    macros = dict(re.findall(r"^#define (\w+) (\w+)$", done.stdout, re.MULTILINE))
    numbers = {name.removeprefix("__NR_"): macros.get(value, value) for name, value in macros.items() if name.startswith("__NR_")}
    return {name: int(number) for name, number in numbers.items() if number.isdigit()}



def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


CLOSED = []  # sockets that are held for as long as the tests run


def closed_port():
    """One that refuses whoever comes: it is taken, and nobody listens there."""
    CLOSED.append(socket.socket())
    CLOSED[-1].bind(("127.0.0.1", 0))
    return CLOSED[-1].getsockname()[1]


def children(pid):
    """-> the children of a process; none of one that has ended. The kernel's list lacks some where another ends while it is read:
    it is read until it says the same twice."""
    seen = [None]
    while len(seen) < 2 or seen[-1] != seen[-2]:
        try:
            seen.append([int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()])
        except OSError:
            return []
    return seen[-1]


def descendants(pid):
    """-> all processes below one, whichever thread has started them; those that end while they are looked at may be missing. (The
    globs of pathlib fail where a directory goes meanwhile.)"""
    found = [pid]
    for parent in found:
        tasks = []
        with contextlib.suppress(OSError):
            tasks = os.listdir(f"/proc/{parent}/task")
        for task in tasks:
            with contextlib.suppress(OSError):
                found += [int(child) for child in Path(f"/proc/{parent}/task/{task}/children").read_text().split()]
    return found[1:]


def front_of(warden):
    """-> the pid of the process that speaks HTTP; None: there is none now"""
    for pid in children(warden):
        with contextlib.suppress(OSError):  # of a jail that has ended meanwhile
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"immure-front\0"):
                return pid
    return None


def until_begun(execute, code, timeouts_ms=(3000, 20000), **fields):
    """-> the verdict of a job that is ended by its deadline and has said something before, and which deadline that was: on a busy
    machine it may need longer until it begins"""
    for timeout_ms in timeouts_ms:
        verdict = execute(code, timeout_ms=timeout_ms, **fields)
        if verdict["stdout"]:
            break
    return verdict, timeout_ms


def n_connections(pid, port):
    """Those that a process has to a port of this machine. A front keeps some to the server that answers tool calls, for the next
    call: now some, now none."""
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{line[9]}]" for line in lines if int(line[2].partition(":")[2], 16) == port}
    count = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            count += os.readlink(path) in sockets
    return count


def wait_for(condition, what, seconds=30):
    """Polls until the condition holds; for what cannot be waited for otherwise. `seconds`: on an ordinary machine."""
    deadline = time.monotonic() + PATIENCE * seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE * seconds} s: {what}"
        time.sleep(0.01)
    return value


def shipped_policy(name):
    """The text of a shipped policy, together with all that it uses."""
    return subprocess.run([IMMURE, "policy", "show", "--flat", name], check=True, capture_output=True, text=True, timeout=60).stdout


def runtimes():
    """The shipped runtimes, made to start as IMMURE_TEST_WARM, _STANDBY and _NODE say; "" where that is as shipped."""
    gone = {"pool": [], "template": ["warm_jails"], "off": ["warm_jails", "template"]}[WARM]
    text = shipped = (ROOT / "config/server.textproto").read_text()
    if NODE == "off":
        text = re.sub(r'\nruntime \{\n  name: "(node|isolate)"\n.*?\n\}\n', "\n", text, flags=re.S)
    if STANDBY == "off":
        text = re.sub(r"\s*standby:.*\s*warm_jails:.*", "", text)
    for field in gone:
        text = re.sub(rf"\s*{field}:.*", "", text)
    return "\nshipped_runtimes: false\n" + text if text != shipped else ""


def config_key(name, key, **lists):
    """A `key { … }` of the server's configuration: config_key("a", "secret", policy=["python"], max_concurrent_jobs=1)"""
    fields = [f'name: "{name}"', f'sha256: "{hashlib.sha256(key.encode()).hexdigest()}"']
    for field, values in lists.items():
        for value in values if isinstance(values, list) else [values]:
            fields.append(f'{field}: "{value}"' if isinstance(value, str) else f"{field}: {value}")
    return "key { " + " ".join(fields) + " }\n"


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


def call(server, method, path, body=None, key=None):
    """One request with a JSON body, by another key than the server's own if need be."""
    return server.request(method, path, json.dumps(body) if body is not None else None,
                          headers={"X-Service-API-Key": key} if key else None)


def reserved_port():
    """-> a socket that keeps a port for who listens there with SO_REUSEADDR: the kernel gives it to nobody else meanwhile"""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class Server:
    """`immure serve`, from entering the block to leaving it. `prefix` is a command that the server is started through."""

    def __init__(self, log_path, prefix=(), cgroup=CGROUP, immure=IMMURE, **environment):
        self.reserved = reserved_port()
        self.port, self.key, self.log_path = self.reserved.getsockname()[1], secrets.token_hex(16), Path(log_path)
        self.argv, self.process = [*prefix, immure, "serve"], None
        self.inherited = ()  # descriptors that it is started with
        self.environment = dict(os.environ, SANDBOX_EXECUTOR_SERVICE_API_KEY=self.key,
                                SANDBOX_EXECUTOR_ADDR=f"127.0.0.1:{self.port}", SANDBOX_EXECUTOR_CGROUP=cgroup, **environment)

    def start(self):
        assert self.process is None or self.process.poll() is not None, "it runs, and would be left behind"
        if runtimes() and "SANDBOX_EXECUTOR_CONFIG" not in self.environment:
            path = self.log_path.with_name(self.log_path.name + ".textproto")
            path.write_text(runtimes())
            self.environment["SANDBOX_EXECUTOR_CONFIG"] = str(path)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            pass_fds=self.inherited)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def ready(self):
        assert self.process.poll() is None, f"the server ended with {self.process.returncode}:\n{self.log()}"
        try:
            return self.get("/readyz").status == 200
        except OSError:
            return False

    def __enter__(self):
        self.start()
        try:
            wait_for(self.ready, f"{' '.join(self.argv)} ready", READY_S)
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        return self

    def reloaded(self, times=1):
        """Waits until it has been reloaded so often, and the front has other keys, or takes no more connections."""
        def is_in_force(log):
            return min(log.count("event=reloaded "), log.count("event=superseded ") + log.count("event=keys_taken ")) >= times
        wait_for(lambda: is_in_force(self.log()), "the reload")

    def ended(self):
        """-> the exit code, of a server that ends by itself or has been told to"""
        return self.process.wait(PATIENCE * STOP_S)

    def stop(self, how=signal.SIGTERM):
        """-> the exit code"""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            code = self.process.wait(PATIENCE * STOP_S)
            # The warden starts a front that dies again, so a sanitizer's report would otherwise pass unseen.
            assert not SANITIZER.search(self.log()), self.log()
            return code
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def __exit__(self, *_):
        print("\n".join(line for line in self.log().splitlines() if "event=request" not in line)[-20000:])  # shown with a failure
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, timeout=120, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE * timeout)
        try:
            sent = {"X-Service-API-Key": self.key, "Content-Type": "application/json", "Connection": "close", **(headers or {})}
            connection.request(method, path, body, {name: value for name, value in sent.items() if value is not None})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def execute(self, code, **fields):
        """-> the verdict of a job that ran"""
        reply = self.request("POST", "/execute", json.dumps({"code": code, **fields}))
        assert reply.status in (200, 500), reply.body
        if reply.status == 500:
            # To be seen where a test did not expect it; why it is an internal error, only the log says.
            print(reply.body, *[line for line in self.log().splitlines() if "event=request_failed" in line][-3:], sep="\n")
        return reply.json

    def metric(self, name):
        """The sum over the labels of one metric."""
        lines = self.get("/metrics").body.decode().splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name]
        assert values, f"no metric {name}"
        return sum(values)

    def parked(self, runtime=r"\w+"):
        """How many jails stand ready, all runtimes together unless one is named."""
        text = self.get("/metrics").body.decode()
        return sum(map(int, re.findall(rf'^immure_warm_jails{{runtime="{runtime}",state="parked"}} (\d+)$', text, re.M)))


class Cgroup:
    """A cgroup of the test's own, in which servers are started."""

    numbers = itertools.count()

    def __init__(self, parent=CGROUP_PARENT):
        self.path = Path(parent, f"test-{os.getpid()}-{next(self.numbers)}")
        self.path.mkdir()

    @property
    def prefix(self):
        """Starts a command inside."""
        return ["/bin/sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "sh"]

    def below(self):
        """Every cgroup below this one, by path."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_dir())

    def processes(self):
        return [int(pid) for procs in self.path.rglob("cgroup.procs") for pid in procs.read_text().split()]

    def remove(self):
        for directory in sorted(self.path.rglob("*"), reverse=True):
            if directory.is_dir():
                directory.rmdir()
        self.path.rmdir()

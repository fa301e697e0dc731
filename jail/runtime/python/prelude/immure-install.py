# What is behind install_package(): pip, as a process of the program's own jail, with the program's own limits. Read at the
# first call. pip comes from the host, which the policy shows read-only; what it writes goes into the workspace.
#
# The program could start pip by itself: what is refused here is refused so that a name cannot turn into something else (an
# option, a URL) unnoticed. Nothing but modules that are part of the interpreter is used: a program may have a re.py of its own.

import _socket
import _thread
import fcntl
import os
import stat
import sys

# Where the shipped policy shows Debian's python3-pip; and where python3-pip-whl, Fedora's python-pip-wheel, and Python's own
# ensurepip put pip as a wheel, which runs as it is.
PIP = "/usr/share/immure/pip"
WHEELS = "/usr/share/python-wheels", os.path.join(os.path.dirname(os.__file__), "ensurepip/_bundled")
ARCHIVES = ".whl", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip"
REQUIREMENT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-[],<>=!~*+ ")
NAME_MAX = 512
TAIL_BYTES = 65536  # of pip's output, in which the reason is looked for
WINDOW_BYTES = 65536  # of a connection and direction, on their way (../../README.md)
RELAY = "IMMURE_INDEX_RELAY"  # the variable by which pip's processes find the relay
CALLER = "install_package"


def check_path(path):
    """-> the absolute path of a file or directory that pip shall install"""
    roots = [os.path.realpath(root) for root in (os.environ["HOME"], "/tmp")]
    real = os.path.realpath(path)
    if not any(real.startswith(root + "/") or real == root for root in roots):
        raise ValueError("it lies neither in the working directory nor in /tmp")
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if not stat.S_ISDIR(mode) and not (stat.S_ISREG(mode) and path.endswith(ARCHIVES)):
        raise ValueError("it is no wheel, sdist or directory")
    return real


def is_path(name):
    return "/" in name or name.startswith(".") or name.endswith(ARCHIVES)


def check_name(name):
    if not name or len(name) > NAME_MAX or not name.isprintable():
        raise ValueError("that is no name of a package")
    if "://" in name or "@" in name or name.startswith("-"):
        raise ValueError("options and URLs are not taken, only names and paths")
    if is_path(name):
        return check_path(name)
    if not name[0].isalnum() or not REQUIREMENT.issuperset(name):
        raise ValueError("that is no name of a package")
    return name


def find_pip():
    """-> (what to run it with, directories with wheels that need no index)"""
    directories = [directory for directory in WHEELS if os.path.isdir(directory)]
    if os.path.isfile(os.path.join(PIP, "__main__.py")):
        return PIP, directories
    for directory in directories:
        for name in sorted(os.listdir(directory), reverse=True):
            if name.startswith("pip-") and name.endswith(".whl"):
                return os.path.join(directory, name, "pip"), directories
    for directory in sys.path:
        if os.path.isfile(os.path.join(directory, "pip/__main__.py")):
            return os.path.join(directory, "pip"), directories
    raise ValueError("this server has no pip (Debian's package is python3-pip)")


def settings(directories):
    """pip's environment: nothing of the program's but where it lives."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
    base = os.path.join(os.environ["HOME"], ".packages")
    return {**kept, "PYTHONUSERBASE": base, "PYTHONDONTWRITEBYTECODE": "1", "PIP_USER": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1",
            "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_FIND_LINKS": " ".join(directories),
            "PIP_NO_CACHE_DIR": "1", "PIP_NO_COLOR": "1", "PIP_NO_INPUT": "1", "PIP_NO_WARN_SCRIPT_LOCATION": "1",
            "PIP_PROGRESS_BAR": "off", "PIP_ROOT_USER_ACTION": "ignore"}


def reason(output):
    """The line of pip's output that says best why it failed."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines()]
    step = next((line[2:] for line in lines if line.startswith("× ")), None)
    for i, line in enumerate(lines):
        if step and line == "[end of output]" and i > 0:  # of the process that builds the package
            return f"{step.rstrip('.')}: {lines[i - 1]}"
    for mark in "ERROR: ", "error: ":
        for line in reversed(lines):
            if line.startswith(mark):
                return line[len(mark):]
    return next((line for line in reversed(lines) if line), "pip said nothing")


# ---- The way to the package index ----
#
# pip has no network. Its processes connect to a local socket instead (connect_through, below, which the prelude calls in them),
# say where they want to, and what they send and receive then crosses the bridge, through threads of the program's process: one
# that reads the bridge, one that accepts, and two for each connection. They end before install_package() returns.

class Stream:
    """One connection, as the bridge's reader sees it."""

    def __init__(self):
        self.id, self.granted, self.sent = None, WINDOW_BYTES, 0  # granted by the server; each has one thread that writes it
        self.incoming, self.ended, self.error = [], False, None

    def take(self, kind, value):
        if kind == "window":
            self.granted += value["bytes"]
        elif kind == "gone":
            self.ended, self.error = True, value["error"]
        elif value:
            self.incoming.append(value)
        else:
            self.ended = True


class Relay:
    def __init__(self, bridge, dumps):
        self.bridge, self.dumps = bridge, dumps
        self.failures, self.connections, self.threads = [], [], []
        self.stopping = False
        self.directory = f"/tmp/.immure-index-{os.getpid()}-{id(self):x}"
        os.mkdir(self.directory, 0o700)
        self.path = os.path.join(self.directory, "relay")
        self.listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.spawn(self.read)
        self.spawn(self.accept)

    def spawn(self, function, *args):
        done = _thread.allocate_lock()
        done.acquire()

        def work():
            try:
                function(*args)
            except (OSError, RuntimeError):
                pass  # the bridge or the connection is closed
            finally:
                done.release()
        self.threads.append(done)
        _thread.start_new_thread(work, ())

    def read(self):
        # For as long as there is a relay nobody else reads: a signal handler that raised would take bytes along.
        bridge, me = self.bridge, _thread.get_ident()
        bridge.wait_until(lambda: bridge.claim(me), CALLER)
        try:
            while not self.stopping and not bridge.closed:
                bridge.read()
                bridge.wake()
        finally:
            bridge.release()

    def accept(self):
        while not self.stopping:
            fd, _ = self.listener._accept()
            connection = _socket.socket(fileno=fd)
            self.connections.append(connection)
            self.spawn(self.serve, connection)

    def serve(self, connection):
        stream, bridge = Stream(), self.bridge
        try:
            line = b""
            while not line.endswith(b"\n"):
                data = connection.recv(1)
                if not data or len(line) > 300:
                    return
                line += data
            host, port = line.decode().split()
            try:
                request = f'"op":"open","host":{self.dumps(host)},"port":{int(port)}'
                answer = bridge.receive(bridge.send(request, CALLER, stream), CALLER)
            except ValueError:
                return
            if "error" in answer:
                self.failures.append(f"{host}:{port}: {answer['error']}")
                connection.sendall(answer["error"].encode() + b"\n")
                return
            connection.sendall(b"\n")
            self.spawn(self.send, connection, stream)
            self.receive(connection, stream)
            if stream.error:
                self.failures.append(f"{host}:{port}: {stream.error}")
        finally:
            self.shut(connection)
            if bridge.streams.pop(stream.id, None):
                bridge.post(b'{"op":"abort","id":%d}' % stream.id, CALLER)

    def receive(self, connection, stream):
        bridge = self.bridge
        while True:
            bridge.wait_until(lambda: stream.incoming or stream.ended or self.stopping, CALLER)
            if self.stopping or not stream.incoming:
                break
            data = stream.incoming.pop(0)
            connection.sendall(data)
            bridge.post(b'{"op":"window","id":%d,"bytes":%d}' % (stream.id, len(data)), CALLER)

    def send(self, connection, stream):
        bridge = self.bridge
        while True:
            bridge.wait_until(lambda: stream.granted > stream.sent or stream.ended or self.stopping, CALLER)
            if self.stopping or stream.error:
                return
            data = connection.recv(min(stream.granted - stream.sent, 16384))
            stream.sent += len(data)
            if stream.id in bridge.streams:
                bridge.post(b"\1" + stream.id.to_bytes(8, "big") + data, CALLER)
            if not data:
                return

    def shut(self, connection):
        try:
            connection.shutdown(_socket.SHUT_RDWR)
        except OSError:
            pass  # the other end has

    def close(self):
        self.stopping = True
        for connection in self.listener, *self.connections:
            self.shut(connection)
        try:
            self.bridge.ask('"op":"index","installer":""', CALLER)  # so that the reader looks up
        except RuntimeError:
            pass
        for done in self.threads:
            done.acquire()
        for connection in self.listener, *self.connections:
            connection.close()
        os.remove(self.path)
        os.rmdir(self.directory)


def connect_through(path):
    """In a process of pip's: whoever connects to a host and port is led to the relay."""
    import socket

    class Relayed(socket.socket):
        def connect(self, address):
            if self.family != socket.AF_UNIX or not isinstance(address, tuple):
                return super().connect(address)
            super().connect(path)
            self.sendall("{} {}\n".format(*address).encode())
            answer = b""
            while not answer.endswith(b"\n"):
                data = self.recv(1)
                if not data:
                    raise ConnectionResetError("the connection has been closed")
                answer += data
            if answer != b"\n":
                raise ConnectionRefusedError(answer.decode().strip())

        def setsockopt(self, level, *args):
            if level != socket.IPPROTO_TCP:
                super().setsockopt(level, *args)

    def getaddrinfo(host, port, *_, **__):
        return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", (host, port))]

    socket.socket, socket.getaddrinfo = Relayed, getaddrinfo


def open_index(bridge, installer):
    """-> {"url": ..., "ca": ...}, and what makes JSON; None where there is no index"""
    try:
        connected = bridge(CALLER)
        text = connected.ask(f'"op":"index","installer":"{installer}"', CALLER)["data"]
    except RuntimeError:
        return None, None  # `immure run`, a process that has no bridge, a program that has closed it
    return connected, loaded["loads"](text) if text else None


# ---- pip ----

def run(argv, environment):
    """-> (the exit status, as waitpid has it; the end of what it printed)"""
    output, theirs = os.pipe()
    tail, pid = b"", None
    try:
        try:
            pid = os.posix_spawn(argv[0], argv, environment, setsid=True, file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, theirs, 1), (os.POSIX_SPAWN_DUP2, theirs, 2)])
        finally:
            os.close(theirs)
        while data := os.read(output, 65536):
            tail = (tail + data)[-TAIL_BYTES:]
        child, pid = pid, None
        return os.waitpid(child, 0)[1], tail
    finally:
        os.close(output)
        if pid is not None:  # a signal handler has raised
            os.killpg(pid, 9)
            os.waitpid(pid, 0)


def run_pip(command, what, environment, index, bridge):
    relay, ca = None, None
    if index is None:
        return run([*command, "--no-index", "--", what], environment), []
    try:
        relay = Relay(bridge, loaded["dumps"])
        environment = {**environment, RELAY: relay.path, "PIP_INDEX_URL": index["url"], "PIP_RETRIES": "1"}
        if index["ca"]:
            ca = os.path.join(relay.directory, "ca.pem")
            with open(ca, "w") as file:
                file.write(index["ca"])
            environment["PIP_CERT"] = ca
        else:
            environment["PIP_TRUSTED_HOST"] = index["url"].split("/")[2]
        return run([*command, "--", what], environment), relay.failures
    finally:
        if ca:
            os.remove(ca)
        if relay:
            relay.close()


def install(name):
    if not isinstance(name, str):
        raise TypeError(f"install_package: the name must be a str, not {type(name).__name__}")
    try:
        what = check_name(name)
        if not packages:
            raise ValueError("HOME is not set")
        command, directories = find_pip()
        connected, index = open_index(bridge, "pip")
        if what == name and index is None:
            raise ValueError("this server has no package index; wheels and directories can be installed")
        environment = settings(directories)
        base = environment["PYTHONUSERBASE"]
        os.makedirs(base, exist_ok=True)
        # One at a time: of this program's threads, and of the session's other programs.
        with open(os.path.join(base, ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (status, output), failures = run_pip([sys.executable, command, "install"], what, environment, index, connected)
        if status != 0:
            raise ValueError(reason(output) + (f" ({failures[-1]})" if failures else ""))
    except (OSError, ValueError) as error:
        raise RuntimeError(f"pip install {name} failed: {error}") from None
    if packages not in sys.path:
        sys.path.append(packages)
    for finder in sys.meta_path:
        if hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


loaded["install"] = install
loaded["connect_through"] = connect_through

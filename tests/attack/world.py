"""What there is to attack outside: canaries, whose state says whether something has come out of a jail."""

import contextlib
import ctypes
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path

from harness import PATIENCE

LIBC = ctypes.CDLL(None, use_errno=True)
IPC_PRIVATE, IPC_CREAT, IPC_RMID = 0, 0o1000, 0


class Listener:
    """A socket that counts who comes."""

    LAST = b"the last for now"

    def __init__(self, family, kind, address):
        self.socket = socket.socket(family, kind)
        self.socket.bind(address)
        self.kind, self.visitors, self.last_came = kind, 0, threading.Event()
        if kind == socket.SOCK_STREAM:
            self.socket.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                if self.kind == socket.SOCK_STREAM:
                    visitor, _ = self.socket.accept()
                    self.visitors += 1
                    visitor.close()
                elif self.socket.recv(4096) == self.LAST:
                    self.last_came.set()
                else:
                    self.visitors += 1

    def visits(self):
        """-> how many have come since the last time. They are served in their order: when we have been, so have all before us."""
        self.last_came.clear()
        with socket.socket(self.socket.family, self.kind) as last:
            last.settimeout(PATIENCE * 60)
            last.connect(self.socket.getsockname())
            if self.kind == socket.SOCK_STREAM:
                last.recv(1)
                self.visitors -= 1
            else:
                last.send(self.LAST)
                assert self.last_came.wait(PATIENCE * 60)
        visits, self.visitors = self.visitors, 0
        return visits

    @property
    def port(self):
        return self.socket.getsockname()[1]

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def find_process(name):
    """-> the pid of the process with this argv[0], or None"""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (place / "cmdline").read_bytes().split(b"\0")[0] == name.encode():
                return int(place.name)
    return None


class World:
    """Everything in `given` is told to the attacks; none of `secrets` may ever turn up in a reply."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir()
        self.secrets = {name: secrets.token_hex(16) for name in ("file", "environment", "descriptor", "memory", "neighbour", "key")}
        self.secret = self.directory / "secret"
        self.secret.write_text(self.secrets["file"])
        self.held = self.directory / "held-open"
        self.held.write_text(self.secrets["descriptor"])
        self.target = self.directory / "target"
        self.target.write_text("untouched")
        for path in (self.directory, self.secret, self.target):
            path.chmod(0o777)
        self.abstract = "attack-" + secrets.token_hex(8)
        self.listeners = {
            "tcp4": Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "udp4": Listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "unix": Listener(socket.AF_UNIX, socket.SOCK_STREAM, str(self.directory / "socket")),
            "abstract": Listener(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.abstract),
        }
        (self.directory / "socket").chmod(0o777)
        with contextlib.suppress(OSError):
            self.listeners["tcp6"] = Listener(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
        self.bystander = self.start_bystander()
        self.segment = self.shared_memory()

    @staticmethod
    def start_bystander():
        return subprocess.Popen(["sleep", "infinity"])  # however long the attacks take

    def shared_memory(self):
        """A System V segment that holds a secret and that everybody may read."""
        self.ipc_key = secrets.randbelow(1 << 30) + 1
        segment = LIBC.shmget(self.ipc_key, 4096, IPC_CREAT | 0o666)
        LIBC.shmat.restype = ctypes.c_void_p
        place = LIBC.shmat(segment, None, 0) if segment >= 0 else None
        if place not in (None, ctypes.c_void_p(-1).value):
            ctypes.memmove(place, self.secrets["memory"].encode(), 32)
        return segment

    def given(self, server_port=0):
        return json.dumps({
            "secret": str(self.secret), "target": str(self.target), "directory": str(self.directory),
            "abstract": self.abstract, "bystander": self.bystander.pid, "ipc_key": self.ipc_key, "ipc_id": self.segment,
            "backwards": {name: self.secrets[name][::-1] for name in ("key", "environment", "descriptor")}, "server_port": server_port, "tester": os.getpid(), "host_python": sys.executable,
            **{f"{name}_port": self.listeners[name].port for name in ("tcp4", "udp4", "tcp6") if name in self.listeners},
        })

    def harm(self):
        """-> what has happened to the canaries since the last time"""
        wrong = [f"somebody came to {name}" for name, listener in self.listeners.items() if listener.visits()]
        if self.target.read_text() != "untouched":
            wrong.append("the host's file was written to")
            self.target.write_text("untouched")
        expected = {"secret", "held-open", "target", "socket"}
        strange = {path.name for path in self.directory.iterdir()} ^ expected
        if strange:
            wrong.append(f"the host's directory has changed: {strange}")
        if self.bystander.poll() is not None:
            wrong.append("a process of the host was ended")
            self.bystander = self.start_bystander()
        return wrong

    def close(self):
        for listener in self.listeners.values():
            listener.close()
        self.bystander.kill()
        self.bystander.wait()
        if self.segment >= 0:
            LIBC.shmctl(self.segment, IPC_RMID, None)

"""Both ways of running a program: the interpreter itself, and a template that forks (tests/warm/zygote_standin.c)."""

import os
import selectors
import signal
import socket
import struct
import subprocess
import threading
from dataclasses import dataclass

TIMEOUT_S = 60
REPORT = struct.Struct("@8q")


@dataclass
class Outcome:
    stdout: bytes
    stderr: bytes
    code: int  # negative: the signal, as subprocess has it


@dataclass
class Report:
    pid: int
    ended: int
    wstatus: int
    user_us: int
    system_us: int
    faults: int
    wall_us: int
    fork_us: int


class Pipes:
    """The three streams of a program: what it is given, and what it says."""

    def __init__(self, stdin):
        self.stdin, self.given = os.pipe(), stdin
        self.outputs = [os.pipe(), os.pipe()]

    @property
    def ends(self):
        return [self.stdin[0], self.outputs[0][1], self.outputs[1][1]]

    def close_ends(self):
        for fd in self.ends:
            os.close(fd)

    def write(self):
        try:
            with open(self.stdin[1], "wb", buffering=0) as file:
                rest = memoryview(self.given)
                while rest:
                    rest = rest[file.write(rest):]
        except BrokenPipeError:
            pass

    def communicate(self, on_timeout):
        """-> what came out of both, at their ends"""
        threading.Thread(target=self.write, daemon=True).start()
        texts = {read: b"" for read, _ in self.outputs}
        timer = threading.Timer(TIMEOUT_S, on_timeout)
        timer.start()
        with selectors.DefaultSelector() as selector:
            for fd in texts:
                selector.register(fd, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    if chunk := os.read(key.fd, 65536):
                        texts[key.fd] += chunk
                    else:
                        selector.unregister(key.fd)
                        os.close(key.fd)
        timer.cancel()
        return list(texts.values())


def run_bare(argv, environment, directory, stdin=b""):
    pipes = Pipes(stdin)
    stdio = dict(zip(("stdin", "stdout", "stderr"), pipes.ends))
    process = subprocess.Popen(argv, env=environment, cwd=directory, **stdio)
    pipes.close_ends()
    out, err = pipes.communicate(process.kill)
    return Outcome(out, err, process.wait())


class Template:
    """A warm interpreter. One program at a time."""

    def __init__(self, executable, argv, modules, environment, directory="/"):
        self.sock, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([executable, *argv, "--", *modules], env=environment, cwd=directory, stdin=its,
                                        restore_signals=True)
        its.close()
        self.parked = self.receive()

    def receive(self):
        message = self.sock.recv(REPORT.size)
        assert message, f"the template ended with {self.process.wait()}"
        return Report(*REPORT.unpack(message))

    def run(self, argv, environment, directory, stdin=b""):
        pipes = Pipes(stdin)
        variables = [f"{name}={value}" for name, value in environment.items()]
        strings = b"".join(os.fsencode(text) + b"\0" for text in [directory, *argv, *variables])
        socket.send_fds(self.sock, [struct.pack("@II", len(argv), len(variables)) + strings], pipes.ends)
        pipes.close_ends()
        pid = self.parked.pid
        out, err = pipes.communicate(lambda: os.kill(pid, signal.SIGKILL))
        self.report = self.receive()
        self.parked = self.receive()
        return Outcome(out, err, os.waitstatus_to_exitcode(self.report.wstatus))

    def close(self):
        self.sock.close()
        assert self.process.wait(TIMEOUT_S) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

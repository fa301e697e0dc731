"""Both ways of running a program on this host: the interpreter itself, and a template that forks (zygote_standin.c)."""

import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 60
REPORT = struct.Struct("@7q")
# CPython 3.9 or newer. Through a server it is always that of the shipped runtime.
INTERPRETER = [os.environ.get("IMMURE_TEST_PYTHON", os.path.realpath("/usr/bin/python3")), "-s"]
START = "/proc/self/fd/9"  # what the shared object puts there


@dataclass
class Outcome:
    stdout: bytes
    stderr: bytes
    code: int  # negative: the signal, as subprocess has it


@dataclass
class Report:
    """What the stand-in says of a process: when it is parked, its pid; when it has ended, all."""

    pid: int
    ended: int
    wstatus: int
    user_us: int
    system_us: int
    faults: int
    fork_us: int


class Pipes:
    """The three streams of a program: what it is given, and what it says."""

    def __init__(self, stdin, merged=False):
        self.stdin, self.given = os.pipe(), stdin
        self.outputs = [os.pipe()] if merged else [os.pipe(), os.pipe()]

    @property
    def ends(self):
        return [self.stdin[0], self.outputs[0][1], self.outputs[-1][1]]

    def close_ends(self):
        for fd in set(self.ends):
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
        writer = threading.Thread(target=self.write)
        writer.start()
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
        writer.join()
        return [*texts.values(), b""][:2]


def usual_signals():
    """As PID 1 of a jail does. Who starts the tests in the background makes them ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_bare(argv, environment, directory, pipes):
    stdio = dict(zip(("stdin", "stdout", "stderr"), pipes.ends))
    process = subprocess.Popen(argv, env=environment, cwd=directory, preexec_fn=usual_signals, **stdio)
    pipes.close_ends()
    out, err = pipes.communicate(process.kill)
    return Outcome(out, err, process.wait())


class Template:
    """A warm interpreter. One program at a time."""

    def __init__(self, preloaded, modules, environment, directory="/"):
        self.sock, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([*INTERPRETER, START, *modules], env={**environment, "LD_PRELOAD": str(preloaded)},
                                        cwd=directory, stdin=its, preexec_fn=usual_signals)
        its.close()
        self.parked = self.receive()

    def receive(self):
        message = self.sock.recv(REPORT.size)
        assert message, f"the template ended with {self.process.wait()}"
        return Report(*REPORT.unpack(message))

    def run(self, argv, environment, directory, pipes):
        variables = [f"{name}={value}" for name, value in environment.items()]
        strings = b"".join(os.fsencode(text) + b"\0" for text in [str(directory), *argv, *variables])
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


class Host:
    """Runs programs on this host, one after the other at the same place."""

    def __init__(self, preloaded, modules, place, **environment):
        self.place, self.work = Path(place), Path(place, "work")
        self.script = self.place / "script" / "main.py"
        self.script.parent.mkdir()
        self.work.mkdir()
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.work), "LANG": "C.UTF-8", "PYTHONPATH": str(self.work),
                            "PYTHONDONTWRITEBYTECODE": "1", **environment}
        self.template = Template(preloaded, modules, self.environment)

    def prepare(self, program):
        shutil.rmtree(self.work)
        self.work.mkdir()
        for name, content in program.files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.script.write_bytes(program.code)
        return ([*INTERPRETER, str(self.script), *program.args], {**self.environment, **program.env}, self.work,
                Pipes(program.stdin, program.merged))

    def bare(self, program):
        return run_bare(*self.prepare(program))

    def warm(self, program):
        return self.template.run(*self.prepare(program))

    def close(self):
        self.template.close()

#!/usr/bin/python3
"""Ends one process after the other with SIGKILL, at seeded random moments, while jobs run: the warden, the front, PID 1 of
a jail, the template, a parked jail's process, a program. Nothing of the killed may stay, the service must be back, and
the next job must work. A warden is started again, as whatever supervises it would; the rest is the warden's own work.

usage: storm.py [N]      (40; BUILD names the build; the servers' logs are BUILD/storm/log-NUMBER)

This process is the reaper of what it starts: what a dead warden leaves behind becomes its child and is seen, wherever
it hides. Exit code 1 if something stayed, or the service did not come back."""

import ctypes
import http.client
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "soak"))

from harness import BUILD, CGROUP_PARENT, IMMURE, Cgroup, Server, children, wait_for  # noqa: E402
from soak import HEAP, MEMORY, descendants, measure, own_mounts, stock_is_full  # noqa: E402

SEED = int(os.environ.get("IMMURE_TEST_SEED", "1"))
PR_SET_CHILD_SUBREAPER = 36
WORKERS = 3
# At most so long between a service that is back and the next kill.
PAUSE_S = 0.08
# After so many kills the load rests, and what the warden holds is compared with what it had at first.
REST_EVERY = 10

# How often each is chosen.
VICTIMS = {"warden": 6, "front": 5, "PID 1 of a jail": 5, "template": 2, "parked": 3, "program": 3}

LOAD = [
    ("print(6 * 7)", {}),
    ("import time\ntime.sleep(0.05)", {}),
    ("import time\ntime.sleep(60)", {"timeout_ms": 150}),
    ("import os\nfor _ in range(8):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass", {"timeout_ms": 400}),
    ("import sys\nopen('out.txt', 'w').write(sys.stdin.read())\nprint('y' * 200000)", {"stdin": "s" * 90000, "outputs": ["*"]}),
]


def identity(pid):
    """A process that a number cannot be mistaken for later; None if it is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (pid, fields[19])


def status_field(pid, name):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return next((line.split()[1:] for line in lines if line.startswith(name + ":")), [])


def is_first_of_namespace(pid):
    return status_field(pid, "NSpid")[-1:] == ["1"]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def targets(warden):
    """Everything below the warden, by what it is. Jails without a template hang below the warden itself."""
    found = {name: [] for name in VICTIMS}
    found["warden"] = [warden]
    for child in children(warden):
        if command_line(child).startswith(b"immure-front\0"):
            found["front"].append(child)
        elif is_first_of_namespace(child):
            templates = [pid for pid in children(child) if b"/proc/self/fd/9" in command_line(pid)]
            found["template" if templates else "PID 1 of a jail"].append(child)
            for template in templates:
                found["template"].append(template)
                for init in children(template):
                    found["PID 1 of a jail"].append(init)
                    inside = children(init)
                    found["parked"] += inside[:1]  # what will become the program, or is it already
                    found["program"] += inside[1:] + [pid for top in inside for pid in descendants(top)]
            if not templates:  # a jail of the exec path
                found["program"] += descendants(child)
    return found


class Load:
    """Jobs all the time, unless it rests. What becomes of each is not asked: its server may die."""

    def __init__(self, server):
        self.server, self.go, self.ended, self.sent = server, threading.Event(), threading.Event(), 0
        self.idle = threading.Semaphore(0)
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(WORKERS)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        chance = random.Random(SEED * 1000 + number)
        while not self.ended.is_set():
            if not self.go.is_set():
                self.idle.release()
                self.go.wait()
                continue
            code, fields = chance.choice(LOAD)
            try:
                self.server.request("POST", "/execute", json.dumps({"code": code, **fields}), timeout=30)
                self.sent += 1
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)  # nobody listens for a moment

    def start(self):
        self.go.set()

    def rest(self):
        self.go.clear()
        for _ in self.threads:
            assert self.idle.acquire(timeout=60), "a request without an end"

    def end(self):
        self.ended.set()
        self.go.set()
        for thread in self.threads:
            thread.join(60)


class Storm:
    def __init__(self, directory):
        self.directory, self.chance, self.number = directory, random.Random(SEED), 0
        self.server = Server(directory / "log-0", immure=IMMURE)
        self.argv, self.cgroup = self.server.argv, None
        self.counts, self.slowest_s, self.rests = Counter(), 0, 0

    def start_warden(self):
        """In a fresh cgroup, as a supervisor does, where there is a place for cgroups."""
        if CGROUP_PARENT:
            self.cgroup = Cgroup()
            self.server.argv = [*self.cgroup.prefix, *self.argv]
        self.server.start()

    def start(self):
        self.start_warden()
        self.works("at first")
        self.usual = self.figures()

    def works(self, when):
        """Within a minute a job that was sent has run, as if nothing had been."""
        def job():
            assert self.server.process.poll() is None, f"the warden ended {when}:\n{self.server.log()[-3000:]}"
            try:
                reply = self.server.request("POST", "/execute", json.dumps({"code": "print(6 * 7)"}), timeout=30)
                return reply.status == 200 and reply.json["stdout"] == "42\n"
            except (OSError, http.client.HTTPException):
                return False
        wait_for(job, f"a job that works, {when}", 60)

    def templates_given_up(self):
        return "given_up=true" in self.server.log()

    def figures(self):
        """What a warden at rest holds, with its stock full."""
        wait_for(lambda: self.server.metric("immure_jobs_running") == 0, "the last job's end", 60)
        wait_for(lambda: self.templates_given_up() or stock_is_full(self.server), "a full stock", 60)
        figures = measure(self.server)
        with open("/proc/self/mountinfo") as mounts:
            figures["mounts of the host"] = len(mounts.readlines())
        return {name: value for name, value in figures.items() if name not in {*MEMORY, *HEAP, "front restarts"}}

    def rest(self, load):
        """Compares, with some patience: what is just ending may still be there."""
        load.rest()

        def excess():
            self.now = self.figures()
            return {name: (value, self.usual[name]) for name, value in self.now.items() if value > self.usual[name]}
        try:
            wait_for(lambda: not excess(), "rest", 30)
        except AssertionError:
            raise AssertionError(f"more than at first, (now, then): {excess()}\n{self.server.log()[-3000:]}") from None
        self.rests += 1
        load.start()

    def bury_warden(self):
        """Whatever it has left becomes our child, and must end by itself."""
        self.server.process.wait()

        def nobody():
            while True:
                try:
                    pid, _ = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return True
                if pid == 0:
                    return False
        try:
            wait_for(nobody, "the end of all orphans", 30)
        except AssertionError:
            orphans = [(pid, command_line(pid)[:80]) for pid in children(os.getpid())]
            raise AssertionError(f"left behind by a dead warden: {orphans}") from None
        if self.cgroup:
            wait_for(lambda: not self.cgroup.processes(), "cgroups without processes", 30)
            self.cgroup.remove()

    def start_again(self):
        self.number += 1
        self.server.log_path = self.directory / f"log-{self.number}"
        self.start_warden()

    def kill(self):
        while True:
            found = targets(self.server.process.pid)
            [name] = self.chance.choices(list(VICTIMS), list(VICTIMS.values()))
            if self.templates_given_up():
                name = "warden"
            if found[name]:
                break
        victim = self.chance.choice(found[name])
        before, started = identity(victim), time.monotonic()
        below = [identity(pid) for pid in descendants(victim)] if name != "program" else []
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return  # it was quicker; there will be others
        self.counts[name] += 1
        if name == "warden":
            self.bury_warden()
            self.start_again()
        for process in [before, *below]:
            # An orphan of a program that is not PID 1 lives on until its jail ends.
            if process and (name not in ("parked",) or process == before):
                wait_for(lambda process=process: identity(process[0]) != process, f"the end of {name} and all below it", 30)
        self.works(f"after the end of: {name}")
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)

    def run(self, n):
        load = Load(self.server)
        load.start()
        try:
            while sum(self.counts.values()) < n:
                time.sleep(self.chance.uniform(0, PAUSE_S))
                self.kill()
                if sum(self.counts.values()) % REST_EVERY == 0:
                    self.rest(load)
        finally:
            load.end()
        return load.sent

    def stop(self):
        self.server.process.send_signal(signal.SIGTERM)
        self.bury_warden()


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    own_mounts()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    directory = Path(BUILD, "storm")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    storm, started, sent = Storm(directory), time.monotonic(), 0
    try:
        storm.start()
        sent = storm.run(n)
    finally:
        storm.stop()
    counts = ", ".join(f"{count} × {name}" for name, count in storm.counts.most_common())
    print(f"storm: {sum(storm.counts.values())} killed in {time.monotonic() - started:.0f} s, seed {SEED}: {counts}; "
          f"{sent} other jobs answered; back after {storm.slowest_s:.1f} s at the latest; "
          f"{storm.rests} times at rest as at first: {storm.usual}")


if __name__ == "__main__":
    main()

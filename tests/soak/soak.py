#!/usr/bin/python3
"""Runs many jobs, good, bad and hostile, through one server, with clients that hang up, and compares what the server has
at rest after each fifth of them: nothing may be left, nothing may grow.

usage: soak.py [N]      (2000; BUILD names the build; the server's log is BUILD/soak/log)

Exit code 1 if a verdict was wrong or something was left behind or grew."""

import ctypes
import http.client
import json
import os
import random
import re
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import BUILD, IMMURE, WARM, Server, wait_for  # noqa: E402

WORKERS = 4  # as many as jobs run at once
SEED = int(os.environ.get("IMMURE_TEST_SEED", "1"))

# Program, what it is sent with, the status it must end with, and how often it is chosen.
JOBS = [
    ("print(6 * 7)", {}, "success", 50),
    ("import json\nprint(json.dumps({'a': list(range(99))}))", {}, "success", 10),
    ("print(open('in.txt').read())\nopen('out.txt', 'w').write('x' * 5000)",
     {"files": [{"name": "in.txt", "content": "text"}], "outputs": ["out.txt"]}, "success", 8),
    ("import sys\nsys.stdout.write(sys.stdin.read())", {"stdin": "s" * 70000}, "success", 5),
    ("raise SystemExit(3)", {}, "execution_error", 6),
    ("1 / 0", {}, "execution_error", 6),
    ("import os\nos.abort()", {}, "execution_error", 2),
    ("print('y' * 2000000)", {}, "success", 2),
    ("import time\ntime.sleep(60)", {"timeout_ms": 40}, "timeout", 3),
    ("while True: pass", {"timeout_ms": 40}, "timeout", 2),
    ("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", {"timeout_ms": 60}, "timeout", 1),
    ("import ctypes\nfor i in range(200): ctypes.CDLL(None).unshare(0x10000000)", {}, "success", 2),
    ("import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass", {}, "success", 2),
    ("for i in range(10**6): open(f'/tmp/{i}', 'w').write('z')", {}, "execution_error", 1),
    ("import os\nos.kill(1, 9)\nos.symlink('/etc/passwd', 'out.txt')\nprint(1)", {"outputs": ["*"]}, "success", 2),
]
# Of a hundred clients, so many hang up on their job; and so many connections are kept for the next.
HANG_UP, KEEP = 3, 60
# The slot of one that has hung up is free within this time.
BUSY_S = 5


class Client:
    """One caller: a connection at a time, verdicts counted."""

    def __init__(self, server, number):
        self.server, self.chance = server, random.Random(SEED * 1000 + number)
        self.outcomes, self.wrong, self.connection = Counter(), [], None

    def connect(self):
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        return self.connection

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def send(self, code, fields):
        self.connect().request("POST", "/execute", json.dumps({"code": code, **fields}),
                               {"X-Service-API-Key": self.server.key, "Content-Type": "application/json"})

    def one(self):
        [(code, fields, expected, _)] = self.chance.choices(JOBS, [job[3] for job in JOBS])
        hangs_up, until = self.chance.randrange(100) < HANG_UP, time.monotonic() + BUSY_S
        while True:
            self.send(code, fields)
            if hangs_up:
                self.drop()
                self.outcomes["hung up"] += 1
                return
            reply = self.connection.getresponse()
            body = json.loads(reply.read())
            if reply.status != 503 or time.monotonic() > until:
                break
            time.sleep(0.002)
        outcome = body["status"] if reply.status == 200 else f"HTTP {reply.status}"
        self.outcomes[outcome] += 1
        if outcome != expected:
            self.wrong.append(f"{code!r}: {outcome} instead of {expected}: {str(body)[:300]}")
        if self.chance.randrange(100) >= KEEP:
            self.drop()

    def run(self, n):
        for _ in range(n):
            try:
                self.one()
            except OSError as error:
                self.drop()
                self.wrong.append(repr(error))
        self.drop()


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid):
    return [below for child in children(pid) for below in (child, *descendants(child))]


def memory_kib(pid):
    """Its own pages and its share of those that it has in common with others, but for files: that share depends on what
    else runs on this machine."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")), 0)


def front_of(server):
    return next(pid for pid in children(server.process.pid)
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"immure\0front"))


def n_cgroups(warden):
    """Those that the warden has made, where it could."""
    path = next((line[3:] for line in Path(f"/proc/{warden}/cgroup").read_text().splitlines() if line.startswith("0::")), "")
    own, found, _ = path.partition("/immure-")
    return sum(1 for _ in Path("/sys/fs/cgroup" + own).rglob("cgroup.procs")) if found else 0


def measure(server):
    warden, front = server.process.pid, front_of(server)
    below = descendants(warden)
    others = [pid for pid in below if pid != front]
    with open(f"/proc/{warden}/mountinfo") as mounts:
        n_mounts = len(mounts.readlines())
    return {
        "processes": len(below),
        "warden: descriptors": len(os.listdir(f"/proc/{warden}/fd")),
        "front: descriptors": len(os.listdir(f"/proc/{front}/fd")),
        "mounts": n_mounts,
        "cgroups": n_cgroups(warden),
        "warden: KiB": memory_kib(warden),
        "front: KiB": memory_kib(front),
        "jails: KiB": sum(memory_kib(pid) for pid in others),
        "front restarts": int(server.metric("immure_front_restarts_total")),
    }


# Memory grows by steps, whenever more comes together than ever before, and stays; a leak grows in every part of the way.
# So it may not grow from one rest to the next, most of the time; nor by more than that from the first rest to the last.
MEMORY = {"warden: KiB": 1024, "front: KiB": 1024, "jails: KiB": 4096}
STEADY_KIB = 64  # 32 bytes for each of 2,000 jobs
PARTS = 5
WARM_UP = 1000  # jobs; before that a server is still growing into its work, and memory is not judged


def growths(rests, jobs_each):
    """-> the names of what grew"""
    first, last = rests[0], rests[-1]
    grown = [name for name in first if name not in MEMORY and any(rest[name] > first[name] for rest in rests)]
    for name, most in MEMORY.items() if jobs_each >= WARM_UP else ():
        steps = [after[name] - before[name] for before, after in zip(rests, rests[1:], strict=False)]
        # The template's pages come and go between two figures.
        steady = statistics.median(steps) <= STEADY_KIB or min(last[name], rests[-2][name]) <= max(first[name], rests[1][name])
        if not steady or last[name] - first[name] > most:
            grown.append(name)
    return grown


# warm_jails of the shipped configuration; node may be missing.
STOCK = {"python": 4, **({"node": 2, "isolate": 1} if Path("/usr/bin/node").exists() else {})} if WARM == "pool" else {}


def stock_is_full(server):
    text = server.get("/metrics").body.decode()
    parked = re.findall(r'^immure_warm_jails\{runtime="(\w+)",state="parked"\} (\d+)$', text, re.M)
    return {runtime: int(n) for runtime, n in parked if int(n) > 0} == STOCK


def settled(server):
    """Figures of a server at rest."""
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the last job's end")

    def full():
        first = measure(server)
        time.sleep(0.05)
        second = measure(server)
        same = all(first[name] == second[name] for name in first if name not in MEMORY)
        return second if same and stock_is_full(server) else None
    return wait_for(full, "rest")


def run(server, n, part):
    clients = [Client(server, part * WORKERS + number) for number in range(WORKERS)]
    threads = [threading.Thread(target=client.run, args=(n // WORKERS,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum((client.outcomes for client in clients), Counter()), [wrong for client in clients for wrong in client.wrong]


def complaints(server):
    """What the server's log says of itself, most of it once."""
    lines = [line for line in server.log().splitlines() if re.search(r"\blevel=(error|warning)\b", line)]
    return lines[-MAX_LINES:]


MAX_LINES = 40


def own_mounts():
    """Nobody else's mounts are counted: this process and what it starts get a mount namespace, if they may."""
    libc, clone_newns, ms_rec_private = ctypes.CDLL(None, use_errno=True), 0x20000, 0x44000
    if libc.unshare(clone_newns) == 0:
        assert libc.mount(None, b"/", None, ms_rec_private, None) == 0, os.strerror(ctypes.get_errno())


def main():
    own_mounts()
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    directory = Path(BUILD, "soak")
    directory.mkdir(parents=True, exist_ok=True)
    server = Server(directory / "log", immure=IMMURE)
    server.start()
    try:
        wait_for(server.ready, "a server", 60)
        started = time.monotonic()
        outcomes, wrong, rests = Counter(), [], []
        for part in range(PARTS):
            part_outcomes, part_wrong = run(server, n // PARTS, part)
            outcomes, wrong = outcomes + part_outcomes, wrong + part_wrong
            rests.append(settled(server))
        seconds = time.monotonic() - started
    finally:
        server.stop()
    grown = growths(rests, n // PARTS)
    print(f"{'':22}" + "".join(f"{(i + 1) * n // PARTS:>9}" for i in range(PARTS)) + " jobs")
    for name in rests[0]:
        print(f"{name:22}" + "".join(f"{rest[name]:>9}" for rest in rests) + ("   GROWN" if name in grown else ""))
    print(f"soak: {sum(outcomes.values())} jobs in {seconds:.0f} s, {sum(outcomes.values()) / seconds:.0f} jobs/s, seed {SEED}: "
          + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    for line in wrong[:MAX_LINES]:
        print(f"WRONG: {line}")
    if wrong or grown:
        for line in complaints(server):
            print(f"LOG: {line}")
        print(f"soak: {len(wrong)} wrong, grown: {', '.join(grown) or 'nothing'}")
    return 1 if wrong or grown else 0


if __name__ == "__main__":
    sys.exit(main())

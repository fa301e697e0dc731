#!/usr/bin/python3
"""Runs many jobs, good, bad and hostile, through one server (callers.py: in every runtime, by every door, with tool calls, approvals,
sessions, kernels, images and packages, waited for, streamed, asynchronous, with callers that hang up), and compares what the server has at rest after each fifth
of them: nothing may be left, nothing may grow.

usage: soak.py [N]      (2000; BUILD names the build; the server's log is BUILD/soak/log)

Exit code 1 if a verdict was wrong or something was left behind or grew."""

import contextlib
import ctypes
import json
import os
import re
import statistics
import sys
import threading
import time
import urllib.parse
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from callback_server import QuickServer  # noqa: E402
from callers import APPROVER_KEY, LIMITED_KEY, SEED, Caller, configuration, fill  # noqa: E402
from harness import BUILD, IMMURE, STANDBY, WARM, Server, call, children, closed_port, front_of, n_connections, wait_for  # noqa: E402
from package_index import Index  # noqa: E402

WORKERS = 4  # as many as jobs run at once
REST_S = 120


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


def n_cgroups(warden):
    """Those that the warden has made, where it could."""
    path = next((line[3:] for line in Path(f"/proc/{warden}/cgroup").read_text().splitlines() if line.startswith("0::")), "")
    own, found, _ = path.partition("/immure-")
    return sum(1 for _ in os.walk("/sys/fs/cgroup" + own)) if found else 0  # one that goes meanwhile does not count


def n_mounts(pids):
    """In all mount namespaces of these processes."""
    namespaces = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            namespaces[os.stat(f"/proc/{pid}/ns/mnt").st_ino] = len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    return sum(namespaces.values())


def heap_bytes(server):
    """What warden and front have allocated and not freed."""
    text = server.get("/metrics").body.decode()
    return {f"{who}: heap": int(n) for who, n in re.findall(r'^immure_heap_bytes\{process="(\w+)"\} (\d+)$', text, re.M)}


def measure(server, callback_port=0):
    warden, front = server.process.pid, front_of(server.process.pid)
    below = descendants(warden)
    others = [pid for pid in below if pid != front]
    return {
        "processes": len(below),
        "warden: descriptors": len(os.listdir(f"/proc/{warden}/fd")),
        "front: descriptors": len(os.listdir(f"/proc/{front}/fd")) - (n_connections(front, callback_port) if callback_port else 0),
        "mounts": n_mounts([warden, *below]),
        "cgroups": n_cgroups(warden),
        "warden: KiB": memory_kib(warden),
        "front: KiB": memory_kib(front),
        "jails: KiB": sum(memory_kib(pid) for pid in others),
        "front restarts": int(server.metric("immure_front_restarts_total")),
        **heap_bytes(server),
    }


# Memory grows by steps, whenever more comes together than ever before, and stays; a leak grows in every part of the way.
# So it may not grow from one rest to the next, most of the time; nor by more than that from the first rest to the last.
MEMORY = {"warden: KiB": 1024, "front: KiB": 1024, "jails: KiB": 4096}
STEADY_KIB = 64  # 32 bytes for each of 2,000 jobs
# What is allocated is known to the byte, and is judged after few jobs already: a leak of one small object a job is in every step,
# what caches take as they fill is not.
HEAP = {"warden: heap", "front: heap"}
LEAK_BYTES = 64  # of a job
HEAP_JOBS = 200  # in a part; before that it is not judged
PARTS = 5
WARM_UP = 1000  # jobs; before that a server is still growing into its work, and memory is not judged


def growths(rests, jobs_each):
    """-> the names of what grew"""
    first, last = rests[0], rests[-1]
    grown = [name for name in first if name not in MEMORY and name not in HEAP and any(rest[name] > first[name] for rest in rests)]
    for name in HEAP if jobs_each >= HEAP_JOBS else ():
        steps = [after[name] - before[name] for before, after in zip(rests, rests[1:], strict=False)]
        if min(steps) > LEAK_BYTES * jobs_each:
            grown.append(name)
    for name, most in MEMORY.items() if jobs_each >= WARM_UP else ():
        steps = [after[name] - before[name] for before, after in zip(rests, rests[1:], strict=False)]
        # The template's pages come and go between two figures.
        steady = statistics.median(steps) <= STEADY_KIB or min(last[name], rests[-2][name]) <= max(first[name], rests[1][name])
        if not steady or last[name] - first[name] > most:
            grown.append(name)
    return grown


# warm_jails of the shipped configuration; node may be missing.
NODES = {"node": 2, "isolate": 1} if STANDBY == "on" and Path("/usr/bin/node").exists() else {}
STOCK = {"python": 4, **NODES} if WARM == "pool" else {}


def stock_is_full(server):
    text = server.get("/metrics").body.decode()
    parked = re.findall(r'^immure_warm_jails\{runtime="(\w+)",state="parked"\} (\d+)$', text, re.M)
    return {runtime: int(n) for runtime, n in parked if int(n) > 0} == STOCK


def settled(server, callback_port, approvals):
    """Figures of a server at rest, once what it keeps for a while is gone."""
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the last job's end")
    wait_for(lambda: server.metric("immure_sessions") == server.metric("immure_kernels") == 0, "the end of the last session")
    for path in approvals:
        wait_for(lambda: call(server, "GET", path, key=APPROVER_KEY).status == 404, "the end of the last approval")  # noqa: B023

    for key in (server.key, LIMITED_KEY, APPROVER_KEY):  # the warden holds each reply by a descriptor
        wait_for(lambda: call(server, "GET", "/jobs", key=key).json["jobs"] == [], "the end of the last reply that is kept")  # noqa: B023

    # The warden tells of its heap when the number of sessions changes: at rest, therefore, once more.
    probe = {"code": "print(1)", "session_id": "probe"}
    wait_for(lambda: server.request("POST", "/execute", json.dumps(probe)).status == 200, "a job in a session")

    def full():
        first = measure(server, callback_port)
        time.sleep(0.05)
        second = measure(server, callback_port)
        same = all(first[name] == second[name] for name in first if name not in MEMORY and name not in HEAP)
        return second if same and stock_is_full(server) else None
    wait_for(full, "rest", REST_S)
    assert server.request("DELETE", "/workspace/probe").status == 204
    return wait_for(full, "rest again", REST_S)


def run(server, n, part, addresses, directory):
    """`n` jobs; or, in part -1, every kind of job once."""
    callers = [Caller(server, part * WORKERS + number, addresses, directory) for number in range(WORKERS)]
    threads = [threading.Thread(target=caller.run, args=(n // WORKERS,)) if part >= 0 else
               threading.Thread(target=caller.warm_up, args=(number, WORKERS)) for number, caller in enumerate(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return callers


def complaints(server):
    """What the server's log says of itself, but for what programs here do to their bridge."""
    lines = [line for line in server.log().splitlines() if re.search(r"\blevel=(error|warning)\b", line) and "bridge_closed" not in line]
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
    config = directory / "server.textproto"
    with QuickServer() as callbacks, Index() as index:
        fill(index)
        config.write_text(configuration(directory / "made", index))
        return soak(n, directory, callbacks.url, SANDBOX_EXECUTOR_CONFIG=str(config))


def soak(n, directory, callback_url, **environment):
    addresses = {"answers": callback_url, "nobody": f"http://127.0.0.1:{closed_port()}/"}
    server = Server(directory / "log", immure=IMMURE, SANDBOX_EXECUTOR_CALLBACK_URLS=",".join(addresses.values()), **environment)
    port = urllib.parse.urlsplit(callback_url).port
    server.start()
    try:
        wait_for(server.ready, "a server", 60)
        started = time.monotonic()
        callers, rests = run(server, 0, -1, addresses, directory / "made"), []
        for part in range(PARTS):
            callers += run(server, n // PARTS, part, addresses, directory / "made")
            rests.append(settled(server, port, callers[-1].approvals))
        seconds = time.monotonic() - started
    finally:
        server.stop()
    outcomes, ways = (sum((getattr(caller, name) for caller in callers), Counter()) for name in ("outcomes", "ways"))
    wrong = [what for caller in callers for what in caller.wrong]
    grown = growths(rests, n // PARTS)
    print(f"{'':22}" + "".join(f"{(i + 1) * n // PARTS:>9}" for i in range(PARTS)) + " jobs")
    for name in rests[0]:
        print(f"{name:22}" + "".join(f"{rest[name]:>9}" for rest in rests) + ("   GROWN" if name in grown else ""))
    print(f"soak: {sum(outcomes.values())} jobs in {seconds:.0f} s, {sum(outcomes.values()) / seconds:.0f} jobs/s, seed {SEED}: "
          + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()) + "; " + ", ".join(f"{count} {way}" for way, count in ways.most_common()))
    for line in wrong[:MAX_LINES]:
        print(f"WRONG: {line}")
    if wrong or grown:
        for line in complaints(server):
            print(f"LOG: {line}")
        print(f"soak: {len(wrong)} wrong, grown: {', '.join(grown) or 'nothing'}")
    return 1 if wrong or grown else 0


if __name__ == "__main__":
    sys.exit(main())

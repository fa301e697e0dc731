"""Somebody else on the server under attack: small jobs, one after the other, whose replies, latencies and deadlines are measured."""

import json
import threading
import time

from harness import PATIENCE

# How much slower the slowest of a hundred may become, and what is too little to be anybody's attack.
SLOWER, NOISE_S = 3, 0.050 * PATIENCE
# How late a deadline may be.
LATE_S = 0.050 * PATIENCE
DEADLINE_S = 0.2
QUIET_JOBS = 60


def p99(latencies):
    return sorted(latencies)[max(0, len(latencies) * 99 // 100 - 1)]


class Bystander:
    """Measures a quiet server first: `with Bystander(server, key).watching(): ATTACK`. With `jobs` False it asks for /healthz
    only, for attacks that may take every slot but not the server."""

    def __init__(self, server, key=None, jobs=True, **fields):
        self.server, self.key, self.jobs, self.fields = server, key, jobs, fields
        self.wrong, self.latencies, self.late = [], [], []
        for _ in range(5):
            self.once()
        self.latencies.clear()
        for number in range(QUIET_JOBS):
            self.once(number % 10 == 9)
        assert not self.wrong, f"the quiet server: {self.wrong[:3]}"
        self.quiet_p99, self.quiet_late = p99(self.latencies), max(self.late, default=0)
        self.latencies, self.late = [], []

    def ask(self, method, path, body=None):
        headers = {"X-Service-API-Key": self.key} if self.key else None
        began = time.monotonic()
        reply = self.server.request(method, path, body and json.dumps(body), timeout=30, headers=headers)
        return reply, time.monotonic() - began

    def once(self, deadline=False):
        """One job, or one that does not end by itself."""
        try:
            if not self.jobs:
                reply, took_s = self.ask("GET", "/healthz")
                self.latencies.append(took_s)
                if reply.status != 200:
                    self.wrong.append(f"/healthz: {reply.status}")
            elif deadline:
                reply, took_s = self.ask("POST", "/execute", {
                    "code": "while True: pass", "timeout_ms": int(DEADLINE_S * 1000), **self.fields})
                self.late.append(took_s - DEADLINE_S)
                if reply.status != 200 or reply.json["status"] != "timeout":
                    self.wrong.append(f"not a timeout: {reply.status} {reply.body[:300]}")
            else:
                reply, took_s = self.ask("POST", "/execute", {"code": "print(1)", **self.fields})
                self.latencies.append(took_s)
                if reply.status != 200 or reply.json["status"] != "success":
                    self.wrong.append(f"not a success: {reply.status} {reply.body[:300]}")
        except OSError as error:
            self.wrong.append(f"no reply: {error!r}")

    def watching(self):
        return self

    def __enter__(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()
        return self

    def go_on(self):
        number = 0
        while not self.over.is_set() or not self.latencies or (self.jobs and not self.late):
            number += 1
            self.once(self.jobs and number % 10 == 0)
            if self.wrong and self.over.is_set():
                break

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join()
        if kind is None:
            assert not self.harm(), "\n".join(self.harm())

    def harm(self):
        """-> what the attack has done to us"""
        harm = [f"{len(self.wrong)} of {len(self.latencies) + len(self.late)}: {self.wrong[0]}"] if self.wrong else []
        if self.latencies and (slow := p99(self.latencies)) > SLOWER * self.quiet_p99 + NOISE_S:
            harm.append(f"p99 {slow * 1000:.0f} ms, quiet {self.quiet_p99 * 1000:.0f} ms")
        if self.late and max(self.late) > self.quiet_late + LATE_S:
            harm.append(f"a deadline was kept {max(self.late) * 1000:.0f} ms late, quiet {self.quiet_late * 1000:.0f} ms")
        return harm

"""Who calls the server of a soak: what they send, how they take the reply, and which verdict is right."""

import http.client
import json
import os
import random
import shutil
import time
from collections import Counter

from harness import ROOT, runtimes

SEED = int(os.environ.get("IMMURE_TEST_SEED", "1"))
NODE, BASH = {"runtime": "node"}, {"runtime": "bash"}
# Replaced by what this caller has: the address of a server that answers tool calls, or of none, and one of its sessions.
CALLBACK, NOBODY, SESSION = {"callback_url": "answers"}, {"callback_url": "nobody"}, {"session_id": "its own"}

# Program, what it is sent with, the status it must end with, and how often it is chosen.
JOBS = [
    ("print(6 * 7)", {}, "success", 40),
    ("import json\nprint(json.dumps({'a': list(range(99))}))", {}, "success", 8),
    ("print(open('in.txt').read())\nopen('out.txt', 'w').write('x' * 5000)",
     {"files": [{"name": "in.txt", "content": "text"}], "outputs": ["out.txt"]}, "success", 8),
    ("import sys\nsys.stdout.write(sys.stdin.read())", {"stdin": "s" * 70000}, "success", 5),
    ("raise SystemExit(3)", {}, "execution_error", 5),
    ("1 / 0", {}, "execution_error", 5),
    ("import os\nos.abort()", {}, "execution_error", 2),
    ("print('y' * 2000000)", {}, "success", 2),
    ("import time\ntime.sleep(60)", {"timeout_ms": 40}, "timeout", 3),
    ("while True: pass", {"timeout_ms": 40}, "timeout", 2),
    ("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass", {"timeout_ms": 60}, "timeout", 1),
    ("import ctypes\nfor i in range(200): ctypes.CDLL(None).unshare(0x10000000)", {}, "success", 2),
    ("import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass", {}, "success", 2),
    ("for i in range(10**6): open(f'/tmp/{i}', 'w').write('z')", {}, "execution_error", 1),
    ("import os\nos.kill(1, 9)\nos.symlink('/etc/passwd', 'out.txt')\nprint(1)", {"outputs": ["*"]}, "success", 2),
    # The bridge: results, tool calls that are answered, that fail, that have no end; bytes that are no frames.
    ("open('r.csv', 'w').write('1,2')\nset_result({'a': list(range(50))}, files=['r.csv'])", {}, "success", 4),
    ("assert call_tool('sum', {'a': 1}) == 42\nset_result(call_tools_parallel([('x', {'n': n}) for n in range(20)]))",
     CALLBACK, "success", 6),
    ("try: call_tool('x')\nexcept RuntimeError as error: print(error)", NOBODY, "success", 2),
    ("while True: call_tool('x', {'text': 'y' * 1000})", {**CALLBACK, "timeout_ms": 60}, "timeout", 1),
    ("import os\ntry: os.write(4, os.urandom(3000) + b'\\xff' * 3000)\nexcept BrokenPipeError: pass", CALLBACK, "success", 1),
    # Sessions: what stays grows until they end, and is a trap or two.
    ("import os\nopen('log', 'a').write('x' * 3000)\nprint(os.path.getsize('log'))", SESSION, "success", 6),
    ("import os\nname = os.urandom(8).hex()\nos.symlink('/etc/passwd', 'l' + name); os.mkfifo('p' + name); os.mkdir('d' + name)",
     {**SESSION, "outputs": ["*"]}, "success", 2),
    ("import os\nos.fork()\nopen('log', 'a').write('x')\nwhile True: pass", {**SESSION, "timeout_ms": 50}, "timeout", 1),
]
OTHERS = {
    "bash": [
        ("for i in 1 2 3; do echo $i | tr 1-3 a-c; done", BASH, "success", 2),
        ("cat in.txt >out.txt; exit 3", {**BASH, "files": [{"name": "in.txt", "content": "text"}]}, "execution_error", 1),
        ("while :; do :; done & wait", {**BASH, "timeout_ms": 60}, "timeout", 1),
        ("date >>notes; wc -l <notes", {**BASH, **SESSION}, "success", 1),
    ],
    "node": [
        ("console.log(6 * 7); setResult({a: [1, 2]})", NODE, "success", 3),
        ("throw new Error('no')", NODE, "execution_error", 1),
        ("if (await callTool('sum', {a: 1}) !== 42) process.exit(3)", {**NODE, **CALLBACK}, "success", 2),
        ("for (;;) ;", {**NODE, "timeout_ms": 60}, "timeout", 1),
        ("require('fs').appendFileSync('log', 'x')", {**NODE, **SESSION}, "success", 1),
    ],
}
JOBS += [job for runtime, jobs in OTHERS.items() if shutil.which(f"/usr/bin/{runtime}") for job in jobs]
WEIGHTS = [job[3] for job in JOBS]

# How the reply is taken: waited for, as a stream of events, or asked for later; of a hundred jobs.
WAYS = {"waited for": 80, "streamed": 10, "asked for": 7, "ended": 2, "forgotten": 1}
# Of a hundred callers, so many hang up on their job; and so many connections are kept for the next.
HANG_UP, KEEP = 3, 60
SESSIONS = 3  # of each caller
END_SESSION = 15  # of a hundred jobs of one
# The slot of one that has hung up is free within this time.
BUSY_S = 30

# Few replies are kept, so that there are as many at every rest.
CONFIG = "max_kept_jobs: 24\n" + (runtimes() or (ROOT / "config/server.textproto").read_text())


class Wrong(Exception):
    pass


class Caller:
    """A connection at a time, verdicts counted. `addresses`: callback URLs by what JOBS call them."""

    def __init__(self, server, number, addresses):
        self.server, self.number, self.addresses, self.chance = server, number, addresses, random.Random(SEED * 1000 + number)
        self.outcomes, self.ways, self.wrong, self.connection, self.sessions = Counter(), Counter(), [], None, set()

    def send(self, method, path, body=None, headers=None):
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        self.connection.request(method, path, json.dumps(body) if body is not None else None, {
            "X-Service-API-Key": self.server.key, "Content-Type": "application/json", **(headers or {})})

    def receive(self):
        """-> status and body of the reply"""
        self.reply = self.connection.getresponse()
        return self.reply.status, self.reply.read()

    def call(self, method, path, *wanted):
        self.send(method, path)
        status, body = self.receive()
        if status not in wanted:
            raise Wrong(f"{method} {path}: {self.told(status, body)}")
        return status, body

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def told(self, status, body):
        """What a reply says, with what the server's log says of it."""
        request_id = self.reply.headers.get("X-Request-Id", "?")
        about = [line for line in self.server.log().splitlines() if request_id in line]
        return "\n    ".join([f"HTTP {status}: {body[:1500]!r}", *about])

    def filled_in(self, fields):
        fields = dict(fields)
        if "callback_url" in fields:
            fields["callback_url"] = self.addresses[fields["callback_url"]]
        if "session_id" in fields:
            fields["session_id"] = f"soak-{self.number}-{self.chance.randrange(SESSIONS)}"
            self.sessions.add(fields["session_id"])
        return fields

    def one(self):
        [(code, fields, expected, _)] = self.chance.choices(JOBS, WEIGHTS)
        [way] = self.chance.choices(list(WAYS), list(WAYS.values()))
        if way == "forgotten":  # its reply is kept, so all of these are alike
            code, fields, expected, _ = JOBS[0]
        job = {"code": code, **self.filled_in(fields)}
        path = "/execute" if way in ("waited for", "streamed") else "/execute?wait=false"
        hangs_up, until = self.chance.randrange(100) < HANG_UP, time.monotonic() + BUSY_S
        while True:
            self.send("POST", path, job, {"Accept": "text/event-stream"} if way == "streamed" else None)
            if hangs_up:
                return self.hang_up(way)
            status, body = self.receive()
            if status != 503 or time.monotonic() > until:
                break
            time.sleep(0.002)
        outcome = self.outcome(way, status, body)
        if outcome != expected and not (way == "ended" and outcome == "cancelled"):
            raise Wrong(f"{way}, {code!r}: {outcome} instead of {expected}: {self.told(status, body)}")
        self.outcomes[outcome] += 1
        self.ways[way] += 1
        if "session_id" in job and self.chance.randrange(100) < END_SESSION:
            self.end_session(job["session_id"])

    def hang_up(self, way):
        if way == "streamed" and self.chance.randrange(2):
            self.connection.getresponse().read(1)
        self.drop()
        self.outcomes["hung up"] += 1

    def outcome(self, way, status, body):
        if status == 202:
            return self.later(way, self.reply.headers["Location"])
        if status != 200:
            return f"HTTP {status}"
        if way == "streamed":
            body = body.rpartition(b"event: result\ndata: ")[2]
        return json.loads(body)["status"]

    def later(self, way, path):
        """An asynchronous job's outcome; all but those that are forgotten are taken from what the server keeps."""
        if way == "ended":
            self.call("DELETE", path, 204)
            if self.call("GET", path, 200, 404)[0] == 404:
                return "cancelled"  # or it had just ended
        while (job := json.loads(self.call("GET", path, 200)[1]))["status"] == "running":
            time.sleep(0.005)
        if way != "forgotten":
            self.call("DELETE", path, 204)
        return job["status"]

    def end_session(self, session):
        self.call("DELETE", f"/workspace/{session}", 204)
        self.sessions.discard(session)

    def run(self, n):
        for _ in range(n):
            try:
                self.one()
                if self.chance.randrange(100) >= KEEP:
                    self.drop()
            except (OSError, http.client.HTTPException, Wrong) as error:
                self.drop()
                self.wrong.append(str(error) if isinstance(error, Wrong) else repr(error))
        for session in sorted(self.sessions):
            self.end_session(session)
        self.drop()

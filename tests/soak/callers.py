"""Who calls the server of a soak: what they send, how they take the reply, and which verdict is right."""

import http.client
import json
import os
import random
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

from harness import PATIENCE, ROOT, config_key, runtimes, shipped_policy
from images import image, imported, make_root, policy
from packages import tarball, upload, wheel

SEED = int(os.environ.get("IMMURE_TEST_SEED", "1"))
NODE, BASH = {"runtime": "node"}, {"runtime": "bash"}
# Replaced by what this caller has: the address of a server that answers tool calls, or of none, and one of its sessions.
CALLBACK, NOBODY, SESSION = {"callback_url": "answers"}, {"callback_url": "nobody"}, {"session_id": "its own"}
KERNEL = {**SESSION, "policy": "python-kernel"}
IMAGE = {**BASH, "policy": "image", "environment": "image", "image": "soak"}

# Program, what it is sent with, the status it must end with, and how often it is chosen.
JOBS = [
    ("print(6 * 7)", {}, "success", 40),
    ("import json\nprint(json.dumps({'a': list(range(99))}))", {}, "success", 8),
    ("print(open('in.txt').read())\nopen('out.txt', 'w').write('x' * 5000)",
     {"files": [{"name": "in.txt", "content": "text"}], "outputs": ["out.txt"]}, "success", 8),
    # Types of files are told by their content where names do not tell.
    ("open('a', 'w').write('1,2\\n'); open('b', 'wb').write(bytes(range(256)) * 9); open('c', 'w').write('x' * 3000); open('d', 'w')",
     {"outputs": ["*"]}, "success", 2),
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
    ("import os\ntry: os.kill(1, 9)\nexcept PermissionError: pass\nos.symlink('/etc/passwd', 'out.txt')\nprint(1)", {"outputs": ["*"]}, "success", 2),
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
    # Kernels: what stays are variables, threads and processes, until it ends in one way or another.
    ("calls = globals().get('calls', 0) + 1\nprint(calls, 'x' * 3000)\nset_result(calls)", KERNEL, "success", 5),
    ("import subprocess, threading, time\nleft = subprocess.Popen(['sleep', '60'])\n"
     "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", KERNEL, "success", 2),
    ("assert call_tool('sum', {'a': 1}) == 42\n1 / 0", {**KERNEL, **CALLBACK}, "execution_error", 1),
    ("while True: pass", {**KERNEL, "timeout_ms": 60}, "timeout", 2),
    ("import os\nos.kill(os.getpid(), 9)", KERNEL, "execution_error", 1),
    ("import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()", KERNEL, "success", 1),
]
# In the image, which now and then another one takes the place of.
IN_IMAGE = [
    ("read line </etc/image; echo $line; exec cat /etc/image", IMAGE, "success", 3),
    ("echo x >/etc/image", IMAGE, "execution_error", 1),
    ("while :; do :; done & wait", {**IMAGE, "timeout_ms": 60}, "timeout", 1),
    ("echo x >>notes", {**IMAGE, **SESSION}, "success", 1),
]
# Where the machine is emulated these would take long: what is exhausted there is the clock, and Node is slow.
EMULATED = "IMMURE_VM" in os.environ
EXHAUSTING = [("for i in range(10**6): open(f'/tmp/{i}', 'w').write('z')", {}, "execution_error", 1)]
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
# Packages: of the workspace and of an index, what they need, one that is nowhere, one whose index never answers.
PATIENT, SELDOM = {"timeout": 60}, 0.3  # each keeps a processor busy for a second
INSTALLS = {
    "python": [
        ("install_package('./brought-1.0-py3-none-any.whl')\nimport brought", {**PATIENT, "files": [upload(wheel("brought"))]}, "success", SELDOM),
        ("install_package('listed')\nimport listed, needed", PATIENT, "success", SELDOM),
        ("install_package('listed')\nimport listed, needed", {**PATIENT, **SESSION}, "success", SELDOM),
        ("install_package('hanging')", {"timeout_ms": 1500}, "timeout", SELDOM),
    ],
    "node": [
        ("await installPackage('./brought-1.0.0.tgz')\nrequire('brought')", {**NODE, **PATIENT, "files": [upload(tarball("brought"))]}, "success", SELDOM),
        ("await installPackage('listed')\nrequire('listed')", {**NODE, **PATIENT, **SESSION}, "success", SELDOM),
        ("await installPackage('nowhere')", {**NODE, **PATIENT}, "execution_error", SELDOM),
        ("await installPackage('hanging')", {**NODE, "timeout_ms": 1500}, "timeout", SELDOM),
    ],
}
NODE_RUNS = shutil.which("/usr/bin/node") and shutil.which("esbuild") and not EMULATED
JOBS += [job for runtime, jobs in OTHERS.items() if shutil.which(f"/usr/bin/{runtime}") and (runtime != "node" or NODE_RUNS) for job in jobs]
JOBS += [] if EMULATED else [*EXHAUSTING, *IN_IMAGE]
JOBS += INSTALLS["python"] if Path("/usr/lib/python3/dist-packages/pip").exists() and not EMULATED else []
JOBS += INSTALLS["node"] if NODE_RUNS and shutil.which("npm") else []


def function(name):
    """A function of the caller's, as a run hears of it."""
    return {"globals": {name: {"$type": "function", "id": name}}}


# POST /run-code: source, options, what it is sent with, the status it must end with, and how often it is chosen.
RUNS = [
    ("export default 42", {}, {}, "success", 4),
    ("enum Kind { A, B }\nconsole.log(Kind)\nexport default (n: number): number => n + Kind.B", {"execute": {"args": [1]}}, {}, "success", 2),
    ("export default async () => { for (let i = 0; i < 20; i++) if (await f(i) !== 42) throw 1 }", function("f"), CALLBACK, "success", 3),
    ("export default () => f()", function("f"), NOBODY, "error", 1),
    ("import {x} from './a'\nexport default x", {"modules": {"./a": "export const x = new Map([[1, new Date()]])"}}, {}, "success", 1),
    ("throw new Error('no')", {}, {}, "error", 1),
    ("export default () => () => 1", {}, {}, "error", 1),
    ("import fs from 'node:fs'", {}, {}, "link_error", 1),
    ("for (;;);", {}, {"timeout_ms": 60}, "terminated", 1),
]
# POST /mcp: arguments of execute_code, and as above.
CALLS = [
    ({"code": "print(6 * 7)"}, "success", 6),
    ({"code": "open('log', 'a').write('x' * 300)", **SESSION}, "success", 2),
    ({"code": "1 / 0"}, "execution_error", 1),
    ({"code": "while True: pass", "timeout": 1}, "timeout", 1),
    ({"code": "1", "timeout": 0}, "setup_error", 1),
]
# Jobs that need an approval: what they are sent with, what becomes of them, how they end, and how often each is chosen.
HELD = [
    ({"code": "print(6 * 7)"}, "approve", "success", 4),
    ({"code": "print(1)", "wait_ms": 1}, "approve", "success", 1),
    ({"code": "open('log', 'a').write('x' * 300)", **SESSION}, "approve", "success", 1),
    ({"code": "1 / 0"}, "approve", "execution_error", 1),
    ({"code": "while True: pass", "timeout_ms": 60}, "approve", "timeout", 1),
    ({"code": "print(1)"}, "reject", "rejected", 2),
    ({"code": "print(1)"}, "nothing", "approval_required", 1),
]
# Of a hundred jobs, so many come by each door but /execute, and so many by a key that may start few in a minute.
DOORS = {"run-code": 4 if NODE_RUNS else 0, "mcp": 6, "limited": 4, "held": 5, "import": 0 if EMULATED else 1}
LIMITED_KEY, LIMITED_JOBS = "limited-key", 12
APPROVER_KEY = "approver-key"
END_MCP_SESSION = 20  # of a hundred calls

# How the reply is taken: waited for, as a stream of events, or asked for later; of a hundred jobs.
WAYS = {"waited for": 80, "streamed": 10, "asked for": 7, "ended": 2, "forgotten": 1}
# Of a hundred callers, so many hang up on their job; and so many connections are kept for the next.
HANG_UP, KEEP = 3, 60
SESSIONS = 3  # of each caller
END_SESSION = 15  # of a hundred jobs of one
EXPIRE_SESSION = 10  # of a hundred that are left
# The slot of one that has hung up is free within this time.
BUSY_S = 30

# What is kept for callers who ask later is gone at every rest: replies, sessions, and what became of approvals.
KEPT_MS, UNDECIDED_MS = (6000, 3000) if EMULATED else (2000, 1000)
MISSED = "missed"  # by a caller who was kept from asking for so long


def fill(index):
    """Makes `index` the one that INSTALLS is about."""
    def hang(request):
        request.connection.recv(1)  # until who has asked is gone
        request.close_connection = True
    index.add_python(wheel("needed"), wheel("listed", requires=["needed"]))
    needs = {"dependencies": {"needed": "1"}}
    index.add_node("needed", "1.0.0", tarball("needed")[1])
    index.add_node("listed", "1.0.0", tarball("listed", files={"index.js": "require('needed')"}, **needs)[1], **needs)
    index.files |= {"/simple/hanging/": hang, "/hanging": hang}


def configuration(directory, index):
    """Writes what the server needs, an image among it. -> the configuration"""
    policies = directory / "policies"
    shutil.rmtree(directory, ignore_errors=True)
    policies.mkdir(parents=True)
    held = shipped_policy("python").replace('name: "python"', 'name: "held" approval: ALWAYS', 1)
    (policies / "held.textproto").write_text(held)
    (directory / "images").mkdir()
    if not EMULATED:
        (policies / "image.textproto").write_text(policy("image", "bash", 'images: "soak"'))
        imported(directory / "images", "soak", make_root(directory / "root", "/usr/bin/bash", "/usr/bin/cat"))
    # More than there are workers: the last slot is for other keys than theirs, and those who hang up leave theirs a little later.
    return (f'max_concurrent_jobs: 8 kept_job_ttl_ms: {KEPT_MS} session_ttl_ms: {KEPT_MS} approval_expiry_ms: {UNDECIDED_MS} kernel_idle_cpu_ms: 200\n'
            f'pip_index {{ url: "{index.url}/simple/" }} npm_registry {{ url: "{index.url}" }}\n'
            f'policy_path: "{policies}" image_directory: "{directory}/images"\n'
            + config_key("limited", LIMITED_KEY, max_jobs_per_minute=LIMITED_JOBS)
            + config_key("approver", APPROVER_KEY).replace(" }", " approver: true }")
            + (runtimes() or (ROOT / "config/server.textproto").read_text()))


class Wrong(Exception):
    pass


class Caller:
    """A connection at a time, verdicts counted. `addresses`: callback URLs by what JOBS call them."""

    importing = threading.Lock()

    def __init__(self, server, number, addresses, directory):
        self.directory, self.approvals = directory, []
        self.server, self.number, self.addresses, self.chance = server, number, addresses, random.Random(SEED * 1000 + number)
        self.outcomes, self.ways, self.wrong, self.connection, self.sessions = Counter(), Counter(), [], None, set()
        self.mcp_session = None

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
        [door] = self.chance.choices([*DOORS, "execute"], [*DOORS.values(), 100 - sum(DOORS.values())])
        if door in ("limited", "import"):
            return {"limited": self.limited, "import": self.import_image}[door]()
        table = {"run-code": RUNS, "mcp": CALLS, "held": HELD, "execute": JOBS}[door]
        [row] = self.chance.choices(table, [row[-1] for row in table])
        if door != "execute":
            return {"run-code": self.run_code, "mcp": self.mcp, "held": self.held}[door](*row[:-1])
        [way] = self.chance.choices(list(WAYS), list(WAYS.values()))
        return self.execute(way, *row[:-1])

    def warm_up(self, part, parts):
        """Its part of every row of the tables, once: what libraries do but once is done then."""
        calls = [*[(self.execute, ("waited for", *row[:-1])) for row in JOBS], *[(self.mcp, row[:-1]) for row in CALLS],
                 *[(self.held, row[:-1]) for row in HELD], *[(self.import_image, ()) for _ in range(DOORS["import"])],
                 *[(self.run_code, row[:-1]) for row in RUNS if DOORS["run-code"]]]
        self.each(calls[part::parts])

    def execute(self, way, code, fields, expected):
        if way == "forgotten":  # its reply is kept, so all of these are alike
            code, fields, expected, _ = JOBS[0]
        job = {"code": code, **self.filled_in(fields)}
        path = "/execute" if way in ("waited for", "streamed") else "/execute?wait=false"
        reply = self.ask(way, path, job, {"Accept": "text/event-stream"} if way == "streamed" else None)
        if reply is None:
            return
        outcome = self.outcome(way, *reply)
        self.judge(way, code, outcome, {expected, "cancelled"} if way == "ended" else {expected}, reply)
        if "session_id" in job and self.chance.randrange(100) < END_SESSION:
            self.end_session(job["session_id"])

    def ask(self, way, path, body, headers=None, is_busy=lambda status, body: status == 503):
        """-> status and body of the reply, once the server has room; None: hung up"""
        hangs_up, until = self.chance.randrange(100) < HANG_UP, time.monotonic() + PATIENCE * BUSY_S
        while True:
            self.send("POST", path, body, headers)
            if hangs_up:
                return self.hang_up(way)
            reply = self.receive()
            if not is_busy(*reply) or time.monotonic() > until:
                return reply
            time.sleep(0.002)

    def judge(self, way, what, outcome, expected, reply):
        if outcome not in expected | {MISSED}:
            raise Wrong(f"{way}, {what!r}: {outcome} instead of {' or '.join(sorted(expected))}: {self.told(*reply)}")
        self.outcomes[outcome] += 1
        self.ways[way] += 1

    def run_code(self, source, options, fields, expected):
        reply = self.ask("run-code", "/run-code", {"source": source, "options": options, **self.filled_in(fields)})
        if reply:
            self.judge("run-code", source, self.outcome("run-code", *reply), {expected}, reply)

    def begin_mcp_session(self):
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        self.send("POST", "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        status, body = self.receive()
        self.mcp_session = self.reply.headers["Mcp-Session-Id"]
        if status != 200 or not self.mcp_session:
            raise Wrong(f"initialize: {self.told(status, body)}")

    def end_mcp_session(self):
        self.send("DELETE", "/mcp", headers={"Mcp-Session-Id": self.mcp_session})
        self.mcp_session = None
        reply = self.receive()
        if reply[0] != 204:
            raise Wrong(f"DELETE /mcp: {self.told(*reply)}")

    def mcp(self, arguments, expected):
        if not self.mcp_session:
            self.begin_mcp_session()
        arguments = {"language": "python", **self.filled_in(arguments)}
        params = {"name": "execute_code", "arguments": arguments, "_meta": {"progressToken": 1}}
        streamed = self.chance.randrange(2)
        reply = self.ask("mcp", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
                         {"Mcp-Session-Id": self.mcp_session, "Accept": "application/json" + ", text/event-stream" * streamed},
                         is_busy=lambda status, body: b"server busy" in body)
        if reply:
            status, body = reply
            answer = json.loads(body.rpartition(b"event: message\ndata: ")[2])
            self.judge("mcp", arguments, answer["result"]["structuredContent"]["status"] if status == 200 else f"HTTP {status}", {expected}, reply)
        if self.chance.randrange(100) < END_MCP_SESSION:
            self.end_mcp_session()

    def limited(self):
        """By the key of which all have had more than it may, but now and then."""
        reply = self.ask("limited", "/execute", {"code": "print(1)"}, {"X-Service-API-Key": LIMITED_KEY})
        if reply:
            outcome = "too many" if reply[0] == 429 and int(self.reply.headers["Retry-After"]) <= 60 else self.outcome("limited", *reply)
            self.judge("limited", LIMITED_KEY, outcome, {"success", "too many"}, reply)

    def held(self, job, decision, expected):
        """A job that waits for somebody else, who decides or does not."""
        reply = self.ask("held", "/execute", {"policy": "held", **self.filled_in(job)})
        if not reply:
            return
        status, body = reply
        told = json.loads(body)
        if status != 202:
            raise Wrong(f"held, {job!r}: {self.told(status, body)}")
        path, submitted = self.reply.headers["Location"], time.monotonic()
        self.approvals.append(path)
        outcome = told["status"]
        if decision != "nothing":
            self.send("POST", path, {"decision": decision}, {"X-Service-API-Key": APPROVER_KEY})
            status, body = reply = self.receive()
            # Somebody who was kept from it may be too late, and later still there is no trace of it.
            is_late = status == 409 and b"expired" in body or status == 404 and time.monotonic() - submitted > UNDECIDED_MS / 1000
            outcome = json.loads(body)["status"] if status == 200 else MISSED if is_late else f"HTTP {status}"
        if outcome not in ("rejected", "approval_required", MISSED):
            outcome = self.later("held", "/jobs/" + told["approval_id"], until_there=True)
        self.judge("held", job, outcome, {expected}, reply)

    def import_image(self):
        """Another one takes the image's place, whoever runs in it."""
        with self.importing:
            done = image("import", "soak", self.directory / "root", "--replace", directory=self.directory / "images")
        if done.returncode != 0:
            raise Wrong(f"image import: {done.stderr}")
        self.ways["import"] += 1

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

    def later(self, way, path, until_there=False):
        """An asynchronous job's outcome; all but those that are forgotten are taken from what the server keeps. `until_there`: it
        has not begun yet, perhaps."""
        if way == "ended":
            self.call("DELETE", path, 204)
            if self.call("GET", path, 200, 404)[0] == 404:
                return "cancelled"  # or it had just ended
        began = asked = time.monotonic()
        while True:
            status, body = self.call("GET", path, 200, 404)
            asked, before = time.monotonic(), asked
            if status == 200 and json.loads(body)["status"] != "running":
                break
            if status == 404 and asked - before > KEPT_MS / 2000:
                return MISSED
            if status == 404 and not (until_there and asked - began < PATIENCE * BUSY_S):
                raise Wrong(f"GET {path}: {self.told(status, body)}")
            until_there = until_there and status == 404
            time.sleep(0.005)
        if way != "forgotten":
            self.call("DELETE", path, 204, 404)
        return json.loads(body)["status"]

    def end_session(self, session):
        self.call("DELETE", f"/workspace/{session}", 204, 404)  # or it has expired
        self.sessions.discard(session)

    def run(self, n):
        self.each([(self.one, ())] * n)

    def each(self, calls):
        for call, arguments in calls:
            try:
                call(*arguments)
                if self.chance.randrange(100) >= KEEP:
                    self.drop()
            except (OSError, http.client.HTTPException, Wrong) as error:
                self.drop()
                self.wrong.append(str(error) if isinstance(error, Wrong) else repr(error))
        for session in sorted(self.sessions):
            if self.chance.randrange(100) >= EXPIRE_SESSION:
                self.end_session(session)
        if self.mcp_session:
            self.end_mcp_session()
        self.drop()

"""Whatever a request sizes, at its worst: what is allowed at its limit, what is refused far beyond it. Meanwhile somebody else's
jobs are as fast as ever, and end by their deadlines. A field that has a size gets a row here. (What is read of a body costs the
front some 5 ms per MiB: rows have 8 MiB at most, but for files that are put as they are, 1.5 ms per MiB.)"""

import base64
import copy
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bystander import QUIET_JOBS, Bystander, p99
from harness import BUILD, PATIENCE, Server, call, config_key, front_of, runtimes, wait_for

WITHOUT_NODE = True
CONFIG = "max_concurrent_jobs: 8\n" + config_key("attacker", "attacker", policy="*").replace(" }", " approver: true }")
# Each of these sends one after the other, until somebody else has had so many jobs, some of which ended by their deadline.
CALLERS, JOBS = 2, 40
# What one request may cost an event loop that all share. (On a busy machine two processes share a core's parts, too.)
CPU_MS = 50 * PATIENCE
MIB = 1 << 20


def execute(**fields):
    return {"code": "pass", "timeout_ms": 20000, **fields}


def tree(n_files, n_levels):
    """Files of as many directories as there may be, each of which is another one's."""
    return [{"name": f"{number}/" + "d/" * (n_levels - 2) + "f"} for number in range(n_files)]


def pattern(number, length):
    """One that fails at the end of each name only, wherever it begins."""
    return "*" + f"{number:03}"[0] + "a" * (length - 5) + "[a-b]b"


# Leaves as many files as it may, with long names that patterns must be tried on at each place.
LEAVE = """
import os
os.makedirs("d" * 200 + "/" + "e" * 200)
os.chdir("d" * 200 + "/" + "e" * 200)
try:
    for number in range(10000):
        open("a" * 240 + str(number), "w").close()
except OSError:
    pass
"""
NAME = 'import json, os\nopen("x", "w").close()\nfor _ in range(50):\n    set_result(1, files=[os.getcwd() + "/" + str(n) for n in range(%d)])\n'
LONG = "x" * (8 * MIB)
FUNCTION = {"$type": "function", "id": "f"}


@dataclasses.dataclass
class Row:
    name: str
    body: object
    path: str = "/execute"
    status: tuple = (200,)
    field: str = None  # named by a refusal
    method: str = "POST"
    first: object = None  # a job that is run once before
    callers: int = CALLERS

    def __str__(self):
        return self.name


def refused(name, field, body, path="/execute", **more):
    return Row(name, body, path, (400,), field, **more)


def run_code(source="export default 1", **options):
    return {"source": source, "options": options, "timeout_ms": 5000}


def call_tool(**arguments):
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"language": "python", "code": "pass", **arguments}}}


ROWS = [
    Row("outputs", execute(code=LEAVE, outputs=[pattern(number, 1000) for number in range(64)])),
    Row("outputs_stars", execute(code=LEAVE, outputs=["*/*/" + "*a" * 120 + "b"] * 64)),
    Row("outputs_brackets", execute(code=LEAVE, outputs=["*/*/*" + "[" * 1000] * 64)),
    refused("outputs_many", "outputs", execute(code=LEAVE, outputs=["*" * 20 + "b"] * 950)),
    refused("outputs_very_many", "outputs", execute(outputs=["*"] * 65000)),
    Row("outputs_long", execute(outputs=[LONG]), status=(413,)),
    Row("set_result", execute(code=LEAVE + NAME % 256)),
    Row("env", execute(env={"V" * 240 + str(number): "x" * 100 for number in range(256)})),
    refused("env_many", "env", execute(env={"V" * 100 + str(number): "x" for number in range(12000)})),
    refused("env_very_many", "env", execute(env={"V" * 50 + str(number): "x" for number in range(65000)})),
    Row("env_name", execute(env={LONG: "x"}), status=(413,)),
    Row("files", execute(files=[{"name": "f" * 60 + str(number), "content": "x"} for number in range(1024)])),
    Row("files_deep", execute(files=tree(250, 8))),
    Row("files_large", execute(files=[{"name": "f", "data": base64.b64encode(bytes(8 * MIB)).decode()}])),
    refused("files_many", "files", execute(files=[{"name": str(number)} for number in range(4096)])),
    refused("files_very_many", "files", execute(files=[{"name": str(number), "content": "x" * 100} for number in range(20000)])),
    refused("files_levels", "files", execute(files=[{"name": f"{number}/" + "a/" * 50 + "f"} for number in range(200)])),
    Row("files_that_do_not_fit", execute(policy="strict", files=tree(200, 8)), status=(413,)),
    refused("files_long", "files[0].name", execute(files=[{"name": "a/" * MIB + "a"}])),
    Row("files_of_a_session", execute(code="pass", session_id="s", files=[{"name": str(number)} for number in range(1000)], outputs=["*a*b*c*d"] * 64)),
    refused("files_through_a_link", "files", execute(session_id="linked", files=[{"name": "link/f"}]),
            first=execute(session_id="linked", code='import os; os.symlink("/tmp", "link")')),
    Row("a_large_session", execute(session_id="large"), first=execute(session_id="large", code=LEAVE)),
    Row("session_put", bytes(31 * MIB), "/sessions/put/files/f", method="PUT", callers=4),
    Row("session_put_deep", b"x", "/sessions/put_deep/files/" + "d/" * 1500 + "f", method="PUT", callers=4),
    Row("session_put_that_does_not_fit", bytes(31 * MIB), "/sessions/put_full/files/g", (413,), method="PUT",
        first=execute(session_id="put_full", code="open('f', 'wb').write(bytes(40 << 20))")),
    Row("session_files", b"", "/sessions/listed/files", method="GET", callers=8, first=execute(session_id="listed", code=LEAVE)),
    Row("session_get", b"", "/sessions/got/files/f", method="GET", callers=4,
        first=execute(session_id="got", code=f"open('f', 'wb').write(bytes({8 * MIB}))")),
    Row("session_delete", b"", "/sessions/removed/files/none", (404,), method="DELETE", callers=8, first=execute(session_id="removed", code="open('f', 'w')")),
    Row("args", execute(args=["a" * 50] * 1024)),
    refused("args_many", "args", execute(args=["a"] * 65000)),
    Row("code", execute(code="#" * (8 * MIB)), status=(200, 413)),
    Row("stdin", execute(stdin=LONG)),
    refused("limits", "limits." + "x" * 100 + "0", execute(limits={"x" * 100 + str(number): 1 for number in range(60000)})),
    refused("unknown", "x" * 255, execute(**{"x" * MIB: 1})),
    refused("unknown_many", "outputt0", execute(**{f"outputt{number}": 1 for number in range(60000)})),
    *(refused(f"{field}_long", field, execute(**{field: LONG})) for field in ("runtime", "language", "session_id", "callback_url", "execution_id", "environment")),
    Row("policy_long", execute(policy=LONG), status=(413,)),
    refused("image_long", "image", execute(environment="image", image=LONG)),
    refused("duplicate_keys", None, execute(env=None)),
    Row("run_code_source", run_code("//" + LONG), "/run-code", (404,)),
    refused("run_code_globals", "options.globals", run_code(globals={f"g{number}": 1 for number in range(65000)}), "/run-code"),
    refused("run_code_imports", "options.imports", run_code(imports={f"i{number}": {"x": 1} for number in range(32000)}), "/run-code"),
    refused("run_code_exports", "options.imports.i", run_code(imports={"i": {f"x{number}": FUNCTION for number in range(20000)}}), "/run-code"),
    refused("run_code_modules", "options.modules", run_code(modules={f"./m{number}": "" for number in range(65000)}), "/run-code"),
    refused("run_code_args", "options.execute.args", run_code(execute={"args": [FUNCTION] * 20000}), "/run-code"),
    refused("terminate_reason", "reason", {"reason": LONG}, "/run-code/x/terminate"),
    refused("answers_many", None, [{"id": str(number), "data": "x"} for number in range(20000)], "/executions/x/answers"),
    Row("answers_long", [{"id": "1", "data": LONG}], "/executions/x/answers", (404,)),
    Row("mcp_code", call_tool(code="#" * (8 * MIB)), "/mcp"),
    Row("mcp_session", call_tool(session_id=LONG), "/mcp"),
    Row("mcp_method", {"jsonrpc": "2.0", "id": 1, "method": LONG}, "/mcp", (200, 400)),
    refused("mcp_id", None, {"jsonrpc": "2.0", "id": LONG, "method": "ping"}, "/mcp"),
    refused("approval_reason", "reason", {"decision": "reject", "reason": LONG}, "/approvals/" + "0" * 8),
    Row("values", [1] * 65000, "/execute", (400,)),
    Row("nested", {"env": [[[[]] * 10] * 100] * 200}, "/execute", (400,)),
]


def body_of(row):
    if isinstance(row.body, bytes):
        return row.body
    if row.name == "duplicate_keys":
        return ("{" + ",".join(f'"{number % 60000:050}":1' for number in range(65000)) + "}").encode()
    return json.dumps(row.body).encode()


# A process of its own, as callers are elsewhere: what it does costs nobody here.
SENDER = r"""
import http.client, json, os, select, sys
os.nice(19)
port, method, path, name = sys.argv[1:]
body = open(name, "rb").read()
told = {}
while not told or not select.select([sys.stdin], [], [], 0)[0]:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=120)
    connection.request(method, path, body, {"Content-Type": "application/json", "X-Service-API-Key": "attacker"})
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    field = json.loads(text).get("field") if reply.status == 400 else None
    count = told.setdefault((reply.status, field), [0, text[:300].decode(errors="replace")])
    count[0] += 1
print(json.dumps([[*key, *count] for key, count in told.items()]))
"""


class Attacker:
    """Sends its request again and again until it is told to stop."""

    def __init__(self, server, row, body):
        self.row = row
        self.process = subprocess.Popen([sys.executable, "-c", SENDER, str(server.port), row.method, row.path, str(body)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self):
        """-> how many it has sent, and what was answered otherwise than the row says"""
        told = json.loads(self.process.communicate()[0])
        return sum(count for _, _, count, _ in told), [what for what in told if what[0] not in self.row.status or what[1] != self.row.field]


def cpu_ms(pid):
    """What a process has used. Unlike a latency it is the same on a busy machine."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13]) * 1000 / os.sysconf("SC_CLK_TCK")


class Loops:
    """The two processes with an event loop that everybody shares, and what they have used since."""

    def __init__(self, server):
        warden = server.process.pid
        self.pids = {"front": front_of(warden), "warden": warden}
        self.before = {name: cpu_ms(pid) for name, pid in self.pids.items()}

    def used_ms(self):
        return {name: cpu_ms(pid) - self.before[name] for name, pid in self.pids.items()}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A server, somebody who knows how it is when it is quiet, and what a job of theirs costs the loops."""
    directory = tmp_path_factory.mktemp("requests")
    (directory / "config").write_text(CONFIG + runtimes())
    with Server(directory / "log", immure=str(BUILD / "immure"), SANDBOX_EXECUTOR_CONFIG=str(directory / "config")) as server:
        loops = Loops(server)
        bystander = Bystander(server)
        bystander.job_ms = {name: ms / QUIET_JOBS for name, ms in loops.used_ms().items()}
        yield bystander


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_worst_request(quiet, tmp_path, row):
    bystander = copy.copy(quiet)
    bystander.wrong, bystander.latencies, bystander.late = [], [], []
    body = tmp_path / "body"
    body.write_bytes(body_of(row))
    if row.first:
        assert call(quiet.server, "POST", "/execute", row.first, "attacker").json["status"] == "success"
    attackers, loops = [], Loops(quiet.server)
    try:
        with bystander.watching():
            attackers = [Attacker(quiet.server, row, body) for _ in range(row.callers)]
            wait_for(lambda: len(bystander.latencies) + len(bystander.late) >= JOBS or bystander.wrong, "somebody else has had enough jobs", 120)
            told = [attacker.stop() for attacker in attackers]
            sent, jobs = sum(sent for sent, _ in told), len(bystander.latencies) + len(bystander.late)
            each = {name: (ms - jobs * quiet.job_ms[name]) / sent for name, ms in loops.used_ms().items()}
            print(f"{row}: {sent} sent, each {each['front']:.1f} ms of the front, {each['warden']:.1f} of the warden; p99 "
                  f"{p99(bystander.latencies) * 1000:.0f} ms, {max(bystander.late, default=0) * 1000:.0f} ms late")
    finally:
        for attacker in attackers:
            attacker.process.kill()
            attacker.process.wait()
    assert not [what for _, wrong in told for what in wrong]
    assert not {name: ms for name, ms in each.items() if ms > CPU_MS}

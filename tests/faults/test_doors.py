"""The other doors, whose jails are set up as those of /execute are (test_setup.py has every call of that): calls here and there
fail in jails of POST /run-code, under its policy and with Node, in jobs of POST /mcp, and in jails of POST /execute that are set up
otherwise: in an image, in a session's workspace with a bridge, in memory and on disk, for the interpreter of a session, which is
ended again, and for programs that call a tool or connect to a package index, which the front does for them. What comes of it is
told as the door tells errors; nothing is left behind, and the next one works."""

import http.client
import itertools
import json
import os
import re
import shutil
import time
from types import SimpleNamespace

import pytest
from callback_server import QuickServer
from harness import ROOT, wait_for
from images import imported, make_root, policy
from injected import COLD, ERRORS, Injected
from package_index import SPEAK, Index

from test_setup import EVERY_ONE, SEED, nothing_is_left

NODE = shutil.which("node", path="/usr/bin")
# As shipped, but started when it is wanted.
ISOLATE = COLD + """
runtime {
  name: "isolate" interpreter: "/usr/bin/node" extension: "json" policy: "isolate" evaluator: true
  arg: ["--experimental-vm-modules", "--disallow-code-generation-from-strings", "--unhandled-rejections=none", "--expose-internals",
        "/immure/isolate/immure-isolate.cjs"]
  prelude { path: "/immure/isolate/immure-isolate.cjs" file: "isolate/immure-isolate.cjs" }
  prelude { path: "/immure/isolate/immure-realm.js" file: "isolate/immure-realm.js" }
  prelude { path: "/immure/isolate/immure-typescript.cjs" file: "isolate/immure-typescript.cjs" }
}
"""


SHIPPED = re.findall(r"^runtime \{.*?^\}\n", (ROOT / "config/server.textproto").read_text(), re.M | re.S)


PYTHON = "shipped_runtimes: false\n" + re.sub(r"\s*(template|warm_jails):.*", "", SHIPPED[0])


class Door:
    helpers, calls_tools = 0, False
    REFUSALS = {"internal_error", "setup_error", "unavailable"}

    def __init__(self, server, outside):
        self.server, self.outside = server, outside

    @classmethod
    def configuration(cls, directory, outside):
        return cls.runtimes

    def is_over(self):
        """Whether what goes on behind the reply has ended and has left nothing behind, outside the server."""
        return True

    def ask(self):
        """-> what came of one job, in a few words"""
        return self.post(self.BODY)

    def post(self, body):
        try:
            reply = self.server.request("POST", self.path, json.dumps(body), 60)
        except (OSError, http.client.HTTPException):  # or a part of one
            return "no reply"
        if reply.status != 200:
            assert reply.status in (500, 503) and reply.json["code"] in self.REFUSALS, reply.body
            return "setup error" if reply.json["code"] == "setup_error" else "error reply"
        return self.told(reply.json)


class RunCode(Door):
    path, runtimes = "/run-code", ISOLATE
    BODY = {"source": "export default 42", "options": {"language": "javascript"}}

    def told(self, body):
        if body["status"] == "success":
            return "success" if body["result"] == 42 else str(body)
        lost = body["status"] == "error" and re.search(r"outside|\(exit code 137\)", body["error"]["message"])
        return "the jail was lost" if lost else str(body)


class Execute(Door):
    path = "/execute"

    def told(self, body):
        if body["status"] == "success":
            return "success" if body["stdout"] == self.STDOUT else "success, said to be cut" if body["truncated"] else str(body)
        return "the jail was lost" if body.get("error_message") == "The jail was killed from outside." else str(body)


class Image(Execute):
    BODY, STDOUT = {"code": "cat /etc/image", "runtime": "bash"}, "of the image\n"

    @classmethod
    def configuration(cls, directory, outside):
        imported(directory / "images", "small", make_root(directory / "root", "/usr/bin/bash", "/usr/bin/cat"))
        (directory / "bash.textproto").write_text(policy("bash", "bash", 'image: "small"'))
        return COLD + f'policy_path: "{directory}/bash.textproto" image_directory: "{directory}/images"\n' + SHIPPED[-1]


class Session(Execute):
    """A job with a result, over the bridge, in a session's workspace; it is the session's first, and its last."""

    BODY, STDOUT, helpers = {"code": "print(6 * 7, file=open('kept', 'x'))\nset_result([open('kept').read()])\nprint(42)"}, "42\n", 1
    sessions, runtimes = itertools.count(), PYTHON

    def end(self, session):
        try:
            return self.server.request("DELETE", "/workspace/" + session).status in (204, 404)
        except OSError:
            return False

    def ask(self):
        session = f"s{next(self.sessions)}"
        outcome = self.post({**self.BODY, "session_id": session})
        wait_for(lambda: self.end(session), "the session's end")
        return outcome

    def told(self, body):
        assert body["status"] != "success" or body.get("output") == '["42\\n"]', body
        return super().told(body)


class Kernel(Session):
    BODY = {"code": "set_result([f'{6 * 7}\\n'])\nprint(42)", "policy": "python-kernel"}


class OnDisk(Session):
    """There, processes of the warden's look at its workspace, and clear it."""

    helpers, OWNER, LOST = 3, 54321, re.compile("cannot be looked at|lies on a disk with less than")
    REFUSALS = Session.REFUSALS | {"busy"}  # a disk that does not say how much room it has, has none

    @classmethod
    def configuration(cls, directory, outside):
        sessions = directory / "sessions"
        sessions.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(sessions, cls.OWNER, cls.OWNER)
        return f'{PYTHON}session_directory: "{sessions}"\n'

    def __init__(self, server, outside):
        super().__init__(server, outside)
        self.directory = server.log_path.parent / "sessions"

    def is_over(self):
        names = [*os.listdir(self.directory), *os.listdir(self.directory / ".ended")]
        return sorted(names) == [".ended", ".lock"]

    def told(self, body):
        return "its workspace could not be looked at" if self.LOST.search(body["error_message"] or "") else super().told(body)


class Tool(Execute):
    """The front's call of it may be what fails: that is told to the program. What it prints may be lost too: then print() fails."""

    DEADLINE_MS = 30000  # of which a busy machine may need some: all of it is traced
    STDOUT, runtimes, calls_tools = "42\n", PYTHON, True
    CODE = "try: print(call_tool('x'))\nexcept RuntimeError as error: print(error)"
    FAILED = re.compile(r"(Tool 'x': request failed: |call_tool: the bridge).+\n|(.*\n)*BrokenPipeError.*\n")

    @classmethod
    def configuration(cls, directory, outside):
        return f'{PYTHON}callback {{ url: "{outside.callbacks.url}" }}\n'

    def ask(self):
        return self.post({"code": self.CODE, "callback_url": self.outside.callbacks.url, "timeout_ms": self.DEADLINE_MS})

    def told(self, body):
        return "what it asked for failed" if self.FAILED.fullmatch(body["stdout"] + body["stderr"]) else super().told(body)


class Package(Tool):
    """So may its connection to the index."""

    STDOUT, calls_tools = "of the index\n", False
    CODE = SPEAK + """
say(op='open', id=1, host='127.0.0.1', port=PORT)
heard, got = hear(), b''
if 'error' not in heard:
    data(1, b'GET /file HTTP/1.0\\r\\n\\r\\n', b'')
    while type(heard := hear()) is dict and heard['op'] == 'window' or type(heard) is tuple and heard[1]:
        got += heard[1] if type(heard) is tuple else b''
print('failed:', heard) if type(heard) is dict else print(got.partition(b'\\r\\n\\r\\n')[2].decode(), end='')
"""
    FAILED = re.compile("failed: .*'error': .*\n|(.*\n)*(EOFError|BrokenPipeError.*)\n")

    @classmethod
    def configuration(cls, directory, outside):
        return f'{PYTHON}pip_index {{ url: "{outside.index.url}/simple/" }}\n'

    def ask(self):
        return self.post({"code": self.CODE.replace("PORT", str(self.outside.index.port)), "timeout_ms": self.DEADLINE_MS})


class Mcp(Door):
    path, runtimes = "/mcp", COLD
    BODY = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"language": "python", "code": "x"}}}

    def told(self, body):
        told = body["result"]["structuredContent"]
        if told["status"] == "success":
            return "success"
        if told["status"] == "setup_error":
            return "setup error"
        return "the jail was lost" if told["error_message"] == "The jail was killed from outside." else str(body)


# Door, whose calls, every how-manieth or all of one name, and the outcomes that may be.
ANY = {"success", "setup error", "error reply", "no reply", "the jail was lost"}
OF_FRONT = ANY | {"what it asked for failed", "success, said to be cut"}
OF_DISK = ANY | {"its workspace could not be looked at"}
SWEEPS = [
    (Image, "new:1", 9, {"success", "setup error", "the jail was lost"}),
    (Image, "warden", 13, ANY),
    (Session, "new:1", 30, {"success", "setup error", "the jail was lost"}),
    (Session, "warden", 30, ANY),
    (OnDisk, "new:2", 30, {"success", "setup error", "the jail was lost"}),
    (OnDisk, "warden", 20, OF_DISK),
    (OnDisk, "immure-tidy 0", 6, OF_DISK),
    (OnDisk, "immure-tidy 1", 6, OF_DISK),
    (Tool, "warden", 30, ANY),
    (Tool, "front", 8, OF_FRONT),
    (Tool, "front", "epoll_ctl", OF_FRONT),
    (Package, "warden", 30, ANY),
    (Package, "front", 8, OF_FRONT),
    (Package, "front", "read", OF_FRONT),
    (Kernel, "new:1", 18, {"success", "setup error", "the jail was lost"}),
    (Kernel, "new:3", 12, {"success", "setup error"}),
    (Kernel, "warden", 20, ANY),
    (RunCode, "new:1", 60, {"success", "setup error", "the jail was lost"}),
    (RunCode, "new:3", 12, {"success", "setup error"}),
    (RunCode, "warden", 40, ANY),
    (Mcp, "new:1", 60, {"success", "setup error", "the jail was lost"}),
    (Mcp, "warden", 40, ANY),
]


class LateServer(QuickServer):
    """Answers when who has asked has looked in vain, and waits to be told of the answer."""

    def answer(self, connection):
        time.sleep(0.02)
        return super().answer(connection)


@pytest.fixture(scope="module")
def outside():
    """What the front connects to."""
    with LateServer() as callbacks, Index({"/file": b"of the index\n"}) as index:
        yield SimpleNamespace(callbacks=callbacks, index=index)


@pytest.mark.parametrize("door, who, which, may_be", SWEEPS, ids=["-".join([door.__name__, who, *([which] if type(which) is str else [])]) for door, who, which, _ in SWEEPS])
def test_calls_that_fail(tmp_path, tried, outside, door, who, which, may_be):
    if door is RunCode and not NODE:
        pytest.skip("no Node")
    port = outside.callbacks.port if door.calls_tools else None
    with Injected(tmp_path, door.configuration(tmp_path, outside), door.helpers, port) as server:
        caller = door(server, outside)
        assert caller.ask() == "success"
        name, step = (which + ":", 1) if type(which) is str else ("", 1 if EVERY_ONE else which)
        before, n, fired = server.at_rest(), 1 + SEED % step, 0
        while True:
            error = ERRORS[(n // step + SEED) % len(ERRORS)]
            whose = wait_for(lambda: server.part(who) or (caller.ask() and None), f"{who}, which comes when it is wanted")
            assert server.tell(f"arm {whose} {name}{n} {error}") == "ok"
            outcome = caller.ask()
            wait_for(lambda: server.tell("look") != "idle" or caller.is_over(), "the failure, or the end")
            answer = server.tell("disarm")
            if answer == "idle":
                break
            where = f"{who} {n} {answer} {os.strerror(error)}"
            assert outcome in may_be, f"{where}: {outcome}\n{server.log()[-2000:]}"
            assert caller.ask() == "success", f"{where}: the next one\n{server.log()[-2000:]}"
            nothing_is_left(server, before, where)
            wait_for(caller.is_over, f"{where}: nothing left outside")
            tried[outcome] += 1
            fired, n = fired + 1, n + step
        assert fired > 0

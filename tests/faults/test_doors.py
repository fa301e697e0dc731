"""The other doors, whose jails are set up as those of /execute are (test_setup.py has every call of that): calls here and there
fail in jails of POST /run-code, under its policy and with Node, in jobs of POST /mcp, and in jails of POST /execute that are set up
otherwise: in an image, in a session's workspace with a bridge, and for the interpreter of a session, which is ended again. What
comes of it is told as the door tells errors; nothing is left behind, and the next one works."""

import itertools
import json
import os
import re
import shutil

import pytest
from harness import ROOT, wait_for
from images import imported, make_root, policy
from injected import COLD, ERRORS, Injected

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


class Door:
    keeper = False

    def __init__(self, server):
        self.server = server

    @classmethod
    def configuration(cls, directory):
        return cls.runtimes

    def ask(self):
        """-> what came of one job, in a few words"""
        return self.post(self.BODY)

    def post(self, body):
        try:
            reply = self.server.request("POST", self.path, json.dumps(body), 60)
        except OSError:
            return "no reply"
        if reply.status != 200:
            assert reply.status in (500, 503) and reply.json["code"] in ("internal_error", "setup_error", "unavailable"), reply.body
            return "setup error" if reply.json["code"] == "setup_error" else "error reply"
        return self.told(reply.json)


class RunCode(Door):
    path, runtimes = "/run-code", ISOLATE
    BODY = {"source": "export default 42", "options": {"language": "javascript"}}

    def told(self, body):
        if body["status"] == "success":
            return "success" if body["result"] == 42 else str(body)
        return "the jail was lost" if body["status"] == "error" and "outside" in body["error"]["message"] else str(body)


class Execute(Door):
    path = "/execute"

    def told(self, body):
        if body["status"] == "success":
            return "success" if body["stdout"] == self.STDOUT else str(body)
        return "the jail was lost" if body.get("error_message") == "The jail was killed from outside." else str(body)


class Image(Execute):
    BODY, STDOUT = {"code": "cat /etc/image", "runtime": "bash"}, "of the image\n"

    @classmethod
    def configuration(cls, directory):
        imported(directory / "images", "small", make_root(directory / "root", "/usr/bin/bash", "/usr/bin/cat"))
        (directory / "bash.textproto").write_text(policy("bash", "bash", 'image: "small"'))
        return COLD + f'policy_path: "{directory}/bash.textproto" image_directory: "{directory}/images"\n' + SHIPPED[-1]


class Session(Execute):
    """A job with a result, over the bridge, in a session's workspace; it is the session's first, and its last."""

    BODY, STDOUT, keeper = {"code": "print(6 * 7, file=open('kept', 'x'))\nset_result([open('kept').read()])\nprint(42)"}, "42\n", True
    sessions = itertools.count()

    @classmethod
    def configuration(cls, directory):
        return re.sub(r"\s*(template|warm_jails):.*", "", SHIPPED[0])

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


# Door, whose calls, every how-manieth, and the outcomes that may be.
ANY = {"success", "setup error", "error reply", "no reply", "the jail was lost"}
SWEEPS = [
    (Image, "new:1", 9, {"success", "setup error", "the jail was lost"}),
    (Image, "warden", 13, ANY),
    (Session, "new:1", 30, {"success", "setup error", "the jail was lost"}),
    (Session, "warden", 30, ANY),
    (Kernel, "new:1", 18, {"success", "setup error", "the jail was lost"}),
    (Kernel, "new:3", 12, {"success", "setup error"}),
    (Kernel, "warden", 20, ANY),
    (RunCode, "new:1", 60, {"success", "setup error", "the jail was lost"}),
    (RunCode, "new:3", 12, {"success", "setup error"}),
    (RunCode, "warden", 40, ANY),
    (Mcp, "new:1", 60, {"success", "setup error", "the jail was lost"}),
    (Mcp, "warden", 40, ANY),
]


@pytest.mark.parametrize("door, who, stride, may_be", SWEEPS, ids=[f"{door.__name__}-{who}" for door, who, *_ in SWEEPS])
def test_calls_that_fail(tmp_path, tried, door, who, stride, may_be):
    if door is RunCode and not NODE:
        pytest.skip("no Node")
    with Injected(tmp_path, door.configuration(tmp_path), door.keeper) as server:
        caller = door(server)
        assert caller.ask() == "success"
        before, n, fired = server.at_rest(), 1 + SEED % stride, 0
        while True:
            error = ERRORS[(n // stride + SEED) % len(ERRORS)]
            assert server.tell(f"arm {server.part(who)} {n} {error}") == "ok"
            outcome = caller.ask()
            answer = server.tell("disarm")
            if answer == "idle":
                break
            where = f"{who} {n} {answer} {os.strerror(error)}"
            assert outcome in may_be, f"{where}: {outcome}\n{server.log()[-2000:]}"
            assert caller.ask() == "success", f"{where}: the next one\n{server.log()[-2000:]}"
            nothing_is_left(server, before, where)
            tried[outcome] += 1
            fired, n = fired + 1, n + (stride // 8 if EVERY_ONE else stride)
        assert fired > 0

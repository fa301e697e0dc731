"""The other doors, whose jails are set up as those of /execute are (test_setup.py has every call of that): calls here and there
fail in jails of POST /run-code, under its policy and with Node, and in jobs of POST /mcp. What comes of it is told as the door
tells errors; nothing is left behind, and the next one works."""

import json
import os
import shutil

import pytest
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


class Door:
    def __init__(self, server):
        self.server = server

    def ask(self):
        """-> what came of one job, in a few words"""
        try:
            reply = self.server.request("POST", self.path, json.dumps(self.BODY), 60)
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
SWEEPS = [
    (RunCode, "new:1", 60, {"success", "setup error", "the jail was lost"}),
    (RunCode, "new:3", 12, {"success", "setup error"}),
    (RunCode, "warden", 40, {"success", "setup error", "error reply", "no reply", "the jail was lost"}),
    (Mcp, "new:1", 60, {"success", "setup error", "the jail was lost"}),
    (Mcp, "warden", 40, {"success", "setup error", "error reply", "no reply", "the jail was lost"}),
]


@pytest.mark.parametrize("door, who, stride, may_be", SWEEPS, ids=[f"{door.__name__}-{who}" for door, who, *_ in SWEEPS])
def test_calls_that_fail(tmp_path, tried, door, who, stride, may_be):
    if door is RunCode and not NODE:
        pytest.skip("no Node")
    with Injected(tmp_path, door.runtimes) as server:
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

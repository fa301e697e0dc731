"""A server whose system calls can be made to fail (tests/tools/inject.c), and a count of everything that it holds."""

import contextlib
import errno
import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from harness import BUILD, PATIENCE, Server, children, front_of, n_connections, shipped_policy, wait_for

TOOLS = BUILD / "tests/tools"
# With few outer uids, so that one that is not given back is missed at once, and short waits after failures.
IMMURE = str(BUILD / "tests/faults/immure")

# Until the server is at rest: a template that has failed comes back a little later, and all of it is traced.
REST_S = 120
ERRORS = (errno.EPERM, errno.ENOMEM, errno.EMFILE, errno.EINTR)



def confessing_policy(directory):
    """The shipped policy with our tools at /probe, as a file; its name is confess."""
    text = shipped_policy("python").replace('name: "python"', 'name: "confess"', 1)
    path = Path(directory, "confess.textproto")
    path.write_text(text + f'\nmount {{ destination: "/probe" bind {{ source: "{TOOLS}" }} }}\n')
    return path


COLD = """
shipped_runtimes: false
runtime { name: "python" interpreter: "/probe/confess" extension: "py" policy: "confess" self_test: "pass" }
"""
WARM = """
shipped_runtimes: false
runtime {
  name: "python" interpreter: "/usr/bin/python3.11" arg: "-s" extension: "py" policy: "confess"
  template: "immure-python.so" warm_jails: 1
}
runtime { name: "cold" interpreter: "/usr/bin/python3.11" arg: "-s" extension: "py" policy: "confess" }
"""
# What the jail gave the process is there beyond its exec, but for descriptors: those are told as words.
EXECUTED = "import os\nos.execv('/probe/confess', ['confess', *sorted(os.listdir('/proc/self/fd'))])"


def descendants(pid):
    found = children(pid)
    return found + [below for child in found for below in descendants(child)]


def descriptors(pid):
    """How many of which kind, without their numbers."""
    found = Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[re.sub(r"\d+", "", os.readlink(f"/proc/{pid}/fd/{name}"))] += 1
        except OSError:
            pass
    return found


class Injected(Server):
    """`immure serve` under tests/tools/inject; `runtime` is COLD or WARM, or other text; `helpers`: so many processes that
    the warden starts for sessions stay, or come back when they are wanted; `callback_port`: of the server that answers tool calls, where the configuration has one."""

    def __init__(self, directory, runtime, helpers=0, callback_port=None):
        config = Path(directory, "server.textproto")
        config.write_text(f'policy_path: "{confessing_policy(directory)}"\n{runtime}')
        super().__init__(Path(directory, "log"), prefix=[str(TOOLS / "inject")], immure=IMMURE,
                         SANDBOX_EXECUTOR_CONFIG=str(config))
        self.warm = "template:" in runtime
        # The front; and, warm, the template with its init, a parked jail of two.
        self.resting, self.most_helpers, self.callback_port = 1 + 4 * self.warm, helpers, callback_port

    def start(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.argv, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, text=True)
        self.warden = wait_for(lambda: children(self.process.pid), "the warden")[0]

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None and os.path.exists(f"/proc/{self.warden}"):
            os.kill(self.warden, how)
        self.process.wait(60)

    def tell(self, line):
        """-> the last line of the answer"""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.log()
        return answer.strip()

    def front(self):
        return front_of(self.warden)

    def part(self, who):
        """The pid of "warden", "front", "template", "init" (PID 1 of the parked jail), "parked", or of a helper of the warden's by its
        name and, where there are several, number; others are as they are."""
        if who in ("warden", "front"):
            return f"pid:{self.warden if who == 'warden' else self.front()}"
        if who in ("template", "init", "parked"):
            line = [pid for pid in children(self.warden) if pid != self.front()]
            for _ in range(("template", "init", "parked").index(who) + 1):
                line = children(line[0]) if len(line) == 1 else []
            return f"pid:{line[0]}" if len(line) == 1 else None
        if who.startswith("immure-"):
            name, _, nth = who.partition(" ")
            found = self.helpers(name)[int(nth or 0):]
            return f"pid:{found[0]}" if found else None
        return who

    def helpers(self, *names):
        """The warden's processes of these names, or for sessions."""
        names, found = names or ("immure-keeper", "immure-tidy"), []
        for pid in children(self.warden):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found += [pid] * (Path(f"/proc/{pid}/comm").read_text().rstrip("\n") in names)
        return found

    def job(self, runtime="python", timeout=60):
        """-> status and body of one job; (None, why) where no reply came"""
        body = json.dumps({"code": EXECUTED if self.warm else "x", "files": [{"name": "a/b.txt", "data": "aGVsbG8="}],
                           "runtime": runtime})
        try:
            reply = self.request("POST", "/execute", body, timeout)
            return reply.status, reply.json
        except (OSError, http.client.HTTPException) as error:  # or a part of one
            return None, repr(error)

    def held(self):
        """Processes, descriptors of warden and front, mounts."""
        front = self.front()
        with open(f"/proc/{self.warden}/mountinfo") as mounts:
            return {"processes": len(descendants(self.warden)), "warden": descriptors(self.warden),
                    "front": self.front_descriptors(front) if front else None, "helpers": len(self.helpers()), "mounts": len(mounts.readlines())}

    def front_descriptors(self, front):
        """But for connections that are kept for the next call of a tool."""
        found = descriptors(front)
        found["socket:[]"] -= n_connections(front, self.callback_port) if self.callback_port else 0
        return found

    def is_quiet(self):
        """What it holds, if nothing is under way."""
        try:
            held = self.held()
        except OSError:  # somebody ended meanwhile
            return None
        return held if self.is_settled(held) else None

    def settle(self):
        """Waits until the stock is full and nothing else runs; -> what it holds then."""
        deadline = time.monotonic() + PATIENCE * REST_S
        while not (held := self.is_quiet()):
            assert time.monotonic() < deadline, f"no rest: {self.held()}"
            time.sleep(0.001)
        return held

    def at_rest(self):
        """What it holds once that stays the same for a while: what has ended is given back a little later."""
        states = []
        wait_for(lambda: states.append(self.settle()) or (len(states) > 20 and all(state == states[-1] for state in states[-20:])), "rest", REST_S)
        return states[-1]

    def is_settled(self, held):
        # The front has its channel and the port; and a pair of libcurl's, where there may be tool calls.
        return (held["front"] is not None and held["front"]["socket:[]"] == (4 if self.callback_port else 2) and
                held["processes"] - held["helpers"] == self.resting and held["helpers"] <= self.most_helpers and (not self.warm or self.part("parked") is not None))

"""No two jobs draw the same, whatever they draw from, and whatever a preloaded module has drawn before they were forked."""

import json
import platform
import re
import shutil

import pytest

from harness import ROOT, shipped_policy, wait_for

SHIPPED = (ROOT / "config/server.textproto").read_text()
POLICY = shipped_policy("python")
PLACE = "/usr/local/lib/python3.11/dist-packages/draws.py"
JOBS = 50
NODE_IS_THERE = shutil.which("node", path="/usr/bin")

# A module that draws from every source.
DRAWS = """
import _random, ctypes, email.utils, os, random, secrets, sqlite3, ssl, tempfile, uuid

context = ssl.create_default_context()
own = random.Random()
hidden = {"generator": (_random.Random(),)}
arc4random = getattr(ctypes.CDLL(None), "arc4random_buf", None)

def from_libc():
    buffer = ctypes.create_string_buffer(16)
    arc4random(buffer, len(buffer))
    return buffer.raw.hex()

def from_sqlite():
    with sqlite3.connect(":memory:") as database:
        return database.execute("select hex(randomblob(16))").fetchone()[0]

# What guards the stack, where x86-64 has it.
def canary():
    ctypes.pythonapi.pthread_self.restype = ctypes.c_void_p
    return ctypes.c_uint64.from_address(ctypes.pythonapi.pthread_self() + 0x28).value

# What each process draws for itself.
def draw():
    drawn = {"urandom": os.urandom(16).hex(), "secrets": secrets.token_hex(16), "random": random.getrandbits(64),
             "system": random.SystemRandom().getrandbits(64), "ssl": ssl.RAND_bytes(16).hex(), "sqlite": from_sqlite(),
             "name": next(tempfile._get_candidate_names()), "uuid1": uuid.uuid1().hex, "uuid4": uuid.uuid4().hex,
             "message": email.utils.make_msgid(domain="x")}
    return drawn | ({"libc": from_libc()} if arc4random else {})

# What a job shares with its children, as outside.
def keep():
    return {"own": own.getrandbits(64), "gauss": own.gauss(0, 1), "hidden": hidden["generator"][0].getrandbits(64), "canary": canary(),
            "node": uuid.getnode(), "clock": [uuid.uuid1().clock_seq for _ in range(8)]}
"""

# A child and a grandchild draw before the job does: what tells a fork by comparing PIDs has only the template's to compare.
JOB = """
import json

def say(*values):
    os.write(1, (json.dumps(values) + "\\n").encode())

if not (child := os.fork()):
    if not (grandchild := os.fork()):
        say("grandchild", draw())
        os._exit(0)
    os.waitpid(grandchild, 0)
    say("child", draw())
    os._exit(0)
os.waitpid(child, 0)
import multiprocessing
say("job", draw())
say("kept", keep() | {"key": multiprocessing.current_process().authkey.hex()})
say("exe", {"path": open("/proc/self/cmdline").read().split(chr(0))[2]})
"""


def preloading(*modules):
    """The shipped policy, preloading these as well; of what can be found, `draws` uses every source when it is imported."""
    text = re.sub(r'(^preload: \[.*?)\]', lambda match: match[1] + "".join(f', "{name}"' for name in modules) + "]", POLICY,
                  flags=re.M | re.S)
    content = json.dumps(DRAWS + "draw(), keep()")
    return text + f'\nmount {{ destination: "{PLACE}" file {{ content: {content} }} }}\n'


def run(server, code):
    verdict = server.execute(code, timeout_ms=60000)
    assert verdict["exit_code"] == 0, verdict
    said = dict(map(json.loads, verdict["stdout"].splitlines()))
    assert said.pop("exe") == {"path": "/proc/self/fd/9"}
    return said


def assert_all_differ(values):
    values = [json.dumps(value) for value in values]
    assert len(set(values)) == len(values), sorted(values)


@pytest.mark.parametrize("modules", [[], ["ctypes", "ssl", "email.utils", "draws"]], ids=["shipped", "drawn_before"])
def test_no_two_jobs_draw_the_same(serve, tmp_path, modules):
    path = tmp_path / "python.textproto"
    path.write_text(preloading(*modules))
    server = serve(config=SHIPPED + f'policy_path: "{path}"\n')
    wait_for(lambda: server.parked("python") == 4, "the warm stock", 120)
    code = ("from draws import *\n" if modules else DRAWS) + JOB
    jobs = [run(server, code) for _ in range(JOBS)]
    for source in jobs[0]["job"]:
        assert_all_differ([said[process][source] for said in jobs for process in ("job", "child", "grandchild")])
    for source in jobs[0]["kept"].keys() - ({"canary"} if platform.machine() != "x86_64" else set()):
        assert_all_differ([said["kept"][source] for said in jobs])


@pytest.mark.parametrize("module", ["multiprocessing"])
def test_modules_whose_secret_every_job_would_have_are_refused(serve, tmp_path, module):
    path = tmp_path / "python.textproto"
    path.write_text(preloading(module))
    server = serve(config=SHIPPED + f'policy_path: "{path}"\n')
    wait_for(lambda: "event=template_failed" in server.log(), "the template's end")
    assert "immure-python: multiprocessing.process: its key for connections" in server.log()
    assert server.execute("print(1)")["stdout"] == "1\n"


NODE = """const crypto = require('crypto');
console.log(JSON.stringify({random: Math.random(), bytes: crypto.randomBytes(16).toString('hex'), uuid: crypto.randomUUID(),
                            secret: crypto.createECDH('prime256v1').generateKeys('hex')}))"""
KERNEL = """import json, os, random, ssl, uuid
print(json.dumps({"random": random.getrandbits(64), "ssl": ssl.RAND_bytes(16).hex(), "uuid1": uuid.uuid1().hex, "hash": hash("x"),
                  "own": random.Random().getrandbits(64)}))"""


@pytest.mark.parametrize("code, fields, count", [
    pytest.param(NODE, lambda number: {"runtime": "node"}, 12, id="node", marks=pytest.mark.skipif(not NODE_IS_THERE, reason="no node")),
    pytest.param(KERNEL, lambda number: {"policy": "python-kernel", "session_id": f"s{number}"}, 4, id="kernel"),
])
def test_interpreters_that_stand_ready_draw_apart(server, code, fields, count):
    """Each is a process of its own from its first instruction on."""
    drawn = []
    for number in range(count):
        verdict = server.execute(code, timeout_ms=60000, **fields(number))
        assert verdict["exit_code"] == 0, verdict
        drawn.append(json.loads(verdict["stdout"]))
    for source in drawn[0]:
        assert_all_differ([values[source] for values in drawn])

"""Limits that a cgroup enforces, seen from outside: verdicts, figures, and that nothing is left behind."""

import concurrent.futures
import errno
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from harness import CGROUP, IMMURE, PATIENCE, Cgroup, Server, children, wait_for

MIB = 1 << 20

# As shipped, but for Node's.
PARKED = 4

ALLOCATE = """
import sys, time
blocks = []
while True:
    blocks.append(b"x" * (1 << 20))
    print(len(blocks), time.monotonic(), flush=True)
"""

FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def test_the_lane_is_what_it_claims_to_be(server):
    assert CGROUP == "REQUIRED"
    verdict = server.execute("pass")
    assert verdict["limits"]["enforced_by"] == "cgroup2"


def test_memory_without_end(server):
    verdict = server.execute(ALLOCATE, limits={"memory_bytes": 64 * MIB})
    answered = time.monotonic()
    assert (verdict["oom"], verdict["killed"], verdict["status"]) == (True, False, "oom")
    assert (verdict["exit_code"], verdict["signal"]) == (137, "SIGKILL")
    blocks, when = verdict["stdout"].splitlines()[-1].split()
    assert 32 < int(blocks) < 64
    assert answered - float(when) < PATIENCE * 10
    assert verdict["usage"]["memory_peak_bytes"] <= 64 * MIB
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_memory_of_a_child_counts_and_ends_the_whole_job(server):
    code = "import os, time\nif os.fork() == 0:\n    x = b'x' * (1 << 30)\nos.wait()\nprint('not reached')"
    verdict = server.execute(code, limits={"memory_bytes": 64 * MIB})
    assert (verdict["oom"], verdict["status"], verdict["stdout"]) == (True, "oom", "")


def test_scratch_counts_as_memory(server):
    code = "f = open('/tmp/x', 'wb')\nfor _ in range(60):\n    f.write(bytes(1 << 20))\nprint('not reached')"
    verdict = server.execute(code, limits={"memory_bytes": 32 * MIB})
    assert (verdict["oom"], verdict["stdout"]) == (True, "")


def test_fork_bomb_stops_at_pids_max(server):
    verdict = server.execute(FORK_BOMB, limits={"pids": 16}, timeout_ms=8000)
    assert (verdict["status"], verdict["killed"], verdict["oom"]) == ("timeout", True, False)
    assert 14 <= verdict["usage"]["pids_peak"] <= 17
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_number_of_processes_is_the_limit(server):
    code = """
import os, time
children = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
    except BlockingIOError:
        break
    children += 1
print(children + 1)
"""
    assert server.execute(code, limits={"pids": 10})["stdout"] == "10\n"


def test_usage(server):
    code = """
import os, time
if os.fork() == 0:
    time.sleep(60)
x = b"x" * (40 << 20)
while time.process_time() < 0.4:
    pass
"""
    usage = server.execute(code)["usage"]
    assert 400 <= usage["cpu_ms"] < 15000
    assert 40 * MIB <= usage["memory_peak_bytes"] < 120 * MIB
    assert 2 <= usage["pids_peak"] <= 3


def test_cpu_max_throttles(server):
    code = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end:\n    pass\nprint(time.process_time())"

    def gain():
        free = float(server.execute(code)["stdout"])
        return free / float(server.execute(code, limits={"cpu_percent": 10})["stdout"])
    # A busy machine notices late that the quota is used up, and has less to give to a free program.
    assert any(gain() > 2 for _ in range(5))


def test_cpu_time_limit(server):
    verdict = server.execute("while True:\n    pass", limits={"cpu_ms": 300}, timeout_ms=60000)
    assert (verdict["exit_code"], verdict["signal"], verdict["killed"]) == (152, "SIGXCPU", False)
    assert verdict["duration_ms"] < 50000


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def what_is_there(server):
    """Everything that a job could leave behind."""
    warden = server.process.pid
    return {
        # How many, not which: jails that stand ready are renewed, each time under another name.
        "cgroups": len(server.cgroup.below()),
        "processes": len(server.cgroup.processes()),
        "children": len(children(warden)),
        "mounts": len(Path(f"/proc/{warden}/mountinfo").read_text().splitlines()),
        "mounts here": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "warden's descriptors": descriptors(warden),
        "front's descriptors": front_descriptors(server),
        "running": server.metric("immure_jobs_running"),
        "parked": server.parked(),
    }


def looked_at(server):
    """What is there; None where something has gone while it was looked at."""
    try:
        return what_is_there(server)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENODEV):
            return None
        raise


def front_descriptors(server):
    """The front is not traceable, so only root may look; it counts them itself in /metrics."""
    try:
        return sum(descriptors(pid) for pid in children(server.process.pid))
    except PermissionError:
        return server.metric("process_open_fds")


def hang_up(server, code):
    """A caller that sends a job and goes away while it runs."""
    body = json.dumps({"code": code}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(b"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: " + server.key.encode() +
                     b"\r\nContent-Type: application/json\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        wait_for(lambda: server.metric("immure_jobs_running") > 0, "the job runs")


def send_until_accepted(server, code, **fields):
    """Busy is an answer like any other; the job is sent again."""
    while (reply := server.request("POST", "/execute", json.dumps({"code": code, **fields}))).status == 503:
        time.sleep(0.05)
    return reply.json


MIXED = [
    ("success", lambda s: send_until_accepted(s, "print(open('in').read())", files=[{"name": "in", "content": "x"}])),
    ("execution_error", lambda s: send_until_accepted(s, "import os\nos.abort()")),
    ("oom", lambda s: send_until_accepted(s, "x = b'x' * (1 << 30)", limits={"memory_bytes": 32 * MIB})),
    ("timeout", lambda s: send_until_accepted(s, "import os, time\nos.fork()\ntime.sleep(60)", timeout_ms=300)),
    ("success", lambda s: send_until_accepted(s, "import subprocess\nsubprocess.Popen(['sleep', '60'])", outputs=["*"])),
    ("setup_error", lambda s: send_until_accepted(s, "pass", policy="broken")),
    ("too_large", lambda s: send_until_accepted(s, "pass", limits={"scratch_bytes": 4096},
                                                files=[{"name": "in", "content": "x" * 100000}])),
]


def settled(server):
    """What is there once it stays the same: a jail is taken apart after its verdict, and others take its place."""
    wait_for(lambda: server.parked() == PARKED, "jails stand ready", 120)
    seen = []

    def steady():
        seen.append(looked_at(server))
        return len(seen) >= 20 and seen[-1] and all(other == seen[-1] for other in seen[-20:])
    wait_for(steady, "nothing changes any more", 120)
    return seen[-1]


def test_nothing_is_left_of_200_mixed_jobs(server):
    server.execute("pass")
    before = settled(server)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        jobs = [(status, pool.submit(send, server)) for _ in range(26) for status, send in MIXED]
        verdicts = [(status, job.result()) for status, job in jobs]
    for _ in range(18):
        hang_up(server, "import time\ntime.sleep(60)")
        wait_for(lambda: server.metric("immure_jobs_running") == 0, "the job is cancelled")
    for status, verdict in verdicts:
        assert verdict.get("status", verdict.get("code")) == status, verdict
    wait_for(lambda: (now := looked_at(server)) == before or print(now, before), "everything is as it was", 120)


def test_leftovers_of_a_killed_warden_are_swept(cgroup, tmp_path):
    """Under a supervisor that stays in the cgroup and starts the server again."""
    prefix = [*cgroup.prefix, "sh", "-c", '"$@"; exec "$@"', "sh"]
    with Server(tmp_path / "log", prefix) as server:
        supervisor = server.process.pid
        [warden] = children(supervisor)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            job = pool.submit(server.execute, "import time\ntime.sleep(600)")
            wait_for(lambda: server.metric("immure_jobs_running") == 1, "the job runs")
            os.kill(warden, signal.SIGKILL)
            assert job.exception(PATIENCE * 30) is not None
        wait_for(server.ready, "the second server is ready")
        assert server.metric("immure_leftovers_swept_total") > 0
        assert server.execute("print(1)")["stdout"] == "1\n"
    assert cgroup.below() == []


def start_refused(prefix):
    environment = dict(os.environ, SANDBOX_EXECUTOR_SERVICE_API_KEY="k", SANDBOX_EXECUTOR_ADDR="127.0.0.1:0",
                       SANDBOX_EXECUTOR_CGROUP="REQUIRED")
    done = subprocess.run([*prefix, IMMURE, "serve"], env=environment, capture_output=True, text=True, timeout=PATIENCE * 60)
    assert done.returncode not in (0, -signal.SIGKILL)
    return done.stderr


def test_required_names_the_controller_that_is_missing(cgroup):
    (cgroup.path / "cgroup.subtree_control").write_text("+pids +cpu")
    inside = Cgroup(cgroup.path)
    said = start_refused(inside.prefix)
    assert "memory" in said
    assert "Delegate=yes" in said


def test_best_effort_says_what_it_does_instead(cgroup, tmp_path):
    (cgroup.path / "cgroup.subtree_control").write_text("+pids +cpu")
    inside = Cgroup(cgroup.path)
    with Server(tmp_path / "log", inside.prefix, cgroup="BEST_EFFORT") as server:
        verdict = server.execute(ALLOCATE, limits={"memory_bytes": 64 * MIB})
        assert verdict["limits"]["enforced_by"] == "rlimit"
        assert (verdict["oom"], verdict["killed"], verdict["status"]) == (True, False, "oom")


def test_a_kernels_calls_share_its_limits(server):
    """Processor time and peaks are read where they go on counting; memory ends the kernel, and PID 1 with it."""
    def ask(code, **fields):
        return server.execute(code, session_id="kernel", policy="python-kernel", limits={"memory_bytes": 64 * MIB}, timeout=60, **fields)

    first = ask("import time\nend = time.process_time() + 4\nwhile time.process_time() < end: pass\nkept = b'x' * (24 << 20)")
    assert (first["status"], first["kernel"]) == ("success", "new") and first["usage"]["cpu_ms"] >= 3990, first
    second = ask("print(len(kept) >> 20)")
    assert (second["stdout"], second["kernel"]) == ("24\n", "kept") and second["usage"]["cpu_ms"] < 3500, second
    assert 24 * MIB < second["usage"]["memory_peak_bytes"] <= 64 * MIB
    verdict = ask("more = []\nwhile True:\n    more.append(b'x' * (1 << 20))")
    assert (verdict["oom"], verdict["status"], verdict["kernel"]) == (True, "oom", "ended"), verdict
    assert ask("print('kept' in globals())")["stdout"] == "False\n"
    assert server.request("DELETE", "/workspace/kernel").status == 204
    wait_for(lambda: server.metric("immure_kernels") == 0, "its end", 60)


# A launcher that costs little, since interpreters cost much here: it uses half a second and says that it stands ready.
STANDING_READY = "while ((times)[0] < 0.5) {} syscall(294, 0); print((times)[0] + (times)[1]); syscall(294, 0);"
RUNTIMES = f"""
max_timeout_ms: 600000 default_runtime: "launcher" shipped_runtimes: false
runtime {{ name: "launcher" interpreter: "/usr/bin/perl" arg: ["-e", "{STANDING_READY}", "--"] policy: "python" standby: "--standby" warm_jails: 1 }}
runtime {{
  name: "node" interpreter: "/usr/bin/node" extension: "js" policy: "node"
  arg: ["--experimental-vm-modules", "/immure/node/immure-launch.cjs"]
  prelude {{ path: "/immure/node/immure-launch.cjs" file: "node/immure-launch.cjs" }}
  prelude {{ path: "/immure/node/immure-prelude.cjs" file: "node/immure-prelude.cjs" }}
}}
runtime {{
  name: "isolate" interpreter: "/usr/bin/node" extension: "json" policy: "isolate" evaluator: true
  arg: ["--experimental-vm-modules", "--disallow-code-generation-from-strings", "--unhandled-rejections=none", "--expose-internals",
        "/immure/isolate/immure-isolate.cjs"]
  prelude {{ path: "/immure/isolate/immure-isolate.cjs" file: "isolate/immure-isolate.cjs" }}
  prelude {{ path: "/immure/isolate/immure-realm.js" file: "isolate/immure-realm.js" }}
  prelude {{ path: "/immure/isolate/immure-typescript.cjs" file: "isolate/immure-typescript.cjs" }}
}}
"""


def test_standing_ready_and_node(cgroup, tmp_path):
    """What was before a job is not its own: processor time, calls that were denied. And Node's memory ends where any does."""
    config = tmp_path / "server.textproto"
    config.write_text(RUNTIMES)
    with Server(tmp_path / "log", cgroup.prefix, SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        wait_for(lambda: 'runtime="launcher",state="parked"} 1' in server.get("/metrics").body.decode(), "it stands ready", 240)
        verdict = server.execute("x", runtime="launcher")
        assert verdict["status"] == "success", verdict
        assert verdict["usage"]["cpu_ms"] < 1000 * float(verdict["stdout"]) - 250
        assert verdict["denied_syscalls"] == [{"name": "inotify_init1", "count": 1}]
        endless = "const kept = []; for (;;) kept.push(Buffer.alloc(4 << 20, 1));"
        verdict = server.execute(endless, runtime="node", limits={"memory_bytes": 128 * MIB}, timeout=300)
        assert (verdict["oom"], verdict["killed"], verdict["status"]) == (True, False, "oom"), verdict
        assert (verdict["exit_code"], verdict["signal"]) == (137, "SIGKILL")
        assert verdict["usage"]["memory_peak_bytes"] <= 128 * MIB
        # And a module's, where it is none of V8's heap, which has a limit of its own.
        source = "const kept = []; for (;;) kept.push(new Uint8Array(4 << 20).fill(1))"
        body = {"source": source, "timeout_ms": 300000, "options": {"language": "javascript", "memoryLimitBytes": 32 * MIB}}
        reply = server.request("POST", "/run-code", json.dumps(body), timeout=330)
        assert (reply.status, reply.json["status"]) == (200, "memory"), reply.body
        assert reply.json["error"]["name"] == "MemoryError"
        assert 'immure_jobs_total{runtime="isolate",status="oom"} 1\n' in server.get("/metrics").body.decode()
    assert cgroup.below() == []

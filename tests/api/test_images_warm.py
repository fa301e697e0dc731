"""Jobs in images whose interpreter was started before they came."""

import json
import os
import re
import subprocess

import pytest
from harness import BUILD, ROOT, WARM, wait_for
from images import debian_layout, image, imported, make_root, policy

pytestmark = [
    pytest.mark.skipif(WARM != "pool", reason="the tests run without parked jails"),
    pytest.mark.skipif(not (BUILD / "immure-python.so").exists(), reason="this build has no warm interpreter"),
]

SHIPPED = (ROOT / "config/server.textproto").read_text()
WHO = "print(open('/proc/self/cmdline').read().split(chr(0))[2])"
STARTED = "/proc/self/fd/9\n"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    where = tmp_path_factory.mktemp("warm-images")
    imported(where, "debian", debian_layout())
    return where


@pytest.fixture
def start(serve, images, tmp_path):
    """-> a server, of whose runtimes each has one jail in advance."""
    def started(lines="", directory=images):
        (tmp_path / "policies").mkdir()
        for runtime in "python", "node":
            (tmp_path / "policies" / f"{runtime}-in.textproto").write_text(policy(f"{runtime}-in", runtime, 'images: "*"'))
        text = re.sub(r"warm_jails: \d", "warm_jails: 1", SHIPPED)
        return serve(config=f'policy_path: "{tmp_path}/policies"\nimage_directory: "{directory}"\n{lines}\n{text}')
    return started


def execute(server, code, name="debian", runtime="python", **fields):
    reply = server.request("POST", "/execute", json.dumps({
        "code": code, "runtime": runtime, "policy": f"{runtime}-in", "environment": "image", "image": name, **fields}))
    assert reply.status == 200, reply.body
    return reply.json


def ready(server, runtime="python"):
    found = re.search(rf'^immure_warm_jails{{runtime="{runtime}",state="in_image"}} (\d+)$', server.get("/metrics").body.decode(), re.M)
    return int(found[1]) if found else 0


def wait_until_ready(server, count=1, runtime="python"):
    wait_for(lambda: ready(server, runtime) == count, f"{count} jails in images", 10)


def test_the_second_job_finds_its_interpreter_started(start):
    server = start()
    assert execute(server, WHO)["stdout"] == "/immure/main.py\n"
    for _ in range(3):
        wait_until_ready(server)
        verdict = execute(server, WHO)
        assert (verdict["stdout"], verdict["stderr"], verdict["denied_syscalls"]) == (STARTED, "", []), verdict


def test_a_job_gets_all_that_is_its_own(start):
    """Its script as a file, arguments, streams, files and tools; its limits hold; and nothing of the start is left to see."""
    server = start()
    code = ("import os, sys\nassert open(__file__).read().startswith('import os')\n"
            "print(sys.argv, sys.stdin.read(), open('in.txt').read(), os.getcwd(), sys.executable, os.listdir('/immure'))\n"
            "print(sorted(os.listdir('/proc/self/fd'))[:5], [n for n in os.environ if 'PRELOAD' in n], os.getpid())\n"
            "print(open('/proc/self/status').read().split('Seccomp:')[1].split()[0], os.getuid(), os.listdir('/'))\n"
            "open('out.txt', 'w').write('made')\nset_result({'a': 1}, files=['out.txt'])\nraise SystemExit(7)")
    asked = {"args": ["a", "b c"], "stdin": "in", "files": [{"name": "in.txt", "content": "file"}]}
    cold = execute(server, code, **asked)
    wait_until_ready(server)
    warm = execute(server, code, **asked)
    keys = "status", "exit_code", "stdout", "stderr", "output", "files", "denied_syscalls", "image", "limits"
    assert {key: warm[key] for key in keys} == {key: cold[key] for key in keys} and cold["exit_code"] == 7, (cold, warm)
    wait_until_ready(server)
    assert execute(server, "while True: pass", timeout_ms=500)["status"] == "timeout"
    wait_until_ready(server)
    assert execute(server, "a = []\nwhile True: a.append(bytearray(1 << 20))")["status"] in ("oom", "execution_error")
    wait_until_ready(server)
    assert execute(server, WHO, limits={"memory_bytes": 1 << 28})["stdout"] == "/immure/main.py\n"
    assert execute(server, WHO)["stdout"] == STARTED


PROGRAMS = ["import atexit\natexit.register(print, 'first')\natexit.register(print, 'second')\nprint('body')\n1/0",
            "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.05), print('thread'))).start()\nprint('main')",
            "class D:\n    def __del__(self): print('gone', __name__)\nd = D()\ne = [d]\ne.append(e)\nprint('end', end='')",
            "def f():\n    raise ValueError('of f')\nf()", "import sys\nsys.exit('words')", "x = (\n", "raise KeyboardInterrupt",
            "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(6)'], capture_output=True).stdout)",
            "import os\nif os.fork() == 0:\n    print('child')\nelse:\n    os.wait()\n    print('parent')",
            "import json, re, statistics, collections\nprint(json.dumps(re.findall('a.', 'abac')), statistics.mean([1, 2]))",
            "import warnings\nwarnings.warn('beware')\nprint(__file__, __name__, sorted(globals()))"]


def test_programs_cannot_tell(start):
    """Other limits than the policy's are for an interpreter of the job's own."""
    server = start()
    execute(server, "pass")
    for program in PROGRAMS:
        wait_until_ready(server)
        warm, cold = execute(server, program), execute(server, program, limits={"pids": 63})
        keys = "status", "exit_code", "signal", "stdout", "stderr"
        assert {key: warm[key] for key in keys} == {key: cold[key] for key in keys}, program
    wait_until_ready(server)
    assert execute(server, WHO)["stdout"] == STARTED and execute(server, WHO, limits={"pids": 63})["stdout"] == "/immure/main.py\n"


@pytest.mark.skipif(not os.path.exists("/usr/bin/node"), reason="there is no Node in /usr/bin")
def test_nodes_launcher_waits_in_an_image_as_well(start):
    server = start()
    code = "import fs from 'fs'; console.log(process.uptime() * 1000 > performance.now(), await Promise.resolve(1)); setResult({a: [1]})"
    cold = execute(server, code, runtime="node")
    wait_until_ready(server, runtime="node")
    warm = execute(server, code, runtime="node")
    wait_until_ready(server, runtime="node")
    assert (warm["status"], warm["stdout"], warm["output"]) == (cold["status"], cold["stdout"], cold["output"]) == ("success", cold["stdout"], '{"a":[1]}')
    assert server.log().count("event=template_ready runtime=node image=debian") == 1


def test_sessions_share_their_workspace_with_jobs_that_start_their_own(start):
    server = start()
    execute(server, "open('kept', 'w').write('1')", session_id="s")
    wait_until_ready(server)
    assert execute(server, "print(open('kept').read())\n" + WHO, session_id="s")["stdout"] == "1\n/immure/main.py\n"


@pytest.fixture
def own_images(tmp_path):
    """Images that a test changes: of links to the files of one, so that they cost nothing."""
    return tmp_path / "own-images"


def test_an_image_that_is_replaced_or_removed_takes_its_interpreter_along(start, images, own_images):
    def held(server):
        return [path for pid in os.listdir("/proc") if pid.isdigit() for path in [f"/proc/{pid}/root/etc/version"] if os.path.exists(path)]
    root = images / "debian/rootfs"
    imported(own_images, "changing", root)
    server = start(directory=own_images)
    execute(server, WHO, "changing")
    wait_until_ready(server)
    imported(own_images, "changing", root, "--replace")
    wait_until_ready(server, 0)
    assert execute(server, WHO, "changing")["stdout"] == "/immure/main.py\n"
    wait_until_ready(server)
    assert execute(server, WHO, "changing")["stdout"] == STARTED
    wait_until_ready(server)
    assert image("rm", "changing", directory=own_images).returncode == 0
    wait_until_ready(server, 0)
    reply = server.request("POST", "/execute", json.dumps({"code": WHO, "policy": "python-in", "environment": "image", "image": "changing"}))
    assert reply.status == 400 and held(server) == []


def test_they_are_bounded_in_number(start, images, own_images):
    """The image whose last job was longest ago makes way, once that is ten seconds ago."""
    root = images / "debian/rootfs"
    for name in "one", "two":
        imported(own_images, name, root)
    server = start("max_image_templates: 1", own_images)
    execute(server, WHO, "one")
    wait_until_ready(server)
    execute(server, WHO, "two")
    assert execute(server, WHO, "one")["stdout"] == STARTED
    wait_for(lambda: execute(server, WHO, "two")["stdout"] == STARTED, "the other's turn", 30)
    assert ready(server) <= 1 and execute(server, WHO, "one")["stdout"] == "/immure/main.py\n"


@pytest.mark.parametrize("line", ["max_image_templates: 0", "max_image_template_bytes: 4096"])
def test_they_are_bounded_in_memory_or_not_there(start, line):
    server = start(line)
    for _ in range(3):
        assert execute(server, WHO)["stdout"] == "/immure/main.py\n"
    assert ready(server) == 0


# Static, so that nothing of ours is loaded into it; as the interpreter of a job it prints what it likes.
STRANGER = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>
/* Without a child nothing bad would stay. */
static pid_t must_fork(void)
{
    pid_t child = fork();
    if (child < 0) exit(4);
    return child;
}
int main(int argc, char **argv)
{
    int is_early = 0;
    for (int i = 0; i < argc; i++) is_early |= strstr(argv[i], "fd/9") != NULL;
    if (!is_early) return puts("a job") < 0;
    BAD
}
"""
BAD = {"garbage": 'for (int i = 0; i < 10000; i++) { puts("garbage"); fputs("gar\\nbage", stderr); fflush(NULL); } for (;;) pause();',
       "gone": 'fputs("of no use", stderr); return 3;',
       "forks": "for (;;) fork();",
       "burns": "if (must_fork() == 0) for (;;); inotify_init1(0); puts(\"lies\"); return 0;",
       "grows": "if (must_fork() == 0) { sleep(2); for (;;) { void *more = malloc(1 << 20); if (!more) pause(); memset(more, 1, 1 << 20); } } inotify_init1(0); return 0;"}


def own_image(own_images, root, name, what):
    root = make_root(root)
    subprocess.run(["cc", "-static", "-w", "-x", "c", "-o", root / "usr/bin/python3", "-"], input=STRANGER.replace("BAD", what), text=True, check=True)
    imported(own_images, name, root)


def test_an_image_that_made_way_before_it_stood_ready_begins_again(start, tmp_path, own_images):
    own_image(own_images, tmp_path / "slow", "slow", "sleep(2); inotify_init1(0); return 0;")
    own_image(own_images, tmp_path / "gone", "gone", BAD["gone"])
    server = start("max_image_template_bytes: 8388608", directory=own_images)  # room for one
    for name in "slow", "gone":
        assert execute(server, WHO, name)["stdout"] == "a job\n"
    wait_for(lambda: "given_up=true" in server.log(), "the end of the one that has taken the room", 60)
    wait_until_ready(server)
    assert "event=template_ready runtime=python image=slow " in server.log()


def test_images_of_bad_will_harm_nobody(start, tmp_path, own_images):
    """They have no more than a job has, fail three times, and are left alone."""
    for name, what in BAD.items():
        own_image(own_images, tmp_path / name, name, what)
    server = start(directory=own_images)
    for name in BAD:
        assert execute(server, WHO, name)["stdout"] == "a job\n"

    def failures(name):
        return [line for line in server.log().splitlines() if f"event=template_failed runtime=python image={name} " in line]

    def are_left_alone():
        assert server.execute("print(1)")["stdout"] == "1\n"
        return all(any("given_up=true" in line for line in failures(name)) for name in BAD)

    try:
        wait_for(are_left_alone, "the end of their trials", 300)
    finally:
        print("\n".join(line for line in server.log().splitlines() if "event=template" in line))
    for name in BAD:
        assert len(failures(name)) == 3 and all(len(line) < 600 for line in failures(name)), failures(name)
        assert execute(server, WHO, name)["stdout"] == "a job\n"
    assert "and has said: of no use" in failures("gone")[0] and ready(server) == 0
    assert server.log().count("event=template_failed") == 3 * len(BAD)

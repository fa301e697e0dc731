"""Warm starts: jobs forked from a template, and jails that stand ready. Where templates are switched off, none of this is."""

import array
import json
import os
import re
import shutil
import signal
import socket
import threading
from pathlib import Path

import pytest

from harness import BUILD, ROOT, WARM, call, config_key, descendants, shipped_policy, wait_for

pytestmark = [
    pytest.mark.skipif(WARM != "pool", reason="the tests run without parked jails"),
    pytest.mark.skipif(not (BUILD / "immure-python.so").exists(), reason="this build has no warm interpreter"),
]

SHIPPED = (ROOT / "config/server.textproto").read_text()
WHO = "import os\nprint(open('/proc/self/cmdline').read().split(chr(0))[2])"


def full(server, count=4):
    wait_for(lambda: server.parked("python") == count, f"{count} parked jails", 120)
    return server


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # of a jail that has ended meanwhile


def templates(server):
    """The processes that have the warm interpreter, the parked ones included; the template itself is the first."""
    return [pid for pid in descendants(server.process.pid) if b"/proc/self/fd/9" in command_line(pid)]


def test_stock_is_filled_and_renewed(serve):
    server = full(serve())
    for _ in range(6):
        assert server.execute(WHO)["stdout"] == "/proc/self/fd/9\n"
    full(server)


@pytest.mark.host_only
def test_another_key_leaves_templates_and_stock(serve, tmp_path):
    path = tmp_path / "keys" / "keys.textproto"
    path.parent.mkdir()
    path.write_text(config_key("alice", "alice-key"))
    server = full(serve(config=SHIPPED + f'key_file: "{path}"\n'))
    before = set(templates(server))
    path.write_text(config_key("bob", "bob-key"))
    server.reloaded()
    assert set(templates(server)) == before and server.log().count("event=template_ready runtime=python ") == 1
    assert call(server, "POST", "/execute", {"code": WHO}, "bob-key").json["stdout"] == "/proc/self/fd/9\n"
    assert call(server, "POST", "/execute", {"code": WHO}, "alice-key").status == 401
    server.process.send_signal(signal.SIGHUP)  # an operator who says so has everything begun again
    server.reloaded(2)
    wait_for(lambda: before.isdisjoint(templates(server)) and server.log().count("event=template_ready runtime=python ") == 2, "another template", 120)


MANY = "max_concurrent_jobs: 160 max_timeout_ms: 600000 drain_timeout_ms: 100\n"


def hold_many(server):
    """So many jobs at once that their template is to be followed by another. -> their ids"""
    request = json.dumps({"code": "import time; time.sleep(1000)", "timeout": 600})
    return [server.request("POST", "/execute?wait=false", request).json["job_id"] for _ in range(140)]


def test_a_template_with_many_copies_is_followed_by_another(serve):
    """Those that it has made live on, and it ends with them."""
    server = full(serve(config=MANY + SHIPPED))
    first = templates(server)[0]
    held = hold_many(server)
    wait_for(lambda: server.log().count("event=template_ready runtime=python") == 2, "another template", 120)
    pids = templates(server)
    assert first in pids and server.execute(WHO)["stdout"] == "/proc/self/fd/9\n"
    assert all(server.get(f"/jobs/{job}").json["status"] == "running" for job in held)
    for job in held:
        assert server.request("DELETE", f"/jobs/{job}").status in (200, 202, 204)
    wait_for(lambda: first not in templates(server), "the end of the first template")
    assert not given_up(server) and server.execute(WHO)["stdout"] == "/proc/self/fd/9\n"


@pytest.mark.host_only
def test_a_template_that_cannot_be_followed_goes_on(serve, tmp_path):
    program = shutil.copy2(BUILD / "immure-python.so", tmp_path)
    server = full(serve(config=MANY + SHIPPED.replace('"immure-python.so"', f'"{program}"')))
    os.unlink(program)
    hold_many(server)
    wait_for(lambda: "event=template_failed" in server.log(), "the other's failure")
    failed = next(line for line in server.log().splitlines() if "event=template_failed" in line)
    assert 'means="the template that it was to relieve stays"' in failed and "given_up=true" in failed
    assert server.execute(WHO)["stdout"] == "/proc/self/fd/9\n"


def given_up(server):
    """One that a slow machine has not built in time is begun again; that is no fault."""
    return [line for line in server.log().splitlines() if "event=template_failed" in line and "given_up=false" not in line]


def replaced(server):
    return int(re.search(r'^immure_warm_templates_replaced_total{runtime="python"} (\d+)$', server.get("/metrics").body.decode(), re.M)[1])


LAYOUT = "import ctypes, os\nprint(id(ctypes), hash('x'), open('/proc/self/cmdline').read().split(chr(0))[2])"


@pytest.mark.parametrize("line", ["template_max_jobs: 3", "template_ttl_ms: 1"])
def test_a_template_that_has_served_is_followed_by_another(serve, line):
    """With another layout and another hash seed."""
    server = full(serve(config=SHIPPED.replace("warm_jails: 4", f"warm_jails: 4 {line}")))
    first, seen = templates(server)[0], []

    def has_been_followed():
        seen.append(server.execute(LAYOUT)["stdout"].split())
        return first not in templates(server) and seen[0][:2] != seen[-1][:2]

    wait_for(has_been_followed, "another template", 60)
    assert {words[2] for words in seen} == {"/proc/self/fd/9"}
    assert seen[0][0] != seen[-1][0] and seen[0][1] != seen[-1][1]
    wait_for(lambda: replaced(server) >= 1, "the count")
    assert not given_up(server)


@pytest.mark.host_only
def test_few_templates_live_on_for_their_jobs(serve):
    server = full(serve(config="max_concurrent_jobs: 40 max_timeout_ms: 600000 drain_timeout_ms: 100\n"
                        + SHIPPED.replace("warm_jails: 4", "warm_jails: 1 template_max_jobs: 1")), 1)
    request = json.dumps({"code": "import time; time.sleep(1000)", "timeout": 600})
    held = []
    for count in range(1, 9):
        held.append(server.request("POST", "/execute?wait=false", request).json["job_id"])
        wait_for(lambda: replaced(server) >= count, f"template {count + 1}", 60)
    for _ in range(5):
        assert server.execute(WHO)["stdout"] == "/proc/self/fd/9\n"
    assert server.log().count("event=template_replaced") == 8
    server.request("DELETE", f"/jobs/{held[0]}")
    wait_for(lambda: replaced(server) > 8, "another template")
    assert all(server.get(f"/jobs/{job}").json["status"] == "running" for job in held[1:])


@pytest.mark.host_only
def test_a_stock_of_any_size_comes_to_rest(serve):
    server = full(serve(config=SHIPPED.replace("warm_jails: 4", "warm_jails: 140")), 140)
    assert server.execute(WHO)["stdout"] == "/proc/self/fd/9\n"
    full(server, 140)
    assert server.log().count("event=template_ready runtime=python") == 1


def test_parked_processes_are_behind_their_filter(serve):
    server = full(serve())

    def filters(pid):
        return int(re.search(r"^Seccomp_filters:\s*(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)[1])

    template, *jails = map(filters, templates(server))
    assert sorted(jails) == 4 * [template] + 4 * [template + 1]  # PID 1 of each jail, and the process that waits


def test_a_neighbours_descriptors_on_their_way(serve):
    """An ordinary user's are counted together, whichever of its programs has sent them."""
    server = serve(config=re.sub(r"\s*warm_jails:.*", "", SHIPPED))

    def is_waited_for():
        wait_for(lambda: server.execute(WHO)["stdout"] == "/proc/self/fd/9\n", "a template")
        pairs = [socket.socketpair() for _ in range(5)]
        with open("/dev/null") as one:
            for sender, _ in pairs:
                sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()] * 250))])
        received = threading.Timer(0.03, lambda: [end.close() for pair in pairs for end in pair])
        received.start()
        stdout = server.execute(WHO)["stdout"]
        received.join()
        return stdout == "/proc/self/fd/9\n"

    # That takes a fifth of a second at most: on a busy machine we may be later than that.
    assert any(is_waited_for() for _ in range(5))


def test_jobs_do_not_see_each_other(serve):
    server = full(serve())
    look = """if True:
        import os, random, tempfile
        print(sorted(os.listdir('/workspace')), sorted(os.listdir('/tmp')), sorted(os.listdir('/dev/shm')))
        open('/workspace/left', 'w').close(); open('/tmp/left', 'w').close(); open('/dev/shm/left', 'w').close()
        os.environ['LEFT'] = '1'
        print(random.random(), os.urandom(8))
    """
    outputs = [server.execute(look)["stdout"].splitlines() for _ in range(6)]
    assert {lines[0] for lines in outputs} == {"[] [] []"}
    assert len({lines[1] for lines in outputs}) == 6


@pytest.mark.host_only
def test_args_env_stdin_files(serve):
    server = full(serve(config='key { name: "all" sha256: "' + "0" * 64 + '" }'))
    verdict = server.execute("import os, sys\nprint(sys.argv[1:], os.environ['APP_X'], sys.stdin.read(), open('in.txt').read())",
                             args=["a", "b c"], env={"APP_X": "é"}, stdin="from stdin", files=[{"name": "in.txt", "content": "file"}])
    assert verdict["stdout"] == "['a', 'b c'] é from stdin file\n"


def test_what_a_started_interpreter_cannot_become(serve):
    """Variables that CPython reads when it starts get an interpreter that starts with them."""
    server = full(serve())
    first, second = (server.execute("print(hash('x'))", env={"PYTHONHASHSEED": "7"})["stdout"] for _ in range(2))
    assert first == second
    assert server.execute(WHO, env={"PYTHONHASHSEED": "7"})["stdout"] != "/proc/self/fd/9\n"


@pytest.mark.parametrize("limits, code, check", [
    ({"scratch_bytes": 1 << 20}, "open('x', 'wb').write(bytes(1 << 21))",
     lambda verdict: "No space left on device" in verdict["stderr"]),
    ({"memory_bytes": 48 << 20}, "x = []\nwhile True: x.append(bytearray(1 << 20))", lambda verdict: verdict["oom"]),
    ({"pids": 3}, "import threading, time\nfor _ in range(9): threading.Thread(target=time.sleep, args=(1,)).start()",
     lambda verdict: "can't start new thread" in verdict["stderr"]),
    ({"cpu_ms": 200}, "while True: pass", lambda verdict: verdict["signal"] == "SIGXCPU"),
    ({"output_bytes": 10}, "print('x' * 100)", lambda verdict: verdict["stdout"] == "x" * 10 and verdict["truncated"]),
])
def test_a_jobs_own_limits(serve, limits, code, check):
    verdict = full(serve()).execute(code, limits=limits, timeout_ms=20000)
    assert check(verdict), verdict


@pytest.mark.host_only
def test_long_script(serve):
    code = "x = [\n" + "    'a line of a program that is long',\n" * 40000 + "]\nprint(len(x))"
    assert full(serve()).execute(code)["stdout"] == "40000\n"


def test_denied_calls_are_named(serve):
    verdict = full(serve()).execute("import os\ntry: os.chroot('/')\nexcept PermissionError as error: print(error.errno)")
    assert verdict["stdout"] == "1\n"
    assert {"name": "chroot", "count": 1} in verdict["denied_syscalls"]


def test_template_that_dies_is_started_again(serve):
    server = full(serve())
    before = templates(server)
    os.kill(before[0], signal.SIGKILL)
    wait_for(lambda: "event=template_failed" in server.log(), "its end in the log")
    assert server.execute("print(1)")["stdout"] == "1\n"
    wait_for(lambda: server.log().count("event=template_ready runtime=python") == 2, "the new template")
    full(server)
    assert not set(before) & set(templates(server))
    assert server.execute(WHO)["stdout"] == "/proc/self/fd/9\n"


@pytest.mark.host_only
def test_what_a_template_fails_of_is_told(serve, tmp_path):
    """Not only that whoever spoke to it has found it gone, whichever is heard of first."""
    path = tmp_path / "python.textproto"
    path.write_text(shipped_policy("python")
                    + '\nmount { destination: "/given" bind { source: "/no/such/directory" } }\n')
    server = serve(config=SHIPPED + f'policy_path: "{path}"\n', ready=False)
    wait_for(lambda: server.log().count("event=template_failed") >= 2, "its failures")
    failures = [line for line in server.log().splitlines() if "event=template_failed" in line]
    assert all('(bind /given)" error="open_tree: No such file or directory"' in line for line in failures), failures


def test_reload_retires_the_stock(serve):
    server = full(serve())
    before = set(templates(server))
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.log().count("event=template_ready runtime=python") == 2, "the new template")
    wait_for(lambda: not before & set(descendants(server.process.pid)), "the old stock gone")
    full(server)


def test_nothing_is_left_at_the_end(serve):
    server = full(serve())
    before = templates(server)
    assert server.stop() == 0
    assert not [pid for pid in before if Path(f"/proc/{pid}").exists()]


def test_parked_jails_are_small(serve):
    server = full(serve())
    line = re.search(r"event=template_ready runtime=python .*parked_private_bytes=(\d+)", server.log())
    assert int(line[1]) <= 2 << 20


@pytest.mark.host_only
def test_template_that_is_not_there_costs_speed_only(serve):
    server = serve(config=SHIPPED.replace('"immure-python.so"', '"no-such-template"'))
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert re.search(r"level=warning .*event=template_failed runtime=python .*no-such-template.*given_up=true", server.log())


@pytest.mark.host_only
def test_policy_that_denies_what_a_template_needs(serve):
    server = serve(config=SHIPPED.replace('policy: "python"', 'policy: "strict"'))
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert re.search(r"event=template_failed .*policy 'strict' does not allow sendmsg.*given_up=true", server.log())


@pytest.mark.host_only
def test_what_lies_in_a_directory_of_the_jobs_own(serve, tmp_path):
    policy = shipped_policy("python").replace("working_directory:", '''
        mount { destination: "/workspace/given" bind { source: "/usr/share/zoneinfo" } }
        mount { destination: "/opt" tmpfs { } read_only: false }
        mount { destination: "/opt/a/b" file { content: "c" } }
        working_directory:''', 1)
    path = tmp_path / "python-with-more.textproto"
    path.write_text(policy)
    server = serve(config=SHIPPED + f'policy_path: "{path}"\n')
    assert server.execute("print(*sorted(open('/opt/a/b').read())); open('given/UTC', 'rb').close()")["stdout"] == "c\n"
    assert re.search(r"event=template_failed .*/workspace/given lies in a directory that each job has of its own.*given_up=true", server.log())


@pytest.mark.host_only
def test_warm_jails_need_a_template(serve):
    server = serve(config=re.sub(r"\s*template:.*", "", SHIPPED), ready=False)
    assert server.ended() != 0
    assert "warm_jails: needs a template" in server.log()

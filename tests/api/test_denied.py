"""denied_syscalls of jobs that are ended whole: what they were denied until then is named all the same."""

import signal

from harness import wait_for
from test_streaming import Events

DENIED = "import os, sys\nfor path in ('/', '/', '/proc'):\n    try: os.chroot(path)\n    except PermissionError: pass\n"
NODE = "try { require('fs').watch('.'); } catch {}\n"
ROW = {"name": "chroot", "count": 3}


def until_killed(server, code, endless="while True: pass", begun="print('begun', flush=True)\n", **fields):
    """The verdict of a program that is ended by its deadline, once its code has run: on a busy machine it may need longer."""
    for timeout_ms in (1000, 20000):
        verdict = server.execute(code + begun + endless, timeout_ms=timeout_ms, **fields)
        if "begun" in verdict["stdout"]:
            break
    assert verdict["status"] == "timeout", verdict
    return verdict["denied_syscalls"]


def test_at_the_deadline(server):
    assert until_killed(server, DENIED) == [ROW]


def test_while_calls_are_being_denied(server):
    """Killed anywhere in between."""
    row, = until_killed(server, DENIED, "while True:\n    try: os.chroot('/')\n    except PermissionError: pass")
    assert row["name"] == "chroot" and row["count"] >= 3


def test_more_of_them_than_there_are_rows(server):
    rows = until_killed(server, "import ctypes\nsyscall = ctypes.CDLL(None).syscall\nfor nr in range(500, 600): syscall(nr)\n")
    assert len(rows) == 64 and rows[-1] == {"name": "?", "count": 100 - 63}


def test_without_processor_time(server):
    verdict = server.execute(DENIED + "while True: pass", limits={"cpu_ms": 700})
    assert (verdict["signal"], verdict["denied_syscalls"]) == ("SIGXCPU", [ROW])


def test_without_memory(server):
    """The limit on address space stops none of these: each process has little."""
    code = DENIED + "for _ in range(10):\n    if os.fork() == 0: break\nkept = bytearray(20 << 20)\nwhile True: pass"
    verdict = server.execute(code, limits={"memory_bytes": 96 << 20, "pids": 16})
    assert (verdict["status"], verdict["denied_syscalls"]) == ("oom", [ROW]), verdict


def test_by_node(server):
    rows = until_killed(server, NODE, "for (;;);", "require('fs').writeSync(1, 'begun');\n", runtime="node")
    assert {"name": "inotify_init1", "count": 1} in rows


def test_cancelled(serve, wire):
    server = serve("drain_timeout_ms: 100")
    events = Events(wire(server), server, DENIED + "print('on', flush=True)\nwhile True: pass", timeout=50)
    assert events.head() == 200 and events.next()[1]["text"].startswith("on")
    server.process.send_signal(signal.SIGTERM)
    event, reply = events.rest()[-1]
    assert (event, reply["status"], reply["denied_syscalls"]) == ("result", "cancelled", [ROW])


def test_they_are_counted_and_told(serve):
    server = serve()
    assert until_killed(server, DENIED) == [ROW]
    assert server.metric("immure_denied_syscalls_total") >= 3
    wait_for(lambda: "denied_syscalls=1" in server.log(), "the audit's line")


def test_the_program_has_no_way_to_the_table(server):
    """Neither a descriptor nor a mapping: what it has after a call was denied is what it had before."""
    verdict = server.execute("import os\ndef have():\n"
                             "    maps = [line for line in open('/proc/self/maps') if 'memfd' in line or 'rw-s' in line]\n"
                             "    return sorted(os.listdir('/proc/self/fd')), maps\n"
                             "before = have()\n" + DENIED + "print(before == have(), before[1])\n"
                             "for path in ('/proc/1/fd', '/proc/1/map_files'):\n"
                             "    try: print(os.listdir(path))\n    except OSError: print('none')")
    assert verdict["stdout"] == "True []\nnone\nnone\n", verdict

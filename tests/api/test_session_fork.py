"""Sessions that are forked, compared and restored, as a caller would: in memory and on disk."""

import concurrent.futures
import contextlib
import os
import re
import signal

import pytest
from harness import PATIENCE, call, config_key, wait_for
from test_session_directory import kept, make_directory, nothing_is_left
from test_sessions import MIB, end, file, files_of, fill, listing, quoted, rows, run

WITHOUT_NODE = True

KEYS = config_key("alice", "alice-key", policy="*") + config_key("bob", "bob-key", policy="*")
# Until somebody puts a file "go" into its session.
WAIT = "import os, time\nopen('up', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)"

# What programs may leave behind.
ODD = """
import os, socket
os.makedirs('d/e'); open('d/e/f', 'w').write('deep'); os.chmod('d/e', 0o700)
open('x', 'w').write('#!'); os.chmod('x', 0o6755)
open('unreadable', 'w').write('mine'); os.chmod('unreadable', 0)
os.mkdir('locked'); open('locked/f', 'w').write('in'); os.chmod('locked', 0)
os.link('x', 'd/x again')
os.symlink('/etc/passwd', 'out'); os.symlink('d', 'in'); os.symlink('out', 'd/dangling')
os.mkfifo('fifo'); s = socket.socket(socket.AF_UNIX); s.bind('socket')
open(b'not \\xff utf-8\\n', 'w').write('odd')
with open('sparse', 'wb') as sparse:
    sparse.truncate(1 << 25); sparse.seek(1 << 24); sparse.write(b'middle')
os.utime('x', (1, 1000000000))
"""
# What a program finds of it.
LOOK = """
import os
def look(path):
    st = os.lstat(path)
    print(repr(path), oct(st.st_mode), st.st_nlink if os.path.isfile(path) else '', os.readlink(path) if os.path.islink(path) else st.st_size * os.path.isfile(path))
    if os.path.isdir(path) and not os.path.islink(path):
        mode = st.st_mode; os.chmod(path, 0o700)
        for name in sorted(os.listdir(path)): look(path + '/' + name)
        os.chmod(path, mode)
look('.')
os.chmod('unreadable', 0o400)
print(open('unreadable').read(), int(os.stat('x').st_mtime), os.stat('sparse').st_blocks, open('sparse', 'rb').read()[1 << 24:][:6])
"""


@pytest.fixture(params=["memory", "disk"])
def store(request, serve, tmp_path):
    """store("more configuration") -> a server of two keys whose sessions lie in memory, or in `store.directory`"""
    def start(config="", **options):
        where = f'session_directory: "{start.directory}"\n' if start.directory else ""
        return serve(config=KEYS + where + config, **options)
    start.directory = make_directory(tmp_path / "sessions") if request.param == "disk" else None
    return start


def fork(server, name, *to, key="alice-key"):
    return call(server, "POST", f"/sessions/{quoted(name)}/fork", {"to": list(to)}, key)


def diff(server, name, other, key="alice-key"):
    return call(server, "GET", f"/sessions/{quoted(name)}/diff/{quoted(other)}", key=key)


def restore(server, name, source, key="alice-key"):
    return call(server, "POST", f"/sessions/{quoted(name)}/restore", {"from": source}, key)


def put(server, name, path, text, key="alice-key"):
    assert file(server, "PUT", name, path, text, key).status == 200


def get(server, name, path, key="alice-key"):
    return file(server, "GET", name, path, key=key).body


def alice(server, code, name, **fields):
    reply = run(server, "alice-key", code, session_id=name, **fields)
    assert reply.status == 200, reply.body
    return reply.json


def refused(reply, status, field):
    assert reply.status == status and reply.json["error"].startswith(field), reply.body
    assert reply.json["field"] == (field if status in (400, 403) else None), reply.body
    return reply.json["error"]


@contextlib.contextmanager
def job_in(server, name):
    """A job runs in the session meanwhile."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        job = pool.submit(run, server, "alice-key", WAIT, session_id=name, timeout=120)
        wait_for(lambda: file(server, "GET", name, "up", key="alice-key").status == 200, "a job in the session")
        try:
            yield
        finally:
            put(server, name, "go", "")
            assert job.result().json["status"] == "success"


@contextlib.contextmanager
def stopped(server, ask):
    """Asks while the process for files stands still -> the request; that process"""
    put(server, "warm-up", "x", "1")
    process, = files_of(server)
    assert end(server, "warm-up", "alice-key").status == 204
    os.kill(process, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        try:
            asked = pool.submit(ask)
            wait_for(lambda: rows(server, "alice-key")["main"]["jobs_running"] == 1, "the request")
            yield asked, process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def test_fork_then_try_then_restore(store):
    server = store()
    alice(server, "open('n', 'w').write('41'); open('same', 'w').write('s'); open('old', 'w').write('o')", "main")
    reply = fork(server, "main", "a/1", "übermorgen")
    assert (reply.status, reply.json) == (200, {"files": 3, "left_out": 0, "kernel": None}), reply.body
    assert set(rows(server, "alice-key")) == {"main", "a/1", "übermorgen"}
    assert [row["jobs_running"] for row in rows(server, "alice-key").values()] == [0] * 3
    # They are sessions like others, each with files of its own.
    assert alice(server, "n = open('n').read(); open('n', 'w').write('forty'); print(n)", "a/1", session="kept")["stdout"] == "41\n"
    code = "import os; os.remove('old'); os.mkdir('d'); open('d/new', 'w').write('new'); open('n', 'w').write('42'); open('same', 'w').write('s')"
    assert alice(server, code, "übermorgen", session="kept")["status"] == "success"
    assert get(server, "main", "n") == b"41"
    # From the one to the other: sizes are those of the other one, and files as long as before are read.
    assert diff(server, "main", "a/1").json == {
        "added": [], "removed": [], "changed": [{"path": "n", "size": 5, "size_before": 2}], "truncated": False}
    there = {"added": [{"path": "d/new", "size": 3}], "removed": [{"path": "old", "size": 1}],
             "changed": [{"path": "n", "size": 2, "size_before": 2}], "truncated": False}
    assert diff(server, "main", "übermorgen").json == there
    back = diff(server, "übermorgen", "main").json
    assert (back["added"], back["removed"], back["changed"]) == (there["removed"], there["added"], there["changed"])
    reply = restore(server, "main", "übermorgen")
    assert (reply.status, reply.json) == (200, {"files": 3, "left_out": 0, "kernel": None}), reply.body
    nothing = {"added": [], "removed": [], "changed": [], "truncated": False}
    assert diff(server, "main", "übermorgen").json == diff(server, "main", "main").json == nothing
    assert alice(server, "import os; print(open('n').read(), sorted(os.listdir('.'))); open('mine', 'w')", "main", session="kept")[
        "stdout"] == "42 ['d', 'n', 'same']\n"
    assert "mine" not in listing(server, "übermorgen", "alice-key")
    # Again and again, and their names are free when they are deleted.
    assert end(server, "a/1", "alice-key").status == 204 and fork(server, "main", "a/1").status == 200
    assert restore(server, "main", "a/1").status == 200 and set(listing(server, "main", "alice-key")) == {"d/new", "mine", "n", "same"}


def test_what_programs_leave_behind(store):
    server = store()
    before = alice(server, ODD, "main")
    assert before["status"] == "success", before
    reply = fork(server, "main", "copy")
    assert (reply.status, reply.json["left_out"]) == (200, 2), reply.body
    expected = alice(server, LOOK, "main")["stdout"]
    lines = [line for line in expected.splitlines() if "fifo'" not in line and "socket'" not in line]
    # No set-user-ID bits.
    assert alice(server, LOOK, "copy")["stdout"].splitlines() == [line.replace("0o106755", "0o100755") for line in lines]
    assert diff(server, "main", "copy").json["changed"] == [] and int(lines[-1].split()[2]) < 100
    assert restore(server, "main", "copy").json["left_out"] == 0
    assert alice(server, LOOK, "main")["stdout"] == alice(server, LOOK, "copy")["stdout"]


def test_bytes_are_compared_and_dates_are_not(store):
    server = store()
    alice(server, "import os\nfor n in 'abc': open(n, 'wb').write(b'x' * 200000); os.utime(n, (5, 5))", "main")
    assert fork(server, "main", "copy").status == 200
    code = """
import os
with open('a', 'r+b') as f: f.seek(199999); f.write(b'y')
os.utime('a', (5, 5)); os.utime('b', (9, 9))
os.remove('c'); os.mkfifo('c')
with open('hole', 'wb') as f: f.truncate(1 << 25)
"""
    assert alice(server, code, "copy")["status"] == "success"
    assert fork(server, "copy", "again").json == {"files": 3, "left_out": 1, "kernel": None}
    alice(server, "with open('hole', 'r+b') as f: f.seek(1 << 24); f.write(b'1')", "again")
    assert diff(server, "main", "copy").json == {
        "added": [{"path": "hole", "size": 1 << 25}], "removed": [{"path": "c", "size": 200000}],
        "changed": [{"path": "a", "size": 200000, "size_before": 200000}], "truncated": False}
    assert [row["path"] for row in diff(server, "copy", "again").json["changed"]] == ["hole"]


def test_what_is_refused_changes_nothing(store):
    server = store()
    for name in ("main", "there"):
        put(server, name, "x", name)
    put(server, "bobs", "x", "bob", "bob-key")
    assert "there is a session of that name" in refused(fork(server, "main", "new", "there"), 409, "to")
    refused(fork(server, "main", "new", "main"), 409, "to")
    refused(fork(server, "main", "new", "bobs"), 403, "to")
    refused(fork(server, "nobody", "new"), 404, "session_id")
    refused(fork(server, "bobs", "new"), 404, "session_id")
    refused(restore(server, "nobody", "main"), 404, "session_id")
    refused(restore(server, "bobs", "main"), 404, "session_id")
    refused(restore(server, "main", "bobs"), 404, "from")
    refused(restore(server, "main", "main"), 400, "from")
    refused(diff(server, "nobody", "main"), 404, "session_id")
    refused(diff(server, "main", "bobs"), 404, "other")
    refused(diff(server, "main", "a\tb"), 400, "other")
    refused(fork(server, "a\tb", "new"), 400, "session_id")
    for body, field in (({}, "to"), ({"to": []}, "to"), ({"to": "new"}, "to"), ({"to": ["new"] * 2}, "to[1]"), ({"to": ["new", ""]}, "to[1]"),
                        ({"to": ["new", 1]}, "to[1]"), ({"to": ["n" * 513]}, "to[0]"), ({"to": ["a\nb"]}, "to[0]"),
                        ({"to": [str(n) for n in range(17)]}, "to"), ({"to": ["new"], "form": "x"}, "form")):
        refused(call(server, "POST", "/sessions/main/fork", body, "alice-key"), 400, field)
    for body, field in (({}, "from"), ({"from": None}, "from"), ({"from": ["main"]}, "from"), ({"from": "n" * 513}, "from"), ({"to": "x"}, "to")):
        refused(call(server, "POST", "/sessions/main/restore", body, "alice-key"), 400, field)
    for method, path in (("POST", "/sessions/main/fork"), ("GET", "/sessions/main/diff/there"), ("POST", "/sessions/main/restore")):
        assert call(server, method, path, {}, key="wrong").status == 401
    assert set(rows(server, "alice-key")) == {"main", "there"} and get(server, "main", "x") == b"main"
    assert server.metric("immure_sessions") == 3
    # As many as there may be, with names as long as they may be.
    names = [f"{number:0512}" for number in range(16)]
    assert fork(server, "main", *names).status == 200 and set(rows(server, "alice-key")) == {"main", "there", *names}
    assert get(server, names[15], "x") == b"main"


def test_while_a_job_runs(store):
    server = store()
    put(server, "main", "x", "1")
    put(server, "other", "x", "2")
    with job_in(server, "main"):
        assert "jobs run in this session (1)" in refused(fork(server, "main", "new"), 409, "session_id")
        refused(restore(server, "main", "other"), 409, "session_id")
        refused(restore(server, "other", "main"), 409, "from")
        assert [row["path"] for row in diff(server, "other", "main").json["added"]] == ["up"]
        assert fork(server, "other", "new").status == 200  # a bystander's
    assert fork(server, "main", "newer").status == 200 and get(server, "newer", "x") == b"1"


def test_jobs_wait_while_it_is_copied_and_bystanders_do_not(store):
    server = store()
    put(server, "main", "x", "1")
    with stopped(server, lambda: fork(server, "main", "a", "b")) as (asked, process):
        assert set(rows(server, "alice-key")) == {"main"}  # not half of it
        for name in ("main", "a", "b"):
            reply = run(server, "alice-key", "1", session_id=name)
            assert reply.status == 503 and "is being copied" in reply.json["error"] and int(reply.headers["Retry-After"]) >= 1, reply.body
        assert run(server, "bob-key", "1", session_id="a").status == 403
        assert alice(server, "print(1)", "bystander")["stdout"] == "1\n"
        put(server, "bobs", "x", "bob", "bob-key")
        assert fork(server, "bobs", "bobs too", key="bob-key").status == 200  # two at once
        assert not asked.done()
        os.kill(process, signal.SIGCONT)
        assert asked.result().status == 200
    assert alice(server, "print(open('x').read())", "b", session="kept")["stdout"] == "1\n"


def test_two_forks_of_one_session_at_once(store):
    server = store()
    put(server, "main", "x", "1")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = [reply.result() for reply in [pool.submit(fork, server, "main", "one", f"own-{n}") for n in range(8)]]
    assert sorted(reply.status for reply in replies) == [200] + [409] * 7
    assert len(rows(server, "alice-key")) == 3


@pytest.mark.parametrize("what", ["fork", "restore"])
def test_the_process_for_files_dies_meanwhile(store, what):
    server = store()
    put(server, "main", "x", "1")
    put(server, "other", "x", "2")
    with stopped(server, lambda: fork(server, "main", "a", "b") if what == "fork" else restore(server, "main", "other")) as (asked, process):
        os.kill(process, signal.SIGKILL)
        assert asked.result().status == 500
    assert set(rows(server, "alice-key")) == {"main", "other"} and get(server, "main", "x") == b"1"
    assert server.metric("immure_sessions") == 2
    assert fork(server, "main", "a", "b").status == 200 and restore(server, "main", "other").status == 200
    if store.directory:
        wait_for(lambda: len(kept(store.directory)) == 4, "nothing else there")


@pytest.mark.parametrize("gone", ["main", "a"])
def test_one_of_them_is_deleted_meanwhile(store, gone):
    server = store()
    put(server, "main", "x", "1")
    with stopped(server, lambda: fork(server, "main", "a", "b")) as (asked, process):
        assert end(server, gone, "alice-key").status == 204
        os.kill(process, signal.SIGCONT)
        # On disk its files go with its name; a workspace in memory stays while it is copied.
        status = 404 if store.directory and gone == "main" else 200
        assert asked.result().status == status
    left = {"main", "a", "b"} - {gone} if status == 200 else set()
    assert set(rows(server, "alice-key")) == left and (status == 404 or get(server, "b", "x") == b"1")


def test_the_front_dies_meanwhile(store):
    server = store()
    put(server, "main", "x", "1")

    def ask():
        with pytest.raises(OSError):
            fork(server, "main", "a", "b")

    with stopped(server, ask) as (asked, process):
        front = int(re.findall(r"event=front_serving pid=(\d+)", server.log())[-1])
        os.kill(front, signal.SIGKILL)
        asked.result()
        wait_for(lambda: server.log().count("event=front_serving") == 2, "another front")
        wait_for(server.ready, "ready again")
        os.kill(process, signal.SIGCONT)
    wait_for(lambda: set(rows(server, "alice-key")) == {"main", "a", "b"}, "the copies")
    assert get(server, "b", "x") == b"1" and alice(server, "print(1)", "main", session="kept")["stdout"] == "1\n"


def test_a_reload_meanwhile(store):
    server = store()
    put(server, "main", "x", "1")
    with stopped(server, lambda: fork(server, "main", "a", "b")) as (asked, process):
        server.process.send_signal(signal.SIGHUP)
        server.reloaded()
        os.kill(process, signal.SIGCONT)
        assert asked.result().status == 200
    assert set(rows(server, "alice-key")) == {"main", "a", "b"} and get(server, "b", "x") == b"1"


@pytest.mark.parametrize("store", ["disk"], indirect=True)
def test_the_server_is_killed_meanwhile(store):
    server = store()
    put(server, "main", "x", "1")
    put(server, "other", "x", "2")
    for ask in (lambda: fork(server, "main", "a", "b"), lambda: restore(server, "main", "other")):
        def lost(ask=ask):
            with pytest.raises(OSError):
                ask()

        with stopped(server, lost) as (asked, _):
            server.process.kill()
            server.process.wait()
            asked.result()
        server = store()
        assert set(rows(server, "alice-key")) == {"main", "other"} and get(server, "main", "x") == b"1"
    assert fork(server, "main", "a", "b").status == 200 and restore(server, "main", "other").status == 200
    assert server.stop() == 0
    server = store()
    assert set(rows(server, "alice-key")) == {"main", "other", "a", "b"}
    assert (get(server, "main", "x"), get(server, "b", "x")) == (b"2", b"1")
    for name in rows(server, "alice-key"):
        assert end(server, name, "alice-key").status == 204
    wait_for(lambda: nothing_is_left(store.directory), "nothing left")


def test_the_bound_of_their_bytes(store):
    server = store(f"max_session_bytes_total: {16 * MIB}\n")  # of which half is for bob
    assert fill(server, "alice-key", "main", 3 * MIB).status == 200
    wait_for(lambda: rows(server, "alice-key")["main"]["bytes"] >= 3 * MIB, "a look at the workspace")
    reply = fork(server, "main", "a", "b", "c", "d", "e")
    assert reply.status == 429 and "more are asked for" in reply.json["error"] and "Retry-After" in reply.headers, reply.body
    assert set(rows(server, "alice-key")) == {"main"} and server.metric("immure_sessions") == 1
    assert fork(server, "main", "a").status == 200
    put(server, "small", "x", "1")
    assert fork(server, "small", *"bcde").status == 200


def test_the_bound_of_their_number(store):
    server = store("max_sessions: 8\n")  # a quarter is kept for each key
    put(server, "main", "x", "1")
    reply = fork(server, "main", *(str(number) for number in range(6)))
    assert reply.status == 429 and "this key has 1 sessions, and may have 6" in reply.json["error"], reply.body
    assert set(rows(server, "alice-key")) == {"main"}
    assert fork(server, "main", *(str(number) for number in range(5))).status == 200
    assert restore(server, "main", "0").status == 200  # which needs no more of them


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_a_workspace_that_no_copy_may_have(store):
    """On disk a look finds it first."""
    server = store()
    assert alice(server, "import os; os.makedirs('/'.join('d' * 130))", "deep")["status"] == "success"
    put(server, "main", "x", "1")
    for reply in (fork(server, "deep", "a", "b"), restore(server, "main", "deep")):
        assert reply.status == 413 and "more than 128 deep" in reply.json["error"], reply.body
    assert set(rows(server, "alice-key")) == {"deep", "main"} and get(server, "main", "x") == b"1"


def test_a_kernel_does_not_come_along(store):
    server = store()
    kernel = {"policy": "python-kernel"}
    assert alice(server, "x = 1; open('f', 'w').write('1')", "main", **kernel)["kernel"] == "new"
    assert fork(server, "main", "try").json["kernel"] == "not_copied"
    assert alice(server, "print('x' in globals(), open('f').read())", "try", **kernel)["stdout"] == "False 1\n"
    assert alice(server, "open('f', 'w').write('2'); y = 1", "try", **kernel)["kernel"] == "kept"
    assert alice(server, "print(x)", "main", **kernel)["stdout"] == "1\n"  # it is where it was
    assert restore(server, "main", "try").json["kernel"] == "ended"
    after = alice(server, "print('x' in globals(), open('f').read())", "main", **kernel)
    assert (after["kernel"], after["stdout"]) == ("new", "False 2\n")
    put(server, "plain", "f", "3")
    assert restore(server, "plain", "try").json["kernel"] == "not_copied" and get(server, "plain", "f") == b"2"


def test_the_wardens_time_does_not_grow_with_the_files(store):
    server = store()
    many = "for n in range(2000): open(f'f{n}', 'wb').write(b'x' * 16000)"
    assert alice(server, many, "main")["status"] == "success"

    def on_cpu_ms():
        with open(f"/proc/{server.process.pid}/schedstat", encoding="ascii") as stat:
            return int(stat.read().split()[0]) / 1e6

    before = on_cpu_ms()
    assert fork(server, "main", "copy").json["files"] == 2000
    took = on_cpu_ms() - before
    print(f"{took:.2f} ms of the warden's time")
    assert took < PATIENCE * 40, took  # the copy itself takes more

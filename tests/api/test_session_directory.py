"""Sessions whose workspaces lie in a directory of the host: what is the same, what outlives the server, what is only checked."""

import concurrent.futures
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from harness import Server, call, config_key, runtimes, wait_for
from test_sessions import (  # noqa: F401  the same things, told of a directory
    MIB,
    children_of,
    end,
    file,
    fill,
    keeper_of,
    listing,
    names,
    rows,
    run,
    test_a_file_that_changes_while_it_is_returned,
    test_a_job_cannot_lock_the_workspace_for_those_after_it,
    test_an_empty_name_is_none,
    test_delete,
    test_delete_cancels_running_jobs,
    test_files_stay_with_the_session,
    test_files_that_will_not_do,
    test_files_without_a_job,
    test_input_files_replace_what_is_there,
    test_its_jobs_are_forked_from_the_template,
    test_jobs_of_one_session_run_at_once,
    test_links_are_no_way_to_files,
    test_links_out_of_the_workspace_yield_nothing,
    test_modes_and_owners_do_not_get_in_the_way,
    test_names,
    test_one_session_under_two_policies,
    test_one_with_a_kernel_stays,
    test_only_the_workspace_is_shared,
    test_only_what_changed_is_an_output_file,
    test_processes_of_two_jobs_do_not_see_each_other,
    test_whether_it_was_there_is_told,
)

WITHOUT_NODE = True

ROOT = os.geteuid() == 0
OWNER = 54321  # of files on disk, where the server runs with privileges
KEYS = config_key("alice", "alice-key", policy="*", max_sessions=2) + config_key("bob", "bob-key", policy="*")
LIST = "import os; print(sorted(os.listdir('.')))"
# Holds on until it is ended.
WAIT = "\nimport time\nwhile True: time.sleep(0.01)"


def make_directory(where):
    where.mkdir(mode=0o700)
    if ROOT:
        os.chown(where, OWNER, OWNER)
    return where


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    where = tmp_path_factory.mktemp("kept")
    # With a limit that is not the policy's own for one file: jobs are forked from a template all the same.
    (where / "server.textproto").write_text("session_bytes: 50000000\n" + runtimes())
    with Server(where / "log", SANDBOX_EXECUTOR_CONFIG=str(where / "server.textproto"),
                SANDBOX_WORKSPACE=str(make_directory(where / "sessions"))) as started:
        started.directory = where / "sessions"
        yield started


@pytest.fixture
def directory(tmp_path):
    return make_directory(tmp_path / "sessions")


@pytest.fixture
def on_disk(serve, directory):
    """on_disk("more configuration") -> a server whose sessions lie in `directory`"""
    return lambda config="", **options: serve(config=f'{KEYS}session_directory: "{directory}"\n{config}', **options)


def kept(directory):
    """-> the directories of the sessions that there are"""
    return [path for path in directory.iterdir() if not path.name.startswith(".")]


def workspace(directory):
    only, = kept(directory)
    return only / "work"


def nothing_is_left(directory):
    return not kept(directory) and not list((directory / ".ended").iterdir())


def alice(server, code, **fields):
    reply = run(server, "alice-key", code, session_id="s", **fields)
    assert reply.status == 200, reply.body
    return reply.json


def test_it_outlives_the_server(on_disk, directory):
    first = on_disk()
    assert alice(first, "open('x', 'w').write('41'); import os; os.mkdir('d'); os.symlink('x', 'd/l')")["status"] == "success"
    before = rows(first, "alice-key")["s"]
    assert first.stop() == 0
    second = on_disk()
    wait_for(lambda: rows(second, "alice-key")["s"]["files"] == 3, "a look at the workspace")
    after = rows(second, "alice-key")["s"]
    assert after["created_at"] == before["created_at"] and after["jobs_running"] == 0
    assert abs(int(after["last_used_at"][17:19]) - int(before["last_used_at"][17:19])) in (0, 1, 59)
    assert second.metric("immure_sessions") == 1
    # Its key's and nobody else's, also now.
    reply = run(second, "bob-key", "1", session_id="s")
    assert reply.status == 403 and reply.json["field"] == "session_id"
    assert rows(second, "bob-key") == {} and end(second, "s", "bob-key").status == 403
    verdict = alice(second, "print(int(open('x').read()) + 1); open('x', 'a').close(); open('d/new', 'w').close()")
    assert verdict["stdout"] == "42\n" and names(verdict["output_files"]) == ["d/new"]


def test_any_name_outlives_the_server(on_disk):
    names_of = ["user@example.com", "slack/C01/17.2", "über", 'a"b\\c\'', "n" * 512]
    first = on_disk()
    for name in names_of:
        assert file(first, "PUT", name, "x", name.encode(), "bob-key").json == {"session": "new"}
    assert first.stop() == 0
    second = on_disk()
    assert set(rows(second, "bob-key")) == set(names_of)
    for name in names_of:
        assert file(second, "GET", name, "x", key="bob-key").body == name.encode()
        assert run(second, "bob-key", "print(open('x').read())", session_id=name).json["stdout"] == name + "\n"


def test_what_a_server_before_this_one_has_written(on_disk, directory):
    server = on_disk()
    alice(server, "open('x', 'w').write('41')")
    server.stop()
    stamp = kept(directory)[0] / "session"
    lines = dict(line.split(": ") for line in stamp.read_text().splitlines())
    used = stamp.stat().st_mtime
    stamp.write_text(f"session_id: \"s\"\nkey_sha256: {lines['key_sha256']}\ncreated_ms: {lines['created_ms']}\n")
    os.utime(stamp, (used, used))
    assert alice(on_disk(), "print(open('x').read())")["stdout"] == "41\n"


def test_one_without_files_leaves_nothing(on_disk, directory):
    server = on_disk()
    for number in range(5):
        assert run(server, "alice-key", "open('x', 'w'); import os; os.remove('x')", session_id=f"s{number}").json["session"] == "new"
    assert rows(server, "alice-key") == {} and kept(directory) == []
    assert file(server, "PUT", "s", "x", "1", "alice-key").status == 200 and len(kept(directory)) == 1
    assert file(server, "DELETE", "s", "x", key="alice-key").status == 204 and kept(directory) == []
    wait_for(lambda: nothing_is_left(directory), "nothing left")


def test_the_bound_of_their_bytes(on_disk):
    """Only where the operator says so; then it holds as in memory, as of the last look."""
    server = on_disk(f"max_session_bytes_total: {8 * MIB}\n")
    assert fill(server, "bob-key", "a", 7 * MIB).status == 200
    wait_for(lambda: rows(server, "bob-key")["a"]["bytes"] >= 7 * MIB, "a look at the workspace")
    reply = fill(server, "bob-key", "b")
    assert reply.status == 429 and "were within the last 300 s" in reply.json["error"], reply.body
    assert run(server, "bob-key", "1", session_id="a").status == 429  # nothing else would keep it from growing
    assert listing(server, "a", "bob-key") == {"x": 7 * MIB}
    assert file(server, "DELETE", "a", "x", key="bob-key").status == 204
    assert fill(server, "bob-key", "b").status == 200


def test_more_of_them_than_are_held_open(on_disk):
    """One that no job runs in costs no outer id, no mount and no descriptor."""
    server = on_disk(config_key("many", "many-key", policy="*"))
    descriptors = f"/proc/{server.process.pid}/fd"
    for number in range(300):
        assert run(server, "many-key", f"open('x', 'w').write('{number}')", session_id=f"s{number}").status == 200
    assert server.metric("immure_sessions") == 300
    if os.access(descriptors, os.R_OK):
        held = [os.readlink(f"{descriptors}/{fd}") for fd in os.listdir(descriptors) if os.path.lexists(f"{descriptors}/{fd}")]
        assert sum("/sessions/" in path for path in held) < 270
    for number in (0, 150, 299):
        reply = run(server, "many-key", "print(open('x').read())", session_id=f"s{number}", session="kept")
        assert reply.json["stdout"] == f"{number}\n", reply.body


def test_it_outlives_a_server_that_is_killed(on_disk, directory):
    first = on_disk()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(lambda: pytest.raises(OSError, alice, first, "open('up', 'w').close()" + WAIT, timeout=60))
        wait_for(lambda: kept(directory) and (workspace(directory) / "up").exists(), "a job in the session")
        first.process.kill()
        first.process.wait()
    assert alice(on_disk(), LIST)["stdout"] == "['up']\n"


def test_what_is_kept_of_it(on_disk, directory):
    server = on_disk()
    alice(server, "import os; open('x', 'w').close(); os.chmod('x', 0o4755); os.mkfifo('f')")
    only, = kept(directory)
    assert len(only.name) == 32 and "s" not in only.name and only.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in only.iterdir()) == ["session", "work"]
    text = (only / "session").read_text()
    assert 'session_id: "s"' in text and "alice-key" not in text and (only / "session").stat().st_mode & 0o777 == 0o600
    expected = (OWNER, OWNER) if ROOT else (os.geteuid(), os.getegid())
    for name in ("x", "f"):
        status = (only / "work" / name).lstat()
        assert (status.st_uid, status.st_gid) == expected, name
    inside = alice(server, "import os; st = os.stat('x'); print(st.st_uid == os.getuid(), st.st_gid == os.getgid())\n"
                           "flags = os.statvfs('.').f_flag; print(bool(flags & os.ST_NOSUID), bool(flags & os.ST_NODEV))")
    assert inside["stdout"] == "True True\nTrue True\n"
    alice(server, "pass", files=[{"name": "in", "content": "1"}])
    status = (only / "work" / "in").lstat()
    assert (status.st_uid, status.st_gid) == expected


def test_its_end_removes_everything(on_disk, directory):
    server = on_disk()
    # Deeper than any path can be, shut, full of what is no file, and linked to itself.
    code = """if True:
        import os, socket
        os.mkdir('shut'); open('shut/x', 'w').close(); os.link('shut/x', 'y'); os.chmod('shut', 0)
        os.mkfifo('fifo'); os.symlink('/', 'root'); socket.socket(socket.AF_UNIX).bind('socket'); os.mknod('node')
        for _ in range(3000):
            os.mkdir('d' * 100); os.chdir('d' * 100)
    """
    reply = run(server, "alice-key", code, session_id="s", policy="python")
    assert reply.status == 200, reply.body
    assert end(server, "s", "alice-key").status == 204
    assert kept(directory) == []
    wait_for(lambda: nothing_is_left(directory), "nothing left")
    assert alice(server, LIST)["stdout"] == "[]\n"


def test_a_tree_too_deep_ends_the_job(on_disk):
    server = on_disk()
    verdict = alice(server, "import os\nfor _ in range(200): os.mkdir('d'); os.chdir('d')" + WAIT, timeout=60)
    assert verdict["signal"] == "SIGXFSZ" and "128 deep" in verdict["error_message"], verdict


def test_the_next_server_removes_what_one_has_left(on_disk, directory):
    server = on_disk()
    alice(server, "open('x', 'w').close()")
    server.stop()
    left = directory / ".ended" / "moved-1"
    left.mkdir()
    (left / "file").write_text("x")
    broken = directory / ("0" * 32)
    broken.mkdir()
    (broken / "session").write_text('session_id: "../../etc" key_sha256: "00" created_ms: 1')
    foreign = directory / "mine"
    foreign.write_text("the operator's")
    server = on_disk()
    wait_for(lambda: not broken.exists() and not list((directory / ".ended").iterdir()), "nothing left")
    assert "event=session_broken" in server.log()
    assert foreign.read_text() == "the operator's"
    assert alice(server, LIST)["stdout"] == "['x']\n"


def test_its_time_passes_while_no_server_runs(on_disk, directory):
    server = on_disk("session_ttl_ms: 100000\n")
    alice(server, "open('x', 'w').close()")
    server.stop()
    stamp = kept(directory)[0] / "session"
    used = stamp.stat().st_mtime
    os.utime(stamp, (used - 50, used - 50))
    server = on_disk("session_ttl_ms: 100000\n")
    assert set(rows(server, "alice-key")) == {"s"}
    server.stop()
    os.utime(stamp, (used - 101, used - 101))
    server = on_disk("session_ttl_ms: 100000\n")
    assert rows(server, "alice-key") == {}
    wait_for(lambda: nothing_is_left(directory), "nothing left")


def test_it_expires(on_disk, directory):
    server = on_disk("session_ttl_ms: 1000\n")
    alice(server, "open('x', 'w').close()")
    wait_for(lambda: nothing_is_left(directory), "the session expired")
    assert rows(server, "alice-key") == {}


def test_too_many_bytes_end_its_jobs(on_disk):
    """Each file is within what one may have, all of them are not."""
    server = on_disk("session_bytes: 1048576\n")
    fill = "for n in range(8):\n    with open(f'f{n}', 'wb') as f: f.write(bytes(400_000))" + WAIT
    with concurrent.futures.ThreadPoolExecutor() as pool:
        other = pool.submit(alice, server, "open('up', 'w').close()" + WAIT, timeout=60)
        aside = pool.submit(run, server, "alice-key", "import os\nwhile not os.path.exists('stop'): pass", session_id="t", timeout=60)
        wait_for(lambda: len(rows(server, "alice-key")) == 2, "two jobs")
        for verdict in (alice(server, fill, timeout=60), other.result()):
            assert (verdict["status"], verdict["exit_code"], verdict["signal"]) == ("execution_error", 153, "SIGXFSZ"), verdict
            assert verdict["error_message"] == "The session's workspace holds more than 1048576 bytes."
        assert run(server, "alice-key", "open('stop', 'w').close()", session_id="t").json["status"] == "success"
        assert aside.result().json["status"] == "success"
    reply = run(server, "alice-key", LIST, session_id="s")
    assert reply.status == 413 and "1048576 bytes; delete the session" in reply.json["error"], reply.body
    assert end(server, "s", "alice-key").status == 204
    assert alice(server, LIST)["stdout"] == "[]\n"


def test_too_many_files_end_its_jobs(on_disk):
    server = on_disk("session_inodes: 100\n")
    verdict = alice(server, "for n in range(101): open(str(n), 'w').close()" + WAIT, timeout=60)
    assert verdict["signal"] == "SIGXFSZ" and "100 files" in verdict["error_message"], verdict


def test_what_a_job_leaves_too_much_of_is_found_after_it(on_disk):
    server = on_disk("session_inodes: 100\n")
    assert alice(server, "for n in range(101): open(str(n), 'w').close()")["status"] in ("success", "execution_error")
    wait_for(lambda: run(server, "alice-key", "1", session_id="s").status == 413, "the session is full")


def test_one_file_cannot_pass_the_limit_at_all(on_disk):
    server = on_disk("session_bytes: 1048576\n")
    code = "import os, time\nf = open('x', 'wb', 0)\ntry:\n    while True: f.write(bytes(65536))\nexcept OSError as e: print(e.errno, f.tell())"
    verdict = alice(server, code)
    assert verdict["stdout"] == "27 1048576\n" or verdict["signal"] == "SIGXFSZ", verdict


def test_input_files_must_fit(on_disk):
    server = on_disk("session_bytes: 65536\n")
    big = {"name": "big", "content": "x" * 65537}
    reply = run(server, "alice-key", "1", session_id="s", files=[big])
    assert reply.status == 413 and "do not fit" in reply.json["error"], reply.body
    assert rows(server, "alice-key") == {}  # nor was one made
    reply = run(server, "alice-key", "1", session_id="s", limits={"pids": 1 << 40})
    assert reply.status == 400 and rows(server, "alice-key") == {}


def test_a_disk_that_is_full(on_disk):
    server = on_disk(f"session_free_bytes: {1 << 50}\n")
    reply = run(server, "alice-key", "1", session_id="s")
    assert reply.status == 503 and "less than" in reply.json["error"], reply.body
    assert rows(server, "alice-key") == {} and run(server, "alice-key", "1").status == 200


def test_its_keepers_and_housekeepers_may_die(on_disk, directory):
    server = on_disk()
    alice(server, "open('x', 'w').close()")
    keeper, = keeper_of(server)
    os.kill(keeper, signal.SIGKILL)
    assert alice(server, LIST)["stdout"] == "['x']\n"  # with another one
    assert "event=sessions_lost" not in server.log()

    tidying = children_of(server, "immure-tidy")
    assert tidying
    for pid in tidying:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not set(tidying) & set(children_of(server, "immure-tidy")), "the end of the housekeeper")  # another may be there
    alice(server, "open('y', 'w').close()")
    wait_for(lambda: rows(server, "alice-key")["s"]["files"] == 2, "a look at the workspace")
    assert end(server, "s", "alice-key").status == 204
    wait_for(lambda: nothing_is_left(directory), "nothing left")


def refused(serve, directory, **environment):
    server = serve(ready=False, SANDBOX_WORKSPACE=str(directory), **environment)
    assert server.ended() != 0
    line, = (line for line in server.log().splitlines() if "session_directory" in line)
    return line


def test_one_server_at_a_time(on_disk, serve, directory):
    on_disk()
    assert "another server uses it" in refused(serve, directory)


def test_directories_that_will_not_do(serve, tmp_path):
    shared = make_directory(tmp_path / "shared")
    shared.chmod(0o750)
    assert "chmod 700" in refused(serve, shared)
    link = tmp_path / "link"
    link.symlink_to(make_directory(tmp_path / "real"))
    assert "session_directory" in refused(serve, link)
    assert "session_directory" in refused(serve, tmp_path / "none" / "sessions")
    if ROOT:
        own = tmp_path / "own"
        own.mkdir(mode=0o700)
        assert "chown" in refused(serve, own)
        os.chown(own, 1879048192 + 5, OWNER)
        assert "chown" in refused(serve, own)
    server = serve(ready=False, SANDBOX_WORKSPACE="relative")
    assert server.ended() != 0 and "SANDBOX_WORKSPACE" in server.log() and "absolute" in server.log()


@pytest.mark.skipif(not ROOT, reason="an ordinary user needs no id-mapped mounts")
def test_a_file_system_that_cannot_map_ids_stops_the_start(serve, tmp_path):
    if shutil.which("mount") is None:
        pytest.skip("no mount(8) here")
    where = Path(tempfile.mkdtemp(dir=tmp_path))
    # Overlays have no id-mapped mounts.
    layers = {name: str(tmp_path / name) for name in ("lower", "upper", "scratch")}
    for path in layers.values():
        os.mkdir(path)
    options = "lowerdir={lower},upperdir={upper},workdir={scratch}".format(**layers)
    made = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(where)], check=False, capture_output=True)
    if made.returncode != 0:
        pytest.skip("no overlays here")
    try:
        line = refused(serve, make_directory(where / "sessions"))
        assert "id-mapped mounts do not work" in line
    finally:
        subprocess.run(["umount", str(where)], check=True)


def test_a_reload_cannot_move_it(on_disk, directory, tmp_path):
    server = on_disk()
    config = Path(server.environment["SANDBOX_EXECUTOR_CONFIG"])
    config.write_text(config.read_text().replace(str(directory), str(make_directory(tmp_path / "other"))))
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=reload_refused" in server.log(), "the reload is refused")
    assert "session_directory cannot change" in server.log()
    assert call(server, "GET", "/readyz").status == 200


def test_a_kernel_is_looked_at_between_its_calls(on_disk, directory):
    """Nobody calls it, and its workspace grows all the same: over its limit it ends, and the session stays."""
    server = on_disk("session_bytes: 1048576\n")
    grow = ("import os, threading, time\ndef work():\n    while not os.path.exists('begin'): time.sleep(0.01)\n"
            "    time.sleep(0.3)  # until nobody is there\n    for n in range(4): open(f'f{n}', 'wb').write(bytes(1 << 19))\n"
            "    threading.Event().wait()\nbegun = True\nthreading.Thread(target=work, daemon=True).start()")
    assert alice(server, grow, policy="python-kernel")["kernel"] == "new"
    alice(server, "open('begin', 'w').close()")
    wait_for(lambda: server.metric("immure_kernels") == 0, "the end of the kernel")
    assert set(rows(server, "alice-key")) == {"s"}
    reply = run(server, "alice-key", "print(1)", session_id="s", policy="python-kernel")
    assert reply.status == 413, reply.body
    assert end(server, "s", "alice-key").status == 204
    assert alice(server, "print('begun' in globals())", policy="python-kernel")["stdout"] == "False\n"

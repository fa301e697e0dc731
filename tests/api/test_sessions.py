"""Sessions: a workspace that outlives its jobs, shared by them, and nobody else's."""

import base64
import calendar
import concurrent.futures
import json
import os
import re
import signal
import time
import urllib.parse
from pathlib import Path

import pytest
from harness import BUILD, WARM, call, children, config_key, shipped_policy, wait_for

WITHOUT_NODE = True


def run(server, key, code, **fields):
    return call(server, "POST", "/execute", {"code": code, **fields}, key)


def rows(server, key=None):
    reply = call(server, "GET", "/sessions", key=key)
    assert reply.status == 200, reply.body
    return {row["session_id"]: row for row in reply.json["sessions"]}


def end(server, session_id, key=None):
    return call(server, "DELETE", f"/workspace/{quoted(session_id)}", key=key)


def quoted(text):
    return urllib.parse.quote(text, safe="")


def file(server, method, session_id, path, body=None, key=None):
    headers = {**({"Content-Type": "text/anything"} if method == "PUT" else {}), **({"X-Service-API-Key": key} if key else {})}
    return server.request(method, f"/sessions/{quoted(session_id)}/files/{urllib.parse.quote(path)}", body, headers=headers)


def listing(server, session_id, key=None):
    reply = call(server, "GET", f"/sessions/{quoted(session_id)}/files", key=key)
    assert reply.status == 200, reply.body
    return {row["path"]: row["size"] for row in reply.json["files"]}


def names(output_files):
    return [file["name"] for file in output_files]


def test_files_stay_with_the_session(server):
    first = server.execute("open('a.txt', 'w').write('one')", session_id="stay")
    assert first["status"] == "success" and names(first["output_files"]) == ["a.txt"]
    assert server.execute("print(open('a.txt').read())", session_id="stay")["stdout"] == "one\n"
    look = "import os; print(os.listdir('.'))"
    assert server.execute(look, session_id="stay-2")["stdout"] == "[]\n"
    assert server.execute(look)["stdout"] == "[]\n"
    assert server.execute(look, session_id="stay")["stdout"] == "['a.txt']\n"


def test_only_the_workspace_is_shared(server):
    write = "for name in ('/workspace/x', '/tmp/x', '/dev/shm/x'): open(name, 'w').close()"
    look = "import os; print([os.listdir(name) for name in ('/workspace', '/tmp', '/dev/shm')])"
    assert server.execute(write, session_id="shared")["status"] == "success"
    assert server.execute(look, session_id="shared")["stdout"] == "[['x'], [], []]\n"


def test_only_what_changed_is_an_output_file(server):
    def outputs(code, **fields):
        verdict = server.execute(code, session_id="outputs", **fields)
        assert verdict["status"] == "success", verdict
        return names(verdict["output_files"]), names(verdict["files"])

    assert outputs("import os; os.mkdir('d')\nfor name in ('a', 'b', 'd/c'): open(name, 'w').write(name)") == (["a", "b", "d/c"], [])
    assert outputs("pass") == ([], [])
    assert outputs("open('b', 'a').write('more')") == (["b"], [])
    assert outputs("import os; os.rename('a', 'e'); open('f', 'w').close()") == (["e", "f"], [])
    assert outputs("pass", outputs=["b", "d/*"]) == ([], ["b", "c"])  # asked for, though not new
    assert outputs("pass", files=[{"name": "in", "content": "1"}]) == ([], [])
    assert outputs("open('in', 'w').write('2')", files=[{"name": "in", "content": "1"}]) == (["in"], [])


def test_input_files_replace_what_is_there(server):
    def put(code, *files):
        return call(server, "POST", "/execute", {"code": code, "session_id": "inputs", "files": [
            {"name": name, "data": base64.b64encode(text.encode()).decode()} for name, text in files]})

    look = "import os\nprint({name: open(name).read() for name in ('a', 'd/b')}, os.path.islink('a'))"
    assert put(look, ("a", "1"), ("d/b", "2")).json["stdout"] == "{'a': '1', 'd/b': '2'} False\n"
    assert put(look, ("a", "3")).json["stdout"] == "{'a': '3', 'd/b': '2'} False\n"
    assert put("import os; os.remove('a'); os.symlink('d/b', 'a'); os.chmod('d/b', 0)").json["status"] == "success"
    assert put(look, ("a", "4"), ("d/b", "5")).json["stdout"] == "{'a': '4', 'd/b': '5'} False\n"
    for name in ("d", "a/below"):  # a file and a directory of one name
        reply = put("pass", (name, "x"))
        assert reply.status == 400 and reply.json["field"] == "files" and reply.json["error"].startswith(f"files: {name}: "), reply.body
    assert put("import os; os.symlink('/tmp', 'link')").json["status"] == "success"
    reply = put("pass", ("link/x", "x"))
    assert reply.status == 400 and "link" in reply.json["error"]
    assert put(look).json["stdout"] == "{'a': '4', 'd/b': '5'} False\n"


def test_modes_and_owners_do_not_get_in_the_way(server):
    assert server.execute("import os\nos.mkdir('shut'); open('shut/x', 'w').close(); os.chmod('shut', 0)\n"
                          "open('mine', 'w').close(); os.chmod('mine', 0o600)", session_id="modes")["status"] == "success"
    verdict = server.execute("import os\nst = os.stat('mine'); print(st.st_uid == os.getuid(), st.st_gid == os.getgid())\n"
                             "os.chmod('shut', 0o700); os.remove('shut/x'); open('mine', 'w').write('again')", session_id="modes")
    assert verdict["stdout"] == "True True\n" and verdict["status"] == "success"


def test_a_job_cannot_lock_the_workspace_for_those_after_it(server):
    assert server.execute("import os; os.chmod('/workspace', 0)", session_id="locked")["status"] == "success"
    verdict = server.execute("print(open('in').read())", session_id="locked", files=[{"name": "in", "content": "x"}])
    assert verdict["stdout"] == "x\n"


def test_jobs_of_one_session_run_at_once(server):
    meet = """if True:
        import os, sys, time
        mine, other = sys.argv[1:]
        open('/tmp/' + mine, 'w').close()
        os.mkdir(mine)
        while not os.path.exists(other): time.sleep(0.005)
        open(other + '/from-' + mine, 'w').close()
        while not os.path.exists(f'{mine}/from-{other}'): time.sleep(0.005)
        print(os.listdir('/tmp'), os.getpid() < 10)
    """
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pairs = [("left", "right"), ("right", "left")]
        jobs = [pool.submit(server.execute, meet, session_id="meet", args=list(pair), timeout=60) for pair in pairs]
        for (mine, _), job in zip(pairs, jobs):
            assert job.result()["stdout"] == f"['{mine}'] True\n", job.result()
    assert rows(server)["meet"]["jobs_running"] == 0


def test_processes_of_two_jobs_do_not_see_each_other(server, wire):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        long = pool.submit(server.execute, "import time, os\nopen('up', 'w').close()\nwhile not os.path.exists('done'): time.sleep(0.005)",
                           session_id="processes", timeout=60)
        look = """if True:
            import os, time
            while not os.path.exists('up'): time.sleep(0.005)
            seen = 0
            for pid in range(2, 300):
                if pid == os.getpid(): continue
                try: os.kill(pid, 0); seen += 1
                except ProcessLookupError: pass
            print(seen)
            open('done', 'w').close()
        """
        assert server.execute(look, session_id="processes", timeout=60)["stdout"] == "0\n"
        assert long.result()["status"] == "success"


@pytest.mark.host_only
def test_names(server):
    for name in ("a", "_", ".", "..", "user@example.com", "thread:42", "slack/C01/17.2", "auth0|abc", "über", "a b", "%2f", '"\\', "s" * 512):
        assert server.execute("open('x', 'w').write('1')", session_id=name)["session"] == "new", name
        assert server.execute("print(open('x').read())", session_id=name)["stdout"] == "1\n", name
        assert name in rows(server) and listing(server, name) == {"x": 1}
        assert end(server, name).status == 204
    for name in ("s" * 513, "ü" * 257, "a\n", "\x7f", "\u0085"):
        reply = call(server, "POST", "/execute", {"code": "1", "session_id": name})
        assert reply.status == 400 and reply.json["field"] == "session_id", name
        reply = end(server, name)
        assert reply.status == 400 and reply.json["field"] == "session_id", name
    for path in ("%ff", "a%0", "a%00b"):
        reply = call(server, "DELETE", f"/workspace/{path}")
        assert reply.status == 400 and reply.json["field"] == "session_id", path


@pytest.mark.parametrize("name", ["", None])
@pytest.mark.host_only
def test_an_empty_name_is_none(server, name):
    before = set(rows(server))
    verdict = server.execute("open('x', 'w').close()", session_id=name)
    assert verdict["status"] == "success" and "session" not in verdict and set(rows(server)) == before


def test_delete(server):
    assert server.execute("open('x', 'w').close()", session_id="gone")["status"] == "success"
    reply = end(server, "gone")
    assert (reply.status, reply.body) == (204, b"")
    assert "gone" not in rows(server)
    assert end(server, "gone").status == 204  # unknown by now
    assert end(server, "never-was").status == 204
    assert server.execute("import os; print(os.listdir('.'))", session_id="gone")["stdout"] == "[]\n"
    assert call(server, "GET", "/workspace/gone").status == 405
    assert call(server, "GET", "/workspace/gone").headers["Allow"] == "DELETE"
    for path in ("/workspace", "/workspace/", "/workspace/a/b", "/sessions/", "/sessions/a", "/sessions/a/b/files/c"):
        assert call(server, "DELETE", path).status == 404, path


def test_delete_cancels_running_jobs(server):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        long = pool.submit(server.execute, "import time; time.sleep(50)", session_id="ended", timeout=50)
        wait_for(lambda: rows(server).get("ended", {}).get("jobs_running") == 1, "a job in the session")
        assert end(server, "ended").status == 204
        assert long.result()["status"] == "cancelled"
    assert "ended" not in rows(server)
    assert server.execute("import os; print(os.listdir('.'))", session_id="ended")["stdout"] == "[]\n"


def test_list(server):
    before = set(rows(server))
    began = time.time()
    server.execute("open('x', 'wb').write(bytes(100_000)); import os; os.mkdir('d')", session_id="listed")
    row = rows(server)["listed"]
    assert set(rows(server)) - before == {"listed"}
    assert set(row) == {"session_id", "created_at", "last_used_at", "expires_at", "jobs_running", "bytes", "files"}
    assert row["files"] == 2 and 100_000 <= row["bytes"] <= 120_000 and row["jobs_running"] == 0

    def seconds(text):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
        return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + int(text[20:23]) / 1000

    created, used, expires = (seconds(row[name]) for name in ("created_at", "last_used_at", "expires_at"))
    assert began - 1 <= created <= used <= time.time() + 1
    assert abs(expires - used - 3600) < 1
    head = call(server, "HEAD", "/sessions")
    assert head.status == 200 and head.body == b""
    assert call(server, "POST", "/sessions", {}).status == 405


def test_what_needs_a_key(server):
    for method, path in (("GET", "/sessions"), ("DELETE", "/workspace/a")):
        assert call(server, method, path, key="wrong").status == 401


@pytest.fixture
def keyed(serve):
    return serve(config=config_key("alice", "alice-key", policy="*", max_sessions=2) +
                 config_key("bob", "bob-key", policy="*", max_sessions=0) + "max_sessions: 4\n")


@pytest.mark.host_only
def test_a_session_is_one_keys_own(keyed):
    assert run(keyed, "alice-key", "open('secret', 'w').write('hers')", session_id="s").status == 200
    reply = run(keyed, "bob-key", "print(open('secret').read())", session_id="s")
    assert reply.status == 403 and reply.json["field"] == "session_id" and reply.json["code"] == "forbidden"
    assert rows(keyed, "bob-key") == {} and set(rows(keyed, "alice-key")) == {"s"}
    assert end(keyed, "s", "bob-key").status == 403
    assert call(keyed, "GET", "/sessions/s/files", key="bob-key").status == 404
    for method in ("GET", "PUT", "DELETE"):
        reply = file(keyed, method, "s", "secret", "x" if method == "PUT" else None, "bob-key")
        assert reply.status == 404 and reply.json["error"] == "no such session", (method, reply.body)
    assert run(keyed, "alice-key", "print(open('secret').read())", session_id="s").json["stdout"] == "hers\n"
    assert end(keyed, "s", "alice-key").status == 204
    assert run(keyed, "bob-key", "import os; print(os.listdir('.')); open('x', 'w')", session_id="s").json["stdout"] == "[]\n"
    assert run(keyed, "alice-key", "1", session_id="s").status == 403


FILL = "open('x', 'wb').write(bytes(int(__import__('sys').argv[1])))"


def fill(server, key, name, size=1):
    return run(server, key, FILL, session_id=name, args=[str(size)])


@pytest.mark.host_only
def test_limits_of_their_number(keyed):
    for name in ("a", "b"):
        assert fill(keyed, "alice-key", name).status == 200
    reply = fill(keyed, "alice-key", "c")
    assert reply.status == 429 and reply.json["code"] == "rate_limited", reply.body
    assert reply.json["error"] == ("this key has 2 sessions, and may have 2: all of them are in use, or were within the last 300 s; "
                                   "delete one, or wait")
    assert 200 <= int(reply.headers["Retry-After"]) <= 300
    for name in ("d", "e"):
        assert fill(keyed, "bob-key", name).status == 200
    reply = fill(keyed, "bob-key", "f")  # the server's own bound
    assert reply.status == 429 and "may have 2:" in reply.json["error"], reply.body
    assert run(keyed, "alice-key", "1", session_id="a").status == 200  # one that there is can be used
    assert run(keyed, "bob-key", "1").status == 200
    assert end(keyed, "a", "alice-key").status == 204
    assert fill(keyed, "alice-key", "c").status == 200
    assert keyed.metric("immure_sessions") == 4


def test_one_without_files_goes_with_its_last_job(serve):
    """A name for each conversation, of which most write nothing, is nothing that a server runs out of."""
    server = serve(config="max_sessions: 2\n")
    for number in range(40):
        assert server.execute("print(1)", session_id=f"talk-{number}")["session"] == "new"
    assert rows(server) == {} and server.metric("immure_sessions") == 0
    server.execute("import os; os.mkdir('d')", session_id="directory")
    server.execute("open('x', 'w').close()", session_id="file")
    assert set(rows(server)) == {"directory", "file"}
    server.execute("open('x', 'w').write('x' * 1000000)", session_id="file")
    wait_for(lambda: 1000000 <= server.metric("immure_session_bytes") < server.metric("immure_session_bytes_max"), "what it holds")
    assert server.execute("import os; os.rmdir('d')", session_id="directory")["session"] == "kept"
    assert file(server, "DELETE", "file", "x").status == 204
    assert rows(server) == {}


def test_one_with_a_kernel_stays(server):
    assert server.execute("x = 41", session_id="kernel-only", policy="python-kernel")["session"] == "new"
    assert rows(server)["kernel-only"]["files"] == 0
    verdict = server.execute("print(x + 1)", session_id="kernel-only", policy="python-kernel")
    assert (verdict["stdout"], verdict["session"], verdict["kernel"]) == ("42\n", "kept", "kept")
    server.execute("import os; os._exit(0)", session_id="kernel-only", policy="python-kernel")
    wait_for(lambda: "kernel-only" not in rows(server), "the end of the session")


def test_whether_it_was_there_is_told(server):
    assert "session" not in server.execute("1")
    assert server.execute("open('x', 'w').close()", session_id="told")["session"] == "new"
    assert server.execute("1", session_id="told")["session"] == "kept"
    reply = call(server, "POST", "/execute", {"code": "1", "session_id": "told", "session": "kept"})
    assert reply.status == 200 and reply.json["session"] == "kept"
    assert end(server, "told").status == 204
    reply = call(server, "POST", "/execute", {"code": "open('/workspace/ran', 'w')", "session_id": "told", "session": "kept"})
    assert reply.status == 409 and reply.json["code"] == "conflict" and reply.json["error"].startswith("session: "), reply.body
    assert "told" not in rows(server)


def test_what_a_proxy_routes_by_names_the_session(server):
    def asked(routed, method="POST", path="/execute", body=None):
        return server.request(method, path, json.dumps(body) if body else None, headers={"X-Immure-Session": routed})

    tool = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "execute_code", "arguments": {"language": "python", "code": "open('ran', 'w')", "session_id": "routed"}}}
    writes = {"code": "open('ran', 'w')", "session_id": "routed"}
    refused = [asked("other", body=writes), asked("routed ", body={"code": "1"}), asked("", body={"code": "1"}), asked("Routed", body=writes),
               asked("routed, routed", body=writes), asked("other", "GET", "/sessions/routed/files"), asked("other", "DELETE", "/workspace/routed"),
               asked("other", "PUT", "/sessions/routed/files/n", "x")]
    for reply in refused:
        assert (reply.status, reply.json["code"], reply.json["field"]) == (400, "invalid_field", "X-Immure-Session"), reply.body
        assert reply.json["error"] == "X-Immure-Session: must be sent once, and equal `session_id`"
    assert "X-Immure-Session" in asked("other", path="/mcp", body=tool).body.decode()
    twice = server.request("POST", "/execute", json.dumps(writes), headers={"X-Immure-Session": "routed", "x-immure-session": "routed"})
    assert (twice.status, twice.json["field"]) == (400, "X-Immure-Session")
    assert "routed" not in rows(server)

    assert asked("routed", body=writes).json["session"] == "new"
    assert asked("routed", "GET", "/sessions/routed/files").json["files"][0]["path"] == "ran"
    assert asked("routed", "GET", "/healthz").status == 200
    assert asked("routed", "DELETE", "/workspace/routed").status == 204


@pytest.mark.host_only
def test_more_than_512_of_them(serve):
    server = serve(config=config_key("many", "many-key", policy="*"))
    names = [f"{number:04}-" + "n" * 400 for number in range(600)]
    for name in names:
        reply = file(server, "PUT", name, "x", "1", "many-key")
        assert reply.status == 200 and reply.json == {"session": "new"}, reply.body
    assert set(rows(server, "many-key")) == set(names) and server.metric("immure_sessions") == 600
    for name in (names[0], names[-1]):
        assert run(server, "many-key", "print(open('x').read())", session_id=name).json["stdout"] == "1\n"


MIB = 1 << 20


def test_bytes_in_use_are_the_bound(serve):
    """At the bound the key's own one goes that it has not used for longest, and no other."""
    server = serve(config=config_key("alice", "alice-key", policy="*") + config_key("bob", "bob-key", policy="*") +
                   f"max_session_bytes_total: {16 * MIB} session_evict_after_ms: 0\n")
    assert fill(server, "bob-key", "his", MIB).status == 200
    for name in ("a", "b", "c"):
        assert fill(server, "alice-key", name, 3 * MIB).status == 200
    assert run(server, "alice-key", "1", session_id="a").json["session"] == "kept"  # used last
    # A sixth is kept for each of the three keys that there are.
    assert fill(server, "alice-key", "d", 4 * MIB).json["session"] == "new"
    assert fill(server, "alice-key", "e", MIB).json["session"] == "new"
    assert set(rows(server, "alice-key")) == {"a", "c", "d", "e"} and set(rows(server, "bob-key")) == {"his"}
    assert "event=session_evicted session_id=b " in server.log()
    assert server.log().count("event=session_evicted") == 1
    assert run(server, "alice-key", "1", session_id="b", session="kept").status == 409
    # Whatever that one has, the share of this one is there.
    assert fill(server, "bob-key", "more", 2 * MIB).status == 200
    assert set(rows(server, "bob-key")) == {"his", "more"}


@pytest.mark.host_only
def test_none_goes_that_was_used_just_now(serve):
    # A quarter is kept for the server's other key.
    server = serve(config=config_key("alice", "alice-key", policy="*") + f"max_session_bytes_total: {8 * MIB}\n")
    assert fill(server, "alice-key", "a", 5 * MIB).status == 200
    assert fill(server, "alice-key", "b", 2 * MIB).status == 200  # there was room when it began
    for reply in (fill(server, "alice-key", "c"), file(server, "PUT", "c", "x", "1", "alice-key")):
        assert reply.status == 429 and reply.json["code"] == "rate_limited", reply.body
        assert re.fullmatch(r"the sessions of this key hold \d+ bytes, and may hold 6291456: all of them are in use, or were within "
                            r"the last 300 s; delete one, or wait", reply.json["error"])
        assert 200 <= int(reply.headers["Retry-After"]) <= 300
    assert set(rows(server, "alice-key")) == {"a", "b"}
    # What it has stays within reach; there is no room for more.
    grow = "import os\nprint(os.path.getsize('x'))\ntry: open('y', 'wb').write(bytes(1 << 20))\nexcept OSError as e: print(e.errno)\nos.remove('y')"
    assert run(server, "alice-key", grow, session_id="b").json["stdout"] == f"{2 * MIB}\n28\n"
    assert end(server, "a", "alice-key").status == 204
    assert run(server, "alice-key", "open('y', 'wb').write(bytes(1 << 20)); print(1)", session_id="b").json["stdout"] == "1\n"
    assert fill(server, "alice-key", "c").status == 200


def test_files_without_a_job(server):
    reply = file(server, "PUT", "put", "d/in.bin", bytes(range(256)))
    assert reply.status == 200 and reply.json == {"session": "new"}
    verdict = server.execute("data = open('d/in.bin', 'rb').read(); print(data == bytes(range(256)))\nopen('out', 'wb').write(data * 2)\n"
                             "import os; st = os.stat('d/in.bin'); print(st.st_uid == os.getuid()); open('d/in.bin', 'a').write('more')",
                             session_id="put")
    assert (verdict["stdout"], verdict["session"]) == ("True\nTrue\n", "kept")
    assert listing(server, "put") == {"d/in.bin": 260, "out": 512}
    reply = call(server, "GET", "/sessions/put/files")
    assert not reply.json["truncated"] and all(set(row) == {"path", "size", "modified_at"} for row in reply.json["files"])
    reply = file(server, "GET", "put", "out")
    assert reply.status == 200 and reply.body == bytes(range(256)) * 2 and reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["X-Content-Type-Options"] == "nosniff" and reply.headers["Cache-Control"] == "no-store" and reply.headers["X-Request-Id"]
    assert file(server, "HEAD", "put", "out").headers["Content-Length"] == "512"
    assert file(server, "PUT", "put", "d/in.bin", b"").json == {"session": "kept"}
    assert listing(server, "put") == {"d/in.bin": 0, "out": 512}
    reply = file(server, "GET", "put", "d/in.bin")
    assert reply.status == 200 and reply.body == b""
    assert file(server, "PUT", "put", "a b/ü%", "x").status == 200
    assert file(server, "GET", "put", "a b/ü%").body == b"x"
    assert server.execute("print(open('a b/ü%').read())", session_id="put")["output_files"] == []
    for path in ("d/in.bin", "a b/ü%"):
        assert file(server, "DELETE", "put", path).status == 204
    assert listing(server, "put") == {"out": 512}


def test_files_that_will_not_do(server):
    def put_file(path, body="x"):
        return file(server, "PUT", "refused-files", path, body)

    assert put_file("f").status == 200 and put_file("d/g").status == 200
    for path in ("/f", "d//g", "../f", "d/./g", "n" * 256, "a\0b"):
        for method in ("GET", "PUT", "DELETE"):
            reply = file(server, method, "refused-files", path, "x" if method == "PUT" else None)
            assert reply.status == 400 and reply.json["field"] == "path", (method, path, reply.body)
    for path in ("none", "d/none", "d", "f/below"):
        reply = file(server, "GET", "refused-files", path)
        assert reply.status == 404 and reply.json["error"] == "no such file", (path, reply.body)
    for path in ("none", "f/below"):
        assert file(server, "DELETE", "refused-files", path).status == 404
    for method, path in (("PUT", "d"), ("PUT", "f/below"), ("DELETE", "d")):
        reply = file(server, method, "refused-files", path, "x" if method == "PUT" else None)
        assert reply.status == 409 and reply.json["code"] == "conflict", (method, path, reply.body)
    assert listing(server, "refused-files") == {"d/g": 1, "f": 1}
    for method in ("GET", "DELETE"):
        assert file(server, method, "no-such-session", "f").status == 404
    assert call(server, "GET", "/sessions/no-such-session/files").status == 404
    assert "no-such-session" not in rows(server)
    assert file(server, "PUT", "no-such-session", "../f", "x").status == 400 and "no-such-session" not in rows(server)
    assert call(server, "POST", "/sessions/a/files/f", {}).status == 405


def test_links_are_no_way_to_files(server):
    code = ("import os\nos.mkdir('d'); open('d/f', 'w').write('f')\nos.symlink('d/f', 'link'); os.symlink('d', 'to-d'); os.symlink('/etc', 'etc')\n"
            "os.mkfifo('fifo'); os.symlink('/etc/passwd', 'passwd')")
    assert server.execute(code, session_id="file-links")["status"] == "success"
    assert listing(server, "file-links") == {"d/f": 1}
    for path in ("link", "to-d/f", "etc/passwd", "passwd", "fifo"):
        assert file(server, "GET", "file-links", path).status == 404, path
    for path in ("to-d/f", "etc/passwd"):
        assert file(server, "DELETE", "file-links", path).status == 404, path
        assert file(server, "PUT", "file-links", path, "x").status == 409, path
    assert file(server, "PUT", "file-links", "passwd", "mine").status == 200  # in the link's place
    assert file(server, "DELETE", "file-links", "link").status == 204
    assert listing(server, "file-links") == {"d/f": 1, "passwd": 4}
    assert server.execute("print(open('passwd').read())", session_id="file-links")["stdout"] == "mine\n"


def test_files_that_are_too_large(serve):
    server = serve(config="session_bytes: 1048576\n")
    assert file(server, "PUT", "s", "f", b"1" * 300_000).status == 200
    reply = file(server, "PUT", "s", "f", b"2" * 1_000_000)  # beside the old one
    assert reply.status == 413 and "1048576 bytes" in reply.json["error"], reply.body
    assert file(server, "GET", "s", "f").body == b"1" * 300_000
    assert file(server, "PUT", "another", "f", b"2" * 2_000_000).status == 413
    assert set(rows(server)) == {"s"}
    server = serve(config="session_bytes: 33554432\n")
    server.execute("open('big', 'wb').truncate(10485761); open('most', 'wb').truncate(10485760)", session_id="s")
    reply = file(server, "GET", "s", "big")
    assert reply.status == 413 and "10485761 bytes" in reply.json["error"], reply.body
    assert len(file(server, "GET", "s", "most").body) == 10485760


def test_a_job_that_is_refused_makes_no_session(server):
    for fields in ({"limits": {"memory_bytes": 1 << 50}}, {"env": {"LD_PRELOAD": "x"}}):
        assert call(server, "POST", "/execute", {"code": "1", "session_id": "refused", **fields}).status == 400
    assert "refused" not in rows(server)
    server.execute("open('x', 'w').close()", session_id="refused")
    assert call(server, "POST", "/execute", {"code": "1", "session_id": "refused", "limits": {"pids": 1 << 40}}).status == 400
    assert rows(server)["refused"]["files"] == 1  # nor ends one


def test_its_own_limits(serve):
    server = serve(config="session_bytes: 1048576 session_inodes: 20\n")
    fill = "f = open('big', 'ab')\ntry:\n    while True: f.write(bytes(4096)); f.flush()\nexcept OSError as e: print(e.errno)"
    assert server.execute(fill, session_id="full")["stdout"] == "28\n"
    assert rows(server)["full"]["bytes"] <= 1 << 20
    assert server.execute("open('/tmp/x', 'wb').write(bytes(8 << 20)); print(1)", session_id="full")["stdout"] == "1\n"
    reply = call(server, "POST", "/execute", {"code": "1", "session_id": "full", "files": [{"name": "in", "content": "x"}]})
    assert reply.status == 413, reply.body
    many = "import os\nn = 0\ntry:\n    while True: open(f'f{n}', 'w').close(); n += 1\nexcept OSError as e: print(n, e.errno)"
    assert server.execute(many, session_id="many")["stdout"] == "20 28\n"
    assert server.execute("import os; print(len(os.listdir('.')))", session_id="many")["stdout"] == "20\n"


def test_time_to_live(serve):
    server = serve(SANDBOX_SESSION_TTL="2s")
    started = time.monotonic()
    assert server.execute("open('x', 'w').close()", session_id="short")["status"] == "success"
    seen = server.execute("print(__import__('os').listdir('.'))", session_id="short")["stdout"]
    assert seen == "['x']\n" or time.monotonic() - started >= 2  # a machine that is so busy lets it expire
    wait_for(lambda: server.metric("immure_sessions") == 0, "the session expired")
    assert time.monotonic() - started >= 2
    assert rows(server) == {}
    assert server.execute("import os; print(os.listdir('.'))", session_id="short")["stdout"] == "[]\n"


def test_it_does_not_expire_while_a_job_runs(serve):
    server = serve(SANDBOX_SESSION_TTL="1s")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        busy = pool.submit(server.execute, "import os, time\nopen('x', 'w').close()\nwhile not os.path.exists('done'): time.sleep(0.005)",
                           session_id="busy", timeout=60)
        wait_for(lambda: rows(server).get("busy", {}).get("files") == 1, "a job in the session")
        time.sleep(2.5)  # what passes here is the time that it would have
        assert server.execute("import os; print(os.listdir('.')); open('done', 'w').close()", session_id="busy")["stdout"] == "['x']\n"
        assert busy.result()["status"] == "success"


@pytest.mark.host_only
def test_a_ttl_that_is_no_time_stops_the_start(serve):
    server = serve(ready=False, SANDBOX_SESSION_TTL="1 hour")
    assert server.ended() != 0
    assert 'SANDBOX_SESSION_TTL: "1 hour" is not a time such as 90s, 30m or 1h' in server.log()


def test_links_out_of_the_workspace_yield_nothing(server):
    code = "import os\nos.symlink('/etc/passwd', 'passwd'); os.symlink('/', 'root'); os.mkfifo('fifo'); os.mkdir('dir')"
    assert server.execute(code, session_id="links")["output_files"] == []
    verdict = server.execute("1", session_id="links", outputs=["*", "root/etc/passwd", "passwd", "fifo"])
    assert verdict["files"] == [] and verdict["output_files"] == []


def test_a_file_that_changes_while_it_is_returned(server):
    """One job turns a file into everything it can be, as fast as it can; the others ask for it."""
    churn = """if True:
        import os, time
        end = time.monotonic() + 20
        open('up', 'w').close()
        while time.monotonic() < end and not os.path.exists('stop'):
            open('new', 'w').write('x' * 1000); os.rename('new', 'f')
            os.truncate('f', 32 << 20)
            try: os.symlink('/etc/passwd', 'new')
            except FileExistsError: pass
            os.rename('new', 'f')
            os.mkfifo('new'); os.rename('new', 'f')
    """
    with concurrent.futures.ThreadPoolExecutor() as pool:
        churning = pool.submit(server.execute, churn, session_id="churn", timeout=60)
        for _ in range(15):
            verdict = server.execute("import os, time\nwhile not os.path.exists('up'): time.sleep(0.005)", session_id="churn",
                                     outputs=["f"])
            assert verdict["status"] == "success", verdict["stderr"]
            for file in verdict["files"]:
                data = base64.b64decode(file.get("data", ""))
                assert data in (b"", b"x" * 1000) or (set(data) <= {0, ord("x")} and len(data) <= 10 << 20), data[:100]
        server.execute("open('stop', 'w').close()", session_id="churn")
        assert churning.result()["status"] == "success"


def test_a_policy_without_a_workspace_has_no_sessions(serve, tmp_path):
    policies = tmp_path / "policies"
    policies.mkdir()
    shipped = shipped_policy("strict")
    bare = re.sub(r'name: "strict"', 'name: "bare"', shipped, count=1)
    bare = re.sub(r'mount \{ destination: "/workspace" .*\n', "", bare)
    bare = bare.replace('working_directory: "/workspace"', 'working_directory: "/tmp"')
    (policies / "bare.textproto").write_text(bare)
    server = serve(config=f'policy_path: "{policies}"\n')
    reply = call(server, "POST", "/execute", {"code": "print(1)", "policy": "bare", "session_id": "s"})
    assert reply.status == 400 and reply.json["field"] == "session_id", reply.body
    assert call(server, "POST", "/execute", {"code": "print(1)", "policy": "bare"}).json["stdout"] == "1\n"
    assert rows(server) == {}


def test_one_session_under_two_policies(server):
    assert server.execute("open('x', 'w').write('1')", session_id="two")["status"] == "success"
    assert server.execute("print(open('x').read())", session_id="two", policy="strict")["stdout"] == "1\n"


@pytest.mark.skipif(WARM == "off" or not (BUILD / "immure-python.so").exists(), reason="no warm interpreter here")
def test_its_jobs_are_forked_from_the_template(server):
    who = "import os; print(open('/proc/self/cmdline').read().split(chr(0))[2])"
    wait_for(lambda: server.execute(who, session_id="warm")["stdout"] == "/proc/self/fd/9\n", "a job from the template")
    write = "import os; open('x', 'w').write(str(os.stat('.').st_uid == os.getuid() and os.stat('.').st_gid == os.getgid()))"
    assert server.execute(write, session_id="warm", files=[{"name": "in", "content": "1"}])["output_files"] == [
        {"name": "x", "size": 4, "truncated": False}]
    cold = server.execute("print(open('x').read())", session_id="warm", policy="strict")  # no template
    assert cold["stdout"] == "True\n"
    assert server.execute("print(open('x').read())", session_id="warm")["stdout"] == "True\n"


@pytest.mark.host_only
def test_the_audit_trail_names_it(serve):
    server = serve()
    server.execute("1", session_id="audited")
    assert any("event=audit" in line and " session_id=audited " in line for line in server.log().splitlines())


def test_a_front_that_dies_leaves_the_sessions(serve):
    server = serve()
    server.execute("open('x', 'w').close()", session_id="s")
    front = int(re.findall(r"event=front_serving pid=(\d+)", server.log())[-1])
    os.kill(front, signal.SIGKILL)
    wait_for(lambda: server.log().count("event=front_serving") == 2, "another front")
    wait_for(server.ready, "ready again")
    assert server.execute("import os; print(os.listdir('.'))", session_id="s")["stdout"] == "['x']\n"
    assert server.metric("immure_sessions") == 1


def test_a_reload_leaves_the_sessions(serve):
    server = serve()
    server.execute("open('x', 'w').close()", session_id="s")
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    wait_for(server.ready, "ready again")
    assert server.execute("import os; print(os.listdir('.'))", session_id="s")["stdout"] == "['x']\n"


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None  # a jail that has ended meanwhile


def children_of(server, name):
    return [pid for pid in children(server.process.pid) if name_of(pid) == name]


def keeper_of(server):
    return children_of(server, "immure-keeper")


def test_a_keeper_that_dies_takes_the_sessions_along(serve):
    server = serve()
    assert keeper_of(server) == []  # no session, no keeper
    for name in ("s", "ended"):
        server.execute("open('x', 'w').close()", session_id=name)
    keeper, = keeper_of(server)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: server.metric("immure_sessions") == 0, "the end of the sessions")
    assert rows(server) == {} and "event=sessions_lost sessions=2 " in server.log()
    assert call(server, "DELETE", "/workspace/ended").status == 204 and server.metric("immure_sessions") == 0
    assert server.execute("import os; print(os.listdir('.')); open('x', 'w')", session_id="new")["stdout"] == "[]\n"
    reply = call(server, "POST", "/execute", {"code": "1", "session_id": "s"})
    assert reply.status == 500 and reply.json["code"] == "setup_error", reply.body
    assert "the keeper of workspaces is gone, and what this session had with it" in reply.body.decode()
    assert list(rows(server)) == ["new"]
    assert server.execute("import os; print(os.listdir('.'))", session_id="s")["stdout"] == "[]\n"
    assert keeper_of(server) != [keeper] and len(keeper_of(server)) == 1


@pytest.mark.parametrize("policy", ["python", "python-kernel"])
def test_a_job_keeps_what_it_has_when_the_keeper_dies(serve, hold, policy):
    server = serve(config_key("k", "its-key", policy="*"), **hold.environment)
    body = {"code": "call_tool('hold'); open('y', 'w').write('kept')", "session_id": "s", "outputs": ["y"], "policy": policy,
            **hold.fields}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(call, server, "POST", "/execute", body, "its-key")
        wait_for(lambda: hold.requests, "the program's start")
        keeper, = keeper_of(server)
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: server.metric("immure_sessions") == 0, "the end of the session")
        hold.go.set()
        verdict = running.result().json
    assert verdict["status"] == "success" and verdict["files"][0]["data"] == base64.b64encode(b"kept").decode(), verdict
    assert call(server, "POST", "/execute", {"code": "1", "session_id": "s"}, "its-key").status == 500
    listing = {"code": "import os; print(os.listdir('.'))", "session_id": "s"}
    assert call(server, "POST", "/execute", listing, "its-key").json["stdout"] == "[]\n"


def files_of(server):
    return children_of(server, "immure-files")


def test_work_on_files_holds_up_nobody_else(keyed):
    """The process that works on one key's files stands still: jobs and other keys' files go on, and the key's own requests come
    to pass in their order. Once it is gone, another one takes its place."""
    def goes_on():
        assert run(keyed, "bob-key", "print(1)", session_id="b").json["stdout"] == "1\n"
        assert file(keyed, "PUT", "b", "f", "bob's", "bob-key").status == 200 and file(keyed, "GET", "b", "f", key="bob-key").body == b"bob's"
        assert run(keyed, "alice-key", "print(open('f').read())", session_id="s").json["stdout"] == "0\n"

    assert files_of(keyed) == []  # no files, no process
    assert file(keyed, "PUT", "s", "f", "0", "alice-key").status == 200
    first, = files_of(keyed)
    os.kill(first, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        asked = [pool.submit(file, keyed, "PUT", "s", "f", "1", "alice-key")]
        goes_on()  # by another one
        asked += [pool.submit(listing, keyed, "s", "alice-key") for _ in range(8)]
        goes_on()
        assert not any(one.done() for one in asked)
        os.kill(first, signal.SIGCONT)
        assert asked[0].result().status == 200 and [one.result() for one in asked[1:]] == [{"f": 1}] * 8
    assert file(keyed, "GET", "s", "f", key="alice-key").body == b"1"
    os.kill(first, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(file, keyed, "PUT", "s", "f", "2", "alice-key")
        wait_for(lambda: rows(keyed, "alice-key")["s"]["jobs_running"] == 1, "the request")
        os.kill(first, signal.SIGKILL)
        assert asked.result().status == 500
    assert file(keyed, "GET", "s", "f", key="alice-key").body == b"1" and first not in files_of(keyed)


def test_a_jails_mounts_are_its_own(server):
    """No jail sees the keeper's mounts, nor another session's."""
    server.execute("open('x', 'w').close()", session_id="mounts-1")
    look = "print([line.split()[4] for line in open('/proc/self/mountinfo')].count('/workspace'))\nprint(open('/proc/self/mountinfo').read())"
    verdict = server.execute(look, session_id="mounts-2")
    if "No such file" in verdict["stderr"]:
        pytest.skip("this host gives jails no procfs")
    assert verdict["stdout"].startswith("1\n"), verdict
    assert "/mounts" not in verdict["stdout"]


def test_nothing_is_left_when_a_server_is_killed(serve):
    server = serve()
    server.execute("open('x', 'w')", session_id="s")
    keeper, = keeper_of(server)
    server.process.kill()
    server.process.wait()
    wait_for(lambda: not Path(f"/proc/{keeper}").exists(), "no keeper left")


def test_many_sessions_come_and_go(serve):
    server = serve(config="max_sessions: 8\n")
    server.execute("open('x', 'w')", session_id="first")
    descriptors = f"/proc/{server.process.pid}/fd"
    before = len(os.listdir(descriptors)) if os.access(descriptors, os.R_OK) else None
    for number in range(60):
        assert server.execute("open('x', 'w'); print(1)", session_id=f"s{number}")["stdout"] == "1\n"
        assert end(server, f"s{number}").status == 204
    assert set(rows(server)) == {"first"}
    if before is not None:  # parked jails, which come meanwhile, have some
        wait_for(lambda: len(os.listdir(descriptors)) < before + 40, "no descriptors left")

"""The interface of LibreChat's code interpreter, where the configuration opens its door: programs, and files by id."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import config_key, runtimes, wait_for

ID = 21
TYPES = "multipart/form-data; boundary=b"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from harness import Server
    place = tmp_path_factory.mktemp("librechat")
    (place / "config").write_text('door: "librechat" queue_ms: 30s\n' + runtimes() + config_key("one", "first", policy="*") + config_key("two", "second", policy="*"))
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(place / "config")) as started:
        yield started


def ask(server, method, path, body=None, key="first", **headers):
    return server.request(method, path, body, headers={"X-Service-API-Key": None, "X-API-Key": key, **headers})


def run(server, code, lang="py", key="first", **fields):
    return ask(server, "POST", "/exec", json.dumps({"lang": lang, "code": code, "user_id": "u", **fields}), key)


def part(name, data=b"", filename=None, more=b""):
    disposition = f'Content-Disposition: form-data; name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
    return b"--b\r\n" + disposition.encode() + b"\r\n" + more + b"\r\n" + data + b"\r\n"


def upload(server, *parts, path="/upload", key="first", end=b"--b--\r\n", kind=TYPES):
    return ask(server, "POST", path, b"".join(parts) + end, key, **{"Content-Type": kind})


def uploaded(server, name, data, key="first"):
    reply = upload(server, part("entity_id", b"agent"), part("file", data, name, b"Content-Type: text/plain\r\n"), key=key)
    assert reply.status == 200 and reply.json["message"] == "success", reply.body
    file, = reply.json["files"]
    assert file["filename"] == name and len(file["fileId"]) == ID == len(reply.json["session_id"])
    return {"id": file["fileId"], "storage_session_id": reply.json["session_id"], "name": name, "kind": "user", "resource_id": "u"}


def download(server, session, file, key="first"):
    return ask(server, "GET", f"/download/{session}/{file}?kind=user&id=u", key=key)


def sessions(server, key="first"):
    return {row["session_id"]: row["files"] for row in ask(server, "GET", "/sessions", key=key).json["sessions"]}


# ---- Programs ----

def test_closed_unless_it_is_opened(serve):
    server = serve(config_key("one", "first", policy="*"))
    for method, path in (("POST", "/exec"), ("POST", "/exec/programmatic"), ("POST", "/upload"), ("POST", "/upload/batch"), ("GET", "/files/x"),
                         ("GET", "/download/x/y"), ("GET", "/sessions/x/objects/y")):
        reply = ask(server, method, path, "{}" if method == "POST" else None)
        assert (reply.status, reply.json["error"]) == (404, "no such path"), path


def test_it_runs(server):
    reply = run(server, "import sys; print(sys.argv[1:]); print('e', file=sys.stderr)", args=["a", "b c"])
    assert reply.status == 200 and set(reply.json) == {"session_id", "stdout", "stderr", "files"}
    assert (reply.json["stdout"], reply.json["stderr"], reply.json["files"]) == ("['a', 'b c']\n", "e\n", []) and len(reply.json["session_id"]) == ID
    assert run(server, "print(1)").json["session_id"] != reply.json["session_id"]
    assert not sessions(server).get(reply.json["session_id"])


@pytest.mark.parametrize(("lang", "code"), [
    ("py", "open('/mnt/data/a.txt', 'w').write('x'); import os; print(*os.listdir('/mnt/data'), open('a.txt').read())"),
    ("js", "fs = require('fs'); fs.writeFileSync('/mnt/data/a.txt', 'x'); console.log(...fs.readdirSync('/mnt/data'), fs.readFileSync('a.txt', 'utf8'))"),
    ("bash", "printf x > /mnt/data/a.txt; echo $(ls /mnt/data) $(cat a.txt)"),
])
def test_mnt_data_is_the_workspace(server, lang, code):
    if lang == "js" and not shutil.which("node"):
        pytest.skip("there is no Node")
    reply = run(server, code, lang)
    assert (reply.json["stdout"], reply.json["stderr"]) == ("a.txt x\n", "")
    file, = reply.json["files"]
    assert file == {"id": file["id"], "name": "a.txt", "session_id": reply.json["session_id"], "storage_session_id": reply.json["session_id"]}
    assert len(file["id"]) == ID and download(server, file["session_id"], file["id"]).body == b"x"


@pytest.mark.parametrize(("code", "fields", "stderr"), [
    ("import sys; sys.exit(3)", {}, "The program ended with exit code 3.\n"),
    ("import sys; print('no', file=sys.stderr); sys.exit(3)", {}, "no\n"),
    ("while True: pass", {"timeout": 300}, "Execution timed out after 0.3 seconds.\n"),
    ("import os, sys; sys.stderr.write('no'); sys.stderr.flush(); os.kill(os.getpid(), 11)", {}, "no\nThe program was ended by SIGSEGV.\n"),
])
def test_ends_are_told(server, code, fields, stderr):
    reply = run(server, code, **fields)
    assert (reply.status, reply.json["stderr"]) == (200, stderr)


def test_what_is_cut_off_is_told(server):
    reply = run(server, "print('x' * 2_000_000)").json
    assert 0 < len(reply["stdout"]) < 2_000_000 and reply["stderr"].endswith("[output truncated]\n")


@pytest.mark.parametrize(("fields", "status", "error"), [
    ({"lang": None}, 400, "lang: is required as a string"),
    ({"lang": "d"}, 400, "lang: the language 'd' is not there"),
    ({"lang": "isolate"}, 400, "lang: the language 'isolate' is not there"),
    ({"code": ""}, 400, "code: is required as a string"),
    ({"args": "x"}, 400, "args: must be an array of strings"),
    ({"args": [1]}, 400, "args: must be an array of strings"),
    ({"files": {}}, 400, "files: must be an array"),
    ({"files": [1]}, 400, "files[0].id: must be the id of a file"),
    ({"files": [{"id": "x" * 22, "session_id": "s", "name": "n"}]}, 400, "files[0].id: must be the id of a file"),
    ({"files": [{"id": "x", "session_id": "\n", "name": "n"}]}, 400, "files[0].session_id: must be the session of the file"),
    ({"files": [{"id": "x", "session_id": "s"}]}, 400, "files[0].name: is required"),
    ({"files": [{"id": "x", "session_id": "s", "name": "../n"}]}, 400, "files[0].name: "),
    ({"files": [{"id": "x", "session_id": "s", "name": "/n"}]}, 400, "files[0].name: "),
    ({"files": [{"id": "x", "session_id": "s", "name": "n"}] * 1025}, 400, "files: must have at most 1024 items"),
    ({"files": [{"id": "x", "session_id": "s", "name": "n"}]}, 404, "files[0].session_id: there is no such file any more; upload it again"),
])
def test_what_is_refused(server, fields, status, error):
    reply = ask(server, "POST", "/exec", json.dumps({"lang": "py", "code": "1", **fields}))
    assert reply.status == status and reply.json["error"].startswith(error), reply.body


def test_keys(server):
    for headers in {"X-API-Key": "first"}, {"X-API-Key": None, "Authorization": "Bearer first"}:
        assert ask(server, "POST", "/exec", json.dumps({"lang": "py", "code": "print(1)"}), **headers).status == 200
    for method, path in (("POST", "/exec"), ("POST", "/upload"), ("GET", "/files/x"), ("GET", "/download/x/y")):
        reply = ask(server, method, path, "{}" if method == "POST" else None, key="wrong")
        assert reply.status == 401 and "API key" in reply.json["error"]


def test_no_page_elsewhere_may_upload(server):
    """A browser sends forms without asking first, with a password that it has kept."""
    body = part("file", b"x", "x") + b"--b--\r\n"
    for path in "/upload", "/upload/batch":
        for origin, status in (("https://evil.example", 403), (None, 200)):
            assert ask(server, "POST", path, body, **{"Content-Type": TYPES, "Origin": origin}).status == status


# ---- Files ----

def test_files_by_id(server):
    """From upload to program, from program to program, and back."""
    one, two = uploaded(server, "one.csv", b"1\r\n--\r\n2"), uploaded(server, "ünicode \"q\".txt".replace('"', ""), "é".encode())
    made = run(server, f"a = open('/mnt/data/one.csv', 'rb').read(); b = open({two['name']!r}).read(); print(a, b)\n"
                       "open('d.bin', 'wb').write(bytes(range(256))); import os; os.mkdir('sub'); open('sub/x', 'w').write('in sub')", files=[one, two])
    assert (made.status, made.json["stdout"]) == (200, "b'1\\r\\n--\\r\\n2' é\n"), made.body
    assert sorted(file["name"] for file in made.json["files"]) == ["d.bin", "sub/x"]
    session = made.json["session_id"]
    files = {file["name"]: file for file in made.json["files"]}
    assert download(server, session, files["d.bin"]["id"]).body == bytes(range(256))
    listed = ask(server, "GET", f"/files/{session}?detail=full&kind=user&id=u").json
    names = {row["metadata"]["original-filename"]: row for row in listed}
    assert set(names) == {"one.csv", two["name"], "d.bin", "sub/x"}
    row = names["d.bin"]
    assert row["name"] == f"{session}/{row['id']}.bin" and row["id"] == files["d.bin"]["id"] and row["size"] == 256 and row["lastModified"].endswith("Z")
    assert ask(server, "GET", f"/sessions/{session}/objects/{row['id']}?kind=user&id=u").json == row
    again = run(server, "print(open('renamed/x').read(), open('one.csv', 'rb').read()); open('one.csv', 'w').write('new')",
                files=[{"id": files["sub/x"]["id"], "session_id": session, "name": "renamed/x"}, one])
    assert again.json["stdout"] == "in sub b'1\\r\\n--\\r\\n2'\n" and [file["name"] for file in again.json["files"]] == ["one.csv"]
    assert download(server, again.json["session_id"], again.json["files"][0]["id"]).body == b"new"
    assert download(server, one["storage_session_id"], one["id"]).body == b"1\r\n--\r\n2"


def test_other_keys_files_are_not_there(server):
    mine = uploaded(server, "mine.txt", b"secret")
    session, file = mine["storage_session_id"], mine["id"]
    for key, status in (("second", 404), ("first", 200)):
        assert run(server, "print(1)", key=key, files=[mine]).status == status
        assert download(server, session, file, key).status == status
        assert ask(server, "GET", f"/files/{session}", key=key).status == status
        assert ask(server, "GET", f"/sessions/{session}/objects/{file}", key=key).status == status
    assert session not in sessions(server, "second")
    for path in f"/download/{session}/{file[::-1]}", f"/download/{session}/x%2Fy", f"/sessions/{session}/objects/{file}x", f"/download/{session[::-1]}/{file}":
        assert ask(server, "GET", path).status == 404, path
    assert ask(server, "GET", f"/download/{session}/").status == 404 and ask(server, "GET", f"/download/%0a/{file}").status == 400
    assert ask(server, "GET", f"/files/{session}?what=x").status == 400


def test_a_job_that_does_not_run_leaves_nothing(server):
    good = uploaded(server, "good.txt", b"x")
    before = sessions(server)
    reply = run(server, "print(1)", files=[good, {**good, "id": "A" * ID, "name": "other.txt"}])
    assert (reply.status, reply.json["field"]) == (404, "files[1].id")
    reply = run(server, "print(1)", files=[{**good, "name": "a"}, {**good, "name": "a/b"}])
    assert reply.status == 409
    wait_for(lambda: sessions(server) == before, "the session that had been filled to go")


def test_many_at_once(server):
    """Parallel calls of one chat have a session each."""
    file = uploaded(server, "n.txt", b"0")
    code = "import time; n = open('n.txt').read(); open('n.txt', 'w').write(n + '{0}'); print(open('n.txt').read())"
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda i: run(server, code.replace("{0}", str(i)), files=[file]), range(4)))
    assert [reply.json["stdout"] for reply in replies] == [f"0{i}\n" for i in range(4)]
    assert len({reply.json["session_id"] for reply in replies}) == 4


def test_a_batch(server):
    reply = upload(server, part("read_only", b"true"), part("file", b"1", "a/b.md"), part("file", b"", "empty"), part("file", b"2", "../x"),
                   part("file", b"3", "/etc/passwd"), path="/upload/batch")
    assert reply.status == 200 and (reply.json["message"], reply.json["succeeded"], reply.json["failed"]) == ("partial_success", 2, 2)
    assert [(row["filename"], row["status"]) for row in reply.json["files"]] == [("a/b.md", "success"), ("empty", "success"), ("../x", "error"), ("/etc/passwd", "error")]
    assert all(("fileId" in row) == (row["status"] == "success") and ("error" in row) == (row["status"] == "error") for row in reply.json["files"])
    session = reply.json["storage_session_id"]
    assert [download(server, session, row["fileId"]).body for row in reply.json["files"][:2]] == [b"1", b""]
    none = upload(server, part("file", b"2", "../x"), path="/upload/batch").json
    assert (none["message"], none["succeeded"], none["failed"]) == ("error", 0, 1) and none["session_id"] not in sessions(server)


@pytest.mark.parametrize(("parts", "end", "kind", "error"), [
    ([], b"{}", "application/json", "Content-Type: must be multipart/form-data"),
    ([], b"", "multipart/form-data", "Content-Type: multipart/form-data needs a boundary"),
    ([], b"", f"multipart/form-data; boundary={'b' * 71}", "Content-Type: multipart/form-data needs a boundary"),
    ([], b"", "multipart/form-data; boundary=\"b", "Content-Type: multipart/form-data needs a boundary"),
    ([], b"", TYPES, "the multipart body is malformed"),
    ([], b"--b--\r\n", TYPES, "file: the body must have one"),
    ([part("file", b"x")], b"--b--\r\n", TYPES, "file: the body must have one"),
    ([part("file", b"x", "x")], b"", TYPES, "the multipart body is malformed"),
    ([part("file", b"x", "x")], b"--b", TYPES, "the multipart body is malformed"),
    ([part("file", b"x", "x")], b"--b--\r\nmore", TYPES, "the multipart body is malformed"),
    ([b"preamble\r\n", part("file", b"x", "x")], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([part("file", b"x", "x", b"Content-Transfer-Encoding: base64\r\n")], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([b"--b\r\n\r\nx\r\n"], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n"], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([b"--b\r\nContent-Disposition: form-data; name=file; filename=\"x\r\n\r\nx\r\n"], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([part("file", b"x", "a\x01b")], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([part("file", b"x", "a\0b")], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([part("file", b"x", "../x")], b"--b--\r\n", TYPES, "filename: "),
    ([part("file", b"x", "/x")], b"--b--\r\n", TYPES, "filename: "),
    ([part("file", b"x", "x" * 256)], b"--b--\r\n", TYPES, "filename: "),
    ([part("file", b"x", "x" * 5000)], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([part("a", b"x", None, b"A: " + b"b" * 20000 + b"\r\n")], b"--b--\r\n", TYPES, "the multipart body is malformed"),
    ([part("file", b"x", "x"), part("file", b"y", "y")], b"--b--\r\n", TYPES, "file: must be there once; POST /upload/batch takes more"),
    ([part("a")] * 257, b"--b--\r\n", TYPES, "the multipart body must have at most 256 parts"),
])
def test_uploads_that_are_refused(server, parts, end, kind, error):
    before = sessions(server)
    reply = upload(server, *parts, end=end, kind=kind)
    assert reply.status == 400 and reply.json["error"].startswith(error), reply.body
    wait_for(lambda: sessions(server) == before, "the session to go")


def test_a_session_holds_what_it_may(serve):
    """The store's limits are those of sessions."""
    server = serve('door: "librechat" session_bytes: 1MiB\n' + config_key("one", "first", policy="*"))
    reply = upload(server, part("file", b"x" * (2 << 20), "x"))
    assert reply.status == 413 and "does not fit into the session's workspace" in reply.json["error"]
    batch = upload(server, part("file", b"x", "small"), part("file", b"x" * (2 << 20), "large"), path="/upload/batch").json
    assert (batch["message"], [row["status"] for row in batch["files"]]) == ("partial_success", ["success", "error"])
    half = [uploaded(server, f"{i}", b"x" * 600_000) for i in range(2)]
    assert run(server, "print(1)", files=half[:1]).json["stdout"] == "1\n"
    reply = run(server, "print(1)", files=half)
    assert reply.status == 413 and "does not fit into the session's workspace" in reply.json["error"]

"""Asynchronous jobs: POST /execute?wait=false, GET and DELETE /jobs/{job_id}."""

import concurrent.futures
import os
import re
import signal
import time
from urllib.parse import quote

import pytest
from harness import call, config_key, wait_for

WITHOUT_NODE = True

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
FIELDS = {"job_id", "execution_id", "runtime", "status", "created_at", "ended_at", "expires_at", "reply"}


def post(server, code, key=None, **fields):
    return call(server, "POST", "/execute?wait=false", {"code": code, **fields}, key)


def start(server, code, key=None, **fields):
    """-> the path of a job that has been accepted"""
    reply = post(server, code, key, **fields)
    assert reply.status == 202, reply.body
    return reply.headers["Location"]


def ended(server, path, key=None):
    def look():
        reply = call(server, "GET", path, key=key)
        assert reply.status == 200, reply.body
        return reply.json if reply.json["status"] != "running" else None
    return wait_for(look, f"the end of {path}", 60)


def test_the_reply_tells_of_its_session(server):
    for expected in ("new", "kept"):
        assert ended(server, start(server, "open('x', 'w')", session_id="kept-job"))["reply"]["session"] == expected
    assert post(server, "1", session_id="never-was", session="kept").status == 409
    assert call(server, "DELETE", "/workspace/kept-job").status == 204


def test_from_start_to_end(server):
    reply = post(server, "import sys\nprint('on', flush=True); print(sys.stdin.read())", stdin="in", execution_id="mine")
    assert reply.status == 202 and reply.headers["Content-Type"] == "application/json"
    job = reply.json
    assert set(job) == FIELDS and UUID.fullmatch(job["job_id"])
    assert reply.headers["Location"] == f"/jobs/{job['job_id']}"
    assert job["execution_id"] == "mine" and job["status"] == "running"
    assert job["reply"] is job["ended_at"] is job["expires_at"] is None
    done = ended(server, reply.headers["Location"])
    assert set(done) == FIELDS and done["status"] == "success" and done["job_id"] == job["job_id"]
    assert done["created_at"] == job["created_at"] <= done["ended_at"] < done["expires_at"]
    waited = server.execute("print(1)")
    assert set(done["reply"]) == set(waited)
    assert done["reply"]["stdout"] == "on\nin\n" and done["reply"]["execution_id"] == "mine"
    assert call(server, "GET", reply.headers["Location"]).json == done  # as often as one likes
    head = call(server, "HEAD", reply.headers["Location"])
    assert head.status == 200 and head.body == b""


def test_it_runs_while_nobody_waits(server):
    path = start(server, "import sys, time\nfor line in sys.stdin: pass\ntime.sleep(0.3); print('done')", stdin="x\n" * 100_000)
    assert ended(server, path)["reply"]["stdout"] == "done\n"


def test_verdicts(server):
    for code, timeout_ms, status, exit_code in (("import sys; sys.exit(3)", 30000, "execution_error", 3),
                                                ("while True: pass", 1000, "timeout", -1),
                                                ("import os; os.abort()", 30000, "execution_error", 134)):
        job = ended(server, start(server, code, timeout_ms=timeout_ms))
        assert job["status"] == job["reply"]["status"] == status and job["reply"]["exit_code"] == exit_code


def test_files_come_back(server):
    path = start(server, "open('out.txt', 'w').write(open('in.txt').read() * 2)", files=[{"name": "in.txt", "content": "ab"}],
                 outputs=["out.txt"])
    assert ended(server, path)["reply"]["files"] == [{"name": "out.txt", "mime": "text/plain", "data": "YWJhYg=="}]


def test_sessions(server):
    ended(server, start(server, "open('x', 'w').write('1')", session_id="async"))
    assert ended(server, start(server, "print(open('x').read())", session_id="async"))["reply"]["stdout"] == "1\n"


def test_refusals_are_told_at_once(server):
    for fields, status in (({"timeout_ms": -1}, 400), ({"limits": {"pids": 1 << 40}}, 400), ({"policy": "none"}, 400)):
        reply = post(server, "1", **fields)
        assert reply.status == status and "Location" not in reply.headers, reply.body
    for value in ("", "no", "False", "0"):
        reply = call(server, "POST", f"/execute?wait={value}", {"code": "1"})
        assert reply.status == 400 and reply.json["field"] == "wait", value
    assert call(server, "POST", "/execute?wait=true", {"code": "print(1)"}).json["stdout"] == "1\n"
    reply = call(server, "POST", "/execute?other=1", {"code": "print(1)"})
    assert reply.status == 400 and reply.json["field"] == "other"


def test_they_take_slots(serve):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="1")
    path = start(server, "import time; time.sleep(50)", timeout=50)
    for reply in (post(server, "1"), call(server, "POST", "/execute", {"code": "1"})):
        assert reply.status == 503 and reply.json["code"] == "busy" and 1 <= int(reply.headers["Retry-After"]) <= 50
    assert call(server, "DELETE", path).status == 204
    assert ended(server, path)["status"] == "cancelled"
    wait_for(lambda: post(server, "1").status == 202, "the slot free again")


@pytest.mark.parametrize("how", ["query", "body", "none"])
def test_delete_ends_it(server, how):
    path = start(server, "import time\nprint('on', flush=True)\ntime.sleep(50)", timeout=50)
    reason = "nobody needs it: 100% + ü"
    query = "?reason=" + quote(reason, safe="") if how == "query" else ""
    reply = call(server, "DELETE", path + query, {"reason": reason} if how == "body" else None)
    assert (reply.status, reply.body) == (204, b"")
    job = ended(server, path)
    assert job["status"] == job["reply"]["status"] == "cancelled"
    if how == "none":
        assert job["reply"]["error_message"]
    else:
        assert job["reply"]["error_message"] == reason
    assert call(server, "DELETE", path).status == 204  # its reply is forgotten
    assert call(server, "GET", path).status == 404


def test_reasons_that_are_none(server):
    path = start(server, "import time; time.sleep(50)", timeout=50)
    for query, body in (("?reason=%", None), ("?reason=%0", None), ("?reason=%00", None), ("?reason=" + "x" * 513, None),
                        ("", {"reason": 1}), ("", {"reason": "x" * 513}), ("", {"why": "x"}), ("", ["x"]),
                        ("?reason=a", {"reason": "b"})):
        reply = call(server, "DELETE", path + query, body)
        assert reply.status == 400 and reply.json["field"] == "reason", (query, body)
    assert call(server, "GET", path).json["status"] == "running"
    assert call(server, "DELETE", path, {}).status == 204
    assert ended(server, path)["status"] == "cancelled"


def test_unknown_ones(server):
    for name in ("x", "00000000-0000-4000-8000-000000000000", "%00"):
        for method in ("GET", "DELETE"):
            reply = call(server, method, f"/jobs/{name}")
            assert reply.status == 404 and reply.json["code"] == "not_found", name
    assert call(server, "GET", "/jobs/").status == 404
    assert call(server, "POST", "/jobs/x", {}).headers["Allow"] == "GET, HEAD, DELETE"
    assert call(server, "GET", "/jobs/x", key="wrong").status == 401


def test_a_job_is_one_keys_own(serve):
    server = serve(config=config_key("alice", "alice-key", policy="*", max_concurrent_jobs=1) + config_key("bob", "bob-key", policy="*"))
    path = start(server, "import time; time.sleep(50)", "alice-key", timeout=50)
    assert call(server, "GET", path, key="bob-key").status == 404
    assert call(server, "DELETE", path, key="bob-key").status == 404
    assert call(server, "GET", path, key="alice-key").json["status"] == "running"
    assert post(server, "1", "alice-key").status == 429
    assert call(server, "DELETE", path, key="alice-key").status == 204
    assert ended(server, path, "alice-key")["status"] == "cancelled"
    assert call(server, "GET", path, key="bob-key").status == 404


def test_time_to_live(serve):
    server = serve(config="kept_job_ttl_ms: 1500\n")
    started = time.monotonic()
    path = start(server, "print(1)")
    wait_for(lambda: call(server, "GET", path).status == 404, "the reply forgotten")
    assert time.monotonic() - started >= 1.5


def test_those_that_ended_first_go_first(serve):
    server = serve(config="max_kept_jobs: 3\n")
    paths = []
    for number in range(5):
        paths.append(start(server, f"print({number})"))
        ended(server, paths[-1])
    assert [call(server, "GET", path).status for path in paths] == [404, 404, 200, 200, 200]
    running = [start(server, "import time; time.sleep(50)", timeout=50) for _ in range(3)]
    assert [call(server, "GET", path).status for path in paths] == [404] * 5
    reply = post(server, "1")
    assert reply.status == 503 and "asynchronous" in reply.json["error"]
    assert call(server, "POST", "/execute", {"code": "print(1)"}).status == 200
    for path in running:
        assert call(server, "DELETE", path).status == 204


def test_replies_are_limited_in_bytes(serve):
    server = serve(config="max_kept_bytes: 50000\n")
    paths = [start(server, f"print('x' * 10000)")]  # twice, in stdout and logs
    ended(server, paths[0])
    for _ in range(3):
        paths.append(start(server, "print('x' * 10000)"))
        ended(server, paths[-1])
    assert [call(server, "GET", path).status for path in paths] == [404, 404, 200, 200]
    large = ended(server, start(server, "print('x' * 100000)"))
    assert large["status"] == "success" and large["reply"] is None


def test_each_key_has_a_share_of_what_is_kept(serve):
    # Three keys: the two here and the environment's. What another key does costs nobody a result that is within its third.
    server = serve(config="max_kept_jobs: 6\n" + config_key("alice", "alice-key", policy="*") + config_key("bob", "bob-key", policy="*"))

    def one(key):
        path = start(server, "print(1)", key)
        ended(server, path, key)
        return path

    def there(paths, key):
        return [call(server, "GET", path, key=key).status for path in paths]
    bobs = [one("bob-key") for _ in range(2)]
    alices = [one("alice-key") for _ in range(8)]
    assert there(bobs, "bob-key") == [200] * 2
    assert there(alices, "alice-key") == [404] * 4 + [200] * 4  # all that nobody else uses
    # A third key comes, and takes what alice has beyond her share; then its own.
    mine = [one(server.key) for _ in range(3)]
    assert there(bobs, "bob-key") == [200] * 2
    assert there(alices, "alice-key") == [404] * 6 + [200] * 2
    assert there(mine, server.key) == [404, 200, 200]


def test_each_key_has_a_share_of_their_bytes(serve):
    server = serve(config="max_kept_bytes: 100000\n" + config_key("alice", "alice-key", policy="*"))

    def one(key, n):
        path = start(server, f"print('x' * {n})", key)
        ended(server, path, key)
        return path

    def kept(path, key):
        reply = call(server, "GET", path, key=key)
        return reply.status == 200 and reply.json["reply"] is not None
    mine = [one(server.key, 10000) for _ in range(2)]  # some 21 kB each: stdout and logs
    alices = [one("alice-key", 10000) for _ in range(6)]
    assert [kept(path, server.key) for path in mine] == [True] * 2
    assert [kept(path, "alice-key") for path in alices] == [False] * 4 + [True] * 2
    too_large = one("alice-key", 40000)  # there is no room beside the other key's
    assert not kept(too_large, "alice-key")
    assert [kept(path, server.key) for path in mine] == [True] * 2


def test_many_at_once(serve):
    server = serve(SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="8")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        def one(number):
            reply = post(server, f"print({number})")
            while reply.status == 503:
                time.sleep(0.05)
                reply = post(server, f"print({number})")
            return ended(server, reply.headers["Location"])["reply"]["stdout"]
        assert list(pool.map(one, range(40))) == [f"{number}\n" for number in range(40)]


def test_a_drain_waits_for_them(serve):
    server = serve()
    start(server, "import time; time.sleep(1)")
    server.process.send_signal(signal.SIGTERM)
    assert server.ended() == 0
    assert any("event=audit" in line and "status=success" in line for line in server.log().splitlines())


def kill_front(server):
    fronts = server.log().count("event=front_serving")
    os.kill(int(re.findall(r"event=front_serving pid=(\d+)", server.log())[-1]), signal.SIGKILL)
    wait_for(lambda: server.log().count("event=front_serving") == fronts + 1, "another front")
    wait_for(server.ready, "ready again")


def test_a_front_that_dies_takes_what_runs_and_no_result(serve):
    server = serve()
    kept = start(server, "print(1)")
    done = ended(server, kept)
    path = start(server, "import time; time.sleep(50)", timeout=50)
    kill_front(server)
    lost = call(server, "GET", path).json
    assert lost["status"] == "lost" and lost["reply"] is None and lost["ended_at"]
    assert call(server, "GET", kept).json == done
    wait_for(lambda: post(server, "1").status == 202, "slots")


def reload(server, number=1):
    server.process.send_signal(signal.SIGHUP)
    server.reloaded(number)


WAITS = "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('done')"


def test_reloads_leave_them_as_they_are(serve):
    server = serve()
    kept = start(server, "print('before')")
    done = ended(server, kept)
    running = [start(server, WAITS, session_id=name, execution_id=name, timeout=60) for name in ("a", "b")]
    reload(server)
    reload(server, 2)
    assert call(server, "GET", kept).json == done
    assert [call(server, "GET", path).json["status"] for path in running] == ["running"] * 2
    assert [job["execution_id"] for job in call(server, "GET", "/jobs").json["jobs"]] == ["b", "a", done["execution_id"]]
    # One ends by itself, in a front that no longer serves; the other by its caller's word, which another front takes.
    assert server.execute("open('go', 'w').close()", session_id="a")["status"] == "success"
    assert ended(server, running[0])["reply"]["stdout"] == "on\ndone\n"
    assert call(server, "DELETE", running[1] + "?reason=enough").status == 204
    job = ended(server, running[1])
    assert job["status"] == job["reply"]["status"] == "cancelled" and job["reply"]["error_message"] == "enough"
    wait_for(lambda: server.log().count("event=front_exited") == 2, "the end of the fronts before")
    assert ended(server, running[0])["status"] == "success" and call(server, "GET", kept).json == done
    assert call(server, "DELETE", kept).status == 204 and call(server, "GET", kept).status == 404


def test_a_key_that_is_taken_away_has_nothing_left(serve, tmp_path):
    path = tmp_path / "keys" / "keys.textproto"
    path.parent.mkdir()
    alice, bob = config_key("alice", "alice-key", policy="*"), config_key("bob", "bob-key", policy="*")
    path.write_text(alice + bob)
    server = serve(f'key_file: "{path}"\n')
    jobs = {key: start(server, "print(1)", key) for key in ("alice-key", "bob-key")}
    for key, job in jobs.items():
        ended(server, job, key)
    running = start(server, "import time; time.sleep(50)", "bob-key", timeout=50)
    path.write_text(alice)
    server.reloaded()
    wait_for(lambda: "immure_jobs_running 0\n" in server.get("/metrics").body.decode(), "the end of what nobody can ask about")
    assert ended(server, jobs["alice-key"], "alice-key")["status"] == "success"
    for job in (jobs["bob-key"], running):
        assert call(server, "GET", job, key="bob-key").status == 401
    # The same key again is the same caller, and yet nothing of before is there; another secret never was.
    path.write_text(alice + bob)
    server.reloaded(2)
    assert [call(server, "GET", job, key="bob-key").status for job in (jobs["bob-key"], running)] == [404] * 2
    assert call(server, "GET", "/jobs", key="bob-key").json == {"jobs": []}
    path.write_text(bob + config_key("alice", "another-key", policy="*"))
    server.reloaded(3)
    assert call(server, "GET", jobs["alice-key"], key="another-key").status == 404


def test_the_list(serve):
    server = serve(config=config_key("alice", "alice-key", policy="*") + config_key("bob", "bob-key", policy="*"))
    assert call(server, "GET", "/jobs", key="alice-key").json == {"jobs": []}
    paths = [start(server, f"print({number})", "alice-key", execution_id=f"e{number}") for number in range(3)]
    done = [ended(server, path, "alice-key") for path in paths]
    running = post(server, "import time; time.sleep(50)", "alice-key", timeout=50).json
    listed = call(server, "GET", "/jobs", key="alice-key").json["jobs"]
    assert listed == [{name: value for name, value in job.items() if name != "reply"} for job in [running, *reversed(done)]]
    assert {job["runtime"] for job in listed} == {"python"}
    assert call(server, "GET", "/jobs", key="bob-key").json == {"jobs": []}
    assert call(server, "GET", "/jobs", key="wrong").status == 401
    assert call(server, "POST", "/jobs", {}).headers["Allow"] == "GET, HEAD"
    assert call(server, "DELETE", f"/jobs/{running['job_id']}", key="alice-key").status == 204


def test_the_audit_trail_has_them(serve):
    server = serve()
    reply = post(server, "1", execution_id="kept-1")
    ended(server, reply.headers["Location"])
    line, = [line for line in server.log().splitlines() if "event=audit" in line]
    assert "execution_id=kept-1" in line and f"request_id={reply.headers['X-Request-Id']}" in line

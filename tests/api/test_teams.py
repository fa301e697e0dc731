"""Teams, keys in a file of their own, their ceilings and rates; `immure key`."""

import datetime
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import IMMURE
from harness import CGROUP, ROOT, Server, config_key, runtimes, wait_for

SHIPPED = (ROOT / "config/server.textproto").read_text()
JOB = json.dumps({"code": "print(1)"})


def execute(server, key, body=JOB):
    return server.request("POST", "/execute", body, headers={"X-Service-API-Key": key})


def key_command(*arguments):
    return subprocess.run([IMMURE, "key", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def add(path, name, *options):
    """-> the key"""
    done = key_command("add", name, "--file", path, *options)
    assert done.returncode == 0, done.stderr
    key, = done.stdout.splitlines()
    assert re.fullmatch(r"imm_[0-9a-f]{64}", key)
    return key


def test_a_team_is_off_until_the_configuration_turns_it_on(serve):
    server = serve(config_key("a", "ka", team="on") + config_key("b", "kb", team="off") + config_key("c", "kc", team="unheard-of")
                   + config_key("d", "kd") + 'team { name: "on" enabled: true } team { name: "off" }')
    assert execute(server, "ka").status == 200 and execute(server, "kd").status == 200
    for key, team in (("kb", "off"), ("kc", "unheard-of")):
        refused = execute(server, key)
        assert refused.status == 403 and refused.json["error"] == f"code execution is not enabled for team {team}"
        assert refused.json["code"] == "forbidden"
        tools = server.request("POST", "/mcp", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers={"X-Service-API-Key": key}).json
        assert tools["result"]["tools"] == []
    text = server.get("/metrics").body.decode()
    assert 'immure_team_jobs_total{team="on",status="success"} 1\n' in text
    assert "unheard-of" not in text and 'team="off"' not in text
    assert re.search(r"event=audit key=a team=on ", server.log())


def test_a_teams_jobs_at_once(serve):
    server = serve(config_key("a", "ka", team="t") + config_key("b", "kb", team="t") + config_key("c", "kc", team="u")
                   + 'team { name: "t" enabled: true max_concurrent_jobs: 1 } team { name: "u" enabled: true }')
    endless = json.dumps({"code": "while True: pass", "timeout_ms": 60000})
    mine = {"X-Service-API-Key": "ka"}
    started = server.request("POST", "/execute?wait=false", endless, headers=mine)
    assert started.status == 202
    refused = execute(server, "kb")
    assert refused.status == 429 and "team 't' may have 1 jobs at once" in refused.json["error"]
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert execute(server, "kc").status == 200
    assert server.request("DELETE", started.headers["Location"], headers=mine).status == 204
    wait_for(lambda: execute(server, "kb").status == 200, "room for the team")


def test_jobs_in_a_minute(serve):
    server = serve(config_key("a", "ka", max_jobs_per_minute=1) + config_key("b", "kb"))
    assert [execute(server, "ka", "{}").status for _ in range(5)] == [400] * 5  # none of them started
    assert execute(server, "ka").status == 200
    refused = execute(server, "ka")
    assert refused.status == 429 and refused.json["error"] == "key 'a' may start 1 jobs in a minute"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert execute(server, "kb").status == 200


def test_a_keys_longest_timeout(serve):
    server = serve(config_key("a", "ka", max_timeout_ms=700))
    for more in ({}, {"timeout_ms": 60000}, {"timeout": 30}):
        assert execute(server, "ka", json.dumps({"code": "1", **more})).json["limits"]["timeout_ms"] == 700
    assert execute(server, "ka", json.dumps({"code": "1", "timeout_ms": 600})).json["limits"]["timeout_ms"] == 600


CEILINGS = {"memory_bytes": 300 << 20, "pids": 9, "cpu_percent": 50, "cpu_ms": 20000, "scratch_bytes": 1 << 20, "output_bytes": 1000}


@pytest.fixture(scope="module")
def ceilings(tmp_path_factory):
    """A server with a key that may have little, and one that may have a lot."""
    place = tmp_path_factory.mktemp("ceilings")
    config = place / "server.textproto"
    config.write_text(config_key("low", "kl", **{f"max_{name}": value for name, value in CEILINGS.items()})
                      + config_key("high", "kh", **{f"max_{name}": 1 << 29 if "bytes" in name else 4000 for name in CEILINGS})
                      + config_key("none", "kn") + (runtimes() or (ROOT / "config/server.textproto").read_text()))
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        yield server


@pytest.mark.parametrize("limit", CEILINGS)
def test_a_keys_ceilings(ceilings, limit):
    most = CEILINGS[limit]
    refused = execute(ceilings, "kl", json.dumps({"code": "1", "limits": {limit: most + 1}}))
    assert refused.status == 400 and refused.json["field"] == f"limits.{limit}" and f"to {most}, the key's limit" in refused.json["error"]
    for limits in ({}, {limit: most}, {limit: most - 1}):
        done = execute(ceilings, "kl", json.dumps({"code": "print(1)", "limits": limits})).json
        applied = None if limit == "cpu_percent" and CGROUP != "REQUIRED" else limits.get(limit, most)  # which nothing else enforces
        assert (done["status"], done["limits"][limit]) == ("success", applied), done
    for key, field, text in (("kh", f"limits.{limit}", "the policy's limit"), ("kn", f"limits.{limit}", "the policy's limit")):
        beyond = execute(ceilings, key, json.dumps({"code": "1", "limits": {limit: 1 << 50}}))
        if limit != "cpu_ms":  # of which the policy gives what one asks for
            assert beyond.status == 400 and beyond.json["field"] == field and text in beyond.json["error"]
    assert execute(ceilings, "kn").json["limits"] == ceilings.execute("print(1)")["limits"]


def test_a_keys_ceilings_hold(ceilings):
    """Not only as numbers, and at the other doors."""
    verdict = execute(ceilings, "kl", json.dumps({"code": "print('x' * 5000)"})).json
    assert verdict["stdout"] == "x" * 1000 and verdict["truncated"]
    verdict = execute(ceilings, "kl", json.dumps({"code": "open('f', 'wb').write(bytes(2 << 20))"})).json
    assert verdict["status"] == "execution_error" and "No space left" in verdict["stderr"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"language": "python", "code": "1"}}}
    told = server_call(ceilings, "kl", "/mcp", call)["result"]["structuredContent"]
    assert told["limits"]["memory_bytes"] == CEILINGS["memory_bytes"]
    if shutil.which("node"):
        refused = server_call(ceilings, "kl", "/run-code", {"source": "1", "options": {"memoryLimitBytes": 280 << 20}})
        assert refused["field"] == "options.memoryLimitBytes" and "the key's limit" in refused["error"]


def test_ceilings_of_a_new_key(tmp_path):
    add(tmp_path / "keys.textproto", "n", *[word for name, value in CEILINGS.items() for word in (f"--max-{name.replace('_', '-')}", value)])
    line = (tmp_path / "keys.textproto").read_text()
    assert all(f" max_{name}: {value} " in line for name, value in CEILINGS.items()), line


def server_call(server, key, path, body):
    return server.request("POST", path, json.dumps(body), headers={"X-Service-API-Key": key}).json


def test_a_key_expires(serve):
    today = datetime.datetime.now(datetime.timezone.utc)
    past, future = (today - datetime.timedelta(days=1)).strftime("%Y-%m-%d"), (today + datetime.timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    server = serve(config_key("old", "ko", expires=past) + config_key("new", "kn", expires=future))
    assert execute(server, "ko").status == 401 and execute(server, "kn").status == 200


@pytest.mark.parametrize("fields, says", [
    ('expires: "tomorrow"', "must be like 2027-01-31"), ('expires: "2027-02-30"', "must be like"), ('expires: "2027-01-31T12:00:00"', "must be like"),
    ('team: "a b"', "team"), ('team: "t" sha256: ""', "sha256")])
def test_what_is_no_key(serve, fields, says):
    key = f'key {{ name: "k" sha256: "{"0" * 64}" {fields} }}' if "sha256" not in fields else f'key {{ name: "k" {fields} }}'
    server = serve(key, ready=False)
    assert server.ended() == 1 and says in server.log()


def test_keys_come_and_go_while_the_server_runs(serve, tmp_path):
    path = tmp_path / "keys" / "keys.textproto"
    path.parent.mkdir()
    path.write_text("# of the operator\n")
    server = serve(f'key_file: "{path}" team {{ name: "t" enabled: true }}')
    first = add(path, "first", "--team", "t")
    wait_for(lambda: execute(server, first).status == 200, "the new key")
    second = add(path, "second", "--policy", "strict", "--max-jobs-per-minute", "5", "--expires", "2099-01-01")
    wait_for(lambda: execute(server, second).status == 403, "the other, which may not use this policy")
    listed = key_command("list", "--file", path)
    assert listed.stdout.splitlines() == ["first\tt\t-\t-\t-", "second\t-\t2099-01-01\tstrict\t-"]
    assert key_command("revoke", "first", "--file", path).returncode == 0
    wait_for(lambda: execute(server, first).status == 401, "the end of the first")
    assert execute(server, second).status == 403
    assert path.read_text().startswith("# of the operator\n") and first not in path.read_text() and second not in server.log()
    # What cannot be read changes nothing.
    good = path.read_text()
    path.write_text(good + "key { name: nonsense\n")
    wait_for(lambda: "event=reload_refused" in server.log(), "the refusal")
    assert execute(server, second).status == 403 and str(path) in server.log()
    path.write_text(good + 'key { name: "default" sha256: "%s" }\n' % ("a" * 64))
    wait_for(lambda: server.log().count("event=reload_refused") == 2, "a name that is taken")
    assert execute(server, second).status == 403


def test_a_file_of_keys_that_is_a_link(serve, tmp_path):
    """As Kubernetes shows a Secret: what changes is a link on the way to the file."""
    directory = tmp_path / "keys"
    keys = {}
    for version in ("one", "two"):
        (directory / version).mkdir(parents=True)
        keys[version] = add(directory / version / "keys.textproto", version)
    (directory / "..data").symlink_to("one")
    (directory / "keys.textproto").symlink_to("..data/keys.textproto")
    server = serve(f'key_file: "{directory}/keys.textproto"')
    assert execute(server, keys["one"]).status == 200
    (directory / "..data_tmp").symlink_to("two")
    (directory / "..data_tmp").rename(directory / "..data")
    server.reloaded()
    assert execute(server, keys["one"]).status == 401 and execute(server, keys["two"]).status == 200


def test_a_file_of_keys_that_is_taken_away(serve, tmp_path):
    """Its keys go on counting, and the log says why."""
    path = tmp_path / "keys" / "keys.textproto"
    path.parent.mkdir()
    key = add(path, "k")
    server = serve(f'key_file: "{path}"')
    for n, take_away in enumerate((lambda: path.rename(tmp_path / "elsewhere"), path.unlink), 1):
        take_away()
        wait_for(lambda: server.log().count("event=reload_refused") == n, "the refusal")
        assert f'key_file: \\"{path}\\" cannot be read: No such file' in server.log() and execute(server, key).status == 200
        if n == 1:
            (tmp_path / "elsewhere").rename(path)
            server.reloaded()
    add(tmp_path / "another", "k2")
    path.symlink_to(tmp_path / "another")
    server.reloaded(2)
    assert execute(server, key).status == 401


def test_what_is_wrong_is_told_as_the_file_of_keys_has_it(serve, tmp_path):
    """Its lines and its own count, whatever keys stand elsewhere."""
    path = tmp_path / "keys.textproto"
    add(path, "good")
    path.write_text(path.read_text() + 'key { name: "bad" sha256: "12" }\n')
    server = serve(config_key("a", "ka") + config_key("b", "kb") + f'key_file: "{path}"', ready=False)
    assert server.ended() == 1 and f"{path}:2:27: key[1].sha256: must be 64 hexadecimal digits" in server.log(), server.log()


def test_what_runs_since_before_a_reload_counts(serve, tmp_path, hold):
    path = tmp_path / "keys.textproto"
    limited = {name: add(path, name, "--team", "t", *more) for name, more in (("one", ["--max-concurrent-jobs", "1"]), ("mate", []))}
    server = serve(f'key_file: "{path}" team {{ name: "t" enabled: true max_concurrent_jobs: 2 }}', **hold.environment)
    with ThreadPoolExecutor() as pool:
        body = json.dumps({"code": "call_tool('hold')", **hold.fields})
        replies = [pool.submit(execute, server, limited["one"], body)]
        wait_for(lambda: server.metric("immure_jobs_running") == 1, "the first job's start")
        server.process.send_signal(signal.SIGHUP)
        server.reloaded()
        assert server.metric("immure_jobs_running") == 1
        refused = execute(server, limited["one"])
        assert refused.status == 429 and "key 'one' may have 1 jobs at once" in refused.json["error"] and 1 <= int(refused.headers["Retry-After"]) <= 60
        replies.append(pool.submit(execute, server, limited["mate"], body))
        wait_for(lambda: server.metric("immure_jobs_running") == 2, "the second job's start")
        refused = execute(server, limited["mate"])
        assert refused.status == 429 and "team 't' may have 2 jobs at once" in refused.json["error"]
        hold.go.set()
        assert [reply.result(60).status for reply in replies] == [200, 200]
    wait_for(lambda: server.metric("immure_jobs_running") == 0, "the jobs' end")
    assert execute(server, limited["one"]).status == 200


def test_jobs_of_a_revoked_key_go_on(serve, tmp_path, hold):
    path = tmp_path / "keys.textproto"
    key = add(path, "k")
    server = serve(f'key_file: "{path}"', **hold.environment)
    replies, body = [], json.dumps({"code": "call_tool('hold'); print('end')", **hold.fields})
    thread = threading.Thread(target=lambda: replies.append(execute(server, key, body)))
    thread.start()
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "the job's start")
    assert key_command("revoke", "k", "--file", path).returncode == 0
    wait_for(lambda: execute(server, key).status == 401, "the key's end")
    hold.go.set()
    thread.join()
    assert replies[0].json["stdout"] == "end\n"


HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}


def kept_alive(server):
    """-> a function that asks over one connection"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.connect()
    first = connection.sock

    def ask(method, path, body, key, **headers):
        assert connection.sock is first, "the server has closed the connection"
        connection.request(method, path, json.dumps(body), headers={"X-Service-API-Key": key, "Content-Type": "application/json", **headers})
        reply = connection.getresponse()
        reply.read()
        return reply.status, reply.headers
    return ask


ANSWERED = r'immure_http_requests_total{path="/execute",code="200"} (\d+)'


@pytest.mark.parametrize("where", ["configuration", "file"])
def test_another_key_disturbs_nobody(serve, tmp_path, where, hold):
    """Neither connections nor counters, rates, streams and MCP sessions begin anew, by whatever way it comes."""
    path = tmp_path / "keys" / "server.textproto"
    path.parent.mkdir()
    old, gone, new = config_key("old", "old-key", max_jobs_per_minute=1), config_key("gone", "gone-key"), config_key("new", "new-key")
    rest = (runtimes() or SHIPPED) if where == "configuration" else ""
    path.write_text(old + gone + rest)
    server = serve(None if rest else f'key_file: "{path}"', **({"SANDBOX_EXECUTOR_CONFIG": str(path)} if rest else {}), **hold.environment)
    ask, of_gone = kept_alive(server), kept_alive(server)
    status, headers = ask("POST", "/mcp", HELLO, "old-key", Accept="application/json, text/event-stream")
    session = {"Mcp-Session-Id": headers["Mcp-Session-Id"], "Accept": "application/json, text/event-stream"}
    assert status == 200 and of_gone("POST", "/execute", {"code": "print(1)"}, "gone-key")[0] == 200
    body = json.dumps({"code": "print('begun', flush=True); call_tool('hold'); print('end')", **hold.fields})
    with ThreadPoolExecutor() as pool:
        streamed, plain = (pool.submit(server.request, "POST", "/execute", body, headers={"X-Service-API-Key": key, "Accept": accept})
                           for key, accept in (("old-key", "text/event-stream"), ("gone-key", "application/json")))
        wait_for(lambda: server.metric("immure_jobs_running") == 2, "the jobs' start")
        assert ask("POST", "/execute", {"code": "print(1)"}, "old-key")[0] == 429
        counted = int(re.search(ANSWERED, server.get("/metrics").body.decode())[1])
        path.write_text(old + new + rest)
        if rest:
            server.process.send_signal(signal.SIGHUP)
        server.reloaded()
        assert ask("POST", "/execute", {"code": "print(2)"}, "new-key")[0] == 200
        assert of_gone("POST", "/execute", {"code": "print(2)"}, "gone-key")[0] == 401
        assert ask("POST", "/execute", {"code": "print(2)"}, "old-key")[0] == 429
        assert int(re.search(ANSWERED, server.get("/metrics").body.decode())[1]) == counted + 1
        assert ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, "old-key", **session)[0] == 200
        hold.go.set()
        assert b"end" in streamed.result(60).body and plain.result(60).json["stdout"] == "begun\nend\n"
    assert server.log().count("event=front_started") == 1 and "event=superseded" not in server.log()


NO_KEY = {"SANDBOX_EXECUTOR_SERVICE_API_KEY": None}


@pytest.mark.parametrize("environment", ["production", "dev"])
def test_the_last_key_is_revoked(serve, tmp_path, environment):
    """It is refused from then on, as is everybody; nothing opens, and the next key counts."""
    path = tmp_path / "keys.textproto"
    key, other = add(path, "k"), add(path, "other")
    server = serve(f'key_file: "{path}" environment: "{environment}"', **NO_KEY)
    assert key_command("revoke", "other", "--file", path).stderr == ""
    server.reloaded()
    revoked = key_command("revoke", "k", "--file", path)
    assert revoked.returncode == 0 and revoked.stdout == "" and f"k was the last key of {path}; " in revoked.stderr
    server.reloaded(2)
    assert [execute(server, shown).status for shown in (key, other, "")] == [401] * 3
    wait_for(lambda: "level=warning who=warden event=no_valid_key keys=0 " in server.log(), "the warning")
    assert " open=true" not in server.log()
    again = add(path, "again")
    wait_for(lambda: execute(server, again).status == 200, "the next key")


@pytest.mark.parametrize("environment", ["production", "dev"])
def test_a_start_without_any_key_in_the_file_of_keys(serve, tmp_path, environment):
    path = tmp_path / "keys.textproto"
    path.write_text("# none yet\n")
    server = serve(f'key_file: "{path}" environment: "{environment}"', ready=False, **NO_KEY)
    assert server.ended() == 1 and f':1:11: key_file: "{path}" holds no key' in server.log()


def test_every_key_has_expired(serve, tmp_path):
    path = tmp_path / "keys.textproto"
    key = add(path, "k", "--expires", "2020-01-01")
    server = serve(f'key_file: "{path}" environment: "dev"', **NO_KEY)
    assert execute(server, key).status == 401
    assert 'event=no_valid_key keys=1 means="every key has expired: nobody may call"' in server.log()


def test_a_reload_that_opens_the_server_says_so(serve, tmp_path):
    server = serve(config_key("a", "ka") + 'environment: "dev"', **NO_KEY)
    assert execute(server, "kb").status == 401 and "open=false" in server.log()
    config = server.environment["SANDBOX_EXECUTOR_CONFIG"]
    with open(config) as file:
        text = file.read()
    with open(config, "w") as file:
        file.write(text.replace(config_key("a", "ka"), ""))
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    assert execute(server, "kb").status == 200
    assert " open=true" in next(line for line in server.log().splitlines() if "event=reloaded " in line)


def test_a_missing_file_of_keys_stops_the_start(serve, tmp_path):
    server = serve(f'\n  key_file: "{tmp_path}/none"', ready=False)
    assert server.ended() == 1 and f':2:13: key_file: "{tmp_path}/none" cannot be read: No such file or directory' in server.log()
    server = serve('key_file: "relative"', ready=False)
    assert server.ended() == 1 and "key_file" in server.log()


def test_the_command_leaves_the_rest_as_it_is(tmp_path):
    path = tmp_path / "keys"
    key = add(path, "a")
    assert path.stat().st_mode & 0o777 == 0o600 and key not in path.read_text()
    path.chmod(0o640)
    by_hand = '# Mine.\nkey {\n  name: "hand"  # made by hand\n  sha256: "%s"\n}\n' % ("b" * 64)
    path.write_text(by_hand + path.read_text().rstrip("\n"))  # without a final line feed
    before = path.read_text()
    add(path, "b")
    assert path.read_text().startswith(before + "\n") and path.stat().st_mode & 0o777 == 0o640
    assert key_command("revoke", "a", "--file", path).returncode == 0
    assert path.read_text().startswith(by_hand) and '"a"' not in path.read_text() and '"b"' in path.read_text()
    refused = key_command("revoke", "hand", "--file", path)
    assert refused.returncode == 1 and "by hand" in refused.stderr and path.read_text().startswith(by_hand)
    assert os.listdir(tmp_path) == ["keys"]


def test_many_at_once_lose_nothing(tmp_path):
    path = tmp_path / "keys"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda i: add(path, f"k{i}"), range(16)))
    assert len(set(keys)) == 16 and len(key_command("list", "--file", path).stdout.splitlines()) == 16


@pytest.mark.parametrize("arguments, code, says", [
    (["add", "a"], 2, "which file?"), (["add", "--file", "F"], 2, "which key?"), (["add", "a b", "--file", "F"], 1, "names have"),
    (["add", 'a"', "--file", "F"], 1, "names have"), (["add", "there", "--file", "F"], 1, "already"), (["add", "x", "--team", "a b", "--file", "F"], 1, "--team: names have"),
    (["add", "x", "--max-concurrent-jobs", "0", "--file", "F"], 2, "--max-concurrent-jobs: '0' is not"),
    (["add", "x", "--expires", "soon", "--file", "F"], 1, "must be like"), (["add", "x", "--policy", 'p" sha256: "', "--file", "F"], 1, "cannot be the name"),
    (["revoke", "nobody", "--file", "F"], 1, "there is no key"), (["list", "--file", "/no/such/file"], 1, "No such file"),
    (["list", "x", "--file", "F"], 2, "takes no arguments"), ([], 2, "usage:"), (["--help"], 0, "usage:"), (["add", "--help"], 0, "--max-jobs-per-minute"),
])
def test_command_line(tmp_path, arguments, code, says):
    path = tmp_path / "keys"
    add(path, "there")
    before = path.read_text()
    done = key_command(*[str(path) if argument == "F" else argument for argument in arguments])
    assert done.returncode == code and says in done.stdout + done.stderr
    assert path.read_text() == before

"""/healthz, /readyz, /metrics, /openapi.json, logs and the audit trail."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from harness import BUILD, CGROUP, ROOT, wait_for

ENFORCED_BY = "cgroup2" if CGROUP == "REQUIRED" else "rlimit"
FAMILIES = {
    "immure_jobs_total": "counter", "immure_jobs_running": "gauge", "immure_jobs_rejected_total": "counter",
    "immure_job_duration_seconds": "histogram", "immure_jail_setup_seconds": "histogram",
    "immure_job_cpu_seconds_total": "counter", "immure_job_memory_peak_bytes": "histogram",
    "immure_denied_syscalls_total": "counter", "immure_http_requests_total": "counter",
    "immure_http_request_duration_seconds": "histogram", "immure_limits_enforced_by": "gauge",
    "immure_heap_bytes": "gauge", "immure_front_restarts_total": "counter", "immure_leftovers_swept_total": "counter", "immure_build_info": "gauge",
    "process_cpu_seconds_total": "counter", "process_open_fds": "gauge", "process_max_fds": "gauge",
    "process_virtual_memory_bytes": "gauge", "process_resident_memory_bytes": "gauge",
    "process_start_time_seconds": "gauge",
}


def fields(line):
    """logfmt -> {key: value}"""
    found = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)', line)
    return {key: json.loads(value) if value.startswith('"') else value for key, value in found}


def lines(server, event):
    return [fields(line) for line in server.log().splitlines() if f" event={event}" in line]


def test_health(server):
    for path in ("/healthz", "/health", "/readyz"):
        health = server.get(path).json
        assert health["status"] == "ready" and health["limits"] == {"enforced_by": ENFORCED_BY}
        assert ("degraded" in health) == (CGROUP != "REQUIRED")


def test_metrics_are_all_there(server):
    server.execute("print(1)")
    reply = server.get("/metrics")
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = reply.body.decode()
    assert dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)).items() >= FAMILIES.items()
    assert set(re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE)) == set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert re.search(r'^immure_jobs_total{runtime="python",status="success"} [1-9]', text, re.MULTILINE)
    assert f'immure_limits_enforced_by{{backend="{ENFORCED_BY}"}} 1\n' in text
    commit = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    told, = re.findall(r'^immure_build_info{version="[^"]+",commit="([0-9a-f]{12}|unknown)"} 1$', text, re.MULTILINE)
    assert (told == "unknown") == (commit == "" or not (ROOT / ".git").exists())


def test_promtool_finds_nothing(server):
    promtool = shutil.which("promtool", path=f"{BUILD}/tools:{os.environ['PATH']}")
    assert promtool, "there is no promtool; it is in Debian's package prometheus, and scripts/test fetches it"
    server.execute("print(1)")
    server.request("POST", "/execute", "x")
    done = subprocess.run([promtool, "check", "metrics"], input=server.get("/metrics").body, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (0, b"")


def test_metrics_count(serve):
    server = serve()
    for code, times in (("print(1)", 3), ("1/0", 2)):
        for _ in range(times):
            server.execute(code)
    server.execute("import socket; socket.socket()", policy="strict")
    server.request("POST", "/execute", "{}")
    server.request("POST", "/execute", "{}", )
    server.get("/no/such/path")
    text = server.get("/metrics").body.decode()
    for line in ('immure_jobs_total{runtime="python",status="success"} 3', 'immure_jobs_total{runtime="python",status="execution_error"} 3',
                 'immure_jobs_rejected_total{reason="invalid_field"} 2', "immure_jobs_running 0", "immure_job_duration_seconds_count 6",
                 "immure_jail_setup_seconds_count 6", 'immure_denied_syscalls_total{syscall="socket"} 1',
                 'immure_http_requests_total{path="/execute",code="200"} 6', 'immure_http_requests_total{path="/execute",code="400"} 2',
                 'immure_http_requests_total{path="other",code="404"} 1', "immure_front_restarts_total 0"):
        assert line + "\n" in text, line
    assert server.metric("immure_job_cpu_seconds_total") > 0


def test_labels_do_not_grow_with_what_callers_send(serve):
    server = serve()
    server.get("/metrics")
    before = server.get("/metrics").body.decode()
    for number in range(50):
        server.get(f"/path{number}")
        server.request(f"METHOD{number}", "/execute")
        server.request("POST", "/execute", json.dumps({"code": "1", "runtime": f"r{number}"}))
    text = server.get("/metrics").body.decode()
    assert len(text.splitlines()) - len(before.splitlines()) < 4
    assert "path1" not in text and "r1" not in re.findall(r'runtime="([^"]*)"', text)


def test_closed_sets_of_labels_are_there_from_the_start(serve):
    """A series that begins with its first event shows no increase."""
    text = serve().get("/metrics").body.decode()
    for runtime in ("python", "bash"):
        for status in ("success", "execution_error", "timeout", "oom", "cancelled", "setup_error"):
            assert f'immure_jobs_total{{runtime="{runtime}",status="{status}"}} 0\n' in text
    for family, label, values in (("immure_jobs_rejected_total", "reason", ("invalid_field", "busy", "rate_limited", "unauthorized", "too_large")),
                                  ("immure_tool_calls_total", "outcome", ("success", "tool_error", "http_error", "request_failed", "refused", "cancelled")),
                                  ("immure_egress_connections_total", "outcome", ("closed", "refused", "failed", "limit", "timeout", "cancelled")),
                                  ("immure_egress_bytes_total", "direction", ("sent", "received")),
                                  ("immure_http_replies_dropped_total", "reason", ("stalled", "budget")),
                                  ("immure_auth_failures_total", "reason", ("missing", "wrong")),
                                  ("immure_log_lines_lost_total", "process", ("front", "warden"))):
        for value in values:
            assert f'{family}{{{label}="{value}"}} 0\n' in text, (family, value)
    for code in ("200", "202", "400", "401", "403", "413", "429", "500", "503"):
        assert f'immure_http_requests_total{{path="/execute",code="{code}"}} 0\n' in text
    for line in ("immure_job_slots 4", "immure_jobs_running 0", "immure_kernel_slots 16", "immure_http_connections_refused_total 0",
                 "immure_audit_lines_lost_total 0", "immure_config_last_reload_successful 1"):
        assert line + "\n" in text, line


def test_probes_are_logged_at_debug_only(serve):
    for level in ("INFO", "DEBUG"):
        server = serve(f"log_level: {level}")
        for path in ("/healthz", "/readyz", "/policies"):
            server.get(path)
        wait_for(lambda: "path=/policies " in server.log(), "the last one's line")
        for path in ("/healthz", "/readyz"):
            assert (f"path={path} " in server.log()) == (level == "DEBUG")


def test_reloads_are_told(serve, tmp_path):
    path = tmp_path / "keys.textproto"
    path.write_text("")
    begun = time.time()
    server = serve(f'key_file: "{path}"\n')
    started = server.metric("immure_config_last_reload_success_timestamp_seconds")
    assert begun - 1 < started < time.time()
    path.write_text("nonsense")
    wait_for(lambda: server.metric("immure_config_last_reload_successful") == 0, "the refusal")
    assert server.metric("immure_config_last_reload_success_timestamp_seconds") == started
    path.write_text("")
    wait_for(lambda: server.metric("immure_config_last_reload_successful") == 1, "the reload")
    assert server.metric("immure_config_last_reload_success_timestamp_seconds") > started


def test_connections_that_find_no_room_are_counted(serve, wire):
    server = serve("max_connections_per_address: 4\n")
    assert server.metric("immure_http_connections_refused_total") == 0
    for _ in range(8):
        wire(server)
    wait_for(lambda: server.metric("immure_http_connections_refused_total") >= 4, "the older ones' end")


def test_openapi_describes_this_interface(server):
    document = server.get("/openapi.json").json
    assert document["openapi"].startswith("3.")
    assert set(document["paths"]) == {"/approvals", "/approvals/{approval_id}", "/execute", "/mcp", "/run-code", "/run-code/{execution_id}/terminate", "/executions/{execution_id}/answers", "/jobs", "/jobs/{job_id}", "/runtimes", "/policies", "/sessions", "/sessions/{session_id}/fork", "/sessions/{session_id}/restore", "/sessions/{session_id}/diff/{other}", "/sessions/{session_id}/files", "/sessions/{session_id}/files/{path}", "/workspace/{session_id}", "/", "/healthz", "/health", "/readyz", "/metrics", "/openapi.json"}
    assert server.get("/openapi.json").headers["Content-Type"] == "application/json"
    schemas = document["components"]["schemas"]
    verdict = server.execute("print(1)", language="python", files=[{"name": "a"}])
    assert set(verdict) == set(schemas["ExecuteReply"]["required"])
    assert set(verdict) <= set(schemas["ExecuteReply"]["properties"])
    for name in schemas["ExecuteRequest"]["properties"]:  # each is known, if not with this value
        error = server.request("POST", "/execute", json.dumps({"code": "1", name: False})).json
        assert "unknown" not in error.get("error", ""), name
    failed = server.execute("1/0")
    assert set(failed) <= set(schemas["ExecuteReply"]["properties"])
    error = server.request("POST", "/execute", "{}").json
    assert set(error) == set(schemas["Error"]["required"])
    assert error["code"] in schemas["Error"]["properties"]["code"]["enum"]
    references = re.findall(r'"#/components/(\w+)/([\w-]+)"', json.dumps(document))
    assert references and all(name in document["components"][kind] for kind, name in references)


@pytest.mark.parametrize("sent, kept", [("req-1", True), ("a.b:c/d=e", True), ("x" * 128, True), ("x" * 129, False), ("", False),
                                        ("a b", False), ("a\tb", False), ("é", False), ('"', False)])
def test_request_ids(server, wire, sent, kept):
    connection = wire(server)
    connection.request("GET", "/healthz", {"X-Request-Id": sent})
    got = connection.reply().headers["x-request-id"]
    assert (got == sent) == kept
    assert re.fullmatch(r"[\w.:/+=@~-]{1,128}", got)


def test_errors_carry_the_request_id_too(server, wire):
    for headers in ({"X-Request-Id": "mine"}, {"X-Request-Id": "mine", "Content-Length": "10", "Content-Type": "x/y"}):
        connection = wire(server)
        connection.request("POST", "/execute", headers)
        reply = connection.reply()
        assert reply.status == 401 and reply.headers["x-request-id"] == "mine"


def test_one_line_per_request_and_one_per_job(serve, wire):
    server = serve()
    code = "print('out-of-the-program'); import sys; sys.exit(3)"
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    body = json.dumps({"code": code, "execution_id": "exec-1", "stdin": "in-to-the-program", "env": {}, "args": ["an-argument"],
                       "files": [{"name": "name-of-file", "content": "content-of-file"}]}).encode()
    connection = wire(server)
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": "application/json",
                                            "Content-Length": len(body), "X-Request-Id": "req-1", "traceparent": traceparent}, body)
    verdict = json.loads(connection.reply().body)
    wait_for(lambda: any(line["request_id"] == "req-1" for line in lines(server, "request")), "the line")
    line, = (line for line in lines(server, "request") if line["request_id"] == "req-1")
    assert line["method"] == "POST" and line["path"] == "/execute" and line["status"] == "200" and line["sent"] == "true"
    assert line["key"] == "default" and line["client"] == "127.0.0.1" and line["traceparent"] == traceparent
    assert line["level"] == "info" and line["who"] == "front" and float(line["duration_ms"]) > 0

    audit, = lines(server, "audit")
    assert audit["key"] == "default" and audit["request_id"] == "req-1" and audit["execution_id"] == "exec-1"
    assert audit["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()
    assert audit["policy"] == "python" and audit["policy_sha256"] == verdict["policy_sha256"]
    assert audit["runtime"] == "python" and audit["status"] == "execution_error" and audit["exit_code"] == "3"
    assert audit["signal"] == "" and audit["traceparent"] == traceparent and audit["enforced_by"] == ENFORCED_BY
    assert float(audit["duration_ms"]) > 0 and float(audit["cpu_ms"]) >= 0
    for secret in (server.key, "out-of-the-program", "in-to-the-program", "an-argument", "content-of-file", "name-of-file"):
        assert secret not in server.log(), secret


def test_keys_are_never_logged(serve, wire):
    server = serve("log_level: DEBUG")
    for headers in ({"X-Service-API-Key": "wrong-secret-1"}, {"Authorization": "Bearer wrong-secret-2"},
                    {"X-Service-API-Key": server.key}, {"Authorization": f"Bearer {server.key}"}):
        connection = wire(server)
        connection.request("GET", "/metrics?key=query-secret-3", headers)
        connection.reply()
    wait_for(lambda: len(lines(server, "request")) >= 4, "four lines")
    assert server.key not in server.log() and "secret" not in server.log()


def test_hostile_requests_stay_on_one_line(serve, wire):
    server = serve()
    connection = wire(server)
    connection.send(b"GET /a\x1b[2Jb\xff\"=%0aevent=forged HTTP/1.1\r\nHost: x\r\nX-Request-Id: \x1b[31m\r\n\r\n")
    connection.reply()
    wait_for(lambda: "event=request method=GET path=\"/a" in server.log() or "event=request method=GET path=/a" in server.log(), "the line")
    assert "\x1b" not in server.log() and "\nevent=forged" not in server.log()


def test_lines_that_a_pipe_takes_at_once(serve, wire):
    """Whatever callers choose."""
    server = serve()
    for target in (b"/" + b"x" * 5000, b"/" + b"\xff" * 5000, b"/" + b'"' * 5000):
        connection = wire(server)
        connection.send(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + b"i" * 5000 + b"\r\n\r\n")
        connection.reply()
    connection = wire(server)
    connection.send(b"M" * 5000 + b" / HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.reply()
    wait_for(lambda: len(lines(server, "request")) >= 4, "four lines")
    assert max(map(len, server.log().splitlines())) < 4096


def test_logs_as_json(serve):
    server = serve("log_format: JSON")
    server.execute("print(1)")
    wait_for(lambda: '"event":"audit"' in server.log(), "the audit line")
    parsed = [json.loads(line) for line in server.log().splitlines()]
    audit, = (line for line in parsed if line["event"] == "audit")
    assert audit["exit_code"] == 0 and audit["signal"] is None and audit["status"] == "success"
    assert {"front", "warden"} == {line["who"] for line in parsed}

"""Spans of OpenTelemetry: what a collector is sent, held against the schema; and one that does not take them."""

import contextlib
import http.server
import json
import re
import socket
import threading
import time

import pytest
from harness import closed_port, wait_for

WITHOUT_NODE = True

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(http.server.ThreadingHTTPServer):
    """Takes spans, as `path`, `headers`, `body`; `status` is what it says."""

    daemon_threads = True

    def __init__(self, status=200):
        collector = self
        self.requests, self.status = [], status

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(collector.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self):
        return [span for path, _, body in list(self.requests) if path.endswith("/v1/traces") for span in spans_of(body)]

    def of_trace(self, names):
        """-> the spans of the one trace that has a span of each of these names, by name"""
        def found():
            traces = {}
            for span in self.spans():
                traces.setdefault(span["traceId"], []).append(span)
            return next((spans for spans in traces.values() if {span["name"] for span in spans} >= set(names)), None)
        return {span["name"]: span for span in wait_for(found, f"spans {names}")}


@pytest.fixture
def collector():
    with Collector() as made:
        yield made
        made.shutdown()


def attributes(of):
    values = {}
    for attribute in of["attributes"]:
        assert set(attribute) == {"key", "value"} and len(attribute["value"]) == 1
        (kind, value), = attribute["value"].items()
        assert kind in ("stringValue", "intValue", "boolValue") and isinstance(value, bool if kind == "boolValue" else str)
        values[attribute["key"]] = int(value) if kind == "intValue" else value
    assert len(values) == len(of["attributes"])
    return values


def spans_of(body):
    """Strict: nothing that OTLP's JSON does not have."""
    assert set(body) == {"resourceSpans"}
    of_resource, = body["resourceSpans"]
    assert set(of_resource) == {"resource", "scopeSpans"}
    resource = attributes(of_resource["resource"])
    assert resource["service.name"] == "immure" and resource["service.instance.id"] and resource["service.version"]
    of_scope, = of_resource["scopeSpans"]
    assert set(of_scope) == {"scope", "spans"} and of_scope["scope"]["name"] == "immure" and of_scope["spans"]
    for span in of_scope["spans"]:
        assert set(span) - {"parentSpanId"} == {"traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"}
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and set(span["traceId"]) != {"0"}
        for field in ("spanId", *(["parentSpanId"] if "parentSpanId" in span else [])):
            assert re.fullmatch("[0-9a-f]{16}", span[field]) and set(span[field]) != {"0"}
        start, end = (span[field] for field in ("startTimeUnixNano", "endTimeUnixNano"))
        assert re.fullmatch(r"\d{19}", start) and re.fullmatch(r"\d{19}", end) and int(start) <= int(end)
        assert span["kind"] in (1, 2, 3) and span["status"] in ({}, {"code": 2})
        attributes(span)
    return of_scope["spans"]


def test_nothing_is_sent_at_all_by_default(serve, collector):
    """Not even where the environment says what other programs would go by."""
    silent = serve("", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    speaks = serve(f'otlp_endpoint: "{collector.url}"')
    for server, trace in ((silent, "a" * 32), (speaks, "b" * 32)):
        server.request("POST", "/execute", '{"code": "1"}', headers={"traceparent": f"00-{trace}-{PARENT}-01"})
    wait_for(lambda: any(span["traceId"] == "b" * 32 for span in collector.spans()), "the spans of the other one")
    assert not any(span["traceId"] == "a" * 32 for span in collector.spans())
    assert silent.metric("immure_spans_total") == 0


def test_a_job_is_a_tree_of_spans(serve, collector):
    tool = f"{collector.url}/tool"  # it answers calls as well
    server = serve(f'otlp_endpoint: "{collector.url}" callback {{ url: "{tool}" private_addresses: true }}\n')
    begun = time.time_ns()
    reply = server.request("POST", "/execute", json.dumps({"code": "call_tool('hold', {'secret': 'argument'})\nprint('output')", "callback_url": tool}),
                           headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-Id": "traced"})
    assert reply.json["stdout"] == "output\n"
    spans = collector.of_trace(["POST /execute", "jail set-up", "program", "tool call"])
    request, setup, program, call = (spans[name] for name in ("POST /execute", "jail set-up", "program", "tool call"))
    assert {span["traceId"] for span in spans.values()} == {TRACE}
    assert request["parentSpanId"] == PARENT and (request["kind"], call["kind"], program["kind"]) == (2, 3, 1)
    assert setup["parentSpanId"] == program["parentSpanId"] == request["spanId"] and call["parentSpanId"] == program["spanId"]
    assert len({span["spanId"] for span in spans.values()}) == len(spans)
    for child in (setup, program):
        assert int(request["startTimeUnixNano"]) <= int(child["startTimeUnixNano"]) and int(child["endTimeUnixNano"]) <= int(request["endTimeUnixNano"])
    assert abs(int(request["startTimeUnixNano"]) - begun) < 600e9
    said = attributes(request)
    assert (said["http.request.method"], said["http.route"], said["http.response.status_code"]) == ("POST", "/execute", 200)
    assert said["immure.request_id"] == "traced"
    said = attributes(program)
    assert (said["immure.runtime"], said["immure.policy"], said["immure.status"]) == ("python", "python", "success")
    said = attributes(call)
    assert (said["immure.tool"], said["immure.outcome"], said["http.response.status_code"]) == ("hold", "success", 200)
    told, = [headers["traceparent"] for path, headers, _ in collector.requests if path == "/tool"]
    assert told == f"00-{TRACE}-{call['spanId']}-01"
    path, headers, _ = next(request for request in collector.requests if request[0] != "/tool")
    assert path == "/v1/traces" and headers["Content-Type"] == "application/json" and "X-Request-Id" not in headers
    everything = json.dumps([body for path, _, body in collector.requests if path != "/tool"])
    assert "argument" not in everything and "output" not in everything and server.key not in everything


def test_the_callers_flag_is_honoured(serve, collector):
    server = serve(f'otlp_endpoint: "{collector.url}"')
    for number, flag in enumerate(("00", "01")):
        server.request("POST", "/execute", '{"code": "1"}', headers={"traceparent": f"00-{number:032x}".replace("0" * 31, "a" * 31) + f"-{PARENT}-{flag}"})
    wait_for(lambda: any(span["traceId"] == "a" * 31 + "1" for span in collector.spans()), "the spans of the other one")
    assert not any(span["traceId"] == "a" * 31 + "0" for span in collector.spans())


def test_without_a_traceparent_a_trace_begins_or_not(serve, collector):
    server = serve(f'otlp_endpoint: "{collector.url}"')
    server.execute("1/0")
    spans = collector.of_trace(["POST /execute", "program"])
    assert "parentSpanId" not in spans["POST /execute"] and spans["program"]["status"] == {"code": 2}
    with Collector() as other:
        silent = serve(f'otlp_endpoint: "{other.url}" otlp_sample_percent: 0')
        silent.execute("1")
        silent.request("GET", "/policies", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        wait_for(other.spans, "the caller's own")
        assert {span["traceId"] for span in other.spans()} == {TRACE}
        other.shutdown()


def test_a_job_that_waits_says_how_long(serve, hold, collector):
    server = serve(f'otlp_endpoint: "{collector.url}" max_concurrent_jobs: 1', **hold.environment)
    threads = [threading.Thread(target=server.execute, args=("call_tool('hold')",), kwargs=hold.fields)]
    threads[0].start()
    wait_for(lambda: server.metric("immure_jobs_running") == 1, "a job that runs")
    threads.append(threading.Thread(target=server.execute, args=("1",), kwargs={"queue_ms": 30000}))
    threads[1].start()
    wait_for(lambda: server.metric("immure_jobs_queued") == 1, "a job that waits")
    hold.go.set()
    for thread in threads:
        thread.join()
    spans = collector.of_trace(["POST /execute", "queue", "jail set-up", "program"])
    assert spans["queue"]["parentSpanId"] == spans["POST /execute"]["spanId"]
    assert int(spans["queue"]["endTimeUnixNano"]) <= int(spans["jail set-up"]["startTimeUnixNano"])


def test_a_header_has_a_secret(serve, collector, tmp_path):
    (tmp_path / "token").write_text("Bearer of-the-collector\n")
    (tmp_path / "token").chmod(0o600)
    server = serve(f'otlp_endpoint: "{collector.url}/base/" otlp_header: "Authorization" otlp_secret: "otlp"\n'
                   f'egress_secret {{ name: "otlp" file: "{tmp_path / "token"}" }}\n')
    server.execute("1")
    wait_for(lambda: collector.requests, "spans")
    assert collector.requests[0][0] == "/base/v1/traces" and collector.requests[0][1]["Authorization"] == "Bearer of-the-collector"


@pytest.mark.parametrize("config, says", [('otlp_endpoint: "ftp://x"', "otlp_endpoint"), ('otlp_header: "a"', "otlp_header and otlp_secret"),
                                          ('otlp_header: "a" otlp_secret: "b"', "no egress_secret"), ("otlp_sample_percent: 101", "otlp_sample_percent")])
def test_what_is_wrong_is_said(serve, config, says):
    server = serve(config, ready=False)
    assert server.ended() == 1 and says in server.log()


@pytest.mark.parametrize("kind", ["closed", "error", "silent"])
def test_a_collector_that_takes_nothing_harms_nobody(serve, kind):
    with contextlib.ExitStack() as stack:
        if kind == "error":
            made = stack.enter_context(Collector(500))
            stack.callback(made.shutdown)
            url = made.url
        elif kind == "silent":
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        else:
            url = f"http://127.0.0.1:{closed_port()}"
        server = serve(f'otlp_endpoint: "{url}"')
        for number in range(3):
            assert server.execute(f"print({number})")["status"] == "success"
        if kind != "silent":
            wait_for(lambda: 'immure_spans_total{outcome="failed"} 0' not in server.get("/metrics").body.decode(), "spans that failed")
            assert server.log().count("event=spans_not_sent") == 1
        assert server.execute("print(3)")["stdout"] == "3\n"


def test_a_flood_is_bounded(serve):
    """Of a collector that never answers: one batch is under way, so many wait, and the rest is counted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = serve(f'otlp_endpoint: "http://127.0.0.1:{listener.getsockname()[1]}"')
        connection = socket.create_connection(("127.0.0.1", server.port))
        with connection, connection.makefile("rb") as replies:
            def flood():
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 250)
                for _ in range(250):
                    assert replies.readline().startswith(b"HTTP/1.1 200")
                    size = 0
                    while (line := replies.readline()) != b"\r\n":
                        name, _, value = line.partition(b":")
                        size = int(value) if name.lower() == b"content-length" else size
                    replies.read(size)
                return re.search(r'^immure_spans_total{outcome="dropped"} [1-9]', server.get("/metrics").body.decode(), re.M)
            wait_for(flood, "spans to be dropped", 60)
        assert server.execute("print(1)")["status"] == "success"

"""HTTP as nobody should speak it: ambiguous, slow, endless, too much, guessing. What is cut off, and who does not notice."""

import json
import re
import resource
import socket
import time

import pytest
from harness import BUILD, wait_for
from wire import Wire

WITHOUT_NODE = True

JSON = "application/json"
SANITIZED = b"__asan_init" in (BUILD / "immure").read_bytes()  # keeps freed memory for a while
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
# Comes behind each malformed request, as if it were part of it: nobody may answer it.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"


def exchange(server, *parts, source=None, stay=False):
    """-> everything that comes back until the server closes; unless we `stay`, we say that nothing else will come"""
    with socket.create_connection(("127.0.0.1", server.port), 20, source and (source, 0)) as client:
        received = b""
        try:
            for part in parts:
                client.sendall(part)
            if not stay:
                client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65536):
                received += piece
        except OSError as error:
            # what was not read of a refused request brings a reset
            assert not isinstance(error, TimeoutError), received
        return received


def statuses(received):
    return [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d{3}) ", received, re.M)]


# ---- forms


MALFORMED = {
    "a bare LF behind the request line": b"GET /healthz HTTP/1.1\nHost: x\r\n\r\n",
    "a bare LF behind a header": b"GET /healthz HTTP/1.1\r\nHost: x\nX-A: b\r\n\r\n",
    "a bare LF for the empty line": GET + b"\n",
    "nothing but bare LFs": b"GET /healthz HTTP/1.1\nHost: x\n\n",
    "a bare CR in a value": GET + b"X-A: b\rX-B: c\r\n\r\n",
    "a length behind a bare CR": GET + b"X-A: b\rContent-Length: %d\r\n\r\n" % len(HIDDEN),
    "a header in two lines": GET + b"X-A: b\r\n c\r\n\r\n",
    "an encoding in two lines": GET + b"Transfer-Encoding:\r\n chunked\r\n\r\n",
    "a blank before the first header": b"GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n",
    "a blank before the colon": GET + b"X-A : b\r\n\r\n",
    "a length with a blank before the colon": GET + b"Content-Length : %d\r\n\r\n" % len(HIDDEN),
    "an encoding with a tab before the colon": GET + b"Transfer-Encoding\t: chunked\r\n\r\n",
    "no colon": GET + b"X-A\r\n\r\n",
    "no name": GET + b": b\r\n\r\n",
    "NUL in a value": GET + b"X-A: a\0b\r\n\r\n",
    "NUL in the last value, and bare LFs": GET + b'X-A: a\0"\n\n',
    "NUL in a name": GET + b"X\0A: b\r\n\r\n",
    "a control character": GET + b"X-A: a\x01b\r\n\r\n",
    "two hosts": GET + b"Host: y\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "an absolute URL": b"GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "an authority": b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "no such method": b"G(T /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "two blanks": b"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tab": b"GET\t/healthz\tHTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in the path": b"GET /heal thz HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/1.2": b"GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/1.10": b"GET /healthz HTTP/1.10\r\nHost: x\r\n\r\n",
    "HTTP/2.0": b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.0 with chunks": b"POST /execute HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length and chunks": GET + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": GET + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": GET + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN),
    "one length twice": GET + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "a list of lengths": GET + b"Content-Length: 0, 0\r\n\r\n",
    "a signed length": GET + b"Content-Length: +0\r\n\r\n",
    "a negative length": GET + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": GET + b"Content-Length: 0x5\r\n\r\n",
    "no length": GET + b"Content-Length:\r\n\r\n",
    "a length and a half": GET + b"Content-Length: 1.5\r\n\r\n",
    "an unknown encoding": GET + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding with a blank behind it": GET + b"Transfer-Encoding: chunked \r\n\r\n0\r\n\r\n",
    "two encodings": GET + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "encodings in two headers": GET + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "an encoding behind a vertical tab": GET + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
}


MALFORMED |= {
    "the beginning of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "nothing but NUL": b"\0" * 1000,
    "two empty lines": b"\r\n\r\n" + GET + b"\r\n",
    "a bare CR alone": b"\rGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a bare LF before": b"\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank before the method": b" GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank behind the version": b"GET /healthz HTTP/1.1 \r\nHost: x\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: x\r\n\r\n",
    "an empty target": b"GET  HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target that is no path": b"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes above ASCII in the target": b"GET /healthz\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "small letters": b"GET /healthz http/1.1\r\nHost: x\r\n\r\n",
    "an encoding of HTTP/1.0 with a length": b"POST /execute HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
}
# Well formed, but the body's end is not clear.
UNFRAMED = ("a length and chunks", "chunks and a length", "two lengths", "one length twice", "a list of lengths", "a signed length",
            "a negative length", "a hexadecimal length", "no length", "a length and a half", "an unknown encoding", "two encodings",
            "encodings in two headers")
SYNTAX, FRAMING = "the request line or a header is malformed", "Content-Length and Transfer-Encoding do not tell where the body ends"


def the_error(received, status, code, error):
    """Exactly one reply, an error like all others, and nothing behind it."""
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(headers) == len(lines) and first.startswith(f"HTTP/1.1 {status} "), received
    assert headers["content-type"] == JSON and headers["connection"] == "close" and headers["x-request-id"], received
    assert len(body) == int(headers["content-length"]), received
    assert json.loads(body) == {"error": error, "code": code, "field": None}, received


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("stay", [False, True])
def test_malformed_requests_have_one_reply_and_end_their_connection(server, name, stay):
    received = exchange(server, MALFORMED[name] + HIDDEN, stay=stay)
    the_error(received, 400, "invalid_request", FRAMING if name in UNFRAMED else SYNTAX)
    assert "path=/hidden" not in server.log()


def test_an_error_has_the_id_that_was_asked_with(server):
    for wrong in (b"X-A : b\r\n", b"Content-Length: -1\r\n", b"X: " + b"y" * 30_000 + b"\r\n"):
        received = exchange(server, GET + b"X-Request-Id: mine\r\n" + wrong + b"\r\n")
        assert (b"\r\nX-Request-Id: mine\r\n" in received) == (len(wrong) < 100) and received.count(b"X-Request-Id: ") == 1


def test_what_looks_odd_but_is_well_formed(server):
    for request in (GET + b"X-A:b\r\nX-B:\t c \t\r\nX-C:\r\nX-D: \x80\xff\r\n\r\n", b"GET /healthz?& HTTP/1.1\r\nhOST:x\r\n\r\n",
                    GET + b"Expect: 100-continue \r\nAccept: text/html \t\r\n\r\n", b"GET /healthz HTTP/1.0\r\n\r\n", b"\r\n" + GET + b"\r\n"):
        assert statuses(exchange(server, request)) == [200], request


def chunked(server, *chunks):
    head = (f"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n").encode()
    return exchange(server, head, *chunks, stay=True)


BODY = b'{"code": "1"}'


@pytest.mark.parametrize("chunk", [
    b"0xd\r\n" + BODY, b"+d\r\n" + BODY, b"-1\r\n" + BODY, b" d\r\n" + BODY, b"d \r\n" + BODY, b"zz\r\n" + BODY, b"\r\n" + BODY,
    b"fffffffffffffffff\r\n" + BODY, b"d\r" + BODY, b"c\r\n" + BODY, b"d;a\nb\r\n" + BODY, b"d\n" + BODY, b";\r\n" + BODY, b"d;a\0\r\n" + BODY,
    b"d;" + b"a" * 300 + b"\r\n" + BODY, b"d\r\n" + BODY + b"x", b"d\r\n" + BODY + b"\n0\r\n\r\n", b"d\r\n" + BODY + b"\r\n0\r\nno colon",
    b"d\r\n" + BODY + b"\r\n0\r\n: b", b"d\r\n" + BODY + b"\r\n0\r\nA: b\r\n c: d", b"d\r\n" + BODY + b"\r\n0\r\nA: b\0",
    b"d\r\n" + BODY + b"\r\n0\r\n" + b"A: b\r\n" * 1000])
def test_bad_chunks(server, chunk):
    the_error(chunked(server, chunk + b"\r\n0\r\n\r\n" + HIDDEN), 400, "invalid_request", "a chunk of the body is malformed")
    assert "path=/hidden" not in server.log()


def test_a_chunk_that_is_too_large(server):
    """Its end may be as far away as sixteen digits say."""
    received = exchange(server, (f"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n").encode() + b" " * (40 << 20), stay=True)
    the_error(received, 413, "too_large", "the body may have at most 33554432 bytes")


def test_nothing_behind_chunks_is_a_request(server):
    for end in (b"\r\n0\r\n\r\n", b"\r\n0\r\nX-Service-API-Key: wrong\r\nContent-Length: 5\r\n\r\n", b"\r\n0;a=b\r\n\r\n"):
        received = chunked(server, b"d\r\n" + BODY + end + HIDDEN)
        assert statuses(received) == [200] and b"Connection: close" in received
    assert "path=/hidden" not in server.log()


def test_a_body_that_is_expected_and_is_none(server):
    """What is behind such a request is no body: it is the next one."""
    for method in (b"GET", b"POST", b"HEAD"):
        asking = method + b" /healthz HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n"
        assert statuses(exchange(server, asking + GET + b"\r\n")) == [405 if method == b"POST" else 200, 200]


def test_a_request_byte_by_byte(server):
    head = GET + b"X-A: b\r\nX-B: c\r\n\r\n"
    assert statuses(exchange(server, *(head[i:i + 1] for i in range(len(head))))) == [200]


def test_thousands_of_requests_at_once(server):
    received = exchange(server, (GET + b"\r\n") * 2000)
    assert statuses(received) == [200] * 2000


# ---- too much


TOO_LARGE = 431, "headers_too_large", "the request's headers are too large"


def test_headers_without_end(server):
    assert statuses(exchange(server, GET + b"X-A: b\r\n" * 98 + b"\r\n")) == [200]
    for flood in (b"X-A: b\r\n" * 150, b"X-A: b\r\n" * 1500, b"X: " + b"y" * 30_000 + b"\r\n", b"y" * 30_000 + b": x\r\n"):
        the_error(exchange(server, GET + flood + b"\r\n"), *TOO_LARGE)
    for endless in (b"X-A: b\r\n" * 300_000, b"y" * 3_000_000):
        the_error(exchange(server, GET + endless), *TOO_LARGE)
    the_error(exchange(server, b"GET /" + b"y" * 300_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"), *TOO_LARGE)
    the_error(exchange(server, b"y" * 300_000), *TOO_LARGE)
    assert server.get("/healthz").status == 200


def test_a_gibibyte_is_refused_before_it_is_sent(server, wire):
    connection = wire(server)
    connection.request("POST", "/execute", {"X-Service-API-Key": server.key, "Content-Type": JSON, "Content-Length": 1 << 30})
    assert connection.reply().status == 413


def test_endless_chunks_are_cut_off_and_cost_no_memory(serve):
    server = serve("max_body_bytes: 1048576")
    head = (f"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n").encode()
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"

    def attack():
        received = exchange(server, head, *[chunk] * 200)
        assert set(statuses(received)) <= {413}, received  # a reset may overtake the answer

    for _ in range(3):
        attack()
    before = server.metric("process_resident_memory_bytes")
    for _ in range(30):
        attack()
    assert server.metric("process_resident_memory_bytes") < before + (4 << 20) or SANITIZED


def test_json_that_is_deep_wide_or_long(server):
    def post(body):
        started = time.monotonic()
        reply = server.request("POST", "/execute", body)
        assert time.monotonic() - started < 30
        return reply.status, reply.json["error"]

    assert post(b"[" * 4_000_000)[0] == 400
    assert post(b'{"a":' * 1_000_000)[0] == 400
    assert post(b'{"' + b"k" * 8_000_000 + b'": 1}')[0] == 400
    assert post(b'{"code": "1", "x": [' + b"1," * 2_000_000 + b"1]}")[0] in (400, 413)
    status, error = post(b'{"code": "1", "' + b"k" * 100_000 + b'": 1}')
    assert status == 400 and len(error) < 1000
    assert post(b"1" * 2_000_000)[0] == 400
    assert post(b'{"timeout_ms": 1e' + b"9" * 100_000 + b', "code": "1"}')[0] == 400
    assert post(b'{"code": "' + b"\\u0041" * 1_000_000 + b"\\ud800" + b'"}')[0] == 400


# ---- half-closed


def test_who_sends_no_more_gets_its_reply(server):
    """FIN is what both an end and half an end look like, until something is sent."""
    for code, accept in (("print(1)", JSON), ("import time; time.sleep(1); print(1)", JSON), ("import time; time.sleep(1); print(1)", "text/event-stream")):
        body = json.dumps({"code": code}).encode()
        head = (f"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\nAccept: {accept}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        received = exchange(server, head + body)
        assert statuses(received)[-1] == 200 and set(statuses(received)[:-1]) <= {100}, received
        assert received.count(b'"status":"success"') + received.count(b'"status": "success"') == 1, received


@pytest.mark.parametrize("accept", [JSON, "text/event-stream"])
def test_who_closes_cancels(serve, accept):
    """However it closes: with a reset, or with FIN alone, before its job is there or while it runs."""
    server = serve("")
    body = b'{"code": "import time; print(1, flush=True); time.sleep(50)"}'
    head = (f"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\nAccept: {accept}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    number = 0
    for shut_first in (False, True):
        for started in (False, True):
            with socket.create_connection(("127.0.0.1", server.port), 20) as client:
                client.sendall(head + body)
                if shut_first:
                    client.shutdown(socket.SHUT_WR)
                if started:
                    wait_for(lambda: server.metric("immure_jobs_running") == 1, "the job runs")
            number += 1
            wait_for(lambda: server.log().count("status=cancelled") == number and server.metric("immure_jobs_running") == 0, "its end", 20)  # noqa: B023


# ---- too slow, too many


@pytest.fixture
def many_descriptors():
    """A test that holds thousands of connections needs as many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65536, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(server, source):
    client = socket.create_connection(("127.0.0.1", server.port), 60, (source, 0))
    client.setblocking(False)
    return client


def is_closed(client):
    """Reads what has come; true at its end."""
    try:
        while client.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def ask(server, source):
    return statuses(exchange(server, GET + b"Connection: close\r\n\r\n", source=source))


def test_slow_requests_have_a_deadline(serve):
    server = serve("request_timeout_ms: 700")
    body = f"POST /execute HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {server.key}\r\nContent-Type: {JSON}\r\nContent-Length: 900\r\n\r\n"
    for start in (b"", GET, body.encode()):
        slow = Wire(server.port)
        slow.send(start or b"G")
        started = time.monotonic()
        slow.socket.settimeout(0.05)
        while time.monotonic() - started < 60:
            try:
                slow.send(b"x")  # each byte in time; all of them never
                if not slow.fill():
                    break
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                break
        assert time.monotonic() - started < 60
        assert statuses(slow.buffer) in ([408], [])
        slow.close()
    wait_for(lambda: server.metric("immure_http_connections") == 1, "no connection left")


def test_many_slow_requests_at_once(serve, many_descriptors):
    server = serve("request_timeout_ms: 3000")
    slow = [connect(server, "127.0.0.1") for _ in range(300)]
    for client in slow:
        client.send(b"GET /healthz HTTP/1.1\r\nHost:")
    assert ask(server, "127.0.0.2") == [200] and server.execute("print(1)")["stdout"] == "1\n"

    waiting = set(slow)

    def cut_off():
        waiting.difference_update([client for client in waiting if is_closed(client)])
        return not waiting
    wait_for(cut_off, "the slow ones cut off")
    for client in slow:
        client.close()


def test_idle_connections_of_one_address(serve, many_descriptors):
    server = serve("max_connections_per_address: 300")
    idle = [connect(server, "127.0.0.1") for _ in range(2000)]
    wait_for(lambda: sum(map(is_closed, idle)) >= 1700, "those over the limit closed")
    assert ask(server, "127.0.0.2") == [200]
    assert sum(map(is_closed, idle)) == 1700
    for client in idle:
        client.close()
    wait_for(lambda: ask(server, "127.0.0.1") == [200], "the address served again")


def test_idle_connections_of_many_addresses(serve, many_descriptors):
    server = serve("max_connections: 500 max_connections_per_address: 250")
    memory = server.metric("process_resident_memory_bytes")
    idle = []
    for number in range(10, 18):
        idle += [connect(server, f"127.0.0.{number}") for _ in range(250)]
        assert ask(server, "127.0.0.2") == [200]  # who has nothing to say makes room for who has
    wait_for(lambda: sum(map(is_closed, idle)) >= 1500, "the oldest closed")
    assert server.metric("immure_http_connections") <= 500
    for client in idle:
        client.close()
    wait_for(lambda: server.metric("immure_http_connections") == 1, "no connection left")
    assert server.metric("process_resident_memory_bytes") < memory + (64 << 20) or SANITIZED


# ---- guessing


def guess(server, key="wrong", **options):
    return exchange(server, f"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: {key}\r\nConnection: close\r\n\r\n".encode(), stay=True, **options)


def guess_often(server, count=60):
    """More wrong keys than an address may send, however slow the machine. -> the longest that one was answered after"""
    started = []
    clients = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(count)]
    for client in clients:
        started.append(time.monotonic())
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: wrong\r\n\r\n")
    longest = 0
    for client, since in zip(clients, started):
        assert client.recv(4096).startswith(b"HTTP/1.1 401 ")
        longest = max(longest, time.monotonic() - since)
        client.close()
    return longest


def test_guessing_keys_is_counted_and_slowed_down(serve):
    server = serve()
    for count in (1, 2, 3):
        assert statuses(guess(server)) == [401]
        assert f'immure_auth_failures_total{{reason="wrong"}} {count}\n' in server.get("/metrics").body.decode()
    assert guess_often(server) >= 1
    assert 'immure_auth_failures_total{reason="wrong"} 63\n' in server.get("/metrics").body.decode()
    assert statuses(exchange(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")) == [401]
    assert 'immure_auth_failures_total{reason="missing"} 1\n' in server.get("/metrics").body.decode()


def test_nobody_else_waits_for_who_guesses(serve, wire):
    server = serve()
    guess_often(server)
    for _ in range(10):  # a busy machine may take longer for the others' answers than the guess is held back
        guesses = []
        for method, path, headers in (("GET", "/metrics", {}), ("POST", "/execute", {"Content-Type": JSON, "Content-Length": 9})):
            connection = wire(server)
            connection.request(method, path, {"Authorization": "Bearer wrong", **headers}, b"123" if headers else b"")
            connection.socket.setblocking(False)
            guesses.append(connection)
        assert ask(server, "127.0.0.2") == [200]
        assert statuses(guess(server, source="127.0.0.2")) == [401]
        assert server.get("/metrics").status == 200  # the right key, from the same address
        try:
            held = [connection.fill() for connection in guesses]
        except BlockingIOError:
            held = []
        for connection in guesses:
            connection.socket.settimeout(60)
            assert connection.reply().status == 401
        if not held:
            return
    raise AssertionError("no guess was held back while others were served")


def test_a_guess_that_is_held_back_can_leave(serve):
    server = serve()
    before = server.metric("process_open_fds")
    for _ in range(120):
        with socket.create_connection(("127.0.0.1", server.port), 60) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Service-API-Key: wrong\r\n\r\n")
    wait_for(lambda: server.metric("process_open_fds") <= before, "no descriptor left")
    assert server.metric("immure_auth_failures_total") == 120
    assert server.stop() == 0  # with some of them held back, perhaps

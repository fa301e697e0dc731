"""Named hosts, nothing else: what programs reach by the proxy of their policy, from jails of every kind, and what they do not."""

import http.server
import json
import re
import shutil
import threading

import pytest

from harness import BUILD, WARM, wait_for

HOSTS = """egress {{ host: "localhost" port: {web} mode: HTTP method: [GET, POST] header {{ name: "X-Token" secret: "api" }} }}
egress {{ host: "localhost" port: {raw} max_bytes: 1MiB }}
env {{ name: "NO_PROXY" }} env {{ name: "no_proxy" }}
"""
FETCH = """
import urllib.request, urllib.error
def fetch(url, data=None, method=None):
    request = urllib.request.Request(url, data=data, method=method, headers={"X-Token": "mine"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
"""
CONNECT = """
import socket
def ask(text, port=3128):
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        said = b""
        while more := s.recv(65536):
            said += more
        return said
"""


class Upstream(http.server.ThreadingHTTPServer):
    """Tells each request what it has seen of it; `answer` is what a raw connection is told."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                told = json.dumps([self.command, self.path, self.headers.get("X-Token"), body]).encode()
                self.server.seen.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.port = [], self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture(scope="module")
def web():
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def raw():
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def other():
    """Listens on the same host, and is named by no policy."""
    with Upstream() as upstream:
        yield upstream
        assert upstream.seen == []


@pytest.fixture(scope="module")
def server(web, raw, other, tmp_path_factory):
    from conftest import Server
    from harness import runtimes
    place = tmp_path_factory.mktemp("egress")
    (place / "policies").mkdir()
    (place / "policies" / "quiet.textproto").write_text(
        'name: "quiet" part: true use: "bash" without { syscall: ["socket", "getpeername"] }')
    for name, parts in (("python", '"python"'), ("python-kernel", '"python-kernel"'), ("curl", '"quiet", "egress"')):
        (place / "policies" / f"{name}.textproto").write_text(
            f'name: "{name}" use: [{parts}]\n' + HOSTS.format(web=web.port, raw=raw.port))
    (place / "secret").write_text("the-value\n")
    (place / "secret").chmod(0o600)
    (place / "server.textproto").write_text(
        f'policy_path: "{place}/policies" egress_private_host: "localhost"\n'
        f'egress_secret {{ name: "api" file: "{place}/secret" }}\n' + runtimes())
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(place / "server.textproto")) as started:
        yield started
        assert "event=front_denied" not in started.log() and "the-value" not in started.log()


def run(server, code, **fields):
    verdict = server.execute(code, **fields)
    assert verdict["status"] == "success", verdict
    return verdict["stdout"]


# A session's jails are cold or warm as others are; a kernel's is made once, and each of its jobs has a socket of its own.
@pytest.mark.parametrize("fields", [{}, {"session_id": "egress"}, {"policy": "python-kernel", "session_id": "kernel"}],
                         ids=["alone", "session", "kernel"])
def test_named_hosts_are_reached(server, web, fields):
    for n in range(3):
        code = FETCH + f"print(fetch('http://localhost:{web.port}/{n}', b'body'))"
        assert run(server, code, **fields) == f"""(200, '["POST", "/{n}", "the-value", "body"]')\n"""


@pytest.mark.skipif(WARM != "pool" or not (BUILD / "immure-python.so").exists(), reason="nothing stands ready here")
def test_a_warm_jail_reaches_them(server, web):
    wait_for(lambda: server.parked("python") > 0, "a parked jail")
    assert "the-value" in run(server, FETCH + f"print(fetch('http://localhost:{web.port}/warm'))")


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
def test_curl_in_a_cold_jail(server, web, raw):
    done = run(server, f"curl -sS http://localhost:{web.port}/curl && curl -sS -p http://localhost:{raw.port}/tunnel",
               language="bash", policy="curl")
    assert done == '["GET", "/curl", "the-value", ""]["GET", "/tunnel", null, ""]', done


def test_a_tunnel(server, raw):
    code = CONNECT + f"""
with socket.create_connection(("127.0.0.1", 3128), 60) as s:
    s.sendall(b"CONNECT localhost:{raw.port} HTTP/1.1\\r\\nHost: localhost:{raw.port}\\r\\n\\r\\n")
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += s.recv(1)
    s.sendall(b"GET /inside HTTP/1.0\\r\\n\\r\\n")
    said = b""
    while more := s.recv(65536):
        said += more
print(head.split()[1], b"/inside" in said)"""
    assert run(server, code) == "b'200' True\n"


def test_others_are_refused(server, web, raw, other):
    """Other ports, other names of the same host, other methods, modes that the rule does not have."""
    urls = [f"http://localhost:{other.port}/", f"http://127.0.0.1:{web.port}/", f"http://localhost.:{other.port}/",
            f"http://localhost:{raw.port}/", f"http://example.com:{web.port}/", "http://localhost/"]
    seen = len(web.seen)
    code = FETCH + f"for url in {urls}: print(fetch(url)[0])\nprint(fetch('http://localhost:{web.port}/', b'x', 'PUT')[0])"
    said = run(server, code).split()
    assert len(said) == len(urls) + 1 and all(400 <= int(status) < 500 for status in said), said
    code = CONNECT + "\n".join(
        f"print(ask(b'CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n').split()[1].decode())"
        for place in (f"localhost:{web.port}", f"localhost:{other.port}", f"127.0.0.1:{raw.port}", "localhost:22"))
    said = run(server, code).split()
    assert len(said) == 4 and all(400 <= int(status) < 500 for status in said), said
    assert len(web.seen) == seen


def test_there_is_no_other_way_out(server, web, other):
    code = f"""
import socket
for port in ({web.port}, {other.port}, {server.port}):
    with socket.socket() as s:
        print(s.connect_ex(("127.0.0.1", port)) != 0)
with socket.socket() as s:
    s.settimeout(60)
    print(s.connect_ex(("192.0.2.1", 80)) != 0)"""
    assert run(server, code) == "True\n" * 4


def test_a_policy_without_hosts_has_no_proxy(server):
    code = "import os, socket\nprint(socket.socket().connect_ex(('127.0.0.1', 3128)) != 0, 'HTTP_PROXY' in os.environ)"
    verdict = server.execute(code, policy="strict")
    assert "True" not in verdict["stdout"].split()[1:], verdict


def test_variables(server):
    """The proxy's place is there unless the policy or the request says otherwise."""
    names = "('HTTP_PROXY', 'https_proxy', 'NO_PROXY', 'NODE_USE_ENV_PROXY')"
    code = f"import os; print([os.environ.get(name) for name in {names}])"
    place = "http://127.0.0.1:3128"
    assert run(server, code) == f"{[place, place, '', '1']}\n"
    assert run(server, code, env={"HTTP_PROXY": "mine"}) == f"{['mine', place, '', '1']}\n"


def test_garbage(server, web):
    """What is no request gets an error or nothing, and the next request is served."""
    code = FETCH + CONNECT + f"""
for text in (b"", b"\\0" * 4096, b"x" * 200000, b"GET / HTTP/1.1\\r\\n\\r\\n", b"CONNECT\\r\\n\\r\\n", b"\\r\\n" * 5000,
             b"GET http://localhost:{web.port}/smuggled HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 3\\r\\nContent-Length: 4\\r\\n\\r\\nabc",
             b"GET http://a@localhost:{web.port}/smuggled HTTP/1.1\\r\\n\\r\\n"):
    try:
        said = ask(text)
        assert said == b"" or said.split()[1][:1] == b"4", (text[:40], said[:80])
    except OSError:
        pass
print(fetch("http://localhost:{web.port}/after")[0])"""
    assert run(server, code) == "200\n"
    assert "/smuggled" not in web.seen


def test_a_thousand_connections(server, web):
    """Those that are too many wait or are closed; the server serves others, and this job's next one."""
    code = FETCH + f"""
import socket
open_now = []
for n in range(1000):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", 3128))
    open_now.append(s)
    if len(open_now) == 200:
        for s in open_now:
            s.close()
        open_now.clear()
print("done")"""
    assert run(server, code) == "done\n"
    assert "200" in run(server, FETCH + f"print(fetch('http://localhost:{web.port}/many')[0])")


def test_nothing_outlives_a_job(server, web, raw):
    """A tunnel that stays open ends with its job, at its deadline too; the front keeps no descriptor of it."""
    def descriptors():
        return server.metric("process_open_fds")

    run(server, "pass")
    before = descriptors()
    code = CONNECT + f"""
s = socket.create_connection(("127.0.0.1", 3128), 60)
s.sendall(b"CONNECT localhost:{raw.port} HTTP/1.1\\r\\n\\r\\n")
print(s.recv(100)[:12].decode(), flush=True)
import time
time.sleep(600)"""
    verdict = server.execute(code, timeout_ms=3000)
    assert verdict["status"] == "timeout", verdict
    wait_for(lambda: descriptors() <= before, "the front to have closed what it held")


def test_the_audit_trail(server, web, other):
    verdict = server.execute(FETCH + f"print(fetch('http://localhost:{web.port}/audit')); fetch('http://localhost:{other.port}/')")
    mine = [line for line in server.log().splitlines()
            if "event=egress" in line and f"execution_id={verdict['execution_id']} " in line]
    outcomes = sorted(re.search(r"outcome=(\S+)", line)[1] for line in mine)
    assert len(outcomes) == 2 and "refused" in outcomes, mine

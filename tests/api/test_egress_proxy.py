"""TLS that the front makes for programs: to whom, with which certificates, and with secrets that no program sees."""

import hashlib
import http.server
import os
import pathlib
import re
import ssl
import subprocess
import tempfile
import threading

import pytest

FETCH = """
import hashlib, urllib.request, urllib.error
def fetch(port, path="/", data=None, **headers):
    request = urllib.request.Request(f"http://localhost:{port}{path}", data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
"""
LARGE = 3_000_000


class Upstream(http.server.ThreadingHTTPServer):
    """An HTTPS server with a certificate of its own for `name`."""

    request_queue_size = 64

    def __init__(self, place, name):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(b"x" * LARGE if self.path == "/large" else b"hello")

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(hashlib.sha256(body).hexdigest().encode())

            def answer(self, body):
                self.server.seen.append((self.command, self.path, self.headers["Host"], self.headers.get_all("X-Key")))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.port, self.cert, key = [], self.server_address[1], place / f"{name}.pem", place / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", self.cert],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, key)
        # The handshake is made in the request's own thread: one that fails is that request's alone.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.serve_forever)

    def handle_error(self, *_):
        pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture(scope="module")
def place():
    """A directory that everyone may read: the front, which reads certificates, is another user."""
    with tempfile.TemporaryDirectory(prefix="immure-tls-") as made:
        os.chmod(made, 0o755)
        yield pathlib.Path(made)


@pytest.fixture(scope="module")
def upstream(place):
    with Upstream(place, "localhost") as made:
        yield made


@pytest.fixture(scope="module")
def misnamed(place):
    """Its certificate is known, and another host's."""
    with Upstream(place, "other.example") as made:
        yield made


@pytest.fixture(scope="module")
def unknown(place, upstream):
    """Its certificate says the right name, and nobody knows it."""
    (place / "unknown").mkdir()
    with Upstream(place / "unknown", "localhost") as made:
        yield made


@pytest.fixture(scope="module")
def server(place, upstream, misnamed, unknown):
    from conftest import Server
    from harness import runtimes
    (place / "known.pem").write_text(upstream.cert.read_text() + misnamed.cert.read_text())
    (place / "secret").write_text("s3cr3t-of-the-host\n")
    (place / "policies").mkdir()
    rules = "\n".join(f'egress {{ host: "localhost" port: {host.port} mode: TLS_ORIGINATION method: ["GET", "POST"] '
                      'header { name: "X-Key" secret: "api" } }' for host in (upstream, misnamed, unknown))
    (place / "policies" / "python.textproto").write_text(
        f'name: "python" use: "python"\n{rules}\nenv {{ name: "NO_PROXY" }} env {{ name: "no_proxy" }}')
    (place / "server.textproto").write_text(
        f'policy_path: "{place}/policies" callback_ca_file: "{place}/known.pem" egress_private_host: "localhost"\n'
        f'egress_secret {{ name: "api" file: "{place}/secret" }}\n' + runtimes())
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(place / "server.textproto")) as started:
        yield started
        assert "event=front_denied" not in started.log() and "s3cr3t" not in started.log()


def run(server, code, **fields):
    verdict = server.execute(FETCH + code, **fields)
    assert verdict["status"] == "success", verdict
    return verdict["stdout"]


def test_the_front_makes_tls_and_adds_the_secret(server, upstream):
    upstream.seen.clear()
    code = f"import os; print(fetch({upstream.port}, '/a?b', **{{'X-Key': 'own', 'X_Key': 'own'}}), 's3cr3t' in str(os.environ))"
    assert run(server, code) == "(200, b'hello') False\n"
    assert upstream.seen == [("GET", "/a?b", f"localhost:{upstream.port}", ["s3cr3t-of-the-host"])]


def test_bodies_arrive_whole(server, upstream):
    code = f"""
status, body = fetch({upstream.port}, "/large")
print(status, len(body), set(body) == {{ord("x")}})
body = bytes(range(256)) * 8000
status, told = fetch({upstream.port}, "/", body)
print(status, told.decode() == hashlib.sha256(body).hexdigest())"""
    assert run(server, code) == f"200 {LARGE} True\n200 True\n"


def test_many_at_once(server, upstream):
    code = f"""
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(set(pool.map(lambda n: fetch({upstream.port}, f"/{{n}}"), range(48))))"""
    assert run(server, code) == "{(200, b'hello')}\n"


@pytest.mark.parametrize("host", ["misnamed", "unknown"])
def test_certificates_are_checked(server, host, request):
    host = request.getfixturevalue(host)
    said = run(server, f"print(fetch({host.port}))")
    assert said.startswith("(502,") and re.search("certificate|peer", said), said
    assert host.seen == []


def test_a_secret_that_is_not_configured(place, server):
    """The server does not start with half of what its policies ask for."""
    from harness import IMMURE
    config = place / "without.textproto"
    config.write_text(re.sub(r"egress_secret .*", "", (place / "server.textproto").read_text()))
    done = subprocess.run([IMMURE, "serve", "--config", config, "--check-config"], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "SANDBOX_EXECUTOR_SERVICE_API_KEY": "k"})
    assert done.returncode != 0 and 'secret "api" is not configured; add egress_secret {' in done.stdout + done.stderr, done

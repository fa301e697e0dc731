"""The client for JavaScript (server/clients/js) against a live server: in each engine, in a browser, and as agent frameworks' tool."""

import http.client
import json
import os
import queue
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from harness import BUILD, IMMURE, PATIENCE, ROOT, Server

HERE = Path(__file__).parent / "js"
ENGINES = {
    "node18": ["node18/bin/node"],
    "node22": ["node22/bin/node"],
    "deno": ["@deno/linux-x64-glibc/deno", "run", "--no-config", "--allow-net", "--allow-read"],
    "bun": ["@oven/bun-linux-x64-baseline/bin/bun"],
}


@pytest.fixture(scope="session")
def modules():
    """Where the packages lie, the client beside them."""
    directory = Path(f"{BUILD}-js")
    directory.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json", "adapters.mjs", "piston.mjs", "types.ts"):
        shutil.copy(HERE / name, directory)
    done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=5"], cwd=directory,
                          capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(ROOT / "server/clients/js", directory / "node_modules/immure")
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server") / "log", immure=IMMURE) as started:
        yield started


def environment(tmp_path):
    return {**os.environ, "HOME": str(tmp_path), "DENO_NO_UPDATE_CHECK": "1"}


def assert_passed(results, at_least=25):
    assert len(results) > at_least
    assert not {result["name"]: result["error"] for result in results if "error" in result}
    print(*(result["note"] for result in results if "note" in result))


@pytest.mark.parametrize("engine", ["node", *ENGINES])
def test_the_suite(server, modules, tmp_path, engine):
    words = ENGINES.get(engine, ["node"])
    program = shutil.which("node") if engine == "node" else modules / "node_modules" / words[0]
    os.chmod(program, 0o755) if engine != "node" else None
    done = subprocess.run([program, *words[1:], HERE / "run.mjs", server.url, server.key], env=environment(tmp_path), cwd=tmp_path,
                          capture_output=True, text=True, timeout=PATIENCE * 120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_passed([json.loads(line) for line in done.stdout.splitlines()])


def test_faults(tmp_path):
    """Against servers that the program itself is."""
    done = subprocess.run(["node", HERE / "faults.mjs"], env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE * 400)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_passed([json.loads(line) for line in done.stdout.splitlines()], 10)


class Page(BaseHTTPRequestHandler):
    """The page, the client, and the server behind one origin, as a proxy would have it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = urlsplit(self.path).path
        if path.startswith("/immure/"):
            self.forward("GET")
            return
        file = ROOT / path.lstrip("/")
        found = file.suffix in (".js", ".mjs", ".html") and file.is_file()
        self.answer(200 if found else 404, file.read_bytes() if found else b"", {".html": "text/html"}.get(file.suffix, "text/javascript"))

    def do_POST(self):
        if self.path == "/results":
            self.server.results.put(json.loads(self.body()))
            self.answer(200, b"", "text/plain")
        else:
            self.forward("POST")

    def do_PUT(self):
        self.forward("PUT")

    def do_DELETE(self):
        self.forward("DELETE")

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, body, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forward(self, method):
        to = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE * 60)
        headers = {name: value for name, value in self.headers.items() if name.lower() in ("authorization", "content-type", "accept")}
        try:
            to.request(method, self.path.removeprefix("/immure"), self.body(), headers)
            reply = to.getresponse()
            self.send_response(reply.status)
            for name in "Content-Type", "Retry-After":
                if name in reply.headers:
                    self.send_header(name, reply.headers[name])
            self.send_header("Connection", "close")
            self.end_headers()
            while data := reply.read1(65536):
                self.wfile.write(data)
        except OSError:
            pass  # one of the two has gone
        finally:
            self.close_connection = True
            to.close()

    def log_message(self, *_):
        pass


@pytest.mark.skipif(not shutil.which("chromium"), reason="no Chromium")
def test_the_suite_in_a_browser(server, tmp_path):
    pages = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    pages.daemon_threads = True
    pages.port, pages.results = server.port, queue.Queue()
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{pages.server_port}/tests/clients/js/page.html?key={server.key}"
    browser = subprocess.Popen(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}/profile", url],
                               env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        results = pages.results.get(timeout=PATIENCE * 120)
    finally:
        browser.terminate()
        browser.wait(30)
        pages.shutdown()
    assert_passed(results)


def test_the_frameworks_adapters(server, modules):
    done = subprocess.run([modules / "node_modules/node22/bin/node", modules / "adapters.mjs", server.url, server.key], capture_output=True, text=True,
                          timeout=PATIENCE * 120)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert [told[name] for name in ("ai", "langchain", "agents")] == ["36\n"] * 3
    assert told["failed"].startswith("no\n\nError: ") and told["names"] == ["execute_code", "execute_code"]


def test_pistons_client(modules, tmp_path):
    """It knows of no keys."""
    (tmp_path / "config").write_text('door: "piston" environment: "local"\n')
    server = Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(tmp_path / "config"))
    del server.environment["SANDBOX_EXECUTOR_SERVICE_API_KEY"]
    with server:
        done = subprocess.run(["node", modules / "piston.mjs", server.url], capture_output=True, text=True, timeout=PATIENCE * 120)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert {"python", "bash"} <= set(found["languages"])
    assert found["result"]["run"]["output"] == "Hello World!\n" and found["more"]["run"]["stdout"] == "in ['a']\n"


def test_the_declarations(modules):
    done = subprocess.run([modules / "node_modules/.bin/tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "types.ts"],
                          cwd=modules, capture_output=True, text=True, timeout=PATIENCE * 120)
    assert done.returncode == 0, done.stdout

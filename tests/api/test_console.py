"""How the console is served: to anybody, where the configuration says so; what is in it is tried in tests/console."""

import re

import pytest
from harness import ROOT

WITHOUT_NODE = True
FILES = sorted(path.name for path in (ROOT / "server/console").iterdir() if path.suffix != ".md")
NOBODY = {"X-Service-API-Key": None, "Content-Type": None}


@pytest.fixture
def open_console(serve):
    return serve("console: true\n")


def test_the_files_need_no_key_and_have_strict_headers(open_console):
    for name in ["", *FILES]:
        reply = open_console.request("GET", f"/ui/{name}", headers=NOBODY)
        assert reply.status == 200, name
        assert reply.body == (ROOT / "server/console" / (name or "index.html")).read_bytes()
        headers = reply.headers
        kind = {"css": "text/css", "js": "text/javascript"}.get(name.rpartition(".")[2], "text/html")
        assert headers["Content-Type"] == f"{kind}; charset=utf-8"
        policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
        assert policy == {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "'self' data:",
                          "frame-ancestors": "'none'", "base-uri": "'none'", "form-action": "'none'", "require-trusted-types-for": "'script'",
                          "trusted-types": "'none'"}
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-cache" and "Set-Cookie" not in headers and headers["X-Request-Id"]
        again = open_console.request("GET", f"/ui/{name}", headers={**NOBODY, "If-None-Match": headers["ETag"]})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", headers["ETag"])
        assert open_console.request("GET", f"/ui/{name}", headers={**NOBODY, "If-None-Match": '"other"'}).status == 200
        head = open_console.request("HEAD", f"/ui/{name}", headers=NOBODY)
        assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(reply.body)))


def test_its_place_without_the_slash_leads_there(open_console):
    reply = open_console.request("GET", "/ui", headers=NOBODY)
    assert (reply.status, reply.headers["Location"]) == (308, "ui/")


def test_nothing_else_is_there(open_console):
    for path in ("/ui/README.md", "/ui/nothing", "/ui/../healthz", "/ui/%2e%2e/openapi.json", "/ui//", "/ui/main.js/x"):
        assert open_console.request("GET", path, headers=NOBODY).status == 404, path
    assert open_console.request("POST", "/ui/", b"", headers=NOBODY).status == 405
    assert open_console.request("GET", "/ui/?key=1", headers=NOBODY).status == 400


def test_it_is_off_by_default(server):
    for path in ("/ui", "/ui/", "/ui/main.js"):
        reply = server.request("GET", path, headers=NOBODY)
        assert reply.status == 404 and "WWW-Authenticate" not in reply.headers, path


def test_the_root_says_what_this_is(server, open_console):
    for one, console in ((server, None), (open_console, "/ui/")):
        reply = one.request("GET", "/", headers=NOBODY)
        assert reply.status == 200 and "WWW-Authenticate" not in reply.headers
        assert reply.json.items() >= {"service": "immure", "openapi": "/openapi.json", "console": console}.items()


def test_nothing_in_it_comes_from_elsewhere_or_is_made_of_text():
    for name in FILES:
        text = (ROOT / "server/console" / name).read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|localStorage|document\.cookie|\bstyle=", text), name
    index = (ROOT / "server/console/index.html").read_text()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=", index)

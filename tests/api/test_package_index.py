"""Packages from an index: the only way out of a jail, to the hosts and ports that the configuration names."""

import os
import re
import ssl
import subprocess
import threading

import pytest

from harness import ROOT, closed_port
from package_index import SPEAK, Index
from packages import failure, run, upload, wheel

REFUSED = "that host and port are no package index of this server"


@pytest.fixture(scope="module")
def other():
    """An index at another port, which is not a package index of the server."""
    with Index() as index:
        yield index


@pytest.fixture(scope="module")
def second():
    """One that the configuration names beside the first."""
    with Index() as index:
        yield index


@pytest.fixture(scope="module")
def index(other, second):
    with Index() as index:
        index.add_python(wheel("dep", "2.0"), wheel("demo", requires=["dep>=1"]), wheel("demo", "0.9"))
        index.add_python(wheel("astray"), base=other.url)
        other.files.update(index.files)
        index.add_python(wheel("elsewhere"), base=second.url)
        second.files.update(index.files)
        yield index


@pytest.fixture(scope="module")
def server(index, second, tmp_path_factory):
    from conftest import Server
    place = tmp_path_factory.mktemp("index")
    config = place / "server.textproto"
    shipped = re.sub(r"\s*(warm_jails):.*", "", (ROOT / "config/server.textproto").read_text())
    config.write_text(f'pip_index {{ url: "{index.url}/simple/" host: "127.0.0.1:{second.port}" }}\n'
                      'max_egress_connections: 40\n' + shipped)
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(config)) as started:
        yield started
        assert "event=front_denied" not in started.log()


def lines(server, execution_id):
    """The audit trail's connections of a job: as dicts."""
    found = [line for line in server.log().splitlines() if "event=egress" in line and f"execution_id={execution_id} " in line]
    return [dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in found]


def test_package_and_what_it_needs(server, index):
    verdict = run(server, "install_package('demo')\nimport demo, dep\nprint(demo.VERSION, dep.VERSION)", execution_id="whole")
    assert (verdict["stdout"], verdict["stderr"], verdict["denied_syscalls"]) == ("1.0 2.0\n", "", [])
    line, = lines(server, "whole")
    assert (line["host"], line["port"], line["outcome"]) == ("127.0.0.1", str(index.port), "closed")
    assert int(line["bytes_sent"]) > 100 and int(line["bytes_received"]) > 1000 and float(line["duration_ms"]) > 0
    metrics = server.get("/metrics").body.decode()
    assert re.search(r'immure_egress_connections_total\{outcome="closed"\} [1-9]', metrics)
    assert re.search(r'immure_egress_bytes_total\{direction="received"\} [1-9]', metrics)


def test_version_and_session(server):
    run(server, "install_package('demo==0.9')", session_id="old")
    assert run(server, "import demo\nprint(demo.VERSION)", session_id="old")["stdout"] == "0.9\n"
    assert run(server, "install_package('demo>0.9')\nimport demo\nprint(demo.VERSION)", session_id="old")["stdout"] == "1.0\n"


def test_files_at_another_host_that_is_listed(server, second):
    second.asked.clear()
    run(server, "install_package('elsewhere')\nimport elsewhere")
    assert second.asked == ["/files/elsewhere-1.0-py3-none-any.whl"]


def test_host_that_is_not_listed(server, other):
    error = failure(server, "install_package('astray')", execution_id="astray")
    assert error.startswith("RuntimeError: pip install astray failed: ") and error.endswith(f"(127.0.0.1:{other.port}: {REFUSED})")
    assert other.asked == []
    assert {line["outcome"] for line in lines(server, "astray")} == {"closed", "refused"}


def test_redirect_to_another_host(server, index, other):
    def away(request):
        request.send_response(302)
        request.send_header("Location", f"{other.url}/simple/demo/")
        request.send_header("Content-Length", "0")
        request.end_headers()
    index.files["/simple/moved/"] = away
    assert f"127.0.0.1:{other.port}: {REFUSED}" in failure(server, "install_package('moved')")
    assert other.asked == []


def test_package_that_is_not_there(server):
    assert failure(server, "install_package('nobodys')") == (
        "RuntimeError: pip install nobodys failed: No matching distribution found for nobodys")


def test_wheel_of_the_workspace_whose_needs_are_in_the_index(server):
    run(server, "install_package('./local-1.0-py3-none-any.whl')\nimport local, dep", files=[upload(wheel("local", requires=["dep"]))])


def test_answers_that_are_nonsense(server, index):
    def babble(request):
        request.wfile.write(b"\x00\xff" * 1000)
        request.close_connection = True
    index.files["/simple/nonsense/"] = babble
    assert failure(server, "install_package('nonsense')").startswith("RuntimeError: pip install nonsense failed: ")


def test_large_file_and_tool_calls_meanwhile(server, index):
    """More than every buffer on the way; other calls over the bridge go on, and so do two installations."""
    noise = {"large/__init__.py": "", "large/data.bin": os.urandom(6 << 20).hex()}
    index.add_python(wheel("large", files=noise))
    code = """if True:
        import threading
        errors = []
        def install(name):
            try: install_package(name)
            except Exception as error: errors.append(error)
        threads = [threading.Thread(target=install, args=(name,)) for name in ('large', 'demo')]
        for thread in threads: thread.start()
        calls = 0
        while any(thread.is_alive() for thread in threads):
            try: call_tool('x')
            except RuntimeError as error: assert str(error) == 'call_tool: no callback URL configured', error
            calls += 1
        import large, demo
        print(calls > 10, errors, threading.active_count())
    """
    assert run(server, code)["stdout"] == "True [] 1\n"


def test_index_that_is_down(serve):
    port = closed_port()
    server = serve(SANDBOX_EXECUTOR_PIP_INDEX_URL=f"http://127.0.0.1:{port}/simple/")
    assert failure(server, "install_package('demo')", execution_id="down").endswith(f"(127.0.0.1:{port}: Connection refused)")
    assert {line["outcome"] for line in lines(server, "down")} == {"failed"}


def test_index_that_is_slow(serve):
    """A connection lasts as long as it may; the job gets on."""
    hangs = threading.Event()
    with Index({"/simple/demo/": lambda request: hangs.wait(60)}) as index:
        server = serve(f'pip_index {{ url: "{index.url}/simple/" }}\negress_timeout_ms: 300')
        error = failure(server, "install_package('demo')", execution_id="slow")
        assert error.endswith(": the connection has lasted as long as it may)")
        assert {line["outcome"] for line in lines(server, "slow")} == {"timeout"}
        hangs.set()


def test_index_that_never_ends(serve):
    def pour(request):
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b"<a>" * 10000)
    with Index({"/simple/demo/": pour}) as index:
        server = serve(f'pip_index {{ url: "{index.url}/simple/" }}\nmax_egress_bytes: 1000000')
        error = failure(server, "install_package('demo')", execution_id="huge")
        assert error.endswith(": this job has moved as many bytes as it may)"), error
        assert "limit" in {line["outcome"] for line in lines(server, "huge")}
        assert sum(int(line["bytes_received"]) for line in lines(server, "huge")) < 1100000


def test_https_and_certificates(serve, tmp_path):
    """pip checks the index's certificate itself, against what the operator names."""
    def certificate(name):
        key, cert = tmp_path / f"{name}.key", tmp_path / f"{name}.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        return context, cert

    for path in tmp_path, tmp_path.parent:
        path.chmod(0o755)
    if not all(parent.stat().st_mode & 0o001 for parent in tmp_path.parents):
        return  # the front has a uid of its own, and cannot read it
    context, cert = certificate("ours")
    _, wrong = certificate("wrong")
    with Index() as index:
        index.add_python(wheel("demo"))
        index.server.socket = context.wrap_socket(index.server.socket, server_side=True)
        config = f'pip_index {{ url: "https://localhost:{index.port}/simple/" }}\npackage_index_ca_file: '
        run(serve(f'{config}"{cert}"'), "install_package('demo')\nimport demo")
        assert failure(serve(f'{config}"{wrong}"'), "install_package('demo')").endswith("No matching distribution found for demo")


# ---- Programs that speak to the bridge themselves ----

def speak(server, code, **fields):
    return run(server, SPEAK + code, **fields)["stdout"]


@pytest.mark.parametrize("host, port", [
    ("127.0.0.1", 22), ("localhost", "INDEX"), ("::1", "INDEX"), ("127.0.0.2", "INDEX"), ("127.1", "INDEX"), ("0.0.0.0", "INDEX"),
    ("2130706433", "INDEX"), ("", "INDEX"), ("127.0.0.1 ", "INDEX"), ("127.0.0.1", 0), ("127.0.0.1", "65536 + INDEX"),
    ("example.com", 443), ("169.254.169.254", 80), ("::ffff:127.0.0.1", "INDEX"),
])
def test_other_hosts_are_refused(server, index, host, port):
    code = f"say(op='open', id=1, host={host!r}, port={str(port).replace('INDEX', str(index.port))})\nprint(hear())"
    assert speak(server, code) == str({"op": "answer", "id": 1, "error": REFUSED}) + "\n"


def test_a_program_may_speak_to_the_index_itself(server, index):
    """It gets what is there, window by window, and no more than a window."""
    index.files["/long"] = b"x" * 1000000
    code = f"""
say(op='open', id=7, host='127.0.0.1', port={index.port})
assert hear() == {{'op': 'answer', 'id': 7}}
data(7, b'GET /long HTTP/1.0\\r\\n\\r\\n')
data(7, b'')
got, granted, frames = 0, 65536, []
while True:
    one = hear()
    if isinstance(one, tuple):
        if not one[1]: break
        got += len(one[1])
        assert one[0] == 7 and got <= granted
        if got == granted:
            os.set_blocking(3, False)
            time.sleep(0.05)
            try: print('more than the window:', os.read(3, 1))
            except BlockingIOError: pass
            os.set_blocking(3, True)
            granted += 65536
            say(op='window', id=7, bytes=65536)
    else: frames.append(one['op'])
print(got > 1000000, frames)
"""
    assert speak(server, code, execution_id="itself") == "True ['window']\n"
    assert [line["outcome"] for line in lines(server, "itself")] == ["closed"]


@pytest.mark.parametrize("code, error", [
    ("frame(b'\\1')", "a frame of an unknown kind"),
    ("frame(b'\\1' + b'x' * 7)", "a frame of an unknown kind"),
    ("frame(b'\\2' + b'x' * 20)", "a frame that is not JSON"),
    ("frame(b'[]')", "a frame that is not JSON"),
    ("say(op='open', id=1)", "a connection without host or port"),
    ("say(op='open', id=1, host=['a'], port=1)", "a connection without host or port"),
    ("say(op='open', id=1, host='a', port='1')", "a connection without host or port"),
    ("say(op='open', id=1, host='a', port=-1)", "a connection without host or port"),
    ("say(op='open', id=1, host='a' * 300, port=1)", "a connection without host or port"),
    ("say(op='open', host='a', port=1)", "a frame without a number"),
    ("say(op='other', id=1)", "a frame of an unknown kind"),
    ("connect(1); connect(1)", "a number that a connection has already"),
    ("connect(1); say(op='window', id=1)", "a window without a size"),
    ("connect(1); say(op='window', id=1, bytes=1)", "a window that is larger than it may be"),
    ("connect(1); data(1, b'', b'x')", "bytes for a connection that the program has ended"),
    ("connect(1); data(1, b'x' * 65537)", "more bytes for a connection than its window"),
    ("connect(1); frame(b'\\1')", "a frame of an unknown kind"),
])
def test_broken_frames_close_this_bridge(server, index, code, error):
    connect = f"def connect(id): say(op='open', id=id, host='127.0.0.1', port={index.port})\n"
    stdout = speak(server, f"{connect}{code}\nwhile isinstance(heard := hear(), tuple) or heard['op'] != 'closed': pass\nprint(heard['error'])\n"
                           "try: hear()\nexcept EOFError: print('end')")
    assert stdout == f"{error}\nend\n"
    assert speak(server, "say(op='index', id=1, installer='pip')\nprint('url' in hear()['data'])") == "True\n"


def test_words_about_connections_that_are_not_there_mean_nothing(server):
    assert speak(server, "data(5, b'x'); data(5, b''); say(op='window', id=5, bytes=9); say(op='abort', id=5)\n"
                         "say(op='index', id=1, installer='npm'); print(hear())") == "{'op': 'answer', 'id': 1, 'data': ''}\n"


def test_numbers_of_connections(server, index):
    """At once, and all in all; what is open when the job ends is closed."""
    code = f"""
def ask(id):
    say(op='open', id=id, host='127.0.0.1', port={index.port})
    return hear().get('error')
print([ask(id) for id in range(33)][31:], [ask(id) for id in range(33, 45)][6:])
"""
    at_once, in_all = "this job has as many connections as it may have at once", "this job has made as many connections as it may"
    assert speak(server, code, execution_id="many") == f"{[None, at_once]} {[at_once, in_all, in_all, in_all, in_all, in_all]}\n"
    found = [line["outcome"] for line in lines(server, "many")]
    assert found.count("cancelled") == 32 and found.count("limit") == 8 and len(found) == 40


def test_nothing_but_the_index(server, index):
    """The jail itself has no network, also while it installs."""
    code = """if True:
        import os, socket
        try: socket.socket().connect(('127.0.0.1', PORT))
        except OSError as error: print(error.strerror)
        install_package('demo')
        print([name for name in os.listdir('/tmp')])
    """.replace("PORT", str(index.port))
    assert run(server, code)["stdout"] == "Network is unreachable\n[]\n"


def test_without_an_index(serve):
    assert speak(serve(), f"say(op='index', id=1, installer='pip')\nprint(hear())\n"
                          "say(op='open', id=2, host='127.0.0.1', port=80)\nprint(hear())") == (
        f"{{'op': 'answer', 'id': 1, 'data': ''}}\n{ {'op': 'answer', 'id': 2, 'error': REFUSED} }\n")

"""POST /execute: each field of a request, and each field of the reply."""

import base64
import json
import re

import pytest
from harness import CGROUP, until_begun

ENFORCED_BY = "cgroup2" if CGROUP == "REQUIRED" else "rlimit"
FIELDS = {"stdout", "stderr", "logs", "truncated", "stdout_truncated", "stderr_truncated", "output", "exit_code", "signal",
          "duration_ms", "execution_time", "queued_ms", "killed", "oom", "status", "error_message", "files", "output_files",
          "output_files_truncated", "usage", "denied_syscalls", "limits", "policy", "policy_sha256", "execution_id"}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def test_the_least_request(server):
    reply = server.request("POST", "/execute", json.dumps({"code": "print(1)"}))
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    verdict = reply.json
    assert set(verdict) == FIELDS  # and no `error`
    assert verdict["stdout"] == verdict["logs"] == "1\n"
    assert verdict["stderr"] == verdict["output"] == ""
    assert verdict["exit_code"] == 0 and verdict["signal"] is None and verdict["error_message"] is None
    assert verdict["status"] == "success"
    for flag in ("truncated", "stdout_truncated", "stderr_truncated", "killed", "oom", "output_files_truncated"):
        assert verdict[flag] is False, flag
    assert isinstance(verdict["duration_ms"], int) and 0 < verdict["execution_time"] < 30
    assert abs(verdict["duration_ms"] / 1000 - verdict["execution_time"]) <= 0.001
    assert verdict["files"] == verdict["output_files"] == verdict["denied_syscalls"] == []
    assert set(verdict["usage"]) == {"cpu_ms", "memory_peak_bytes", "pids_peak"} and verdict["usage"]["cpu_ms"] >= 0
    assert verdict["limits"]["enforced_by"] == ENFORCED_BY
    assert set(verdict["limits"]) == {"memory_bytes", "pids", "cpu_percent", "cpu_ms", "scratch_bytes", "output_bytes",
                                      "timeout_ms", "enforced_by"}
    assert verdict["limits"]["timeout_ms"] == 30000 and verdict["limits"]["output_bytes"] == 524288
    assert verdict["policy"] == "python" and re.fullmatch("[0-9a-f]{64}", verdict["policy_sha256"])
    assert UUID.fullmatch(verdict["execution_id"])


@pytest.mark.parametrize("name", ["python", "py", "python3"])
def test_runtimes_by_name_and_alias(server, name):
    assert server.execute("print(1)", language=name)["stdout"] == "1\n"
    assert server.execute("print(1)", runtime=name)["stdout"] == "1\n"
    assert server.execute("print(1)", runtime=name, language="python")["stdout"] == "1\n"


def test_streams_can_be_opened_by_name(server):
    code = "open('/dev/stdout', 'w').write(open('/dev/stdin').read()); open('/dev/stderr', 'w').write('err')"
    reply = server.execute(code, stdin="in")
    assert (reply["stdout"], reply["stderr"]) == ("in", "err")


def test_stdin_is_piped_in(server):
    code = "import sys; data = sys.stdin.read(); print(len(data), data[-3:], sys.stdin.read() == '')"
    assert server.execute(code)["stdout"] == "0  True\n"
    assert server.execute(code, stdin="")["stdout"] == "0  True\n"
    assert server.execute(code, stdin="abc")["stdout"] == "3 abc True\n"
    assert server.execute(code, stdin="x" * 1_000_000 + "end")["stdout"] == "1000003 end True\n"
    assert server.execute("print('does not read')", stdin="x" * 1_000_000)["stdout"] == "does not read\n"


def test_exit_codes_are_exact(server):
    for code in (0, 1, 3, 125, 126, 127, 128, 137, 255):
        verdict = server.execute(f"import os; os._exit({code})")
        assert (verdict["exit_code"], verdict["signal"], verdict["killed"], verdict["oom"]) == (code, None, False, False)
        assert verdict["status"] == ("success" if code == 0 else "execution_error")


def test_signals_are_told_from_exit_codes(server):
    for name, number in (("SIGSEGV", 11), ("SIGABRT", 6), ("SIGKILL", 9), ("SIGTERM", 15), ("SIGUSR1", 10)):
        verdict = server.execute(f"import os, signal; os.kill(os.getpid(), signal.{name})")
        assert (verdict["exit_code"], verdict["signal"], verdict["status"]) == (128 + number, name, "execution_error")
        assert verdict["killed"] is verdict["oom"] is False
        assert name in verdict["error_message"]


def test_a_failed_program_shows_its_logs_as_error(server):
    verdict = server.execute("print('before'); raise ValueError('why')")
    assert verdict["status"] == "execution_error" and verdict["exit_code"] == 1
    assert "ValueError: why" in verdict["stderr"] and "before" in verdict["stdout"]
    assert verdict["error"] == verdict["logs"]
    silent = server.execute("import sys; sys.exit(4)")
    assert silent["error"] == silent["error_message"] != ""


def test_timeouts(server):
    verdict, timeout_ms = until_begun(server.execute, "print('on', flush=True)\nwhile True: pass", (2500, 20500))
    assert verdict["status"] == "timeout" and verdict["killed"] is True and verdict["oom"] is False
    assert verdict["exit_code"] == -1 and verdict["stdout"] == "on\n"
    assert verdict["error_message"] == f"Execution timed out after {timeout_ms / 1000} seconds."
    assert verdict["error"] == f"execution timed out after {timeout_ms / 1000}s"
    assert verdict["limits"]["timeout_ms"] == timeout_ms
    verdict = server.execute("import time; time.sleep(60)", timeout=1)
    assert verdict["error_message"] == "Execution timed out after 1 seconds."
    assert verdict["error"] == "execution timed out after 1s"
    assert 1000 <= verdict["duration_ms"] < 20000


def test_timeouts_are_clamped_and_0_is_the_default(server):
    for fields, applied in (({"timeout_ms": 0}, 30000), ({"timeout": 0}, 30000), ({"timeout_ms": 10**9}, 60000),
                            ({"timeout": 10**9}, 60000), ({"timeout": 2}, 2000), ({"timeout_ms": 1234}, 1234)):
        assert server.execute("print(1)", **fields)["limits"]["timeout_ms"] == applied, fields


def test_memory(server):
    verdict = server.execute("x = bytearray(1 << 20)\nwhile True: x += bytes(1 << 22)", limits={"memory_bytes": 100 << 20})
    assert verdict["limits"]["memory_bytes"] == 100 << 20
    assert verdict["killed"] is False
    if verdict["status"] == "oom":
        assert verdict["oom"] is True and (verdict["exit_code"], verdict["signal"]) == (137, "SIGKILL")
    else:  # an rlimit makes the allocation fail, and Python says so
        assert CGROUP != "REQUIRED" and verdict["oom"] is False and "MemoryError" in verdict["stderr"]


def test_limits_lower_the_policys(server):
    wishes = {"memory_bytes": 300 << 20, "pids": 20, "cpu_percent": 50, "cpu_ms": 5000, "scratch_bytes": 1 << 20,
              "output_bytes": 1000}
    limits = server.execute("print(1)", limits=wishes)["limits"]
    if limits["enforced_by"] == "rlimit":
        wishes["cpu_percent"] = None  # nothing but a cgroup holds a program to that
    assert {name: limits[name] for name in wishes} == wishes


def test_limits_never_raise_the_policys(server):
    for name in ("memory_bytes", "pids", "cpu_percent", "scratch_bytes", "output_bytes"):
        reply = server.request("POST", "/execute", json.dumps({"code": "1", "limits": {name: 10**15}}))
        assert reply.status == 400, name
        assert reply.json["code"] == "invalid_field" and name in reply.json["field"] and name in reply.json["error"]


def test_output_is_cut_at_the_tail(server):
    verdict = server.execute("import sys; print('a' * 2000); print('b' * 10, file=sys.stderr)", limits={"output_bytes": 1000})
    assert verdict["stdout"] == "a" * 1000 and verdict["stderr"] == "b" * 10 + "\n"
    assert verdict["truncated"] and verdict["stdout_truncated"] and not verdict["stderr_truncated"]
    assert len(verdict["logs"]) == 1000
    assert verdict["status"] == "success"


def test_a_program_that_prints_much_is_never_blocked(server):
    code = "import sys\nfor _ in range(200): sys.stdout.write('x' * 100000); sys.stderr.write('y' * 100000)\nprint('end')"
    verdict = server.execute(code)
    assert verdict["status"] == "success"
    assert len(verdict["stdout"]) == len(verdict["stderr"]) == len(verdict["logs"]) == 524288
    assert verdict["stdout_truncated"] and verdict["stderr_truncated"]


def test_characters_are_not_cut_in_two(server):
    verdict = server.execute("print('€' * 100)", limits={"output_bytes": 100})
    assert verdict["stdout"] == "€" * 33 and verdict["stdout_truncated"]


def test_bytes_that_are_not_text_become_replacement_characters(server):
    verdict = server.execute(r"import os; os.write(1, b'a\xff\xfe\xc3\xa4\xe2\x82 \x00\x1b')")
    assert verdict["stdout"] == "a\ufffd\ufffdä\ufffd \x00\x1b"


def test_output_cannot_forge_the_reply(server):
    forged = '", "exit_code": 0, "status": "success", "x": "'
    verdict = server.execute(f"import sys; print({forged!r}); print({forged!r}, file=sys.stderr); sys.exit(9)")
    assert verdict["exit_code"] == 9 and forged in verdict["stdout"] and verdict["output"] == ""


def test_logs_are_in_the_order_of_arrival(server):
    # Each is read before the next is written.
    code = """
import array, fcntl, os, termios, time
unread = array.array('i', [0])
for number in range(5):
    os.write(1 + number % 2, b'%d ' % number)
    while fcntl.ioctl(1 + number % 2, termios.FIONREAD, unread) or unread[0]: time.sleep(0.001)
"""
    verdict = server.execute(code)
    assert verdict["logs"] == "0 1 2 3 4 "
    assert verdict["stdout"] == "0 2 4 " and verdict["stderr"] == "1 3 "


def test_a_detached_child_does_not_hold_the_reply(server):
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
print('parent')
"""
    verdict = server.execute(code)
    assert verdict["status"] == "success" and verdict["stdout"] == "parent\n" and verdict["duration_ms"] < 30_000


def test_args_and_env(server):
    verdict = server.execute("import sys; print(sys.argv[1:])", args=["-x", "", "two words", "ä"])
    assert verdict["stdout"] == "['-x', '', 'two words', 'ä']\n"
    assert server.execute("import os; print(os.environ['TZ'])", env={"TZ": "UTC-3"}, policy="strict")["stdout"] == "UTC-3\n"
    reply = server.request("POST", "/execute", json.dumps({"code": "1", "env": {"LD_PRELOAD": "/x"}, "policy": "strict"}))
    assert reply.status == 400 and reply.json["field"].startswith("env") and "LD_PRELOAD" in reply.json["error"]


def test_input_files(server):
    data = bytes(range(256))
    verdict = server.execute("""
import os
print(open('a.txt').read(), open('d/e/b.bin', 'rb').read() == bytes(range(256)), os.path.getsize('empty'), os.getcwd())
import helper
print(helper.value)
""", files=[{"name": "a.txt", "content": "text ä"}, {"name": "empty"}, {"name": "helper.py", "content": "value = 7"},
            {"name": "d/e/b.bin", "data": base64.b64encode(data).decode(), "mime": "application/x", "url": "http://x/"}])
    assert verdict["stdout"] == "text ä True 0 /workspace\n7\n", verdict
    assert verdict["output_files"] == []  # inputs that were not changed


def test_null_is_the_same_as_nothing(server):
    """As Pydantic, serde and C# write what nobody has set."""
    unset = dict.fromkeys(["language", "runtime", "stdin", "timeout", "timeout_ms", "outputs", "session_id", "callback_url", "execution_id",
                           "args", "env", "policy", "environment", "image", "wait_ms", "files", "limits"])
    verdict = server.execute("import sys; print(sys.argv[1:], repr(sys.stdin.read()))", **unset)
    assert verdict["stdout"] == "[] ''\n" and verdict["policy"] == "python", verdict
    plain = server.execute("1")["limits"]
    verdict = server.execute("print(open('a').read())", limits={"memory_bytes": None, "pids": 20},
                             files=[{"name": "a", "content": "in", "data": None, "mime": None, "url": None}])
    assert verdict["stdout"] == "in\n" and verdict["limits"] == {**plain, "pids": 20}


def test_empty_words_are_none(server):
    """As Go writes what nobody has set."""
    verdict = server.execute("import os; print(os.listdir('.'))", runtime="", language="", session_id="", callback_url="")
    assert verdict["stdout"] == "[]\n" and verdict["policy"] == "python"
    assert server.execute("echo $0", runtime="", language="bash")["policy"] == "bash"


def test_names_lose_what_they_do_not_need(server):
    verdict = server.execute("import shutil; shutil.copy('dot', 'd/out')", outputs=["./d//out"],
                             files=[{"name": "./dot", "content": "text"}, {"name": "d//./in", "data": ""}])
    assert verdict["files"] == [{"name": "out", "mime": "text/plain", "data": base64.b64encode(b"text").decode()}], verdict


def test_output_files(server):
    verdict = server.execute("""
import os
os.mkdir('d')
open('plot.PNG', 'wb').write(b'\\x89PNG')
open('d/table.csv', 'w').write('a,b')
open('notes', 'w').write('text')
open('bytes', 'wb').write(b'\\xff\\x00')
open('unasked.txt', 'w').write('12345')
open('input.txt', 'a').write('!')
os.symlink('/etc/passwd', 'link')
""", files=[{"name": "input.txt", "content": "in"}, {"name": "same.txt", "content": "same"}],
                             outputs=["*.PNG", "d/*.csv", "notes", "bytes", "input.txt", "missing", "link"])
    files = {file["name"]: (file["mime"], base64.b64decode(file["data"])) for file in verdict["files"]}
    assert files == {"plot.PNG": ("image/png", b"\x89PNG"), "table.csv": ("text/csv", b"a,b"), "notes": ("text/plain", b"text"),
                     "bytes": ("application/octet-stream", b"\xff\0"), "input.txt": ("text/plain", b"in!")}
    listed = {file["name"]: file["size"] for file in verdict["output_files"]}
    assert listed == {"plot.PNG": 4, "d/table.csv": 3, "notes": 4, "bytes": 2, "unasked.txt": 5, "input.txt": 3}
    assert not any(file["truncated"] for file in verdict["output_files"])


@pytest.mark.parametrize("content, mime", [
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0", "image/png"), (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"), (b"%PDF-1.7\n", "application/pdf"),
    (b"<!DOCTYPE html><html>", "text/html"), (b'{"a": [1, 2]}', "application/json"), (b"plain words\n", "text/plain"),
    ("é".encode() * 30000, "text/plain"), (b"", "text/plain"), (b"\1\2\3\0", "application/octet-stream"),
], ids=["png", "jpeg", "pdf", "html", "json", "words", "cut", "empty", "bytes"])
def test_type_by_content(server, content, mime):
    verdict = server.execute("import shutil\nfor name in 'out', 'out.dat', 'out.TXT': shutil.copy('in', name)", outputs=["out*"],
                             files=[{"name": "in", "data": base64.b64encode(content).decode()}])
    types = {file["name"]: file["mime"] for file in verdict["files"]}
    assert types == {"out": mime, "out.dat": mime, "out.TXT": "text/plain"}
    assert "event=front_denied" not in server.log()


def test_an_output_file_over_the_limit_has_no_data(server):
    verdict = server.execute("open('big.csv', 'w').write('x' * (2 << 20))", outputs=["big.csv"], policy="strict")
    assert verdict["files"] == [{"name": "big.csv", "mime": "text/csv"}]
    assert verdict["output_files"] == [{"name": "big.csv", "size": 2 << 20, "truncated": True}]


def test_more_output_files_than_are_listed(server):
    verdict = server.execute("for n in range(40): open(f'f{n}', 'w')", policy="strict")
    assert len(verdict["output_files"]) == 16 and verdict["output_files_truncated"] is True


def test_policies_by_name(server):
    verdict = server.execute("print(1)", policy="strict")
    assert verdict["policy"] == "strict" and verdict["stdout"] == "1\n"
    assert verdict["policy_sha256"] != server.execute("print(1)")["policy_sha256"]


def test_denied_system_calls_are_named(server):
    verdict = server.execute("""
import socket
for _ in range(3):
    try:
        socket.socket()
    except PermissionError as error:
        print(error.errno)
""", policy="strict")
    assert verdict["stdout"] == "1\n1\n1\n"
    row, = verdict["denied_syscalls"]
    assert row == {"name": "socket", "count": 3, "calls": [{"call": "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC)", "count": 3}]}
    assert verdict["hint"].startswith("denied socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC), 3 times; a policy's seccomp would allow it with\n    rule {")


def test_without_denied_calls_there_is_no_hint(server):
    assert "hint" not in server.execute("pass")


def test_execution_ids(server):
    assert server.execute("1", execution_id="run-1/a:b")["execution_id"] == "run-1/a:b"
    assert UUID.fullmatch(server.execute("1", execution_id="")["execution_id"])
    assert server.execute("1")["execution_id"] != server.execute("1")["execution_id"]


def test_large_programs_and_files(server):
    code = "#" + "x" * 3_000_000 + "\nprint(len(open('big').read()))"
    assert server.execute(code, files=[{"name": "big", "content": "y" * 5_000_000}])["stdout"] == "5000000\n"


def test_programs_are_utf8_and_may_hold_anything_but_nul(server):
    assert server.execute("print('ä€😀\\u202e')")["stdout"] == "ä€😀\u202e\n"
    reply = server.request("POST", "/execute", json.dumps({"code": "print(1)\0"}))
    assert reply.status == 400


def test_jobs_run_at_once_and_apart(server):
    from concurrent.futures import ThreadPoolExecutor

    code = "import os, time; open('mine', 'x').write('1'); time.sleep(0.2); print(sorted(os.listdir()), {0})"
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda number: server.execute(code.format(number)), range(4)))
    assert [verdict["stdout"] for verdict in verdicts] == [f"['mine'] {number}\n" for number in range(4)]

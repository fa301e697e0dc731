"""`immure approve`: what it shows of a job, and what becomes of the answers."""

import os
import select
import subprocess
import threading

import pytest
from approvals import KEYS, configuration, look, settled, submitted
from conftest import IMMURE
from harness import PATIENCE, Server, call, runtimes

# A program that would like to look like another one: to a terminal, it says print('hello').
HOSTILE = "steal()\x1b[2K\x1b[1Gprint('hello')\r\n# \u202eevil\u202c \x07\x9b31m\tafter a tab\n" + "x" * 300 + "\n"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    directory = tmp_path_factory.mktemp("approve")
    config = directory / "server.textproto"
    config.write_text(configuration(directory / "policies") + runtimes())
    with Server(directory / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config)) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_waits(asked):
    yield
    for row in call(asked, "GET", "/approvals", key=KEYS["approver"]).json["approvals"]:
        assert call(asked, "POST", f"/approvals/{row['approval_id']}", {"decision": "reject"}, KEYS["approver"]).status == 200


def command(server, *arguments, key="approver"):
    return {"args": [IMMURE, "approve", "--connect", f"127.0.0.1:{server.port}", *arguments],
            "env": {**os.environ, "SANDBOX_EXECUTOR_SERVICE_API_KEY": KEYS[key]}}


def approve(server, *arguments, **options):
    return subprocess.run(**command(server, *arguments, **options), stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


def answered(server, *lines, ahead=""):
    """What is shown to somebody on a terminal, who types a line when asked, and `ahead` before that."""
    terminal, stdin = os.openpty()
    shown = b""
    try:
        if ahead:
            os.write(terminal, ahead.encode())
            assert select.select([stdin], [], [], PATIENCE * 60)[0]
        with subprocess.Popen(**command(server), stdin=stdin, stdout=subprocess.PIPE) as process:
            late = threading.Timer(PATIENCE * 120, process.kill)
            late.start()
            for line in lines:
                while not shown.endswith((b"quit] ", b"empty) ")):
                    piece = os.read(process.stdout.fileno(), 65536)
                    assert piece, shown
                    shown += piece
                os.write(terminal, f"{line}\n".encode())
                shown += b"\n"
            shown += process.stdout.read()
            assert process.wait() == 0
            late.cancel()
    finally:
        os.close(stdin)
        os.close(terminal)
    return shown.decode()


def test_nothing_waits(asked):
    done = approve(asked)
    assert done.returncode == 0 and done.stdout == b"nothing waits for an approval\n"


def test_lists_without_asking_where_there_is_no_terminal(asked):
    first, second = submitted(asked), submitted(asked, "print(2)", key="other")
    done = approve(asked)
    assert done.returncode == 0 and done.stderr == b""
    text = done.stdout.decode()
    assert text.index(first) < text.index(second) and text.count("\nkey        ") == 2
    assert look(asked, first).json["status"] == look(asked, second).json["status"] == "pending"


def test_a_hostile_program_is_shown_as_what_it_is(asked):
    approval_id = submitted(asked, HOSTILE, args=["\x1b]0;title\x07"], stdin="in\x1bput", env={}, files=[{"name": "helper.py", "content": "h()\n"}],
                            session_id="s", limits={"pids": 7})
    done = approve(asked, approval_id)
    assert done.returncode == 0 and done.stderr == b""
    assert all(byte == 10 or byte >= 32 for byte in done.stdout) and b"\x7f" not in done.stdout
    text = done.stdout.decode()
    assert "\x9b" not in text and "\u202e" not in text
    assert "     1 | steal()<U+001B>[2K<U+001B>[1Gprint('hello')<U+000D>\n" in text
    assert "     2 | # <U+202E>evil<U+202C> <U+0007><U+009B>31m<TAB>after a tab\n" in text
    assert f"     3 | {'x' * 66}\n{(chr(32) * 5 + '> | ' + 'x' * 66 + chr(10)) * 3}     > | {'x' * 36}\n" in text
    assert "argument   <U+001B>]0;title<U+0007>\n" in text and "---- file helper.py (4 bytes)\n     1 | h()\n" in text
    assert "---- stdin (6 bytes)\n     1 | in<U+001B>put\n         (no line feed at the end)\n" in text
    assert "session    s\n" in text and "limit      pids 7\n" in text and "key        caller\n" in text and "policy     held\n" in text


def test_answers_on_a_terminal(asked):
    ids = [submitted(asked, f"print({n})") for n in range(4)]
    text = answered(asked, "perhaps", "yes", "no", "too much", "skip", "quit")
    assert f"{ids[0]}: approved\n" in text and f"{ids[1]}: rejected\n" in text and text.count("Approve it? ") == 5
    assert settled(asked, ids[0])["outcome"] == "success"
    rejected = look(asked, ids[1]).json
    assert rejected["status"] == "rejected" and rejected["reason"] == "too much" and rejected["decided_by"] == "approver"
    assert [look(asked, one).json["status"] for one in ids[2:]] == ["pending"] * 2


@pytest.mark.parametrize("ahead, lines", [("yes\n", ["quit"]), ("yes\nyes\n", ["skip"]), ("", ["x" * 511 + "yes", "quit"]),
                                          ("", ["no", "x" * 511 + "reason", "y" * 600, "loud"])])
def test_answers_that_are_none(asked, ahead, lines):
    """Typed before the job was to be seen, or the end of a line that is too long."""
    approval_id = submitted(asked)
    text = answered(asked, *lines, ahead=ahead)
    told = look(asked, approval_id).json
    assert "approved" not in text and (told["status"], told["reason"]) == (("rejected", "loud") if "loud" in lines else ("pending", None))
    assert text.count("That is too long.") == sum(len(line) > 510 for line in lines)


def test_a_long_argument_is_folded(asked):
    """It would otherwise begin lines of its own where the terminal breaks it."""
    approval_id = submitted(asked, args=["a" * 66 + "     1 | safe()"])
    assert f"argument   {'a' * 66}\n     > |      1 | safe()\n" in approve(asked, approval_id).stdout.decode()


def test_one_job_without_questions(asked):
    first, second = submitted(asked), submitted(asked)
    done = approve(asked, first, "--reject", "--reason", 'not "this" one')
    assert done.returncode == 0 and done.stdout.decode() == f"{first}: rejected\n"
    assert look(asked, first).json["reason"] == 'not "this" one'
    again = approve(asked, first, "--yes")
    assert again.returncode == 1 and b"the server answered 409: the job is rejected" in again.stderr
    assert approve(asked, second, "--yes").stdout.decode() == f"{second}: approved\n"
    assert settled(asked, second)["status"] == "done"


def test_keys(asked, tmp_path):
    approval_id = submitted(asked)
    refused = approve(asked, approval_id, "--yes", key="caller")
    assert refused.returncode == 1 and b"this key is no approver" in refused.stderr
    file = tmp_path / "key"
    file.write_text(KEYS["approver"] + "\n")
    assert approve(asked, approval_id, "--yes", "--key-file", str(file), key="caller").returncode == 0
    missing = approve(asked, "--key-file", str(tmp_path / "none"))
    assert missing.returncode == 1 and str(tmp_path / "none").encode() in missing.stderr


@pytest.mark.parametrize("arguments, code, says", [
    (["a", "b"], 2, "one job at a time"), (["--yes"], 2, "which job?"), (["a", "--yes", "--reject"], 2, "does not go with"),
    (["../../jobs"], 1, "is not the name of an approval"), (["--connect", "127.0.0.1:1"], 1, "cannot connect"), (["--nonsense"], 2, "--nonsense")])
def test_wrong_usage(asked, arguments, code, says):
    done = approve(asked, *arguments)
    assert done.returncode == code and says in done.stderr.decode() and not done.stdout


def test_help():
    done = subprocess.run([IMMURE, "approve", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "--reject" in done.stdout and "usage: immure approve [ID]" in done.stdout

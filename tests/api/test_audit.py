"""The audit trail in a file of its own: a chain, over jobs, restarts, crashes and rotations; and what
`immure audit verify` finds in one that was tampered with."""

import hashlib
import json
import random
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import IMMURE
from harness import wait_for

WITHOUT_NODE = True


def verify(*paths, options=()):
    """-> exit code, what it says"""
    done = subprocess.run([IMMURE, "audit", "verify", *options, *map(str, paths)], capture_output=True, text=True, timeout=60)
    assert not done.stderr or done.returncode == 2 or "immure audit verify:" in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def whole(*paths):
    code, said = verify(*paths)
    assert code == 0 and " 0 faults" in said, said
    return said


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path, n, event="audit"):
    wait_for(lambda: path.read_text().count(f'"event":"{event}"') >= n, f"{n} lines of jobs in {path}")


def all_files(path):
    return sorted(path.parent.glob(path.name + "*"))


def trail(path, n, more=""):
    """A chain as the server writes it, by another hand."""
    before, text = "0" * 64, ""
    for seq in range(1, n + 1):
        rest = '"chain":"opened","reason":"started"' if seq == 1 else f'"time":"t","event":"audit","key":"k{seq}"'
        rest = '"chain":"closed"' if seq == n else rest
        line = f'{{"seq":{seq},"prev":"{before}",{rest}}}'
        before = hashlib.sha256(line.encode()).hexdigest()
        text += line + "\n"
    path.write_text(text + more)
    return text.splitlines(keepends=True), before


def test_a_job_is_a_link_of_a_chain(serve, tmp_path):
    path = tmp_path / "audit.log"
    with_file = serve(f'audit_log: "{path}" log_level: ERROR')
    with_file.execute("print('not in the trail')")
    with_file.execute("1/0")
    with_file.request("POST", "/execute", "{}")  # no job
    written(path, 2)
    opened, first, second = lines(path)
    assert opened["chain"] == "opened" and opened["reason"] == "started" and opened["prev"] == "0" * 64
    assert (first["status"], second["status"]) == ("success", "execution_error")
    assert [line["seq"] for line in (opened, first, second)] == [1, 2, 3]
    raw = path.read_bytes().splitlines()
    assert [first["prev"], second["prev"]] == [hashlib.sha256(line).hexdigest() for line in raw[:2]]
    assert "code" not in first and "not in the trail" not in path.read_text()
    assert "event=audit" not in with_file.log() and "event=request" not in with_file.log()
    assert path.stat().st_mode & 0o007 == 0
    said = whole(path)
    assert "3 lines, 0 faults" in said and hashlib.sha256(raw[-1]).hexdigest() in said
    assert with_file.stop() == 0
    assert lines(path)[-1]["chain"] == "closed" and "still writes" not in whole(path)


def test_code_only_where_it_is_asked_for(serve, tmp_path):
    path = tmp_path / "audit.log"
    server = serve(f'audit_log: "{path}" audit_code_bytes: 12')
    server.execute('print("ü"*2)')
    server.execute("print('€€€€€')")
    written(path, 2)
    assert [line.get("code") for line in lines(path)[1:]] == ['print("ü"*2', "print('€"]  # no character is cut
    refused = serve("audit_code_bytes: 12", ready=False)
    assert refused.ended() == 1 and "audit_code_bytes" in refused.log()


def test_the_chain_goes_on_over_restarts_and_fronts(serve, tmp_path):
    path = tmp_path / "audit.log"
    for how, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -9), (signal.SIGTERM, 0)):
        server = serve(f'audit_log: "{path}"')
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: server.execute(f"print({i})"), range(4)))
        front, = re.findall(r"event=front_started pid=(\d+)", server.log())
        subprocess.run(["kill", "-9", front], check=True)
        wait_for(lambda: server.log().count("event=front_serving") == 2, "another front")
        seen = path.read_text().count('"event":"audit"')
        server.execute("1")
        written(path, seen + 1)
        assert server.stop(how) == code
    said = whole(path)
    assert said.count("had not stopped in order") == 1  # after SIGKILL
    assert [line["seq"] for line in lines(path)] == list(range(1, len(lines(path)) + 1))


@pytest.mark.parametrize("left", ["{", '{"seq":5,"prev":"00', '{"seq":5}', "garbage\0", "x" * 70000], ids=["brace", "prev", "object", "garbage", "long"])
def test_a_line_that_a_crash_cut_off(serve, tmp_path, left):
    path = tmp_path / "audit.log"
    trail(path, 4, left)
    assert verify(path)[0] == 1 and ":5: it is cut off" in verify(path)[1]
    server = serve(f'audit_log: "{path}"')
    server.execute("1")
    written(path, 3)
    assert "event=audit_torn" in server.log()
    torn = next(line for line in map(json.loads, path.read_text().splitlines()[5:]) if line.get("chain") == "torn")
    assert torn["seq"] == 5 and torn["bytes"] == len(left) and torn["prev"] == hashlib.sha256(left.encode()).hexdigest()
    assert ":5: note: it was cut off by a crash" in whole(path)


def test_files_that_are_no_chain_are_left_alone(serve, tmp_path):
    path = tmp_path / "audit.log"
    path.write_text("time=2026-01-01 event=audit key=old\n")
    server = serve(f'audit_log: "{path}"', ready=False)
    assert server.ended() == 1
    assert "ends in no line of an audit chain" in server.log()
    assert path.read_text() == "time=2026-01-01 event=audit key=old\n"
    assert verify(path)[0] == 1


def test_two_servers_do_not_write_to_one_file(serve, tmp_path):
    path = tmp_path / "audit.log"
    serve(f'audit_log: "{path}"')
    second = serve(f'audit_log: "{path}"', ready=False)
    assert second.ended() == 1 and "another process writes to" in second.log()
    whole(path)


def test_rotated_by_size(serve, tmp_path):
    path = tmp_path / "audit.log"
    server = serve(f'audit_log: "{path}" audit_log_bytes: 2500')
    for i in range(7):
        server.execute(str(i))

    def jobs():
        try:
            return sum(file.read_text().count('"event":"audit"') for file in all_files(path))
        except FileNotFoundError:
            return None  # it has just been renamed, and the next one is not there yet

    wait_for(lambda: jobs() == 7, "seven jobs")
    assert server.stop() == 0
    files = all_files(path)
    assert len(files) >= 3 and all(file.stat().st_size < 4000 for file in files)
    for newer, older in zip((files[2:] + files[:1]), files[1:]):
        first = lines(newer)[0]
        assert (first["chain"], first["reason"], first["previous"]) == ("opened", "rotated", older.name)
        assert first["prev"] == hashlib.sha256(older.read_bytes().splitlines()[-1]).hexdigest()
        assert int(older.name.rsplit(".", 1)[1]) == lines(older)[-1]["seq"]
    whole(*random.Random(1).sample(files, len(files)))  # their order is found
    code, said = verify(files[0], *files[2:])
    assert code == 1 or "begins behind line number" in said  # the eldest is missing
    if len(files) > 3:
        code, said = verify(files[0], files[1], *files[3:])
        assert code == 1 and "are missing before it" in said or "is missing before it" in said
    # A file that is gone whole: the next server goes on from the one before it, and says nothing of what it cannot know.
    path.unlink()
    again = serve(f'audit_log: "{path}"')
    assert lines(path)[0]["seq"] == lines(files[-1])[-1]["seq"] + 1
    assert again.stop() == 0
    whole(*all_files(path))


def test_moved_away_by_another_program(serve, tmp_path):
    path, moved = tmp_path / "audit.log", tmp_path / "yesterday.log"
    server = serve(f'audit_log: "{path}"')
    server.execute("1")
    written(path, 1)
    path.rename(moved)
    server.execute("2")
    written(moved, 2)
    server.process.send_signal(signal.SIGHUP)
    wait_for(path.exists, "a new file")
    server.reloaded()
    server.execute("3")
    written(path, 1)
    whole(moved, path)
    assert lines(path)[0]["reason"] == "moved"
    # A reload that finds the file in its place leaves it there.
    server.process.send_signal(signal.SIGHUP)
    server.reloaded(2)
    server.execute("4")
    written(path, 2)
    whole(moved, path)


def test_a_reload_changes_the_file(serve, tmp_path):
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    server = serve(f'audit_log: "{paths[0]}"')
    config = server.environment["SANDBOX_EXECUTOR_CONFIG"]
    text = open(config).read()
    server.execute("1")
    written(paths[0], 1)
    for number, (content, event) in enumerate([("/no/such/directory/audit", "reload_refused"), (paths[1], "reloaded")]):
        with open(config, "w") as file:
            file.write(text.replace(str(paths[0]), str(content)))
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: f"event={event}" in server.log(), event)
        server.execute("2")
        written(paths[number], 2 - number)
    assert lines(paths[0])[-1]["chain"] == "closed" and lines(paths[1])[0]["reason"] == "reconfigured"
    for path in paths:
        whole(path)


def test_a_job_that_runs_when_a_reload_ends_the_trail(serve, tmp_path, hold):
    path = tmp_path / "audit.log"
    server = serve(f'audit_log: "{path}"', **hold.environment)
    with ThreadPoolExecutor() as pool:
        reply = pool.submit(server.execute, "call_tool('hold')", execution_id="held", **hold.fields)
        wait_for(lambda: server.metric("immure_jobs_running") == 1, "a job that runs")
        config = server.environment["SANDBOX_EXECUTOR_CONFIG"]
        text = open(config).read()
        with open(config, "w") as file:
            file.write(text.replace(f'audit_log: "{path}"', ""))
        server.process.send_signal(signal.SIGHUP)
        server.reloaded()
        hold.go.set()
        assert reply.result(60)["status"] == "success"
    wait_for(lambda: re.search('"event":"audit".*"execution_id":"held"', server.log()), "its line")
    whole(path)
    assert "held" not in path.read_text()


@pytest.mark.parametrize("change, finds", [
    (lambda text: text[:3] + [text[3].replace("k4", "kX")] + text[4:], ":5: the line before it is not the one"),
    (lambda text: text[:3] + text[4:], ":4: line number 4 is missing"),
    (lambda text: text[:3] + text[6:], ":4: line numbers 4 to 6 are missing"),
    (lambda text: text[:4] + [text[3]] + text[4:], ":5: it has the number 4 where 5 is due"),
    (lambda text: text[:3] + [text[4], text[3]] + text[5:], "is missing before it"),
    (lambda text: text[:3] + ["inserted\n"] + text[3:], ":4: it is no line of an audit chain"),
    (lambda text: text[:3] + ["\n"] + text[3:], ":4: it is no line of an audit chain"),
    (lambda text: text[:5] + [text[5].replace('"prev"', '"next"')] + text[6:], ":6: it is no line of an audit chain"),
    (lambda text: text[:5] + [text[5].replace('"seq":6', '"seq":06')] + text[6:], ":6: it is no line of an audit chain"),
    (lambda text: [*text[:-1], text[-1].rstrip("\n")], ":8: it is cut off"),
    (lambda text: [*text[:-1], text[-1][:30]], ":8: it is cut off"),
], ids=lambda value: value.strip(": ").replace(" ", "-") if isinstance(value, str) else "")
def test_verify_finds(tmp_path, change, finds):
    path = tmp_path / "audit.log"
    text, _ = trail(path, 8)
    whole(path)
    path.write_text("".join(change(text)))
    code, said = verify(path)
    assert code == 1 and finds in said, said


def test_every_changed_byte_is_found(tmp_path):
    path = tmp_path / "audit.log"
    text, last = trail(path, 4)
    good = "".join(text).encode()
    chosen = random.Random(7)
    for at in chosen.sample(range(len(good) - len(text[-1])), 40):  # the last line's own bytes: by its hash alone
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << chosen.randrange(7))]) + good[at + 1:])
        code, said = verify(path)
        assert code == 1 or path.read_bytes() == good, (at, said)
    path.write_bytes(good.replace(b'"closed"', b'"clothed"'))
    assert verify(path)[0] == 0 and verify(path, options=("--contains", last))[0] == 1


def test_a_tail_that_was_cut_off_is_found_by_a_hash_that_was_kept(tmp_path):
    path = tmp_path / "audit.log"
    text, last = trail(path, 6)
    assert verify(path, options=("--contains", last))[0] == 0
    path.write_text("".join(text[:-2]))
    code, said = verify(path)
    assert code == 0 and "lines were cut off" in said  # nothing in the file can tell, and it says so
    code, said = verify(path, options=("--contains", last))
    assert code == 1 and f"no line with hash {last}" in said


@pytest.mark.parametrize("arguments, code, says", [
    ([], 2, "usage:"), (["verify"], 2, "which files?"), (["verify", "/no/such/file"], 1, "No such file"),
    (["verify", "--contains", "XY", "/dev/null"], 2, "64 hexadecimal digits"), (["verify", "/dev/null"], 1, "no line of an audit chain"),
    (["nonsense"], 2, "usage:"), (["--help"], 0, "usage:"), (["verify", "--help"], 0, "cut off at the end"),
])
def test_command_line(arguments, code, says):
    done = subprocess.run([IMMURE, "audit", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code and says in done.stdout + done.stderr

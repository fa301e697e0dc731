"""The audit trail in a file of its own: a chain, over jobs, restarts, crashes and rotations; and what
`immure audit verify` finds in one that was tampered with."""

import contextlib
import fcntl
import hashlib
import json
import os
import random
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import IMMURE
from harness import Server, runtimes, wait_for

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


class SmallDisk:
    """A megabyte in memory, in a mount namespace of its own; `outside`: the same directory from here."""

    def __init__(self, path):
        path.mkdir()
        self.own = ["-U", "-c", "--keep-caps"] if os.geteuid() else []  # it stays an ordinary user
        script = f"mount -t tmpfs -o size=1m,mode=700 none {path} && echo mounted && exec cat"
        self.holder = subprocess.Popen(["unshare", "-m", *self.own, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "mounted\n"
        self.path, self.outside = path, Path(f"/proc/{self.holder.pid}/root{path}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.stdin.close()
        self.holder.wait()

    @property
    def prefix(self):
        enter = ["-U", "--preserve-credentials"] if self.own else []
        return ["nsenter", "-t", str(self.holder.pid), "-m", *enter, "--"]

    def fill(self):
        with contextlib.suppress(OSError), open(self.outside / "filler", "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def empty(self):
        (self.outside / "filler").unlink()


def strict_server(tmp_path, path, more="", prefix=()):
    server = Server(tmp_path / "log", prefix=prefix, immure=IMMURE)
    config = tmp_path / "server.textproto"
    config.write_text(f'audit_log: "{path}" audit_on_failure: STOP {more}\n' + runtimes())
    server.environment["SANDBOX_EXECUTOR_CONFIG"] = str(config)
    return server


def refused(server):
    reply = server.request("POST", "/execute", '{"code": "print(1)"}')
    if reply.status == 200:
        return False
    assert reply.status == 503 and reply.json["code"] == "busy" and "the audit log cannot be written" in reply.json["error"] and reply.headers["Retry-After"] == "1", reply.body
    return True


def stopped(server):
    wait_for(lambda: server.get("/readyz").status == 503, "readiness to fail")
    assert "the audit log cannot be written" in server.get("/readyz").json["error"]
    assert server.metric("immure_audit_stopped") == 1 and server.metric("immure_ready") == 0


def resumed(server):
    wait_for(lambda: server.get("/readyz").status == 200, "readiness")
    assert server.metric("immure_audit_stopped") == 0 and server.metric("immure_ready") == 1
    assert server.execute("print(2)")["stdout"] == "2\n"


def test_no_job_begins_while_the_disk_is_full(tmp_path):
    with SmallDisk(tmp_path / "disk") as disk, strict_server(tmp_path, disk.path / "audit.log", prefix=disk.prefix) as server:
        path = disk.outside / "audit.log"
        disk.fill()
        assert refused(server)
        stopped(server)
        assert refused(server) and '"event":"begin"' not in path.read_text()
        disk.empty()
        resumed(server)
        disk.fill()
        # What is reserved is there for those that begin and for their ends.
        for number in range(5):
            assert server.execute(f"print({number})", execution_id=f"e{number}")["status"] == "success"
        written(path, 6)
        assert server.metric("immure_audit_lines_lost_total") == 0
        events = [(line["event"], line["execution_id"]) for line in lines(path) if line.get("execution_id", "").startswith("e")]
        for number in range(5):
            assert events.index(("begin", f"e{number}")) < events.index(("audit", f"e{number}"))
        begin = next(line for line in lines(path) if line.get("event") == "begin")
        assert begin["runtime"] == "python" and begin["policy"] == "python" and begin["code_bytes"] == len("print(2)")
        assert server.log().count("event=audit_stopped") == server.log().count("event=audit_resumed") == 1
        assert "No space left" in server.log()
        assert sum(line.get("chain") == "resumed" for line in lines(path)) == 1
        assert server.stop() == 0
        whole(path)


class FullPipe:
    """What is written to it waits here until it is read."""

    def __init__(self, path):
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def fill(self):
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(self.fd, b"x" * size)

    def empty(self):
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, 65536):
                pass


def test_a_job_that_runs_gets_its_reply_and_its_lost_line_is_counted(tmp_path, hold):
    pipe = FullPipe(tmp_path / "pipe")
    server = strict_server(tmp_path, tmp_path / "pipe")
    server.environment.update(hold.environment)
    with server, ThreadPoolExecutor() as pool:
        running = pool.submit(server.execute, "call_tool('hold')", **hold.fields)
        wait_for(lambda: server.metric("immure_jobs_running") == 1, "a job that runs")
        pipe.fill()
        assert refused(server)
        stopped(server)
        hold.go.set()
        assert running.result(60)["status"] == "success"
        wait_for(lambda: server.metric("immure_audit_lines_lost_total") == 2, "a tool call's line and a job's")
        pipe.empty()
        resumed(server)
        assert server.metric("immure_audit_lines_lost_total") == 2  # a refused job's line is not lost: there was no job
        text = os.read(pipe.fd, 65536).decode()
        assert '"chain":"lost"' in text and '"lines":2' in text


def test_no_job_begins_while_the_file_cannot_be_left(tmp_path):
    path = tmp_path / "audit.log"
    with strict_server(tmp_path, path, "audit_log_bytes: 3000") as server:
        for number in range(1, 100):  # names that it would have
            (tmp_path / f"audit.log.{number:012}").mkdir()
        wait_for(lambda: refused(server), "a file that is full")
        stopped(server)
        assert "event=audit_not_rotated" in server.log()
        for number in range(1, 100):
            (tmp_path / f"audit.log.{number:012}").rmdir()
        resumed(server)
        assert server.stop() == 0
        assert len(all_files(path)) > 1
        whole(*all_files(path))
        assert sum(line.get("chain") == "resumed" for file in all_files(path) for line in lines(file)) == 1


def test_a_line_of_the_front_stops_the_server_too(tmp_path):
    """It is the job's own line, behind its beginning, that no longer fits: nobody asks for another job."""
    path = tmp_path / "audit.log"
    with strict_server(tmp_path, path, "audit_log_bytes: 850") as server:
        for number in range(1, 10):
            (tmp_path / f"audit.log.{number:012}").mkdir()
        assert server.execute("1")["status"] == "success"
        stopped(server)
        assert [line.get("event") for line in lines(path)][:3] == [None, "begin", "audit"]


def test_no_job_begins_while_a_reloads_file_is_anothers(serve, tmp_path):
    path = tmp_path / "audit.log"
    server = serve("log_level: INFO\n")
    config = Path(server.environment["SANDBOX_EXECUTOR_CONFIG"])
    with open(path, "w") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        config.write_text(f'audit_log: "{path}" audit_on_failure: STOP\n' + config.read_text())
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "event=audit_not_changed" in server.log(), "a file that is another's")
        server.reloaded()
        stopped(server)
        assert refused(server) and not path.read_text()
    resumed(server)
    assert lines(path)[0]["chain"] == "opened"
    whole(path)


def test_a_reload_takes_the_stop_back(tmp_path):
    pipe = FullPipe(tmp_path / "pipe")
    with strict_server(tmp_path, tmp_path / "pipe") as server:
        pipe.fill()
        assert refused(server)
        config = Path(server.environment["SANDBOX_EXECUTOR_CONFIG"])
        config.write_text(config.read_text().replace("audit_on_failure: STOP", ""))
        server.process.send_signal(signal.SIGHUP)
        server.reloaded()
        wait_for(lambda: server.get("/readyz").status == 200, "readiness")
        assert server.execute("print(3)")["status"] == "success"


def test_stop_needs_a_file(serve):
    server = serve("audit_on_failure: STOP", ready=False)
    assert server.ended() == 1 and "audit_on_failure" in server.log() and "audit_log" in server.log()


def test_only_so_many_files_are_kept(serve, tmp_path):
    path = tmp_path / "audit.log"
    server = serve(f'audit_log: "{path}" audit_log_bytes: 2500 audit_keep_files: 2')
    for number in range(25):
        server.execute(str(number))
    wait_for(lambda: server.log().count("event=audit_removed") >= 2, "the eldest files' ends")
    assert server.stop() == 0
    files = all_files(path)
    assert len(files) == 3
    gone = re.findall(r"event=audit_removed file=(\S+)", server.log())
    assert gone == sorted(gone) and not set(gone) & {file.name for file in files}
    noted = [line["file"] for file in files for line in lines(file) if line.get("chain") == "removed"]
    assert noted and set(noted) <= set(gone)
    assert "begins behind line number" in whole(*files)


def test_only_so_many_days_are_kept(serve, tmp_path):
    path = tmp_path / "audit.log"
    text, _ = trail(path, 4)
    rest = '"chain":"opened","time":"2020-01-01T00:00:00.000Z"'
    old = tmp_path / "audit.log.000000000004"
    path.rename(old)
    os.utime(old, (1577836800, 1577836800))
    young = tmp_path / "audit.log.000000000003"
    young.write_text("")  # its time is now, whatever its name
    path.write_text(f'{{"seq":5,"prev":"{hashlib.sha256(text[-1].strip().encode()).hexdigest()}",{rest}}}\n')
    server = serve(f'audit_log: "{path}" audit_keep_days: 7')
    wait_for(lambda: "event=audit_chain" in server.log(), "the old file to be left")
    server.execute("1")
    written(path, 1)
    left, = [file for file in all_files(path) if file not in (old, young, path)]
    assert lines(left)[0]["seq"] == 5 and lines(left)[-1]["chain"] == "rotated"
    assert young.exists() and old.exists()  # one after the other, the eldest first: that one is kept
    young.unlink()
    server.stop()
    again = serve(f'audit_log: "{path}" audit_keep_days: 7')
    wait_for(lambda: "event=audit_removed file=audit.log.000000000004" in again.log(), "the old file's end")
    assert not old.exists() and left.exists()
    again.stop()
    assert "begins behind line number 4" in whole(*all_files(path))


def test_verify_reads_several_servers_trails(tmp_path):
    paths = []
    for name, n in (("a", 4), ("b", 7), ("c", 3)):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "audit.log")
        text, last = trail(paths[-1], n)
    code, said = verify(*paths)
    assert code == 1 and "inserted, repeated or moved" in said
    code, said = verify(*paths, options=("--by-directory",))
    assert code == 0, said
    assert verify(*paths, options=("--by-directory", "--contains", last))[0] == 0
    assert [f"{path.parent}:" in said for path in paths] == [True] * 3 and said.count(" 0 faults") == 3
    assert verify(*paths, options=("--by-directory", "--contains", "0" * 64))[0] == 1
    paths[1].write_text(paths[1].read_text().replace("k3", "kX"))
    code, said = verify(*paths, options=("--by-directory",))
    assert code == 1 and f"{paths[1]}:4: " in said and said.count(" 0 faults") == 2

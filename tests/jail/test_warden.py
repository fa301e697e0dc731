"""`immure serve`: what stops the start, and what the warden does about signals, reloads and fronts that die."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import BUILD, CGROUP, PATIENCE, ROOT, Server, children, free_port, runtimes, wait_for

WITHOUT_NODE = True

IMMURE = str(BUILD / "immure")

HELD = "print('up', flush=True)\ncall_tool('hold')\nprint('done')"
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep({})\nprint('done')"


def events(server, name):
    """The log lines of one event, as dictionaries."""
    found = []
    for line in server.log().splitlines():
        fields = {}
        for key, quoted, plain in re.findall(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))', line):
            fields[key] = quoted or plain
        if fields.get("event") == name:
            found.append(fields)
    return found


def front_pid(server):
    """The front that serves now."""
    return int(wait_for(lambda: events(server, "front_serving"), "a front that serves")[-1]["pid"])


def call_later(server, *arguments, **fields):
    """-> a function that waits for the reply of a job started now"""
    box = []

    def call():
        try:
            box.append(server.execute(*arguments, **fields))
        except (OSError, http.client.HTTPException, ValueError) as error:
            box.append(error)

    thread = threading.Thread(target=call)
    thread.start()

    def result():
        thread.join(PATIENCE * 120)
        assert box, "no reply"
        return box[0]
    return result


def running(server, jobs):
    wait_for(lambda: server.metric("immure_jobs_running") == jobs, f"{jobs} running jobs")


# ---- start


def start_refused(environment=None, *options, expected=1):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOX_")}
    done = subprocess.run([IMMURE, "serve", *options], capture_output=True, text=True, timeout=PATIENCE * 60,
                          env={**clean, **(environment or {})})
    assert done.returncode == expected, done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.mark.host_only
def test_an_empty_key_outside_local_environments():
    said = start_refused()
    assert said.startswith("immure serve: ") and said.count("\n") == 1
    assert "SANDBOX_EXECUTOR_SERVICE_API_KEY" in said


@pytest.mark.host_only
def test_wrong_usage():
    assert "did you mean --config?" in start_refused(None, "--confg", expected=2)
    assert "takes no arguments" in start_refused(None, "now", expected=2)


@pytest.mark.host_only
def test_a_configuration_without_a_name():
    assert start_refused(None, "--config", "", expected=2) == "immure serve: --config: names no file: it is empty\n"


@pytest.mark.host_only
def test_a_configuration_that_is_not_there():
    assert "/no/such/file" in start_refused(None, "--config", "/no/such/file")


@pytest.mark.host_only
def test_a_configuration_that_does_not_parse(tmp_path):
    (tmp_path / "c.textproto").write_text('listen: "127.0.0.1:0"\nlistn: 1\n')
    assert "c.textproto:2:1" in start_refused(None, "--config", str(tmp_path / "c.textproto"))


@pytest.mark.host_only
def test_names_that_lead_nowhere(tmp_path):
    config = tmp_path / "c.textproto"
    key = {"SANDBOX_EXECUTOR_SERVICE_API_KEY": "k"}
    config.write_text('runtime { name: "python" interpreter: "/usr/bin/python3" policy: "nope" }\n')
    assert "names policy 'nope'" in start_refused(key, "--config", str(config))
    config.write_text('default_runtime: "cobol"\n')
    assert "cobol" in start_refused(key, "--config", str(config))


def check_config(config, **environment):
    """-> the exit code and what it says; the shell's, so that `config` may be a `<(...)`"""
    done = subprocess.run(["bash", "-c", f'printf "max_concurrent_jobs: 3\\n" | "$0" serve --config {config} --check-config', IMMURE],
                          capture_output=True, text=True, timeout=PATIENCE * 20,
                          env={**os.environ, "SANDBOX_EXECUTOR_SERVICE_API_KEY": "k", **environment})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("place", ["config", "key_file", "policy_path", "policy_directory", "variable"])
@pytest.mark.host_only
def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path, place):
    """Whoever waited for it would hear no signal meanwhile."""
    config, environment, pipe = tmp_path / "server.textproto", {}, tmp_path / "policies" / "pipe.textproto"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    if place == "variable":
        environment = {"SANDBOX_EXECUTOR_SERVICE_API_KEY": "", "SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE": str(pipe)}
    config.write_text({"key_file": f'key_file: "{pipe}"', "policy_path": f'policy_path: "{pipe}"',
                       "policy_directory": f'policy_path: "{pipe.parent}"'}.get(place, ""))
    code, said = check_config(pipe if place == "config" else config, **environment)
    assert code == 1 and f"{pipe}" in said and "cannot be read: it is a pipe that nobody writes to" in said


@pytest.mark.parametrize("config", ["<(sleep 0.2; echo 'max_concurrent_jobs: 3')", "<(true)", "/dev/stdin", "/dev/fd/0", "/dev/null"])
@pytest.mark.host_only
def test_a_configuration_that_is_no_file(config):
    assert check_config(config) == (0, "configuration and policies are valid\n")


@pytest.mark.host_only
def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = start_refused({"SANDBOX_EXECUTOR_SERVICE_API_KEY": "k", "SANDBOX_EXECUTOR_CGROUP": CGROUP,
                              "SANDBOX_EXECUTOR_ADDR": f"127.0.0.1:{taken.getsockname()[1]}"})
    assert "another process listens there" in said


@pytest.mark.skipif(CGROUP == "REQUIRED", reason="this host has what REQUIRED needs")
def test_required_cgroups_that_are_missing():
    said = start_refused({"SANDBOX_EXECUTOR_SERVICE_API_KEY": "k", "SANDBOX_EXECUTOR_ADDR": "127.0.0.1:0"})
    assert "cgroup" in said and "BEST_EFFORT" in said


@pytest.mark.host_only
def test_check_config_only_checks(tmp_path):
    argv = [IMMURE, "serve", "--check-config"]
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "SANDBOX_EXECUTOR_SERVICE_API_KEY": "k"})
    assert (done.returncode, done.stdout) == (0, "configuration and policies are valid\n"), done.stderr
    start_refused(None, "--check-config")


@pytest.mark.parametrize("field", ["callback_ca_file", "package_index_ca_file"])
@pytest.mark.host_only
def test_certificates_that_cannot_be_read_stop_the_start(tmp_path, field):
    """Its fronts, which need them, could only end."""
    config = tmp_path / "server.textproto"
    for path, why in ((tmp_path / "none.pem", "No such file or directory"), (tmp_path, "Is a directory")):
        config.write_text(f'{field}: "{path}"\n')
        for option in ([], ["--check-config"]):
            said = start_refused({"SANDBOX_EXECUTOR_SERVICE_API_KEY": "k"}, "--config", str(config), *option)
            assert said.startswith(f"immure serve: {config}:1:") and said.endswith(f'{field}: "{path}" cannot be read: {why}\n')


@pytest.mark.host_only
def test_check_config_makes_no_audit_log(tmp_path):
    """Whoever checks is often not the user that serves, and could not write to what would belong to somebody else."""
    config = tmp_path / "server.textproto"

    def check(audit_log):
        config.write_text(f'environment: "local"\naudit_log: "{audit_log}"\n')
        return subprocess.run([IMMURE, "serve", "--config", config, "--check-config"], capture_output=True, text=True)

    assert check(tmp_path / "audit.log").returncode == 0 and os.listdir(tmp_path) == ["server.textproto"]
    (tmp_path / "audit.log").write_text("no line of a chain\n")
    assert check(tmp_path / "audit.log").returncode == 1
    nowhere = check(tmp_path / "none" / "audit.log")
    assert nowhere.returncode == 1 and "audit_log" in nowhere.stderr


@pytest.mark.host_only
def test_port_zero_is_told_in_the_log(server):
    server.environment["SANDBOX_EXECUTOR_ADDR"] = "127.0.0.1:0"
    server.start()
    [listening] = wait_for(lambda: events(server, "listening"), "the listening event")
    server.port = int(listening["address"].rsplit(":", 1)[1])
    wait_for(server.ready, "ready")
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_a_unix_socket(server, tmp_path):
    path = tmp_path / "s"
    server.environment["SANDBOX_EXECUTOR_ADDR"] = f"unix:{path}"
    server.start()
    wait_for(lambda: events(server, "selftest"), "the self-test")

    def is_ready():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return client.recv(100).startswith(b"HTTP/1.1 200 ")
    wait_for(is_ready, "its outcome, which the front hears of later than the log")
    assert server.stop() == 0
    assert not path.exists()


# ---- what is and is not visible of it


def test_secrets_leave_the_environment(server):
    with server:
        for pid in (server.process.pid, front_pid(server)):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    assert server.key.encode() not in file.read()
            except PermissionError:
                pass  # even better


def status(pid, field):
    with open(f"/proc/{pid}/status") as file:
        return re.search(rf"^{field}:\t(.*)$", file.read(), re.M).group(1)


def test_the_front_has_no_privileges(server):
    with server:
        front = front_pid(server)
        for field in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(status(front, field), 16) == 0
        assert status(front, "NoNewPrivs") == "1"
        uid = int(status(front, "Uid").split()[0])
        assert uid != 0
        if os.geteuid() == 0:
            assert int(status(front, "CapBnd"), 16) == 0 and status(front, "Groups").split() == []


def test_the_warden_has_a_filter_of_its_own(server):
    with server:
        assert status(server.process.pid, "Seccomp_filters") == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's jails are that user")
def test_two_servers_share_no_outer_uid(tmp_path):
    """The front of each has the uid right before its jails'."""
    fixed = tmp_path / "fixed.textproto"
    fixed.write_text(f"outer_uid_base: {1200000000 + os.getpid() % 4096 * 8192}\n" + (ROOT / "config/server.textproto").read_text())
    with Server(tmp_path / "one") as one, Server(tmp_path / "two") as two:
        assert status(front_pid(one), "Uid") != status(front_pid(two), "Uid")
        assert one.execute("print(1)")["stdout"] == two.execute("print(1)")["stdout"] == "1\n"
    with Server(tmp_path / "three", SANDBOX_EXECUTOR_CONFIG=str(fixed)):
        with pytest.raises(AssertionError, match="are another server's on this host"), Server(
                tmp_path / "four", SANDBOX_EXECUTOR_CONFIG=str(fixed)):
            pass


def test_degradation_is_said_once(server):
    with server:
        assert len(events(server, "degraded")) == (0 if CGROUP == "REQUIRED" else 1)
        ready = server.get("/readyz").json
        assert ready["limits"]["enforced_by"] == ("cgroup2" if CGROUP == "REQUIRED" else "rlimit")


# ---- fronts that die


def test_a_front_that_is_killed_is_replaced(server):
    with server:
        for _ in range(3):
            old = front_pid(server)
            os.kill(old, signal.SIGKILL)
            wait_for(lambda old=old: front_pid(server) != old, "a new front")
            assert server.execute("print(1)")["stdout"] == "1\n"
        assert server.metric("immure_front_restarts_total") == 3
        assert server.process.poll() is None


def test_the_jobs_of_a_dead_front_die(server):
    with server:
        reply = call_later(server, SLEEP.format(60), timeout_ms=60000)
        running(server, 1)
        os.kill(front_pid(server), signal.SIGKILL)
        assert isinstance(reply(), Exception)
        wait_for(lambda: events(server, "job_orphaned"), "the job's end")
        wait_for(server.ready, "ready again")
        # its slot is free: as many jobs as there are slots run at once
        replies = [call_later(server, SLEEP.format(0.3)) for _ in range(4)]
        assert [reply()["status"] for reply in replies] == ["success"] * 4


def test_a_stopped_front_does_not_stop_the_warden(server):
    with server:
        front = front_pid(server)
        os.kill(front, signal.SIGSTOP)
        os.kill(server.process.pid, signal.SIGHUP)
        wait_for(lambda: front_pid(server) != front, "the successor")
        assert server.execute("print(1)")["stdout"] == "1\n"
        os.kill(front, signal.SIGKILL)


@pytest.mark.host_only
def test_dying_again_and_again_is_slowed_down(server):
    with server:
        kills = 0
        # More than six only where the machine is so busy that a front has lived long before it can be killed.
        while not (delayed := events(server, "front_restart_delayed")):
            assert (kills := kills + 1) <= 30
            old = front_pid(server)
            os.kill(old, signal.SIGKILL)
            wait_for(lambda old=old: events(server, "front_restart_delayed") or front_pid(server) != old, "the next front")
        assert kills >= 6
        [delayed] = delayed
        assert delayed["delay_ms"] == "1000"
        wait_for(server.ready, "ready again")
        assert server.process.poll() is None


def jail_processes(server):
    """The warden's children: fronts, and PID 1 of each jail where none is forked from a template."""
    return set(children(server.process.pid))


@pytest.fixture
def impatient(server, tmp_path):
    """A server that waits five seconds for a front that hangs, and has no jails but those of jobs."""
    config = tmp_path / "impatient.textproto"
    shipped = (ROOT / "config/server.textproto").read_text()
    config.write_text("front_timeout_ms: 5000\n" + re.sub(r"\s*(warm_jails|template):.*", "", shipped))
    server.environment["SANDBOX_EXECUTOR_CONFIG"] = str(config)
    with server:
        yield server


def test_a_front_that_hangs_is_replaced(impatient):
    server = impatient
    before = jail_processes(server)
    reply = call_later(server, SLEEP.format(60), timeout_ms=60000)
    running(server, 1)
    old = front_pid(server)
    os.kill(old, signal.SIGSTOP)
    [killed] = wait_for(lambda: events(server, "front_killed"), "the hanging front's end")
    assert (killed["pid"], killed["reason"]) == (str(old), "it has not answered for 5000 ms")
    assert isinstance(reply(), Exception)
    wait_for(lambda: front_pid(server) != old, "another front")
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert server.metric("immure_front_restarts_total") == 1
    wait_for(lambda: len(jail_processes(server)) <= len(before), "no process left of the job")


def test_fronts_do_not_need_their_file(tmp_path):
    """What an installation replaces or removes is the next server's affair."""
    immure, front = (shutil.copy(BUILD / name, tmp_path) for name in ("immure", "immure-front"))
    with Server(tmp_path / "log", immure=immure) as server:
        os.unlink(front)
        server.process.send_signal(signal.SIGHUP)
        server.reloaded()
        assert server.execute("print(1)")["stdout"] == "1\n"
        Path(front).write_text("another version")
        old = front_pid(server)
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: front_pid(server) != old, "another front")
        assert server.execute("print(1)")["stdout"] == "1\n"


@pytest.mark.host_only
def test_a_front_that_works_is_left_alone(impatient):
    """Longer than it may be silent, idle and with a job, over a reload."""
    server = impatient
    reply = call_later(server, SLEEP.format(6))
    running(server, 1)
    server.process.send_signal(signal.SIGHUP)
    server.reloaded()
    assert reply()["status"] == "success"  # from the front that drains; the other one had nothing to do
    assert events(server, "front_killed") == [] and server.metric("immure_front_restarts_total") == 0


def test_a_front_at_its_work_makes_no_denied_call(server):
    with server:
        for number in range(3):
            assert server.execute(f"open('x', 'w').write('{number}')", outputs=["x"], stdin="in")["status"] == "success"
        assert server.request("POST", "/execute", "{").status == 400
        for path in ("/metrics", "/healthz", "/openapi.json", "/no"):
            server.get(path)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: events(server, "front_exited"), "the old front's end")
        server.execute("print(1)")
    assert events(server, "front_denied") == []


# ---- reload


@pytest.fixture
def configured(server, tmp_path, hold):
    """A server with a configuration file of its own; its jobs may be held."""
    server.environment.update(hold.environment)
    server.config = tmp_path / "server.textproto"
    server.config.write_text(f'listen: "127.0.0.1:{server.port}"\ncgroup: {CGROUP}\n' + runtimes())
    server.environment["SANDBOX_EXECUTOR_CONFIG"] = str(server.config)
    del server.environment["SANDBOX_EXECUTOR_ADDR"], server.environment["SANDBOX_EXECUTOR_CGROUP"]
    with server:
        yield server


def reload(server, text, expected):
    server.config.write_text(f'listen: "127.0.0.1:{server.port}"\ncgroup: {CGROUP}\n' + text + ("" if "runtime {" in text else runtimes()))
    before = len(events(server, expected))
    server.process.send_signal(signal.SIGHUP)
    event = wait_for(lambda: events(server, expected)[before:], expected)[0]
    if expected == "reloaded":
        server.reloaded(before + 1)
    return event


def test_reload_takes_effect(configured):
    assert configured.execute("print(1)")["limits"]["timeout_ms"] == 30000
    reload(configured, "default_timeout_ms: 1234\n", "reloaded")
    # the key came from the environment, which has been overwritten since
    assert configured.execute("print(1)")["limits"]["timeout_ms"] == 1234
    assert configured.metric("immure_front_restarts_total") == 0


def test_reload_waits_for_running_jobs(configured, hold):
    reply = call_later(configured, HELD, **hold.fields)
    running(configured, 1)
    old = front_pid(configured)
    reload(configured, "default_timeout_ms: 1234\n", "reloaded")
    assert configured.execute("print(1)")["limits"]["timeout_ms"] == 1234
    hold.go.set()
    assert reply()["stdout"] == "up\ndone\n"
    wait_for(lambda: [e for e in events(configured, "front_exited") if e["pid"] == str(old)], "the old front's end")


@pytest.mark.host_only
def test_reload_refuses_nobody(configured):
    """A connection that the old front has, or is just getting, is served like any other."""
    early = http.client.HTTPConnection("127.0.0.1", configured.port, timeout=PATIENCE * 60)
    early.connect()
    wait_for(lambda: configured.metric("immure_http_connections") == 2, "the connection and the one that asks")
    stop, replies = threading.Event(), []

    def ask():
        while not stop.is_set():
            reply = configured.request("GET", "/readyz")
            replies.append((reply.status, reply.json.get("error")))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        # Ten, or on a slow machine what fits into half of the time that the first front has to drain.
        began = time.monotonic()
        for timeout_ms in range(20000, 20010):
            reload(configured, f"default_timeout_ms: {timeout_ms}\n", "reloaded")
            if time.monotonic() - began > 15:
                break
    finally:
        stop.set()
        asking.join()
    assert replies and set(replies) == {(200, None)}
    early.request("POST", "/execute", json.dumps({"code": "print(1)"}),
                  {"X-Service-API-Key": configured.key, "Content-Type": "application/json"})
    reply = early.getresponse()
    assert (reply.status, json.loads(reply.read())["limits"]["timeout_ms"]) == (200, 30000)  # the old front's settings


@pytest.mark.host_only
def test_capacity_counts_over_both_fronts(configured, hold):
    reload(configured, "max_concurrent_jobs: 1\n", "reloaded")
    reply = call_later(configured, HELD, **hold.fields)
    running(configured, 1)
    reload(configured, "max_concurrent_jobs: 1\ndefault_timeout_ms: 5000\n", "reloaded")
    busy = configured.request("POST", "/execute", json.dumps({"code": "print(1)"}))
    assert busy.status == 503 and int(busy.headers["Retry-After"]) >= 1
    hold.go.set()
    assert reply()["status"] == "success"
    assert configured.execute("print(1)")["status"] == "success"


@pytest.mark.parametrize("text, words", [
    ("default_timeout_ms: 0x\n", "server.textproto:4"),
    ('default_runtime: "cobol"\n', "cobol"),
    ('default_runtime: "py"\nruntime { name: "py" interpreter: "/usr/bin/python3" extension: "py" policy: "python" evaluator: true }\n',
     "server.textproto:4:18 default_runtime: "),
    ("outer_uid_base: 1000000\n", "outer_uid_base"),
    ('callback_ca_file: "/no/such.pem"\n', "server.textproto:4:19 callback_ca_file: "),
    ('runtime { name: "python" interpreter: "/usr/bin/python3" policy: "nope" }\n', "names policy 'nope'"),
])
@pytest.mark.host_only
def test_reload_is_all_or_nothing(configured, text, words):
    front = front_pid(configured)
    refused = reload(configured, "max_timeout_ms: 999\n" + text, "reload_refused")
    assert words in f"{refused['item']} {refused['error']}"
    assert front_pid(configured) == front
    assert configured.execute("print(1)", timeout_ms=5000)["limits"]["timeout_ms"] == 5000


@pytest.mark.host_only
def test_the_address_cannot_change(configured):
    configured.config.write_text(f'listen: "127.0.0.1:{free_port()}"\ncgroup: {CGROUP}\n')
    configured.process.send_signal(signal.SIGHUP)
    [refused] = wait_for(lambda: events(configured, "reload_refused"), "the refusal")
    assert refused["item"] == "listen"
    assert configured.execute("print(1)")["status"] == "success"


PYTHON_IS = 'runtime { name: "python" interpreter: "%s" extension: "py" policy: "python" }\n'


@pytest.mark.host_only
def test_a_runtime_that_does_not_work_is_not_ready(configured):
    reload(configured, PYTHON_IS % "/usr/bin/false", "reloaded")
    # the old front, which drains, may answer once more
    wait_for(lambda: "self-test of runtime python" in configured.get("/readyz").body.decode(), "the reason")
    assert configured.get("/readyz").status == 503
    reload(configured, "", "reloaded")
    wait_for(configured.ready, "ready again")


@pytest.mark.host_only
def test_a_runtime_whose_interpreter_is_gone_is_no_configuration(configured):
    event = reload(configured, PYTHON_IS % "/no/such/python", "reload_refused")
    assert "runtime[0].interpreter: /no/such/python is not there" in event["error"]
    assert configured.ready()


# ---- the end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_lets_jobs_finish(server, number, hold):
    server.environment.update(hold.environment)
    server.start()
    wait_for(server.ready, "ready")
    reply = call_later(server, HELD, **hold.fields)
    running(server, 1)
    server.process.send_signal(number)
    wait_for(lambda: events(server, "draining"), "draining")
    hold.go.set()
    assert reply()["stdout"] == "up\ndone\n"
    assert server.ended() == 0
    assert events(server, "stopped")


def test_a_drain_has_an_end(server, tmp_path):
    config = tmp_path / "c.textproto"
    config.write_text("drain_timeout_ms: 500\n")
    server.environment["SANDBOX_EXECUTOR_CONFIG"] = str(config)
    server.start()
    wait_for(server.ready, "ready")
    reply = call_later(server, SLEEP.format(60), timeout_ms=60000)
    running(server, 1)
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert reply()["status"] == "cancelled"
    assert server.ended() == 0
    assert 0.5 <= time.monotonic() - started
    assert events(server, "drain_timeout")


def test_a_second_signal_ends_at_once(server):
    server.start()
    wait_for(server.ready, "ready")
    reply = call_later(server, SLEEP.format(60), timeout_ms=60000)
    running(server, 1)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: events(server, "draining"), "draining")
    server.process.send_signal(signal.SIGTERM)
    assert server.ended() == 0
    assert isinstance(reply(), Exception)


def test_nothing_survives_a_warden_that_is_killed(server):
    server.start()
    wait_for(server.ready, "ready")
    front = front_pid(server)
    reply = call_later(server, SLEEP.format(60), timeout_ms=60000)
    running(server, 1)
    server.process.kill()
    server.process.wait()
    assert isinstance(reply(), Exception)
    wait_for(lambda: not os.path.exists(f"/proc/{front}"), "the front's end")

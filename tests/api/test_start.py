"""What operators get wrong before the first job: the start ends with one sentence that names the fault and what to do."""

import os
import re
import subprocess

import pytest
from conftest import IMMURE
from harness import CGROUP, Server, config_key, runtimes, shipped_policy, wait_for
from harness import IMMURE as REAL

WITHOUT_NODE = True

KEY = "k" * 32
# As root without capabilities, which may not read what nobody may.
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] if os.geteuid() == 0 else []
# A root with all that the host has in it, as for a debootstrap, in a mount namespace that has another.
CHROOT = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", """
cd "$0" || exit
for name in $(ls -A /); do
    if [ -h "/$name" ]; then cp -a "/$name" .; elif [ -d "/$name" ]; then mkdir "$name" && mount --rbind "/$name" "$name" || exit; fi
done
exec chroot . "$@"
"""]
# A root that is a mount, beside a PID 1 that has another.
CHROOT_ON_A_MOUNT = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "/bin/sh", "-c",
                     'mount --rbind / "$0" && chroot "$0" "$@"; exit $?']


def refused(*prefix, config=None, path=None, **environment):
    """-> the sentence"""
    variables = {"SANDBOX_EXECUTOR_SERVICE_API_KEY": KEY, "SANDBOX_EXECUTOR_ADDR": "127.0.0.1:0", "SANDBOX_EXECUTOR_CGROUP": "BEST_EFFORT"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOX_")}
    if config is not None:
        path.write_text(config)
        environment["SANDBOX_EXECUTOR_CONFIG"] = str(path)
    done = subprocess.run([*map(str, prefix), REAL, "serve"], env=inherited | variables | environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, (done.returncode, done.stderr)
    own = [line for line in done.stderr.splitlines() if line.startswith("immure serve: ")]
    assert len(own) == 1 and done.stderr.splitlines()[-1] == own[0], done.stderr
    return own[0].removeprefix("immure serve: ")


@pytest.mark.parametrize("most", [8, 20, 64, 319])
def test_too_few_open_files(most):
    assert refused("prlimit", f"--nofile={most}:{most}") == (
        f"the limit of open files is {most}, and jobs under policy python may have 320: "
        "raise it (systemd: LimitNOFILE=, containers: --ulimit nofile=, shells: ulimit -n)")


def test_too_few_open_files_to_look_at_the_configuration():
    said = refused("prlimit", "--nofile=4:4")
    assert said.endswith(": Too many open files; the limit of open files is too low: raise it (systemd: LimitNOFILE=, containers: --ulimit nofile=, "
                         "shells: ulimit -n)"), said


def test_a_job_that_may_have_more_open_files_than_the_server(tmp_path):
    (tmp_path / "more.textproto").write_text(shipped_policy("python").replace('name: "python"', 'name: "more"')
                                             .replace("resource: NOFILE soft: 320", "resource: NOFILE soft: 900"))
    (tmp_path / "server.textproto").write_text(f'policy_path: "{tmp_path}/more.textproto"\n' + runtimes())
    with Server(tmp_path / "log", ["prlimit", "--nofile=800:800"], immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(tmp_path / "server.textproto")) as server:
        reply = server.request("POST", "/execute", '{"code": "1", "policy": "more"}')
        assert reply.status == 500 and "a job cannot have more than its jail's maker, whose own hard limit" in reply.body.decode(), reply.body
        assert server.execute("print(1)")["stdout"] == "1\n"


def test_too_few_open_files_for_the_slots():
    said = refused("prlimit", "--nofile=1000:1000", SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS="100")
    assert said.startswith("the limit of open files is 1000, and max_concurrent_jobs needs 1664: raise it (systemd: LimitNOFILE=,"), said


def test_open_files_that_are_just_enough(tmp_path):
    with Server(tmp_path / "log", ["prlimit", "--nofile=320:320"], immure=IMMURE) as server:
        assert server.execute("print(1)")["stdout"] == "1\n"


def test_a_reload_that_needs_more_open_files(tmp_path):
    config = tmp_path / "server.textproto"
    config.write_text("")
    with Server(tmp_path / "log", ["prlimit", "--nofile=1000:1000"], immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        config.write_text("max_concurrent_jobs: 100")
        os.kill(server.process.pid, 1)
        line = wait_for(lambda: re.search("event=reload_refused .*", server.log()), "the refusal")[0]
        assert "max_concurrent_jobs needs 1664: raise it" in line
        assert server.execute("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("how", [CHROOT, CHROOT_ON_A_MOUNT])
def test_in_a_chroot(tmp_path, how):
    (tmp_path / "root").mkdir()
    said = refused(*how, tmp_path / "root")
    assert said.startswith("we are in a chroot, where the kernel makes no user namespaces, and so no jails; start outside of the chroot"), said


@pytest.mark.parametrize("mode", [0o000, 0o200])
def test_a_key_file_that_is_closed(tmp_path, mode):
    keys = tmp_path / "keys"
    keys.touch()
    keys.chmod(mode)
    said = refused(*UNPRIVILEGED, config=f'key_file: "{keys}"\n', path=tmp_path / "server.textproto")
    uid, gid = os.geteuid(), os.getegid()
    assert said == (f'{tmp_path}/server.textproto:1:11: key_file: "{str(keys)[:100]}" cannot be read: Permission denied: {keys} belongs to uid {uid} '
                    f"and gid {gid} and has mode {mode:04o}, and this is uid {uid} and gid {gid}; chown or chmod it")


def test_a_key_file_in_a_directory_that_is_closed(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o600)
    said = refused(*UNPRIVILEGED, SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE=str(closed / "key"))
    closed.chmod(0o700)
    assert f": Permission denied: {closed} belongs to uid {os.geteuid()} " in said and "mode 0600" in said, said


@pytest.mark.parametrize("field, remedy", [
    ("image_directory", '"{0}" cannot be read: No such file or directory: there is no {1}; make it, or let `immure image import` make it'),
    ("approval_directory", "{0}: No such file or directory: there is no {1}"),
    ("audit_log", "cannot open the directory of {0}: No such file or directory: there is no {1}"),
    ("policy_path", '"{0}" cannot be read: No such file or directory: there is no {1}'),
    ("key_file", '"{0}" cannot be read: No such file or directory: there is no {1}'),
])
def test_what_is_not_there(tmp_path, field, remedy):
    missing = tmp_path / "none" / "such"
    said = refused(config=f'{field}: "{missing}"\n', path=tmp_path / "server.textproto")
    assert re.match(rf"(.*:1:\d+: )?{field}(\[0\])?: ", said) and said.endswith(remedy.format(missing, missing.parent)), said


def test_an_image_directory_that_is_not_there_is_found_by_check_config(tmp_path):
    (tmp_path / "c").write_text('image_directory: "/no-such"')
    done = subprocess.run([REAL, "serve", "--check-config", "--config", tmp_path / "c"], capture_output=True, text=True,
                          env={"SANDBOX_EXECUTOR_SERVICE_API_KEY": KEY})
    assert done.returncode == 1 and 'image_directory: "/no-such" cannot be read: No such file or directory; make it' in done.stderr


def test_an_address_without_a_port(tmp_path):
    said = refused("env", "-u", "SANDBOX_EXECUTOR_ADDR", config='listen: "127.0.0.1"', path=tmp_path / "c")
    assert said.endswith('/c:1:9: listen: must be HOST:PORT, [HOST]:PORT or unix:/PATH, not "127.0.0.1"; did you mean 127.0.0.1:9099?'), said


def test_words_of_the_configuration(tmp_path):
    for name, text in (("c", "cgroup: best-effort"), ("c.json", '{"cgroup": "best-effort"}')):
        said = refused("env", "-u", "SANDBOX_EXECUTOR_CGROUP", config=text, path=tmp_path / name)
        assert said.endswith("cgroup: CgroupMode has no value best-effort; did you mean BEST_EFFORT?"), said
    assert refused("env", "-u", "SANDBOX_EXECUTOR_CGROUP", config="cgroup: none", path=tmp_path / "c").endswith(
        "cgroup: CgroupMode has no value none; it has BEST_EFFORT, REQUIRED")
    assert refused(SANDBOX_EXECUTOR_CGROUP="best_efort") == (
        'SANDBOX_EXECUTOR_CGROUP: "best_efort" is not REQUIRED or BEST_EFFORT; did you mean BEST_EFFORT?')


def test_a_word_of_the_environment_in_any_case(tmp_path):
    with Server(tmp_path / "log", immure=IMMURE, cgroup=CGROUP.lower().replace("_", "-")) as server:
        assert server.execute("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("name, meant", [
    ("SANDBOX_EXECUTOR_MAX_CONCURENT_JOBS", "SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS"),
    ("SANDBOX_MAX_CONCURENT", "SANDBOX_MAX_CONCURRENT"),
    ("IMMURE_MAX_CONCURRENT_JOBS", "SANDBOX_EXECUTOR_MAX_CONCURRENT_JOBS"),
])
def test_a_misspelt_variable(name, meant):
    assert refused(**{name: "3"}) == f"{name}: there is no such variable; did you mean {meant}?"


def test_variables_of_a_service_beside_us(tmp_path):
    """As Kubernetes sets them where a service is called sandbox-executor, which is what callers may call it."""
    with Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_SERVICE_HOST="10.0.0.1", SANDBOX_EXECUTOR_PORT="tcp://10.0.0.1:9099",
                SANDBOX_EXECUTOR_PORT_9099_TCP_ADDR="10.0.0.1", SANDBOX_EXECUTOR_SERVICE_PORT_HTTP="9099") as server:
        assert server.get("/readyz").status == 200


def test_a_team_that_is_off_is_told_of(tmp_path):
    config = tmp_path / "server.textproto"
    lines = [config_key("a", "ka", team="named"), config_key("b", "kb", team="unnamed"), config_key("c", "kc", team="unnamed"),
             config_key("d", "kd", team="on"), 'team { name: "on" enabled: true }', 'team {', '  name: "named"', '  enabled: false', "}"]
    text = "\n".join(line.strip() for line in lines)
    line = text[:text.index("enabled: false")].count("\n") + 1
    config.write_text(text)
    with Server(tmp_path / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config)) as server:
        told = [re.search(r"team=(\S+) at=(\S+) means=.* remedy=(.*)", said).groups() for said in server.log().splitlines() if "event=team_off" in said]
        assert told == [("named", f"{config}:{line}:10", '"write `enabled: true` there"'),
                        ("unnamed", str(config), r'"add `team { name: \"unnamed\" enabled: true }` there"')]
        config.write_text(text.replace("enabled: false", "enabled: true"))
        os.kill(server.process.pid, 1)
        server.reloaded()
        assert server.log().count("event=team_off team=named") == 1 and server.log().count("event=team_off team=unnamed") == 2


# A root of its own, in which Debian's Python is no program.
WITHOUT_PYTHON = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c",
                  'mount --bind /dev/null /usr/bin/python3 && exec unshare --user --map-user=1000 --map-group=1000 -- "$@"', "sh"]


@pytest.mark.parametrize("prefix, interpreter, fault", [
    ([], "/usr/bin/python9", "is not there; install it, or name another one (interpreter)"),
    (WITHOUT_PYTHON, "/usr/bin/python3", "cannot be executed; install Debian's package python3, or name another one (interpreter)"),
])
def test_an_interpreter_that_is_not_there(tmp_path, prefix, interpreter, fault):
    server = Server(tmp_path / "log", prefix, cgroup="BEST_EFFORT", SANDBOX_PYTHON_BIN=interpreter)
    server.start()
    assert server.ended() == 1
    assert server.log() == f"immure serve: SANDBOX_PYTHON_BIN: runtime[0].interpreter: {interpreter} {fault}\n"

"""The servers and the canaries that the attacks are run against, and the count at the end."""

import concurrent.futures
import dataclasses
import json
import os
import re
import secrets
import signal
import sys
import time
import urllib.parse
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "programs"))

from attack import judge  # noqa: E402
from harness import BUILD, PATIENCE, ROOT, Server, descendants, front_of, shipped_policy, wait_for  # noqa: E402
from images import debian_layout, imported, policy  # noqa: E402
from world import World, find_process  # noqa: E402

IMMURE = str(BUILD / "immure")
SHIPPED = "max_concurrent_jobs: 8 max_timeout_ms: 600000 drain_timeout_ms: 30000\n" + (ROOT / "config/server.textproto").read_text()
# How jobs start. "template": forked from a template into jails that stand ready; "exec": with an interpreter of their own.
CONFIGURATIONS = {
    "template": SHIPPED,
    "stockless": re.sub(r"\s*warm_jails:.*", "", SHIPPED),
    "exec": re.sub(r"\s*(warm_jails|template):.*", "", SHIPPED),
}
# Its own interpreter in a jail whose root is an image, with the same policies but for what they show of the host.
CONFIGURATIONS["image"] = CONFIGURATIONS["exec"]
# As the call of a session's interpreter that lives on.
CONFIGURATIONS["kernel"] = CONFIGURATIONS["exec"]
CHOSEN = {"pool": ["template"], "template": ["stockless"], "off": ["exec"]}
# All of them are tried in an image, too; by a server of an ordinary user, those that have to do with files, ids, namespaces and the
# kernel: the rest sees nothing of a root.
IN_IMAGE_AS_USER = {"host_files", "identity", "kernel_settings", "namespaces", "node_escapes", "own_secrets"}
# Its jail is like any other but for how programs begin and end in it.
IN_KERNEL = {"bridge_frames", "endings", "identity", "namespaces", "network", "output_files"}
# The deadline of those for which it does not matter: on a machine that is busy with other things a flood of calls takes its time.
PATIENT_MS = PATIENCE * 100000
# How late a reply may come after its job's deadline, on such a machine.
LATE_S = PATIENCE * 20
# How long a virtual machine on such a machine may take to start a template and fill its stock.
STOCK_S = 240
RUNS = pytest.StashKey()


def ways():
    """Those that IMMURE_TEST_WARM chooses; else the two that differ, but in the virtual machine, which is slow, the one as shipped."""
    chosen = os.environ.get("IMMURE_TEST_WARM")
    wanted = CHOSEN[chosen] if chosen else ["template"] if "IMMURE_VM" in os.environ else ["exec", "template", "image", "kernel"]
    return [way for way in wanted if way != "template" or (BUILD / "immure-python.so").exists()]


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("world") / "outside")
    yield made
    made.close()


def is_tried(way, one):
    if way == "kernel":
        return one.kind in IN_KERNEL and not one.first and not {"policy", "session_id"} & set(one.request)
    return way != "image" or os.geteuid() == 0 or one.kind in IN_IMAGE_AS_USER


def unhurried(condition):
    """Asking all the time would keep a slow machine from what is waited for."""
    def asked():
        time.sleep(0.25)
        return condition()
    return asked


def beside(one, run, secret):
    """Runs an attack while its victim holds still. -> what is wrong with either"""
    name = "hold-" + secrets.token_hex(8)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        victim = pool.submit(run, one.victim, ATTACK_HOLD=name, NEIGHBOUR_SECRET=secret)
        pid = wait_for(lambda: find_process(name) or victim.done(), "the other job holds still", 60)
        assert not victim.done(), f"the other job has ended: {victim.result()}"
        wrong = run(one)
        os.kill(pid, signal.SIGKILL)
        return wrong + [f"the other job: {what}" for what in victim.result()]


class Arena:
    """One server, and the attacks of this session on it, two at a time."""

    def __init__(self, server, world, wanted, way="exec"):
        self.server, self.world, self.kernel, self.image = server, world, way == "kernel", way == "image"
        self.given = world.given(server.port)
        # The process that keeps sessions is started for the first one, and stays.
        self.send("pass", session_id="first")
        self.forget_sessions()
        self.before = self.settled()
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.results = {str(one): self.pool.submit(self.run, one) for one in wanted if not one.alone}

    def send(self, code, **fields):
        """One job. -> the reply"""
        fields["env"] = {"ATTACK_GIVEN": self.given, **fields.get("env", {})}
        if not self.kernel or "session_id" in fields:
            return self.server.request("POST", "/execute", json.dumps({"code": code, **fields})).json
        fields.update(policy="python-kernel", session_id="kernel-" + secrets.token_hex(8))
        reply = self.server.request("POST", "/execute", json.dumps({"code": code, **fields})).json
        self.server.request("DELETE", "/workspace/" + fields["session_id"])
        return reply

    def run_one(self, one, **env):
        """-> what is wrong"""
        if one.runtime == "node" and self.before["standby"]:
            # In the one that stands ready, if any does: that is where the two ways differ.
            wait_for(unhurried(lambda: self.server.parked("node") > 0), "an interpreter stands ready", STOCK_S)
        request = {**one.request, "env": {**one.request.get("env", {}), **env}}
        for timeout_ms in (one.request.get("timeout_ms", PATIENT_MS), 20000):
            began = time.monotonic()
            verdict = self.send(one.code, **{**request, "timeout_ms": timeout_ms})
            late = time.monotonic() - began - timeout_ms / 1000
            # On a machine that is busy with other things, a short time may end before the attack has begun.
            if "begun" not in one.code or "begun" in verdict.get("stdout", ""):
                break
        if self.image and one.in_image:
            one = dataclasses.replace(one, expect={**one.expect, **one.in_image})
        return judge(one, verdict, self.world.secrets) + ([f"{late:.0f} s after the deadline"] if late > LATE_S else [])

    def run(self, one):
        if one.first:
            return self.run_one(one.first) + self.run_one(one)
        if not one.victim:
            return self.run_one(one)
        return beside(one, self.run_one, self.world.secrets["neighbour"])

    def forget_sessions(self):
        for session in self.server.get("/sessions").json["sessions"]:
            assert self.server.request("DELETE", "/workspace/" + urllib.parse.quote(session["session_id"], safe="")).status in (200, 204)

    def settled(self):
        """The state, once it stays the same for a while."""
        states = [self.state()]

        def same():
            states.append(self.state())
            return len(states) > 2 and states[-1] == states[-2] == states[-3]
        wait_for(unhurried(same), f"the server comes to rest: {states}")
        return states[-1]

    def state(self):
        """Everything that attacks could leave behind. How many, not which: jails that stand ready are renewed."""
        warden = self.server.process.pid
        mounts = Path(f"/proc/{warden}/mountinfo").read_text().splitlines()
        return {
            "processes": len(descendants(warden)),
            "descriptors": len(os.listdir(f"/proc/{warden}/fd")),
            # of ours: others on this host make mounts, too
            "mounts": [line for line in mounts if "immure" in line or " - tmpfs none " in line],
            "parked": self.server.parked("python"),
            "standby": self.server.parked("node"),
            "running": self.server.metric("immure_jobs_running"),
            "front": front_of(warden),  # another one, if it has crashed
        }

    def result(self, one):
        """What came of it, and whether the canaries are well. (Attacks that run at once share the blame.)"""
        future = self.results.get(str(one))
        return (future.result() if future else self.run(one)) + self.world.harm()


def start(world, directory, configuration, **environment):
    """A server in whose environment there is a secret, and which is started with an open file that holds another."""
    config = directory / "server.textproto"
    config.write_text(configuration)
    held = ["/bin/sh", "-c", f'exec 9<{world.held} && exec "$@"', "sh"]
    server = Server(directory / "log", held, immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(config),
                    ATTACK_SECRET=world.secrets["environment"], **environment)
    server.key = server.environment["SANDBOX_EXECUTOR_SERVICE_API_KEY"] = world.secrets["key"]
    return server


def use_images(directory):
    """-> the configuration that has the shipped policies run in an image, which is made of Debian's packages"""
    imported(directory / "images", "debian", debian_layout())
    (directory / "policies").mkdir()
    for name in "python", "node":
        (directory / "policies" / f"{name}.textproto").write_text(policy(name, name, 'image: "debian"'))
    return f'policy_path: "{directory}/policies"\nimage_directory: "{directory}/images"\n'


@pytest.fixture(scope="module")
def arena(request, world, tmp_path_factory):
    wanted = [item.callspec.params["one"] for item in request.session.items
              if getattr(item, "callspec", None) and item.callspec.params.get("arena") == request.param and "one" in item.callspec.params]
    directory = tmp_path_factory.mktemp(request.param)
    more = use_images(directory) if request.param == "image" else ""
    with start(world, directory, more + CONFIGURATIONS[request.param]) as server:
        if request.param == "template":
            text = wait_for(unhurried(lambda: (text := server.get("/metrics").body.decode()) and 'runtime="python",state="parked"} 4' in text and text),
                            "the stock is full", STOCK_S)
            # The evaluator's is nothing that attacks use, but while it starts the server is not at rest.
            for full in ('runtime="node",state="parked"} 2', 'runtime="isolate",state="parked"} 1'):
                if full.partition(",")[0] in text:
                    wait_for(unhurried(lambda: full in server.get("/metrics").body.decode()), "Node stands ready", STOCK_S)  # noqa: B023
        made = Arena(server, world, wanted, request.param)
        yield made
        made.pool.shutdown()


@pytest.fixture(scope="module")
def unfiltered(world, tmp_path_factory):
    """A server whose policy allows every system call. -> an arena without attacks of its own"""
    directory = tmp_path_factory.mktemp("unfiltered")
    policy = shipped_policy("python").replace('name: "python"', 'name: "unfiltered"', 1)
    policy = re.sub(r"^seccomp {.*?^}", "seccomp { default_action: ALLOW }", policy, flags=re.M | re.S)
    (directory / "policies").mkdir()
    (directory / "policies/unfiltered.textproto").write_text(policy)
    configuration = CONFIGURATIONS["exec"].replace('policy: "python"', 'policy: "unfiltered"')
    with start(world, directory, f'policy_path: "{directory}/policies"\n' + configuration) as server:
        yield Arena(server, world, [])


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "one" not in (params := getattr(getattr(item, "callspec", None), "params", {}))
                or is_tried(params.get("arena"), params["one"])]


def pytest_configure(config):
    config.stash[RUNS] = {"attacks": set(), "runs": 0, "escapes": 0}


@pytest.fixture
def count(request):
    """count(attack, escaped) for the last line."""
    runs = request.config.stash[RUNS]

    def add(one, escaped):
        runs["attacks"].add(str(one))
        runs["runs"] += 1
        runs["escapes"] += bool(escaped)
    return add


def pytest_terminal_summary(terminalreporter, config):
    runs = config.stash[RUNS]
    if runs["runs"]:
        terminalreporter.write_line(f"{len(runs['attacks'])} attacks, {runs['runs']} runs, {runs['escapes']} escapes")

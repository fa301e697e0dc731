"""The servers and the canaries that the attacks are run against, and the count at the end."""

import concurrent.futures
import os
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "programs"))

from attack import judge  # noqa: E402
from harness import BUILD, ROOT, Server  # noqa: E402
from world import World  # noqa: E402

IMMURE = str(BUILD / "immure")
SHIPPED = (ROOT / "config/server.textproto").read_text()
# How jobs start. "template": forked from a template into jails that stand ready; "exec": with an interpreter of their own.
CONFIGURATIONS = {
    "template": SHIPPED,
    "stockless": re.sub(r"\s*warm_jails:.*", "", SHIPPED),
    "exec": re.sub(r"\s*(warm_jails|template):.*", "", SHIPPED),
}
CHOSEN = {"pool": ["template"], "template": ["stockless"], "off": ["exec"]}
RUNS = pytest.StashKey()


def ways():
    """Those that IMMURE_TEST_WARM chooses; else the two that differ."""
    chosen = os.environ.get("IMMURE_TEST_WARM")
    wanted = CHOSEN[chosen] if chosen else ["exec", "template"]
    return [way for way in wanted if way == "exec" or (BUILD / "immure-python3.11").exists()]


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("world") / "outside")
    yield made
    made.close()


class Arena:
    """One server, and the attacks of this session on it, two at a time."""

    def __init__(self, server, world, wanted):
        self.server, self.world = server, world
        self.given = world.given(server.port)
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.results = {str(one): self.pool.submit(self.run, one) for one in wanted if not one.alone}

    def send(self, code, **fields):
        """One job. -> its verdict"""
        fields["env"] = {"ATTACK_GIVEN": self.given, **fields.get("env", {})}
        return self.server.execute(code, **fields)

    def run(self, one):
        """-> what is wrong"""
        if one.host:
            return list(one.host(self.world, self))
        return judge(one, self.send(one.code, **one.request), self.world.secrets)

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


@pytest.fixture(scope="module")
def arena(request, world, tmp_path_factory):
    wanted = [item.callspec.params["one"] for item in request.session.items
              if getattr(item, "callspec", None) and item.callspec.params.get("arena") == request.param and "one" in item.callspec.params]
    with start(world, tmp_path_factory.mktemp(request.param), CONFIGURATIONS[request.param]) as server:
        made = Arena(server, world, wanted)
        yield made
        made.pool.shutdown()


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

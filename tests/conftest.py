"""Fixtures for tests that talk to the running program."""

import contextlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import harness  # noqa: E402
from callback_server import Hold  # noqa: E402
from harness import BUILD, Server, runtimes  # noqa: E402
from wire import Wire  # noqa: E402


# In the virtual machine this starts the program in a cgroup of its own; elsewhere it is the program.
IMMURE = str(BUILD / "immure")
NODE = harness.NODE


def pytest_configure(config):
    config.addinivalue_line("markers", "host_only: neither cgroups nor another kernel can change its outcome; the lane vm, whose machine is slow, "
                            "goes without")


@pytest.fixture(scope="module", autouse=True)
def without_node(request):
    """A file of tests with WITHOUT_NODE = True has servers of its own that know nothing of Node: they start in a fifth of the time."""
    before = harness.NODE
    if getattr(request.module, "WITHOUT_NODE", False):
        harness.NODE = "off"
    yield
    harness.NODE = before


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server with the shipped configuration, for tests that leave it as it was; whichever file asks for it first."""
    before, harness.NODE = harness.NODE, NODE
    with Server(tmp_path_factory.mktemp("server") / "log", immure=IMMURE) as started:
        harness.NODE = before
        yield started


@pytest.fixture
def serve(tmp_path):
    """serve(config="text format", VARIABLE="value", …) -> a server of one's own, ready; stopped when the test ends.

    A variable that is None is taken away. `ready=False`: only started. The key of the environment is accepted beside those
    of the configuration."""
    with contextlib.ExitStack() as stack:
        def start(config=None, ready=True, **environment):
            number = len(list(tmp_path.glob("log-*")))
            made = Server(tmp_path / f"log-{number}", immure=IMMURE)
            made.environment.update(environment)
            made.environment = {name: value for name, value in made.environment.items() if value is not None}
            if config is not None:
                path = tmp_path / f"server-{number}.textproto"
                path.write_text(config if "runtime {" in config else config + runtimes())
                made.environment["SANDBOX_EXECUTOR_CONFIG"] = str(path)
            if ready:
                return stack.enter_context(made)
            made.start()
            stack.callback(made.stop)
            return made
        yield start


@pytest.fixture
def hold():
    with Hold() as holding:
        yield holding


@pytest.fixture
def wire():
    """wire(server) -> a connection to it"""
    with contextlib.ExitStack() as stack:
        yield lambda to, **options: stack.enter_context(Wire(to.port, **options))

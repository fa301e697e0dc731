"""A browser, a server with the console, and tabs that are signed in; each tab is held to what no page may do."""

import approvals
import pytest
from browser import Browser
from harness import IMMURE, Server, runtimes

import harness

BOSS = "kboss"  # an approver who may use the policies


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


def configured(directory, more=""):
    """A server with the console, and the keys, teams and policies of tests of approvals."""
    path = directory / "server.textproto"
    boss = harness.config_key("boss", BOSS, policy=["*"]).replace(" }", " approver: true }")
    path.write_text("console: true\nmax_approvals_per_key: 64\n" + boss + approvals.configuration(directory / "policies", more) + runtimes())
    server = Server(directory / "log", immure=IMMURE)
    server.environment["SANDBOX_EXECUTOR_CONFIG"] = str(path)
    return server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    before, harness.NODE = harness.NODE, "off"
    with configured(tmp_path_factory.mktemp("server")) as started:
        harness.NODE = before
        yield started


@pytest.fixture
def tab(browser, server):
    """tab(KEY or None, PLACE) -> a tab, signed in where there is a key"""
    tabs = []

    def opened(key=None, place="", at=server):
        page = browser.page(f"{at.url}/ui/{place}")
        tabs.append(page)
        if key is not None:
            sign_in(page, key)
        return page

    yield opened
    for page in tabs:
        complaints = page.complaints()
        page.close()
        assert not complaints


def sign_in(page, key):
    page.until("document.querySelector('[name=key]')")
    page.fill("key", key)
    page.press("Sign in")
    page.until("document.querySelector('header nav')", 60)

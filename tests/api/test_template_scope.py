"""Templates of one key or team, for callers who are to have no layout of memory in common."""

import json

import pytest
from harness import BUILD, WARM, config_key, wait_for
from test_warm import LAYOUT, SHIPPED, given_up, templates

pytestmark = [
    pytest.mark.skipif(WARM != "pool", reason="the tests run without parked jails"),
    pytest.mark.skipif(not (BUILD / "immure-python.so").exists(), reason="this build has no warm interpreter"),
]


def scoped(serve, scope, more="", ttl_ms=3600000):
    """Two keys of one team, one of another, one of none. -> the server, and what runs a program for one of them"""
    keys = config_key("a", "ka", team="t") + config_key("b", "kb", team="t") + config_key("c", "kc", team="a") + config_key("d", "kd")
    server = serve(keys + f'team {{ name: "t" enabled: true }} team {{ name: "a" enabled: true }} template_scope: {scope} {more}\n'
                   + SHIPPED.replace("warm_jails: 4", f"warm_jails: 1 template_ttl_ms: {ttl_ms}"))

    def run(key, code=LAYOUT):
        reply = server.request("POST", "/execute", json.dumps({"code": code}), headers={"X-Service-API-Key": f"k{key}"}).json
        assert reply["status"] == "success", reply
        return reply["stdout"].split()

    return server, run


def forked(run, key):
    """-> where the template of this key's jobs has things, and its hash seed"""
    address, seed, _ = wait_for(lambda: next((words for words in [run(key)] if words[2] == "/proc/self/fd/9"), None), f"the template of {key}", 60)
    return address, seed


def test_callers_that_share_no_template(serve):
    """A team named as a key is another caller. The first job of each starts its own interpreter."""
    server, run = scoped(serve, "KEY")
    assert not templates(server) and run("a")[2] != "/proc/self/fd/9"
    of = {key: forked(run, key) for key in "abcd"}
    assert len(set(of.values())) == 4 and len({seed for _, seed in of.values()}) == 4
    assert all(forked(run, key) == of[key] for key in "abcd")
    wait_for(lambda: server.parked("python") == 4, "a jail of each")
    assert not given_up(server)


def test_teams_that_share_no_template(serve):
    _, run = scoped(serve, "TEAM")
    of = {key: forked(run, key) for key in "abcd"}
    assert of["a"] == of["b"] and len(set(of.values())) == 3


def test_places_for_callers_templates(serve):
    """While they are taken, others' jobs start their own interpreter; then they are those of whom nothing has come for longest."""
    server, run = scoped(serve, "KEY", "max_templates: 2")
    of = {key: forked(run, key) for key in "ba"}
    run("b")  # just before
    assert run("c")[2] != "/proc/self/fd/9" and forked(run, "a") == of["a"]
    forked(run, "c")
    assert run("b")[2] != "/proc/self/fd/9"


def test_a_caller_who_does_not_come_any_more_has_no_template(serve):
    server, run = scoped(serve, "KEY", ttl_ms=1000)
    run("a")
    wait_for(lambda: templates(server), "its template", 60)
    wait_for(lambda: not templates(server), "its end", 60)
    assert run("a") and not given_up(server)

"""Prometheus: it scrapes a server under load, and answers what each panel of the dashboard asks."""

import json

import pytest
from harness import IMMURE, ROOT, Server, runtimes, wait_for
from prometheus import Prometheus

PANELS = [pytest.param(target["expr"], id=f"{panel['title']}-{number}")
          for panel in json.loads((ROOT / "config/deploy/grafana/immure.json").read_text())["panels"]
          for number, target in enumerate(panel["targets"], 1)]

PROGRAMS = [{"code": "print(1)"}, {"code": "1/0"}, {"code": "import socket; socket.socket()", "policy": "strict"}, {"timeout": 0.5}]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prometheus")
    (directory / "config").write_text('team { name: "a-team" enabled: true }\n' + (runtimes() or (ROOT / "config/server.textproto").read_text()))
    with Server(directory / "log", immure=IMMURE, SANDBOX_EXECUTOR_CONFIG=str(directory / "config")) as server, Prometheus(directory, {"one": server}) as started:
        wait_for(lambda: started.ask("count_over_time(up[1m]) > 1"), "two scrapes")
        started.before = dict((row["status"], value) for row, value in started.ask('immure_jobs_total{runtime="python"}'))
        for body in PROGRAMS:
            server.request("POST", "/execute", json.dumps(body))
        yield started


@pytest.mark.parametrize("expression", PANELS)
def test_a_panel_has_data(prometheus, expression):
    expression = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
    assert "$" not in expression
    wait_for(lambda: prometheus.ask(expression), f"data for {expression}")


def test_the_first_burst_is_seen(prometheus):
    """Its series were there before it."""
    assert prometheus.before and set(prometheus.before.values()) == {0}

    def increase(status):
        return sum(value for _, value in prometheus.ask(f'increase(immure_jobs_total{{runtime="python",status="{status}"}}[5m])'))
    wait_for(lambda: min(increase("success"), increase("execution_error")) > 0, "what the first jobs came to")
    wait_for(lambda: prometheus.ask('increase(immure_jobs_rejected_total{reason="invalid_field"}[5m]) > 0'), "the refusal")

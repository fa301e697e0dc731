"""Prometheus: it scrapes a server under load, and answers what each panel of the dashboard asks."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest
from harness import BUILD, IMMURE, PATIENCE, ROOT, Server, reserved_port, wait_for

PANELS = [pytest.param(target["expr"], id=f"{panel['title']}-{number}")
          for panel in json.loads((ROOT / "config/deploy/grafana/immure.json").read_text())["panels"]
          for number, target in enumerate(panel["targets"], 1)]

CONFIG = """
global: {{scrape_interval: 250ms, scrape_timeout: 250ms}}
scrape_configs: [{{job_name: immure, authorization: {{credentials: {key}}}, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]
"""
PROGRAMS = [{"code": "print(1)"}, {"code": "1/0"}, {"code": "import socket; socket.socket()", "policy": "strict"}, {"timeout": 0.5}]


class Prometheus:
    def __init__(self, directory, server):
        program = shutil.which("prometheus", path=f"{BUILD}/tools:{os.environ['PATH']}")
        assert program, "there is no prometheus; it is in Debian's package prometheus, and scripts/test fetches it"
        (directory / "prometheus.yml").write_text(CONFIG.format(key=server.key, port=server.port))
        with reserved_port() as reserved:
            self.address = f"127.0.0.1:{reserved.getsockname()[1]}"
        self.log = directory / "prometheus.log"
        argv = [program, f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data", f"--web.listen-address={self.address}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(self, expression):
        """-> [({label: value}, value)]; none while it starts"""
        assert self.process.poll() is None, self.log.read_text()
        try:
            query = urllib.parse.urlencode({"query": expression})
            with urllib.request.urlopen(f"http://{self.address}/api/v1/query?{query}", timeout=30 * PATIENCE) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []
            raise AssertionError(error.read()) from error
        except OSError:
            return []
        assert answer["status"] == "success" and not answer.get("warnings"), answer
        return [(row["metric"], float(row["value"][1])) for row in answer["data"]["result"]]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prometheus")
    with Server(directory / "log", immure=IMMURE) as server:
        started = Prometheus(directory, server)
        try:
            wait_for(lambda: started.ask("count_over_time(up[1m]) > 1"), "two scrapes")
            started.before = dict((row["status"], value) for row, value in started.ask('immure_jobs_total{runtime="python"}'))
            for body in PROGRAMS:
                server.request("POST", "/execute", json.dumps(body))
            yield started
        finally:
            started.process.terminate()
            started.process.wait(PATIENCE * 60)


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

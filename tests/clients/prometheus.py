"""A Prometheus of one's own, which scrapes servers on loopback."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from harness import BUILD, PATIENCE, reserved_port


def tool(name):
    found = shutil.which(name, path=f"{BUILD}/tools:{os.environ['PATH']}")
    assert found, f"there is no {name}; it is in Debian's package prometheus, and scripts/test fetches it"
    return found


class Prometheus:
    """Of the servers {name: Server}, four times a second; `rules`: the text of rule files. Used as a context."""

    def __init__(self, directory, servers, rules=()):
        jobs = [{"job_name": f"immure-{name}", "authorization": {"credentials": server.key},
                 "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]} for name, server in servers.items()]
        paths = []
        for number, text in enumerate(rules):
            paths.append(str(directory / f"rules-{number}.yml"))
            (directory / f"rules-{number}.yml").write_text(text)
        config = {"global": {"scrape_interval": f"{250 * PATIENCE}ms", "scrape_timeout": f"{250 * PATIENCE}ms", "evaluation_interval": "500ms"}, "rule_files": paths,
                  "scrape_configs": jobs}
        (directory / "prometheus.yml").write_text(json.dumps(config))  # which is YAML
        with reserved_port() as reserved:
            self.address = f"127.0.0.1:{reserved.getsockname()[1]}"
        self.log = directory / "prometheus.log"
        self.argv = [tool("prometheus"), f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
                     f"--web.listen-address={self.address}"]

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE * 60)

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

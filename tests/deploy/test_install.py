"""make install and uninstall, and that the files for operators are well-formed and name what exists."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from harness import BUILD, IMMURE, ROOT, Server, front_of, runtimes

DEPLOY = ROOT / "config/deploy"
METRICS = re.compile(r"\b(?:immure|process)_[a-z0-9_]+")
DEFAULT_ADDRESS = re.search(r'listen = 1 \[default = "(.*)"\]', (ROOT / "config/server/server.proto").read_text())[1]
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def make(*words, destination):
    subprocess.run(["make", "-s", "-C", str(ROOT), f"BUILD={BUILD}", f"DESTDIR={destination}", "PREFIX=/usr", *words],
                   check=True, capture_output=True, text=True)


def files_below(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    destination = tmp_path_factory.mktemp("installed")
    make("install", destination=destination)
    return destination


def test_what_is_installed(installed):
    found = files_below(installed)
    for wanted in ("usr/bin/immure", "usr/libexec/immure/immure-front", "usr/lib/systemd/system/immure.service", "usr/share/immure/server.textproto",
                   "usr/share/immure/policies/python.textproto", "usr/share/man/man1/immure.1", "usr/share/bash-completion/completions/immure",
                   "usr/share/zsh/site-functions/_immure", "usr/share/fish/vendor_completions.d/immure.fish"):
        assert wanted in found
    assert all(path.startswith("usr/") for path in found)
    said = subprocess.run([installed / "usr/bin/immure", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("immure ")


def test_an_installed_server_finds_its_front(installed, tmp_path):
    with Server(tmp_path / "log", immure=str(installed / "usr/bin/immure")) as server:
        assert server.execute("print(6 * 7)")["stdout"] == "42\n"
        assert Path(f"/proc/{front_of(server.process.pid)}/exe").readlink() == installed / "usr/libexec/immure/immure-front"


def test_uninstall_leaves_nothing_of_ours_and_all_of_others(tmp_path):
    make("install", destination=tmp_path)
    other = tmp_path / "usr/share/immure/policies/mine.textproto"
    other.write_text("")
    make("uninstall", destination=tmp_path)
    assert files_below(tmp_path) == [str(other.relative_to(tmp_path))]


def test_installed_policies_are_valid(installed):
    for policy in sorted((installed / "usr/share/immure/policies").glob("*.textproto")):
        subprocess.run([IMMURE, "policy", "lint", str(policy)], check=True, capture_output=True)


def test_systemd_unit(installed):
    unit = installed / "usr/lib/systemd/system/immure.service"
    socket, text = unit.with_suffix(".socket"), unit.read_text()
    assert "@" not in re.sub(r"SystemCallFilter=.*", "", text)
    assert "ExecStart=/usr/bin/immure serve" in text
    assert f"ListenStream={DEFAULT_ADDRESS}\n" in socket.read_text()
    if shutil.which("systemd-analyze"):
        # The programs that a unit names are looked for as it is verified: those that are installed only below DESTDIR.
        unit.write_text(text.replace("/usr/bin/immure", "/bin/true").replace("man:immure(1)", "https://example.org"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit), str(socket)], capture_output=True, text=True)
        unit.write_text(text)
        # Units of this machine that ours depends on may be complained of, too.
        assert (done.returncode, [line for line in done.stderr.splitlines() if "immure" in line]) == (0, []), done.stderr


def test_a_reload_by_the_unit_checks_the_configuration_first(installed, tmp_path):
    unit = (installed / "usr/lib/systemd/system/immure.service").read_text()
    commands = [line.removeprefix("ExecReload=") for line in unit.splitlines() if line.startswith("ExecReload=")]
    configuration, audit = tmp_path / "server.textproto", tmp_path / "audit"
    good = f'audit_log: "{audit}"\n' + runtimes()
    configuration.write_text(good)
    with Server(tmp_path / "log", immure=str(installed / "usr/bin/immure"), SANDBOX_EXECUTOR_CONFIG=str(configuration)) as server:
        # The file of the key is where nobody but the server can read it; systemd puts the pid in.
        environment = {name: value for name, value in server.environment.items() if "API_KEY" not in name}
        environment |= {"SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE": str(tmp_path / "unseen"), "MAINPID": str(server.process.pid)}

        def reload():
            for command in commands:
                done = subprocess.run(["/bin/sh", "-c", command.replace("/usr/bin/immure", str(installed / "usr/bin/immure"))],
                                      env=environment, capture_output=True, text=True)
                if done.returncode:
                    return done.stderr
            return ""

        configuration.write_text(good + "max_body_bytes: 0\n")
        assert "max_body_bytes" in reload()
        assert "event=signal" not in server.log() and server.get("/readyz").status == 200
        configuration.write_text(good + "max_body_bytes: 4096\n")
        assert reload() == ""
        server.reloaded()


def test_kubernetes_manifest_is_as_strict_as_it_says():
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes/immure.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["Deployment", "Service", "NetworkPolicy"]
    pod = documents[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    assert container["readOnlyRootFilesystem"] and not container["allowPrivilegeEscalation"]
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert documents[2]["spec"]["egress"] == []
    pause = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1])
    drain_ms = int(re.search(r"drain_timeout_ms = 16 \[default = (\d+)\]", (ROOT / "config/server/server.proto").read_text())[1])
    assert pod["terminationGracePeriodSeconds"] * 1000 > pause * 1000 + drain_ms


def test_dashboard_and_rules_name_only_metrics_that_exist(tmp_path):
    dashboard = json.loads((DEPLOY / "grafana/immure.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += re.findall(r"expr: (.*?)\n +(?:for|labels|- record|- alert):", (DEPLOY / "prometheus/immure.rules.yml").read_text(), re.DOTALL)
    named = {SUFFIX.sub("", name) for expression in asked for name in METRICS.findall(expression)}
    with Server(tmp_path / "log") as server:
        text = server.get("/metrics").body.decode()
    offered = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert len(named) > 20
    assert named - offered == set()

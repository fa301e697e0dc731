"""make install and uninstall, and that the files for operators are well-formed and name what exists."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from harness import BUILD, IMMURE, ROOT, Server, front_of

DEPLOY = ROOT / "config/deploy"
METRICS = re.compile(r"\b(?:immure|process)_[a-z0-9_]+")
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
                   "usr/share/immure/policies/python.textproto", "usr/share/man/man1/immure.1"):
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
    text = unit.read_text()
    assert "@" not in re.sub(r"SystemCallFilter=.*", "", text)
    assert "ExecStart=/usr/bin/immure serve" in text
    if shutil.which("systemd-analyze"):
        # The programs that a unit names are looked for as it is verified: those that are installed only below DESTDIR.
        unit.write_text(text.replace("/usr/bin/immure", "/bin/true").replace("man:immure(1)", "https://example.org"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)], capture_output=True, text=True)
        unit.write_text(text)
        # Units of this machine that ours depends on may be complained of, too.
        assert (done.returncode, [line for line in done.stderr.splitlines() if "immure" in line]) == (0, []), done.stderr


def test_kubernetes_manifest_is_as_strict_as_it_says():
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes/immure.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["Deployment", "Service", "NetworkPolicy"]
    pod = documents[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    assert container["readOnlyRootFilesystem"] and not container["allowPrivilegeEscalation"]
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert documents[2]["spec"]["egress"] == []


def test_dashboard_names_only_metrics_that_exist(tmp_path):
    dashboard = json.loads((DEPLOY / "grafana/immure.json").read_text())
    named = {SUFFIX.sub("", name) for panel in dashboard["panels"] for target in panel["targets"]
             for name in METRICS.findall(target["expr"])}
    with Server(tmp_path / "log") as server:
        text = server.get("/metrics").body.decode()
    offered = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert len(named) > 10
    assert named - offered == set()

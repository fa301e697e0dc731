"""The packages of scripts/package in a fresh root of their release: installed, upgraded under a job, removed and purged; their SBOMs.

There is no systemd in that root: the server is started by hand, as its unit does. The root's changes go with its shell."""

import hashlib
import json
import os
import re
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest

from harness import BUILD, PATIENCE, ROOT, wait_for

RELEASE = os.environ["IMMURE_TEST_RELEASE"]
PACKAGES = BUILD / "packages" / RELEASE
END = "--- the end of it"
SERVE = (": >/tmp/log; SANDBOX_EXECUTOR_SERVICE_API_KEY_FILE=/tmp/key SANDBOX_EXECUTOR_CGROUP=BEST_EFFORT SANDBOX_EXECUTOR_ADDR=127.0.0.1:0 "
         "SANDBOX_EXECUTOR_CONFIG=/etc/immure/server.textproto "
         "setpriv --reuid=immure --regid=immure --clear-groups --no-new-privs /usr/bin/immure serve </dev/null >>/tmp/log 2>&1 & echo $!")
CONFFILES = ["/etc/immure/environment", "/etc/immure/server.textproto"]


class Root:
    """A shell in a fresh root, whose directories are gone with it."""

    def __init__(self, shown):
        command = ["scripts/debian-root", "--bare", "--scratch", "--dir", str(BUILD / f"bare-{RELEASE}"), "--bind", str(shown), "--bind", str(PACKAGES),
                   RELEASE, "--", "bash"]
        self.shell = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, command, code=0):
        """-> what it writes"""
        self.shell.stdin.write(f"{{ {command}\n}} </dev/null 2>&1; printf '\\n%s %d\\n' '{END}' $?\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.startswith(END):
                assert int(line.split()[-1]) == code, (command, "".join(lines)[-4000:])
                return "".join(lines)[:-1]
            lines.append(line)
        raise AssertionError((command, "the shell has ended", "".join(lines)[-4000:]))

    def apt(self, *words):
        return self.run("DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends " + " ".join(map(str, words)))

    def exists(self, path):
        return self.run(f"test -e {path} && echo yes || echo no") == "yes\n"

    def close(self):
        self.shell.stdin.close()
        self.shell.wait(PATIENCE * 60)


class Served:
    """The server in a root."""

    def __init__(self, root):
        self.root = root
        root.run("install -o immure -m 600 /etc/immure/api-key /tmp/key")
        self.key = root.run("cat /tmp/key")
        self.pid = root.run(SERVE).strip()
        wait_for(lambda: "event=selftest ready=true" in root.run("cat /tmp/log"), "a server", 120)
        self.address = re.search(r"event=listening address=(\S+)", root.run("cat /tmp/log"))[1]

    def get(self, path, body=None):
        request = urllib.request.Request(f"http://{self.address}{path}", body and json.dumps(body).encode(),
                                         {"X-Service-API-Key": self.key, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE * 120) as reply:
            return json.loads(reply.read())

    def execute(self, code, **fields):
        return self.get("/execute", {"code": code, **fields})

    def stop(self):
        assert self.root.run(f"kill -TERM {self.pid}; wait {self.pid}; echo $?").strip() == "0"


def package(name):
    (path,) = PACKAGES.glob(f"{name}_*.deb")
    return path


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """-> the same package as it may have been before: with another text of a file that nobody changes"""
    place = tmp_path_factory.mktemp("older")
    subprocess.run(["dpkg-deb", "--raw-extract", package("immure"), place / "files"], check=True)
    control = place / "files/DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", "Version: 0.0.1", control.read_text(), flags=re.MULTILINE))
    with open(place / "files/etc/immure/environment", "a") as file:
        file.write("# of the older version\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", place / "files", place / "immure.deb"], check=True, capture_output=True)
    return place / "immure.deb"


@pytest.fixture(scope="module")
def root(older):
    root = Root(older.parent)
    yield root
    root.close()


@pytest.fixture(scope="module")
def installed(root, older):
    root.apt("update")
    root.apt("install", older)
    assert root.run("dpkg-query --show --showformat '${Version}' immure") == "0.0.1"
    return root


@pytest.fixture(scope="module")
def upgraded(installed):
    """-> (root, the reply of a job that ran meanwhile, of one that the old server began afterwards)"""
    installed.run("echo 'max_timeout_ms: 3600000' >>/etc/immure/server.textproto")
    server = Served(installed)
    replies = []
    waits = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('went on')"
    thread = threading.Thread(target=lambda: replies.append(server.execute(waits, session_id="s", timeout_ms=3600000)))
    thread.start()
    wait_for(lambda: server.execute("import os; print(os.path.exists('begun'))", session_id="s")["stdout"] == "True\n", "the job", 60)
    installed.apt("install", package("immure"), package("immure-runtimes"))
    afterwards = server.execute("open('go', 'w').close()", session_id="s")
    thread.join(PATIENCE * 120)
    server.stop()
    return installed, replies, afterwards


@pytest.fixture(scope="module")
def removed(upgraded):
    upgraded[0].apt("remove", "immure")
    return upgraded[0]


@pytest.fixture(scope="module")
def purged(removed):
    removed.apt("purge", "immure")
    return removed


def test_user_and_directories(installed):
    assert re.fullmatch(r"immure:x:\d+:\d+:.*:/usr/sbin/nologin\n", installed.run("getent passwd immure"))
    modes = installed.run("stat --format '%U:%G %a %n' /etc/immure/api-key /var/lib/immure /var/log/immure /etc/immure/server.textproto")
    assert modes.splitlines() == ["root:root 600 /etc/immure/api-key", "immure:immure 700 /var/lib/immure", "immure:immure 750 /var/log/immure",
                                  "root:root 644 /etc/immure/server.textproto"]
    assert re.fullmatch(r"[0-9a-f]{64}", installed.run("cat /etc/immure/api-key"))
    installed.run("systemd-tmpfiles --create /usr/lib/tmpfiles.d/immure.conf && systemd-sysusers /usr/lib/sysusers.d/immure.conf")


def test_unit(installed):
    assert installed.run("systemd-analyze verify --man=no immure.service") == ""
    assert installed.run("systemctl is-enabled immure.service") == "enabled\n"


def test_completions(installed):
    assert "complete" in installed.run("bash -n /usr/share/bash-completion/completions/immure && tail -n 1 /usr/share/bash-completion/completions/immure")
    assert installed.run("head -n 1 /usr/share/zsh/vendor-completions/_immure") == "#compdef immure\n"


def test_first_jobs(installed):
    assert installed.run("cd / && immure run --cgroup best-effort -- echo 42").endswith("42\n")
    server = Served(installed)
    assert server.execute("print(6 * 7)")["stdout"] == "42\n"
    server.stop()
    assert re.match(r"\d+ lines, 0 faults;", installed.run("immure audit verify /var/log/immure/audit.log"))


def test_profile(installed):
    """For AppArmor 4 alone: an older one would refuse it."""
    version = installed.run("apt-cache policy apparmor | sed -n 's/ *Candidate: //p'")
    assert installed.exists("/etc/apparmor.d/immure") == (int(version.split(".")[0]) >= 4)
    if installed.exists("/etc/apparmor.d/immure"):
        installed.apt("install apparmor")
        assert installed.run("apparmor_parser -Q -K -M /etc/apparmor.d/abi/4.0 /etc/apparmor.d/immure") == ""


def test_a_job_outlives_an_upgrade(upgraded):
    root, replies, afterwards = upgraded
    assert [(reply["status"], reply["stdout"]) for reply in replies] == [("success", "went on\n")]
    assert afterwards["status"] == "success"
    assert root.run("dpkg-query --show --showformat '${Version}' immure") == package("immure").name.split("_")[1]


def test_an_upgrade_keeps_what_the_administrator_wrote(upgraded):
    root = upgraded[0]
    assert "max_timeout_ms: 3600000\n" in root.run("cat /etc/immure/server.textproto")
    assert "older" not in root.run("cat /etc/immure/environment")


def test_runtimes(upgraded):
    server = Served(upgraded[0])
    assert {runtime["name"] for runtime in server.get("/runtimes")["runtimes"]} >= {"python", "node", "bash"}
    assert server.get("/run-code", {"source": "export default <number>(6 * 7)"})["result"] == 42
    server.stop()


def test_removed_it_leaves_settings_and_data(removed):
    assert not removed.exists("/usr/bin/immure") and not removed.exists("/usr/libexec/immure")
    for path in [*CONFFILES, "/etc/immure/api-key", "/var/lib/immure", "/var/log/immure/audit.log"]:
        assert removed.exists(path), path


def test_purged_it_leaves_its_user_alone(purged):
    for path in ["/etc/immure", "/var/lib/immure", "/var/log/immure", "/usr/share/immure", "/etc/apparmor.d/immure",
                 "/etc/systemd/system/multi-user.target.wants/immure.service"]:
        assert not purged.exists(path), path
    purged.run("getent passwd immure")


def test_checksums():
    named = dict(reversed(line.split("  ")) for line in (PACKAGES / "SHA256SUMS").read_text().splitlines())
    assert set(named) == {path.name for pattern in ("*.deb", "*.json") for path in PACKAGES.glob(pattern)}
    assert all(hashlib.sha256((PACKAGES / name).read_bytes()).hexdigest() == digest for name, digest in named.items())


def validators(program):
    """What the formats' own libraries find wrong, in a process that has them."""
    place = Path(os.environ["IMMURE_TEST_TOOLS"]) / "sbom"
    assert place.exists(), "scripts/test fetches it: --lane package"
    done = subprocess.run(["/usr/bin/python3", "-c", program, PACKAGES / "immure.spdx.json", PACKAGES / "immure.cdx.json"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(place)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sboms_are_what_the_formats_require():
    assert validators("""if True:
        import sys
        from spdx_tools.spdx.parser.parse_anything import parse_file
        from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
        for message in validate_full_spdx_document(parse_file(sys.argv[1]), "SPDX-2.3"):
            print(message)
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
        print(JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[2]).read()) or "", end="")
    """) == ""


def test_sboms_name_what_is_linked():
    spdx, cdx = (json.loads((PACKAGES / f"immure.{name}.json").read_text()) for name in ("spdx", "cdx"))
    role = {component["name"]: component["properties"][0]["value"] for component in cdx["components"]}
    for name in ("libnl-3-dev", "libseccomp-dev", "libprotobuf-c-dev", "nettle-dev"):
        assert role[name] == "static", role
    for name in ("libc6", "libcjson1"):
        assert role[name] == "dynamic", role
    assert role["linux-libc-dev"] == "headers"
    assert any(re.fullmatch("libcurl4(t64)?", name) and how == "dynamic" for name, how in role.items()), role
    ids = {package["SPDXID"]: package["name"] for package in spdx["packages"]}
    linked = {(each["relationshipType"], ids[each["relatedSpdxElement"]]) for each in spdx["relationships"] if each["spdxElementId"] == "SPDXRef-immure"}
    assert linked == {(f"{how.upper()}_LINK", name) for name, how in role.items() if how != "headers"}
    # What the package says that it needs, and nothing else, is what is linked dynamically.
    depends = subprocess.run(["dpkg-deb", "--field", package("immure"), "Depends"], capture_output=True, text=True, check=True).stdout
    assert {name for name, how in role.items() if how == "dynamic"} == set(re.findall(r"\blib[a-z0-9.+-]+", depends))

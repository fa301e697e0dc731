"""installPackage(): npm in the jail, with packages of the workspace and of a registry."""

import re
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from harness import ROOT, closed_port, shipped_policy
from package_index import Index
from packages import tarball, upload

SECONDS = 60
# As the shipped policy names them: what comes with Node, and Debian's, which lies among the packages that it is made of.
WITH_NODE, OF_DEBIAN = Path("/usr/lib/node_modules/npm"), Path("/usr/share/nodejs")
REFUSED = "that host and port are no package index of this server"


@pytest.fixture(scope="module")
def other():
    with Index() as index:
        yield index


@pytest.fixture(scope="module")
def index(other):
    with Index() as index:
        index.add_node("dep", "2.0.1", tarball("dep", "2.0.1")[1])
        needs = {"dependencies": {"dep": "^2.0.0"}}
        index.add_node("demo", "1.0.0", tarball("demo", files={"index.js": "module.exports = require('dep').version"}, **needs)[1], **needs)
        index.add_node("@scope/named", "0.1.0", tarball("@scope/named", "0.1.0")[1])
        index.add_node("astray", "1.0.0", tarball("astray")[1], base=other.url)
        other.files.update(index.files)
        yield index


def laid_out_as_debians(place):
    """-> a directory with npm and, beside it, what it needs"""
    if not WITH_NODE.exists():
        return OF_DEBIAN
    shutil.copytree(WITH_NODE / "node_modules", place, symlinks=True)
    shutil.copytree(WITH_NODE, place / "npm", symlinks=True, ignore=shutil.ignore_patterns("node_modules", "man", "docs"))
    return place


@pytest.fixture(scope="module")
def policies():
    """-> the directory of policies with another npm than the shipped one has, or none"""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)  # what is bound is looked up as an unprivileged user
        (place / "policies").mkdir()
        shipped = shipped_policy("node")
        for policy, debians in {"npm-of-debian": laid_out_as_debians(place / "nodejs"), "no-npm": place / "missing"}.items():
            text = shipped.replace('name: "node"', f'name: "{policy}"', 1)
            for shown, instead in {WITH_NODE: place / "missing", OF_DEBIAN: debians}.items():
                assert text.count(f'source: "{shown}"') == 1
                text = text.replace(f'source: "{shown}"', f'source: "{instead}"')
            (place / "policies" / f"{policy}.textproto").write_text(text)
        yield place / "policies"


@pytest.fixture(scope="module")
def server(index, policies, tmp_path_factory):
    from conftest import Server
    place = tmp_path_factory.mktemp("registry")
    config = place / "server.textproto"
    shipped = re.sub(r"\s*(warm_jails|template):.*", "", (ROOT / "config/server.textproto").read_text())
    config.write_text(f'npm_registry {{ url: "{index.url}" }} policy_path: "{policies}"\n' + shipped)
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(config)) as started:
        yield started
        assert "event=front_denied" not in started.log()


def run(server, code, **fields):
    verdict = server.execute(code, runtime="node", timeout=SECONDS, **fields)
    assert verdict["status"] == "success", verdict
    return verdict


def failure(server, name, **fields):
    code = f"try {{ await installPackage({name}); console.log('installed') }} catch (error) {{ console.log(String(error)) }}"
    return run(server, code, **fields)["stdout"].rstrip("\n")


def test_tarball_of_the_workspace(serve):
    """Without a registry; found by require and import, at once and by the session's later jobs, and by nobody else."""
    server = serve()
    verdict = run(server, "await installPackage('./first-1.0.0.tgz')\nconsole.log(require('first'), (await import('first')).default.version)",
                  files=[upload(tarball("first"))], session_id="tarball")
    assert (verdict["stdout"], verdict["stderr"]) == ("{ name: 'first', version: '1.0.0' } 1.0.0\n", "")
    assert verdict["output_files"] == []
    assert run(server, "import first from 'first'\nconsole.log(first.version)", session_id="tarball")["stdout"] == "1.0.0\n"
    look = "try { require('first') } catch (error) { console.log(error.code) }"
    assert run(server, look, session_id="another")["stdout"] == run(server, look)["stdout"] == "MODULE_NOT_FOUND\n"
    files = [upload(("made/package.json", '{"name": "made", "version": "3.0.0"}')), upload(("made/index.js", "module.exports = 'made'"))]
    assert run(server, "await installPackage('./made')\nconsole.log(require('made'))", files=files)["stdout"] == "made\n"
    assert failure(server, "'left-pad'") == (
        "Error: npm install left-pad failed: this server has no package registry; tarballs and directories can be installed")
    assert failure(server, "'./needy-1.0.0.tgz'", files=[upload(tarball("needy", dependencies={"left-pad": "1"}))]).startswith(
        "Error: npm install ./needy-1.0.0.tgz failed: ")


def test_package_and_what_it_needs(server, index):
    code = "await Promise.all([installPackage('demo@^1'), installPackage('@scope/named')])\n" \
           "console.log(require('demo'), require('@scope/named').version)"
    verdict = run(server, code, execution_id="node-whole")
    assert (verdict["stdout"], verdict["stderr"], verdict["denied_syscalls"]) == ("2.0.1 0.1.0\n", "", [])
    found = [line for line in server.log().splitlines() if "event=egress" in line and "execution_id=node-whole " in line]
    assert found and all(f"port={index.port} " in line and "outcome=closed " in line for line in found)


def test_debians_npm(server):
    """Its modules do not lie below it, but beside it: among them such as only `import` loads."""
    code = "await installPackage('./first-1.0.0.tgz')\nawait installPackage('demo')\nconsole.log(require('first').name, require('demo'))"
    assert run(server, code, files=[upload(tarball("first"))], policy="npm-of-debian")["stdout"] == "first 2.0.1\n"


def test_without_npm(server):
    for name in "demo", "./first-1.0.0.tgz":
        assert failure(server, f"'{name}'", files=[upload(tarball("first"))], policy="no-npm") == (
            f"Error: npm install {name} failed: this server has no npm (it comes with Node, or is Debian's package npm)")


@pytest.mark.parametrize("name, why", [
    ("'-g'", "options and URLs are not taken, only names and paths"),
    ("'https://127.0.0.1/a.tgz'", "options and URLs are not taken, only names and paths"),
    ("'file:../etc'", "options and URLs are not taken, only names and paths"),
    ("'name@npm:other'", "options and URLs are not taken, only names and paths"),
    ("'user/repository'", "that is no name of a package"),
    ("''", "that is no name of a package"),
    ("'a b'", "that is no name of a package"),
    ("'/usr/share'", "it lies neither in the working directory nor in /tmp"),
    ("'/tmp'", "it is no tarball, and no directory with a package.json"),
])
def test_what_cannot_be_installed(server, name, why):
    assert failure(server, name) == f"Error: npm install {eval(name)} failed: {why}"


def test_host_that_is_not_listed(server, other):
    assert failure(server, "'astray'").endswith(f"(127.0.0.1:{other.port}: {REFUSED})")
    assert other.asked == []


def test_package_that_is_not_there(server):
    assert failure(server, "'nobodys'").startswith("Error: npm install nobodys failed: Not Found - GET ")


def test_registry_that_is_down_or_slow(serve):
    port = closed_port()
    server = serve(SANDBOX_EXECUTOR_NPM_REGISTRY_URL=f"http://127.0.0.1:{port}")
    assert failure(server, "'demo'").endswith(f"(127.0.0.1:{port}: Connection refused)")
    hangs = threading.Event()
    with Index({"/demo": lambda request: hangs.wait(60)}) as index:
        server = serve(f'npm_registry {{ url: "{index.url}" }}\negress_timeout_ms: 500')
        assert failure(server, "'demo'").endswith(": the connection has lasted as long as it may)")
        hangs.set()


def test_large_package(server, index):
    """More than every buffer on the way, and the tools can be called meanwhile."""
    noise = {"data.json": "".join(f"[{n * 7919 % 1000003}]\n" for n in range(600000))}
    index.add_node("large", "1.0.0", tarball("large", files=noise)[1])
    code = """
        let done = false, calls = 0;
        const installed = installPackage('large').finally(() => { done = true; });
        while (!done) { await callTool('x').catch(() => {}); calls++; }
        await installed;
        console.log(require('large').name, calls > 10);
    """
    assert run(server, code)["stdout"] == "large true\n"

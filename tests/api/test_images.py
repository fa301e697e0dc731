"""Jobs whose root is an image."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import Server, call, config_key, runtimes, wait_for
from images import debian_layout, docker_archive, entry, image, imported, layer, make_root, policy

KEYS = config_key("plain", "plain-key", policy=["python"])
BASH = "/usr/bin/bash"
# Mount points, as a program in an image sees them: those of its policy, and nothing else.
MOUNTS = ["/", "/dev/null", "/dev/shm", "/dev/urandom", "/dev/zero", "/proc", "/tmp", "/tmp", "/workspace"]


def umoci(*arguments):
    subprocess.run(["umoci", *map(str, arguments)], check=True, capture_output=True)


def skopeo(source, target):
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", source, target], check=True, capture_output=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Without jails that stand ready: descriptors are counted."""
    where = tmp_path_factory.mktemp("images")
    (where / "policies").mkdir()
    for name, runtime, lines in (
        ("python-in", "python", 'images: ["debian", "small", "other", "gone", "no-such"]'), ("node-in", "node", 'images: "*"'),
        ("bash-in", "bash", 'images: "*"'), ("fixed", "bash", 'image: "small"'),
    ):
        (where / "policies" / f"{name}.textproto").write_text(policy(name, runtime, lines))
    shipped = runtimes() or (Path(__file__).resolve().parents[2] / "config/server.textproto").read_text()
    (where / "server.textproto").write_text(f'policy_path: "{where}/policies"\nimage_directory: "{where}/images"\n{KEYS}' + "\n".join(
        line for line in shipped.splitlines() if "warm_jails:" not in line and "template:" not in line))
    small = make_root(where / "small", BASH, "/usr/bin/cat")
    imported(where / "images", "small", small)
    with Server(where / "log", SANDBOX_EXECUTOR_CONFIG=str(where / "server.textproto")) as started:
        started.where, started.images, started.small = where, where / "images", small
        yield started


def execute(server, name, code, runtime="python", expect=200, **fields):
    reply = call(server, "POST", "/execute", {"code": code, "runtime": runtime, "policy": f"{runtime}-in", "environment": "image",
                                              "image": name, **fields})
    assert reply.status == expect, reply.body
    return reply.json


def in_image(server, name, code, runtime="bash", **fields):
    verdict = execute(server, name, code, runtime, **fields)
    assert verdict["status"] == "success", verdict
    return verdict["stdout"]


@pytest.fixture(scope="module")
def debian(server):
    """Of Debian's packages, with variables and a layer on top of them."""
    made = server.where / "layout"
    shutil.copytree(debian_layout(), made)
    (server.where / "file").write_text("of the image\n")
    umoci("insert", "--rootless", "--image", f"{made}:debian", server.where / "file", "/etc/image")
    umoci("config", "--image", f"{made}:debian", *(f"--config.env={variable}" for variable in ("FROM_IMAGE=yes", "HOME=/root", "ASKED=no")))
    said = imported(server.images, "debian", made)
    assert re.fullmatch(r"debian: oci-layout, \d{4} files, \d{9} bytes; without 0 devices, pipes or sockets and [1-9] set-id bits\n", said), said
    return "debian"


def test_a_python_job(server, debian):
    code = ("import json, os, sqlite3, subprocess, sys\nhello = call_tool\n"
            "mounts = [line.split()[1] for line in open('/proc/self/mounts')]\n"
            "shell = subprocess.run(['/bin/sh', '-c', 'id -u; cat /etc/image'], capture_output=True, text=True).stdout\n"
            "open('out.txt', 'w').write(open('in.txt').read())\n"
            "set_result({'mounts': mounts, 'root': sorted(os.listdir('/')), 'shell': shell, 'argv': sys.argv, 'cwd': os.getcwd(),\n"
            "            'above': sorted(os.listdir('/..')), 'version': list(sys.version_info[:2])}, files=['out.txt'])")
    verdict = execute(server, debian, code, files=[{"name": "in.txt", "content": "through"}], args=["x"])
    assert verdict["status"] == "success", verdict
    told = json.loads(verdict["output"])
    assert sorted(told["mounts"]) == MOUNTS
    assert told["root"] == told["above"] == [
        "bin", "boot", "dev", "etc", "home", "immure", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var", "workspace"]
    assert (told["shell"], told["cwd"], told["argv"][1:], told["version"]) == ("1000\nof the image\n", "/workspace", ["x"], [3, 11])
    assert re.fullmatch("debian@sha256:[0-9a-f]{64}", verdict["image"]) and f'image={verdict["image"]}' in server.log()
    assert verdict["files"][0]["data"] == "dGhyb3VnaA==" and verdict["denied_syscalls"] == []


def test_nothing_of_an_image_can_be_written_to(server, debian):
    code = """
import os
def tried(what, *arguments):
    try:
        what(*arguments)
        print("done:", what.__name__, arguments)
    except OSError as problem:
        print(problem.strerror)
for path in "/", "/usr/bin", "/etc":
    tried(open, path + "/new", "w")
tried(open, "/etc/image", "a")
tried(os.chmod, "/usr/bin/dash", 0o777)
tried(os.rename, "/etc/image", "/etc/other")
tried(os.unlink, "/usr/bin/ls")
tried(os.link, "/etc/image", "/etc/second")
tried(os.utime, "/etc/image")
"""
    assert set(execute(server, debian, code)["stdout"].splitlines()) == {"Read-only file system"}


def test_the_environment_is_the_images_beneath_the_policys(server, debian):
    code = "import os; print(*(os.environ.get(name) for name in ('FROM_IMAGE', 'HOME', 'ASKED', 'PYTHONPATH')))"
    assert execute(server, debian, code, env={"ASKED": "yes"})["stdout"] == "yes /workspace yes /workspace\n"


def test_sessions_outlive_a_job_in_an_image(server, debian):
    execute(server, debian, "open('kept', 'w').write('1')", session_id="images")
    assert in_image(server, "small", "cat kept", session_id="images") == "1"
    assert call(server, "DELETE", "/workspace/images").status == 204


@pytest.mark.skipif(not os.path.exists("/usr/bin/node"), reason="there is no Node in /usr/bin")
def test_a_node_job(server, debian):
    code = "import fs from 'fs'; console.log(fs.readFileSync('/etc/image', 'utf8').trim(), await Promise.resolve(1)); setResult({a: [1]});"
    verdict = execute(server, debian, code, "node")
    assert (verdict["status"], verdict["stdout"], verdict["output"]) == ("success", "of the image 1\n", '{"a":[1]}'), verdict


def test_all_forms(server):
    """The same image as a layout, as archives of both kinds, and as a directory."""
    made = server.where / "forms"
    umoci("init", "--layout", made)
    umoci("new", "--image", f"{made}:small")
    umoci("insert", "--rootless", "--image", f"{made}:small", server.small, "/")
    umoci("config", "--image", f"{made}:small", "--config.env", "SAYS=form")
    skopeo(f"oci:{made}:small", f"oci-archive:{made}.oci.tar")
    skopeo(f"oci:{made}:small", f"docker-archive:{made}.docker.tar:small:1")
    digests = set()
    for form, source in (("oci-layout", made), ("oci-archive", f"{made}.oci.tar"), ("docker-archive", f"{made}.docker.tar"), ("directory", server.small)):
        assert imported(server.images, "form", source, "--replace").startswith(f"form: {form}, ")
        assert in_image(server, "form", "cat /etc/image; echo $SAYS") == "of the image\n" + ("\n" if form == "directory" else "form\n")
        listed = {line.split("\t")[0]: line.split("\t") for line in image("list", directory=server.images).stdout.splitlines()}
        assert listed["form"][5:] == [form, str(source)] and int(listed["form"][2]) > 1000000
        digests.add(listed["form"][1])
    assert "-" in digests and all(one == "-" or one.startswith("sha256:") for one in digests)


def test_a_policy_can_fix_its_image(server):
    reply = call(server, "POST", "/execute", {"code": "cat /etc/image", "runtime": "bash", "policy": "fixed"})
    assert reply.status == 200 and reply.json["stdout"] == "of the image\n" and reply.json["image"] == "small", reply.body
    assert in_image(server, "small", "cat /etc/image", policy="fixed") == "of the image\n"
    reply = call(server, "POST", "/execute", {"code": "1", "runtime": "bash", "policy": "fixed", "environment": "image"})
    assert reply.status == 200, reply.body
    error = execute(server, "other", "1", "bash", expect=403, policy="fixed")
    assert error["field"] == "image" and "policy 'fixed' runs in the image 'small' alone" in error["error"]


@pytest.mark.parametrize(("fields", "status", "field", "words"), [
    ({"policy": "python", "environment": "image", "image": "small"}, 403, "image", "policy 'python' does not allow the image 'small'"),
    ({"policy": "python-in", "environment": "image", "image": "not-listed"}, 403, "image", "policy 'python-in' does not allow the image 'not-listed'"),
    ({"policy": "python-in", "environment": "image", "image": "no-such"}, 400, "image", "there is no image 'no-such'"),
    ({"policy": "python-in", "environment": "image"}, 400, "image", "policy 'python-in' fixes none"),
    ({"policy": "python-in", "image": "small"}, 400, "image", "goes with `environment`"),
    ({"policy": "python-in", "environment": "container", "image": "small"}, 400, "environment", 'must be "image"'),
    ({"policy": "python-in", "environment": "image", "image": "../small"}, 400, "image", "must be 1 to 64 of"),
    ({"policy": "python-in", "environment": "image", "image": ".staging"}, 400, "image", "must be 1 to 64 of"),
    ({"policy": "python-in", "environment": "image", "image": 1}, 400, "image", "must be a string"),
])
def test_refusals(server, fields, status, field, words):
    reply = call(server, "POST", "/execute", {"code": "print(1)", **fields})
    assert reply.status == status and reply.json["field"] == field and words in reply.json["error"], reply.body


def test_a_key_without_the_policy_has_no_image(server):
    reply = call(server, "POST", "/execute", {"code": "print(1)", "policy": "python-in", "environment": "image", "image": "small"}, key="plain-key")
    assert reply.status == 403 and reply.json["field"] == "policy", reply.body


def test_an_image_without_the_interpreter(server):
    error = execute(server, "small", "print(1)", expect=500)
    assert error["status"] == "setup_error"
    assert error["error"] == "the image 'small' has no program python3, which the runtime 'python' starts"


def test_links_in_an_image_lead_nowhere_else(server):
    """Those of its own that stand where something of the jail is put are hidden, not followed."""
    root = make_root(server.where / "links", BASH, "/usr/bin/cat")
    (root / "tmp").rmdir()
    for name, target in (("tmp", "/etc"), ("workspace", "../../.."), ("dev", "/"), ("immure", "/etc"), ("proc", "usr"), ("etc/out", "/../../../../etc/hostname")):
        (root / name).symlink_to(target)
    imported(server.images, "links", root)
    assert in_image(server, "links", "cat /etc/image; echo a > /tmp/a; echo /tmp/*; [ -e /etc/out ] || echo nothing") == "of the image\n/tmp/a\nnothing\n"
    (root / "usr/bin/bash").unlink()
    (root / "usr/bin/bash").symlink_to(BASH)
    imported(server.images, "links", root, "--replace")
    assert execute(server, "links", "1", "bash", expect=500)["status"] == "setup_error"


def test_images_come_and_go_while_the_server_runs(server):
    execute(server, "gone", "1", "bash", expect=400)
    imported(server.images, "gone", docker_archive(server.where / "gone.tar", layer(
        *(entry(str(path.relative_to(server.small)), path.read_bytes(), 0o755) for path in server.small.rglob("*") if path.is_file() and not path.is_symlink()),
        entry("lib64", type=b"2", linkname="usr/lib64"), entry("lib", type=b"2", linkname="usr/lib"))))
    job = call(server, "POST", "/execute?wait=false", {
        "code": "echo > begun; until [ -e end ]; do :; done; cat /etc/image", "runtime": "bash",
        "policy": "bash-in", "environment": "image", "image": "gone", "session_id": "gone", "timeout": 60}).json["job_id"]
    wait_for(lambda: "True" in execute(server, "small", "[ -e begun ] && echo True", "bash", session_id="gone")["stdout"], "the job runs")
    assert "jobs run in it" in image("rm", "gone", directory=server.images).stdout
    execute(server, "gone", "1", "bash", expect=400)
    assert "gone\t" not in image("list", directory=server.images).stdout
    in_image(server, "small", "echo > end", session_id="gone")
    reply = wait_for(lambda: (row := call(server, "GET", f"/jobs/{job}").json)["status"] != "running" and row["reply"], "the job ends")
    assert reply["stdout"] == "of the image\n", reply

    def swept():
        imported(server.images, "other", server.small, "--replace")
        return not list(server.images.glob(".removed-*"))
    wait_for(swept, "what was in use is removed")
    assert not list(server.images.glob(".staging"))


def test_nothing_is_left_of_jobs_in_images(server):
    pid = server.process.pid

    def held():
        return len(os.listdir(f"/proc/{pid}/fd")), len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    in_image(server, "small", "echo")
    before = held()
    for _ in range(8):
        in_image(server, "small", "echo")
        execute(server, "small", "print(1)", expect=500)
        execute(server, "no-such", "print(1)", expect=400)
    # What the first job held was perhaps not given back yet; of eight, something would be left each time.
    wait_for(lambda: held()[0] <= before[0] and held()[1] <= before[1], f"not more than before, {before}")


def test_without_a_directory_there_are_none(serve, tmp_path):
    (tmp_path / "in.textproto").write_text(policy("bash-in", "bash", 'images: "*"'))
    with_none = serve(config=f'policy_path: "{tmp_path}/in.textproto"\n')
    assert "this server has no images" in execute(with_none, "small", "1", "bash", expect=400)["error"]

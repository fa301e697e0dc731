"""Every system call of `immure image import` fails once: the image is there whole, or one sentence says why not and nothing of it
is; the next import works. Where an image of that name is to be replaced, it is the one or the other."""

import os
import subprocess

import pytest
from images import docker_archive, entry, image, imported, layer
from injected import ERRORS, IMMURE, TOOLS

from test_setup import EVERY_ONE, SEED
from test_start import LOADER, LOADER_CALLS, LOADER_EXIT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the lane runs as root")
END_S = 60
# Said when all is done.
UNHEARD = "immure: standard output: "


def sources(directory):
    """Two images, as directories: -> their paths"""
    for n in "old", "new":
        (directory / n / "etc").mkdir(parents=True)
        (directory / n / "etc/file").write_text(n * 3000)
        (directory / n / "link").symlink_to("etc/file")
    return directory / "old", directory / "new"


def holding(store, name="one"):
    """-> what there is of that name: "old", "new", or None"""
    listed = image("list", directory=store)
    assert listed.returncode == 0, listed.stderr
    if f"{name}\t" not in listed.stdout:
        assert not (store / name).exists()
        return None
    text = (store / name / "rootfs/etc/file").read_text()
    assert text in ("old" * 3000, "new" * 3000), f"half of it: {len(text)}"
    return text[:3]


def attempt(n, error, who, *arguments):
    """One import whose n-th call fails. -> the call (None: there was none), exit code, what was said"""
    said, says = os.pipe()
    argv = ["/bin/bash", "-c", f'exec 3>&{says} && exec "$@"', "sh", TOOLS / "inject", "--arm", who, str(n), str(error)]
    done = subprocess.run([*map(str, [*argv, IMMURE, "image", "import", *arguments])], capture_output=True, text=True, timeout=END_S,
                          check=False, pass_fds=[says])
    os.close(says)
    with os.fdopen(said) as answer:
        return answer.read().strip().partition(" ")[2] or None, done.returncode, done.stderr.strip()


def judge(n, error, code, stderr, where):
    if code == 0:
        return "imported"
    lines = stderr.splitlines()
    if n <= LOADER_CALLS and not lines or code == LOADER_EXIT and len(lines) == 1 and LOADER.fullmatch(lines[0]):
        return "the loader's end"
    assert 0 < code < 126 and len(lines) == 1 and lines[0].startswith(("immure image import: ", UNHEARD)), f"{where}: exit code {code}: {stderr}"
    return "refused" if os.strerror(error) in lines[0] else "refused, in other words"


def sweep(store, who, first, stride, tried, *arguments, before):
    """`before()`: makes the store as it is to be found; -> what it holds then"""
    n, idle, fired = first + SEED % stride, 0, 0
    while idle < 3:
        error = ERRORS[(n // stride + SEED) % len(ERRORS)]
        was = before()
        call, code, stderr = attempt(n, error, who, *arguments)
        where = f"{who} {n} {call} {os.strerror(error)}"
        outcome = judge(n, error, code, stderr, where)
        now = holding(store)
        assert now == ("new" if code == 0 or stderr.startswith(UNHEARD) else was), f"{where}: {was}, then {now}: {stderr}"
        idle = 0 if call else idle + 1
        fired += bool(call)
        tried[f"import: {outcome}"] += bool(call)
        n += 1 if EVERY_ONE else stride
    imported(store, "one", arguments[1], "--replace")
    assert holding(store) == "new" and os.listdir(store) == ["one"]
    assert fired > 3


def test_a_directory(tmp_path, tried):
    _, new = sources(tmp_path)
    store = tmp_path / "store"

    def none():
        image("rm", "one", directory=store)
        return holding(store) if store.exists() else None
    store.mkdir()
    sweep(store, "new:1", 2, 8, tried, "one", new, "--directory", store, before=none)


def test_one_that_takes_the_place_of_another(tmp_path, tried):
    old, new = sources(tmp_path)
    store = tmp_path / "store"

    def an_old_one():
        imported(store, "one", old, "--replace")
        return "old"
    sweep(store, "new:1", 100, 16, tried, "one", new, "--directory", store, "--replace", before=an_old_one)


@pytest.mark.parametrize("who, stride", [("new:1", 80), ("new:2", 30)])
def test_an_archive(tmp_path, tried, who, stride):
    """The command itself, and what holds the programs that unpack."""
    archive = docker_archive(tmp_path / "a.tar", layer(entry("etc/file", b"new" * 3000)))
    store = tmp_path / "store"
    store.mkdir()

    def none():
        image("rm", "one", directory=store)
        return holding(store)
    sweep(store, who, 2, stride, tried, "one", archive, "--directory", store, before=none)

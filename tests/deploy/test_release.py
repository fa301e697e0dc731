"""make dist: the same archive whoever makes it, which remembers its commit."""

import hashlib
import re
import subprocess
import tarfile

import pytest

from harness import IMMURE, ROOT

if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True).returncode:
    pytest.skip("the sources lie in no repository", allow_module_level=True)


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def dist(build):
    """-> the archive"""
    subprocess.run(["make", "-s", "-C", str(ROOT), f"BUILD={build}", "dist"], check=True, capture_output=True)
    (archive,) = (build / "dist").glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    return [dist(tmp_path_factory.mktemp(name)) for name in ("one", "two")]


def test_two_are_the_same_bytes_and_the_checksum_is_theirs(archives):
    one, two = archives
    assert one.read_bytes() == two.read_bytes()
    assert (one.parent / "SHA256SUMS").read_text() == f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n"


def test_order_time_and_owner_are_the_commits(archives):
    with tarfile.open(archives[0]) as archive:
        members = archive.getmembers()
    # git's order: directories as if their names ended in a slash.
    names = [member.name + "/" * member.isdir() for member in members]
    assert names == sorted(names, key=str.encode)
    assert {member.mtime for member in members} == {int(git("log", "-1", "--format=%ct"))}
    assert {(member.uid, member.gid, member.mode & 0o022) for member in members} == {(0, 0, 0)}
    top = names[0]
    assert sorted(name.removeprefix(top) for name in names if not name.endswith("/")) == git("ls-tree", "-r", "--name-only", "HEAD").splitlines()


def test_an_unpacked_archive_names_its_commit(archives, tmp_path):
    with tarfile.open(archives[0]) as archive:
        archive.extractall(tmp_path)
    (tree,) = tmp_path.iterdir()
    said = subprocess.run(["make", "-n", "-C", tree, "BUILD=build", "build/obj/server/main.o"], check=True, capture_output=True, text=True).stdout
    assert re.search(r"IMMURE_COMMIT='\"(\w+)\"'", said)[1] == git("rev-parse", "HEAD")[:12]


def test_the_program_names_a_commit():
    said = subprocess.run([IMMURE, "--version"], check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"immure \d+\.\d+\.\d+ \(([0-9a-f]{12}|unknown)\)\n", said)

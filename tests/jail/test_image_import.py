"""`immure image`: archives that mean no good, and what is left of them."""

import contextlib
import gzip
import hashlib
import os
import signal
import stat
import subprocess
import tarfile

import pytest
from harness import wait_for
from images import IMMURE, config_of, directory, docker_archive, entry, hard_link, image, imported, layer, layout, link, sha256

PLAIN = entry("etc/plain", b"kept")


@pytest.fixture
def store(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/canary").write_text("untouched")
    return tmp_path / "store"


def listed(store):
    return [line.split("\t")[0] for line in image("list", directory=store).stdout.splitlines()]


def outside(store):
    return {str(path.relative_to(store.parent)): path.read_text() for path in (store.parent / "outside").rglob("*") if path.is_file()}


def check_files(store, name):
    """Nothing but directories, files and links, readable by all, ours, without bits and attributes. -> {path: content, target or None}"""
    root, found = store / name / "rootfs", {}
    for place, directories, files in os.walk(root):
        for path in [os.path.join(place, one) for one in directories + files]:
            about = os.lstat(path)
            relative = os.path.relpath(path, root)
            assert about.st_uid == os.geteuid() and os.listxattr(path, follow_symlinks=False) == [], relative
            if stat.S_ISLNK(about.st_mode):
                found[relative] = os.readlink(path)
            else:
                assert stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode), relative
                assert stat.S_IMODE(about.st_mode) in ((0o755,) if stat.S_ISDIR(about.st_mode) else (0o755, 0o644)), relative
                found[relative] = None if stat.S_ISDIR(about.st_mode) else open(path, "rb").read(100)
    return found


def make_etc(root):
    (root / "etc").mkdir(parents=True)
    (root / "var").mkdir()
    return root


def refused(done, words=""):
    assert done.returncode == 1 and done.stderr.startswith("immure image import: "), (done.returncode, done.stderr)
    assert any(one in done.stderr for one in ([words] if isinstance(words, str) else words)), done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.strip().isprintable(), done.stderr


DEFUSED = {
    "absolute paths": ([entry("/etc/absolute", b"1")], {"etc/absolute": b"1"}),
    "paths with ..": ([entry("../../../../../../../outside/canary", b"1"), entry("etc/../../../up", b"2")], {"outside/canary": b"1", "up": b"2"}),
    "a file through a link out": ([link("out", "{outside}"), entry("out/canary", b"1")], {"out": "{outside}"}),
    "a file through a link up": ([link("up", "../../../../.."), entry("up/outside/canary", b"1")], {"up": "../../../../.."}),
    "a directory through a link": ([link("d", "/etc"), directory("d/e"), entry("d/e/f", b"1")], {"etc/e/f": b"1"}),
    "a link replaced by a directory": ([link("d", "{outside}"), directory("d"), entry("d/canary", b"1")], {}),
    "setuid and setgid": ([entry("su", b"1", 0o6755), directory("g", 0o2777)], {"su": b"1", "g": None}),
    "devices": ([entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3), entry("disk", type=tarfile.BLKTYPE, devmajor=8),
                 entry("white", type=tarfile.CHRTYPE)], {}),
    "a named pipe": ([entry("pipe", type=tarfile.FIFOTYPE)], {}),
    "capabilities": ([entry("cap", b"1", pax_headers={"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00"})], {"cap": b"1"}),
    "overlayfs's attributes": ([directory("o"), entry("p", b"1", pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/etc",
                                                                               "SCHILY.xattr.user.overlay.opaque": "y"})], {"p": b"1"}),
    "unreadable files": ([directory("d", 0), entry("d/f", b"1", 0)], {"d/f": b"1"}),
    "terminal escapes": ([entry("\x1b[2J", b"1")], {"\x1b[2J": b"1"}),
    "a hard link by an absolute path": ([hard_link("hard", "/etc/plain")], {"hard": b"kept"}),
    "a hard link in a link out": ([link("out", "{outside}"), hard_link("out/canary", "etc/plain")], {"out": "{outside}"}),
    "a hard link to a link out": ([link("out", "{outside}/canary"), hard_link("hard", "out")], {"hard": "{outside}/canary"}),
    "an owner without a number here": ([entry("far", b"1", uid=4000000000, gid=4000000000)], {"far": b"1"}),
}


@pytest.mark.parametrize("what", DEFUSED)
def test_defused(store, tmp_path, what):
    entries, expected = DEFUSED[what]

    def fill(text):
        return text.replace("{outside}", str(tmp_path / "outside")) if isinstance(text, str) else text
    for info, _ in entries:
        info.linkname = fill(info.linkname)
    imported(store, "hostile", docker_archive(tmp_path / "a.tar", layer(PLAIN, *entries)))
    found = check_files(store, "hostile")
    assert found["etc/plain"] == b"kept"
    assert {path: found.get(path) for path in expected} == {path: fill(content) for path, content in expected.items()}
    assert "pipe" not in found
    assert outside(store) == {"outside/canary": "untouched"}


@pytest.mark.parametrize("target", ["../../outside/canary", "/etc/passwd", "{outside}/canary", "out/canary", "up/canary"])
def test_hard_links_to_files_outside(store, tmp_path, target):
    """There is no such file in the image."""
    entries = [link("out", str(tmp_path / "outside")), link("up", "../../../outside"), hard_link("hard", target.replace("{outside}", str(tmp_path / "outside")))]
    refused(image("import", "hostile", docker_archive(tmp_path / "a.tar", layer(PLAIN, *entries)), directory=store), "unpack entry: hard: link: ")
    assert os.listdir(store) == [] and (tmp_path / "outside/canary").stat().st_nlink == 1


WHITEOUTS = [".wh..wh..opq", ".wh..", ".wh...", ".wh.", "etc/.wh...", "etc/.wh..", ".wh.etc", "etc/.wh.plain", "../.wh.store", "out/.wh.canary",
             "out/.wh..wh..opq", "etc/.wh..wh.plnk", ".wh./etc"]


@pytest.mark.parametrize("name", WHITEOUTS)
def test_whiteouts_take_away_nothing_outside(store, tmp_path, name):
    archive = docker_archive(tmp_path / "a.tar", layer(PLAIN, link("out", str(tmp_path / "outside"))), layer(entry(name, b""), entry("etc/other", b"1")))
    done = image("import", "hostile", archive, directory=store)
    assert outside(store) == {"outside/canary": "untouched"} and store.is_dir()
    if done.returncode == 0:
        found = check_files(store, "hostile")
        assert found.get("etc/plain", b"kept") == b"kept" and "etc" in found
    else:
        refused(done)
        assert os.listdir(store) == []


def bomb(path, n_files, file_bytes, first=directory("d")):
    """One layer of zeros, as gzip has it."""
    zeros = bytes(file_bytes)
    packed_zeros, packed, digest = gzip.compress(zeros, 1), [], hashlib.sha256()
    for info in [first[0], *(entry(f"d/{n}")[0] for n in range(n_files))]:
        info.size = file_bytes if info.isreg() else 0
        packed += [gzip.compress(info.tobuf(), 1), packed_zeros if info.isreg() else b""]
        digest.update(info.tobuf())
        digest.update(zeros[:info.size])
    packed.append(gzip.compress(bytes(10240)))
    digest.update(bytes(10240))
    config = config_of([])
    config["rootfs"]["diff_ids"] = ["sha256:" + digest.hexdigest()]
    return docker_archive(path, b"".join(packed), config=config)


REFUSED = {
    "many files": (lambda path: docker_archive(path, layer(*(entry(f"d/{n}", b"") for n in range(900)))), "files (--max-files)"),
    "a large archive": (lambda path: docker_archive(path, layer(entry("large", bytes(30 << 20)))), "it has more than 20971520 bytes (--max-bytes)"),
    "much in one file": (lambda path: bomb(path, 1, 30 << 20), ("file too large", "it unpacks to more than 20971520 bytes")),
    "many levels": (lambda path: docker_archive(path, layer(*(directory("/".join(["d"] * n)) for n in range(1, 300)))), "levels"),
    "a name that is too long": (lambda path: docker_archive(path, layer(entry("n" * 300, b"1"))), "umoci: create rootfs: "),
    "a layer out of the archive": (lambda path: docker_archive(path, layer(PLAIN), manifest=[
        {"Config": "config.json", "RepoTags": None, "Layers": ["../../../../etc/passwd"]}]), "neither a docker-save archive"),
    "a layer of another digest": (lambda path: docker_archive(path, layer(PLAIN), config=config_of([b"another"])), "Digest did not match"),
    "a large environment": (lambda path: docker_archive(path, layer(PLAIN), env=[f"V{n}=1" for n in range(1000)]), "its environment is more than 256"),
    "no files at all": (lambda path: docker_archive(path, layer()), "it is empty"),
    "not an archive": (lambda path: path.write_bytes(b"\x1b[31mnot an archive" * 100) and path, "neither a docker-save archive"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(store, tmp_path, what):
    make, words = REFUSED[what]
    refused(image("import", "hostile", make(tmp_path / "a.tar"), "--max-bytes", 20 << 20, "--max-files", 600, directory=store), words)
    assert os.listdir(store) == [] and listed(store) == []
    assert outside(store) == {"outside/canary": "untouched"}


@pytest.mark.parametrize("first", [directory("d"), directory("d", 0), directory(".", 0)], ids=["open", "closed", "closed-root"])
def test_a_bomb_is_stopped_while_it_unpacks(store, tmp_path, first):
    """Also below directories of mode 0, which are not closed to whoever measures, an ordinary user neither."""
    archive = bomb(tmp_path / "a.tar", 64, 4 << 20, first)
    assert archive.stat().st_size < 2 << 20
    refused(image("import", "hostile", archive, "--max-bytes", 20 << 20, directory=store), "it unpacks to more than 20971520 bytes (--max-bytes)")
    assert os.listdir(store) == []


def test_a_layout_whose_blobs_are_links(store, tmp_path):
    made = layout(tmp_path / "layout", layer(PLAIN))
    (tmp_path / "outside/blob").write_bytes(layer(entry("etc/secret", b"1")))
    blob = made / "blobs/sha256" / sha256(layer(PLAIN))
    blob.unlink()
    blob.symlink_to(tmp_path / "outside/blob")
    refused(image("import", "hostile", made, directory=store))
    assert os.listdir(store) == []


def test_a_layout_with_two_meanings(store, tmp_path):
    """A duplicate key: skopeo alone reads it, and takes the last. What is kept of an image is of the layout that skopeo has made."""
    made = layout(tmp_path / "layout", layer(PLAIN))
    index = (made / "index.json").read_text()
    (made / "index.json").write_text(index.removesuffix("}") + ', "manifests": []}')
    refused(image("import", "none", made, directory=store), "choose an image")
    (made / "index.json").write_text(index.replace('"manifests"', '"manifests": [], "manifests"'))
    imported(store, "last", made)
    assert check_files(store, "last") == {"etc": None, "etc/plain": b"kept"} and os.listdir(store) == ["last"]


def test_a_directory_with_all_kinds_of_things(store, tmp_path):
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/file").write_text("1")
    (root / "etc/program").write_text("2")
    (root / "etc/program").chmod(0o6711 if os.geteuid() else 0o6700)
    (root / "etc/program").chmod(0o6755)
    os.link(root / "etc/file", root / "etc/second")
    (root / "out").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    with contextlib.suppress(OSError):
        os.setxattr(root / "etc/file", "user.kept", b"no")
    said = imported(store, "dir", root)
    assert said.startswith("dir: directory, 5 files, 3 bytes; without 1 devices, pipes or sockets and 1 set-id bits")
    assert check_files(store, "dir") == {"etc": None, "etc/file": b"1", "etc/second": b"1", "etc/program": b"2", "out": str(tmp_path / "outside")}
    assert (root / "etc/program").stat().st_mode & 0o6000  # the source is as it was
    for limit in ("--max-bytes", 2), ("--max-files", 4):
        refused(image("import", "small", root, *limit, directory=store), str(limit[0]))
    assert listed(store) == ["dir"]


def test_a_directory_that_the_images_lie_in(tmp_path):
    root = make_etc(tmp_path / "root")
    imported(root / "var/images", "apart", make_etc(tmp_path / "other"))
    for source in root, root / "var", root / "var/images":
        refused(image("import", "itself", source, directory=root / "var/images"), "the directory of images lies in it")
    assert os.listdir(root / "var/images") == ["apart"]


@pytest.mark.parametrize("name", ["", ".", "..", ".staging", "a/b", "A", "-a", "x" * 65, "a b", "a\n", "é"])
def test_names(store, tmp_path, name):
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file").write_text("1")
    done = image("import", "--", name, tmp_path / "root", directory=None, env={**os.environ, "SANDBOX_EXECUTOR_IMAGE_DIRECTORY": str(store)})
    assert done.returncode in (1, 2) and not (store.exists() and os.listdir(store)), done.stderr


def test_import_replace_list_rm(store, tmp_path):
    for n in "1", "2":
        (tmp_path / n / "etc").mkdir(parents=True)
        (tmp_path / n / "etc/file").write_text(n)
    imported(store, "one", tmp_path / "1")
    refused(image("import", "one", tmp_path / "2", directory=store), "there is an image of that name; --replace takes its place")
    assert check_files(store, "one")["etc/file"] == b"1"
    imported(store, "one", tmp_path / "2", "--replace")
    imported(store, "two", tmp_path / "1")
    assert check_files(store, "one")["etc/file"] == b"2" and sorted(listed(store)) == ["one", "two"] == sorted(os.listdir(store))
    assert image("rm", "one", directory=store).returncode == 0 and os.listdir(store) == ["two"]
    done = image("rm", "one", directory=store)
    assert done.returncode == 1 and "there is no such image" in done.stderr
    (store / "two/image.json").write_text("{")
    done = image("list", directory=store)
    assert done.returncode == 1 and "two: " in done.stderr
    assert image("list").returncode == 2 and image("rm", directory=store).returncode == 2 and image("sell", directory=store).returncode == 2
    assert image().returncode == 2 and image("--help").returncode == 0 and "image import" in image("import", "--help").stdout


def test_a_crash_leaves_nothing_that_is_listed(store, tmp_path):
    """Killed while it unpacks: no image, and nobody gets at what it was of; the next import removes what is left."""
    archive = docker_archive(tmp_path / "a.tar", layer(entry("large", os.urandom(64 << 20)), PLAIN))
    process = subprocess.Popen([IMMURE, "image", "import", "hostile", str(archive), "--directory", str(store)], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: (store / ".staging/work/layout").exists() or process.poll() is not None, "it unpacks")
        process.send_signal(signal.SIGSTOP)  # whatever unpacks meanwhile, this goes no further
        assert process.poll() is None and listed(store) == []
        assert stat.S_IMODE((store / ".staging").stat().st_mode) == 0o700
    finally:
        process.kill()
        code = process.wait()
    assert code == -signal.SIGKILL and listed(store) == []
    assert (store / ".staging").exists()
    imported(store, "good", docker_archive(tmp_path / "b.tar", layer(PLAIN)))
    assert os.listdir(store) == ["good"]


def test_without_the_programs_one_sentence_says_so(tmp_path, store):
    """In a mount namespace in which there is no skopeo."""
    archive = docker_archive(tmp_path / "a.tar", layer(PLAIN))
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                           'mount --bind /dev/null /usr/bin/skopeo && exec "$@"', "sh", IMMURE, "image", "import", "one", archive, "--directory", store],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "/usr/bin/skopeo is missing: install Debian's packages skopeo and umoci" in done.stderr, done.stderr

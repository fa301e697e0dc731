"""`immure image`: archives that mean no good, and what is left of them."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import re
import signal
import socket
import stat
import subprocess
import tarfile

import pytest
from harness import wait_for
from images import IMMURE, config_of, directory, docker_archive, entry, hard_link, image, imported, layer, layout, link, sha256

PLAIN = entry("etc/plain", b"kept")
HIDDEN = entry("hidden", b"1")


def sparse(name, size, data=b"x" * 512):
    """A file with a hole before its last bytes, as PAX has it: a map stands before what there is of it."""
    said = f"1\n{size - len(data)}\n{len(data)}\n".encode()
    return entry(name, said + bytes(-len(said) % 512) + data, pax_headers={
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name, "GNU.sparse.realsize": str(size)})


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
    "a hard link that is written to": ([hard_link("hard", "etc/plain"), entry("hard", b"1")], {"hard": b"1"}),
    "paths of PAX": ([entry("a", b"1", pax_headers={"path": "../../../../../../outside/canary"}), entry("b", b"2", pax_headers={"path": "/etc/absolute"})],
                     {"outside/canary": b"1", "etc/absolute": b"2"}),
    "an entry in an entry, by a size of PAX": ([entry("over", b"", pax_headers={"size": "1024"}), HIDDEN], {"over": layer(HIDDEN)[:100]}),
    "a sparse file": ([sparse("hole", 1 << 20)], {"hole": bytes(100)}),
    "the same name twice": ([entry("f", b"1"), entry("f", b"2"), entry("d/f", b"1"), entry("d", b"2"), entry("g", b"1"), directory("g"), entry("g/f", b"2")],
                            {"f": b"2", "d": b"2", "g": None, "g/f": b"2"}),
    "a link replaced by a file": ([link("canary", "{outside}/canary"), entry("canary", b"1")], {"canary": b"1"}),
    "a link to where it is unpacked": ([link("w", "/workspace"), entry("w/in", b"1"), entry("w/layout/index.json", b"2")],
                                       {"workspace/in": b"1", "workspace/layout/index.json": b"2"}),
    "a link to a device": ([link("null", "/dev/null"), entry("null/f", b"1")], {"dev/null/f": b"1"}),
    "names of all kinds": ([entry("a\nb", b"1"), entry("\udcff", b"2"), entry("n" * 255, b"3")], {"a\nb": b"1", "\udcff": b"2", "n" * 255: b"3"}),
    "times of all kinds": ([entry("late", b"1", pax_headers={"mtime": "99999999999999"}), entry("early", b"2", pax_headers={"mtime": "-99999999999"})],
                           {"late": b"1", "early": b"2"}),
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
    assert not {"pipe", "hidden"} & set(found)
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


def test_layers_are_laid_one_over_the_other(store, tmp_path):
    """A whiteout takes away what the layers below have, and nothing of its own; what is replaced may have been of any kind."""
    out = str(tmp_path / "outside")
    imported(store, "laid", docker_archive(
        tmp_path / "a.tar",
        layer(PLAIN, entry("again", b"1"), entry("gone", b"1"), entry("all/gone", b"1"), entry("opaque/gone", b"1"), entry("own", b"1"),
              entry("was-dir/f", b"1"), link("was-link", out + "/canary"), entry("d/canary", b"1"), link("gone-link", out)),
        layer(entry(".wh.again", b""), entry(".wh.gone", b""), entry(".wh.all", b""), entry("opaque/f", b"2"), entry("opaque/.wh..wh..opq", b""),
              entry("own", b"2"), entry(".wh.own", b""), entry("was-dir", b"2"), entry("was-link", b"2"), link("d", "../../../elsewhere"),
              entry("d/canary", b"2"), entry(".wh.gone-link", b""), hard_link("hard", "etc/plain")),
        layer(entry("again", b"3"), entry("hard", b"3"))))
    assert check_files(store, "laid") == {
        "etc": None, "etc/plain": b"kept", "again": b"3", "opaque": None, "opaque/f": b"2", "own": b"2", "was-dir": b"2", "was-link": b"2",
        "d": "../../../elsewhere", "elsewhere": None, "elsewhere/canary": b"2", "hard": b"3"}
    assert outside(store) == {"outside/canary": "untouched"}


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


def packed(path):
    path.write_bytes(gzip.compress(path.read_bytes(), 1))
    assert path.stat().st_size < 1 << 20
    return path


REFUSED = {
    "many files": (lambda path: docker_archive(path, layer(*(entry(f"d/{n}", b"") for n in range(900)))), "files (--max-files)"),
    "a large archive": (lambda path: docker_archive(path, layer(entry("large", bytes(30 << 20)))), "it has more than 20971520 bytes (--max-bytes)"),
    "much in one file": (lambda path: bomb(path, 1, 30 << 20), "it unpacks to more than 20971520 bytes (--max-bytes)"),
    "many levels": (lambda path: docker_archive(path, layer(*(directory("/".join(["d"] * n)) for n in range(1, 300)))), "levels"),
    "a name that is too long": (lambda path: docker_archive(path, layer(entry("n" * 300, b"1"))), "umoci: create rootfs: "),
    "a layer out of the archive": (lambda path: docker_archive(path, layer(PLAIN), manifest=[
        {"Config": "config.json", "RepoTags": None, "Layers": ["../../../../etc/passwd"]}]), "neither a docker-save archive"),
    "a layer of another digest": (lambda path: docker_archive(path, layer(PLAIN), config=config_of([b"another"])), "Digest did not match"),
    "a large environment": (lambda path: docker_archive(path, layer(PLAIN), env=[f"V{n}=1" for n in range(1000)]), "its environment is more than 256"),
    "a root that is a link": (lambda path: docker_archive(path, layer(PLAIN), layer(link("/", "/etc"))), "to change type of root directory"),
    "a root that is a file": (lambda path: docker_archive(path, layer(PLAIN), layer(entry(".", b"1"))), "to change type of root directory"),
    "a file below a file": (lambda path: docker_archive(path, layer(PLAIN), layer(entry("etc/plain/f", b"1"))), "not a directory"),
    "links in a ring": (lambda path: docker_archive(path, layer(link("a", "b"), link("b", "a"), entry("a/f", b"1"))), "too many levels of symbolic links"),
    "a hard link to a directory": (lambda path: docker_archive(path, layer(PLAIN, hard_link("hard", "etc"))), "unpack entry: hard: link: "),
    "a hard link to what comes later": (lambda path: docker_archive(path, layer(hard_link("hard", "later"), entry("later", b"1"))), "unpack entry: hard: link: "),
    "a size past the end": (lambda path: docker_archive(path, layer(PLAIN, entry("f", b"1", pax_headers={"size": str(1 << 62)}))), "unexpected EOF"),
    "a size below zero": (lambda path: docker_archive(path, layer(PLAIN, entry("f", b"1", pax_headers={"size": "-1"}))), "invalid tar header"),
    "a sparse file of a terabyte": (lambda path: docker_archive(path, layer(sparse("hole", 1 << 40))), "it unpacks to more than 20971520 bytes (--max-bytes)"),
    "an entry of no kind": (lambda path: docker_archive(path, layer(PLAIN, entry("f", b"1", type=b"Z"))), "unknown typeflag"),
    "a packed archive that is large": (lambda path: packed(docker_archive(path, layer(entry("large", bytes(70 << 20))))), ("short write", "it unpacks to more than 62914560 bytes (--max-bytes)")),
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


def oci_archive(path, made, *entries):
    """The layout, and more entries behind it: skopeo makes files of them."""
    with tarfile.open(path, "w") as tar:
        tar.add(made, ".")
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if data is not None else None)
    return path


@pytest.mark.parametrize("entries", [
    [entry("../../../../../outside/canary", b"1")],
    [entry("/outside/canary", b"1")],
    [link("out", "{outside}"), entry("out/canary", b"1")],
    [link("up", "../../../.."), entry("up/outside/canary", b"1")],
    [hard_link("hard", "../../../outside/canary")],
    [link("index.json", "/proc/self/environ")],
    [link("blobs", "{outside}")],
    [entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
], ids=["up", "absolute", "link", "link-up", "hard-link", "index", "blobs", "device"])
def test_an_oci_archive_with_more_than_a_layout(store, tmp_path, entries):
    for info, _ in entries:
        info.linkname = info.linkname.replace("{outside}", str(tmp_path / "outside"))
    done = image("import", "hostile", oci_archive(tmp_path / "a.tar", layout(tmp_path / "layout", layer(PLAIN)), *entries), directory=store)
    if done.returncode == 0:
        assert check_files(store, "hostile") == {"etc": None, "etc/plain": b"kept"} and os.listdir(store) == ["hostile"]
    else:
        refused(done, "nor an OCI archive")
        assert os.listdir(store) == []
    assert outside(store) == {"outside/canary": "untouched"} and (tmp_path / "outside/canary").stat().st_nlink == 1


def described_anew(made, config=False, **fields):
    """The layout, with other words about its layer or its configuration."""
    index = json.loads((made / "index.json").read_text())
    manifest = json.loads((made / "blobs/sha256" / index["manifests"][0]["digest"][7:]).read_text())
    (manifest["config"] if config else manifest["layers"][0]).update(fields)
    text = json.dumps(manifest).encode()
    (made / "blobs/sha256" / sha256(text)).write_bytes(text)
    index["manifests"][0].update(digest="sha256:" + sha256(text), size=len(text))
    (made / "index.json").write_text(json.dumps(index))
    return made


def test_layers_that_the_configuration_does_not_know(store, tmp_path):
    made = layout(tmp_path / "layout", layer(PLAIN), layer(entry("more", b"1")))
    one = json.dumps(config_of([layer(PLAIN)])).encode()
    (made / "blobs/sha256" / sha256(one)).write_bytes(one)
    described_anew(made, config=True, digest="sha256:" + sha256(one), size=len(one))
    refused(image("import", "hostile", made, directory=store), "its manifest lists 2 layers, its configuration 1")
    assert os.listdir(store) == []


def test_digests_that_are_paths(store, tmp_path):
    escape = "sha256:../../../../../../outside/canary"
    refused(image("import", "hostile", described_anew(layout(tmp_path / "layer", layer(PLAIN)), digest=escape), directory=store), "unexpected digest")
    made = layout(tmp_path / "index", layer(PLAIN))
    (made / "index.json").write_text(re.sub("sha256:[0-9a-f]{64}", escape, (made / "index.json").read_text()))
    refused(image("import", "hostile", made, directory=store), "unexpected digest")
    assert os.listdir(store) == []


def test_nothing_is_fetched(store, tmp_path):
    """A blob may say where on the network it is, and skopeo would go there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        made = described_anew(layout(tmp_path / "layout", layer(PLAIN)), config=True, urls=[f"http://127.0.0.1:{listener.getsockname()[1]}/config"])
        refused(image("import", "hostile", made, directory=store), "failed fetching external blob")
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert os.listdir(store) == []


def test_a_bomb_in_a_layout(store, tmp_path):
    """skopeo does not unpack its layer; umoci is the first who does, and says of a file at its limit this or that (it may even panic)."""
    content = layer(entry("large", bytes(30 << 20)))
    blob = gzip.compress(content, 1)
    made = described_anew(layout(tmp_path / "layout", content), digest="sha256:" + sha256(blob), size=len(blob),
                          mediaType="application/vnd.oci.image.layer.v1.tar+gzip")
    (made / "blobs/sha256" / sha256(content)).unlink()
    (made / "blobs/sha256" / sha256(blob)).write_bytes(blob)
    refused(image("import", "hostile", made, "--max-bytes", 20 << 20, directory=store), "it unpacks to more than 20971520 bytes (--max-bytes)")
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


def image_with(other, program, *arguments):
    """`immure image` where a program is another: in a mount namespace, and with the uid that it had."""
    to_mount, back = ["unshare", "--mount"], []
    if os.geteuid() != 0:
        to_mount, back = [*to_mount, "--user", "--map-root-user"], ["unshare", "--user", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
    return subprocess.run([*to_mount, "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', other, program,
                           *back, IMMURE, "image", *arguments], capture_output=True, text=True, check=False)


def test_a_program_that_panics(tmp_path, store):
    """umoci does at times, when it reads and gives up at once: what it said is told, or that it was at a limit."""
    archive = docker_archive(tmp_path / "a.tar", layer(PLAIN))
    umoci = tmp_path / "umoci"
    umoci.write_text('#!/bin/sh\nfor root; do :; done\nmkdir "$root"\nhead -c 1 /dev/urandom > "$root/f"\n'
                     'echo "   • unpacking rootfs ..." >&2\necho "panic: d.nx != 0, traced: $GOTRACEBACK" >&2\nexit 2\n')
    umoci.chmod(0o755)
    asked = umoci, "/usr/bin/umoci", "import", "one", archive, "--directory", store, "--max-bytes", str(1 << 20)
    refused(image_with(*asked), "umoci: panic: d.nx != 0, traced: none")
    umoci.write_text(umoci.read_text().replace("head -c 1 ", f"head -c {2 << 20} "))
    refused(image_with(*asked), "it unpacks to more than 1048576 bytes (--max-bytes)")
    assert os.listdir(store) == []


def test_without_the_programs_one_sentence_says_so(tmp_path, store):
    archive = docker_archive(tmp_path / "a.tar", layer(PLAIN))
    done = image_with("/dev/null", "/usr/bin/skopeo", "import", "one", archive, "--directory", store)
    assert done.returncode == 1 and "/usr/bin/skopeo is missing: install Debian's packages skopeo and umoci" in done.stderr, done.stderr

"""Images for tests: one of Debian's packages, root directories of this host's own programs, and archives that are made here, well
meant or not."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

from harness import BUILD, PATIENCE, TOOLS, shipped_policy

IMMURE = str(BUILD / "immure")


def copy_program(root, path):
    """A program, and the libraries that it is loaded with, at the same places."""
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    for one in [path, *re.findall(r"/\S+", listed)]:
        to = root / one.lstrip("/")
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(os.path.realpath(one), to)
            to.chmod(0o755)


def make_root(root, *programs):
    """A root directory as Debian's is laid out."""
    for name in "bin", "lib", "lib64":
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in "etc", "tmp", "var":
        (root / name).mkdir()
    (root / "etc/image").write_text("of the image\n")
    for program in programs:
        copy_program(root, program)
    return root


def debian_layout():
    """Of Debian's own Python, Node and shell: a layout that has it as `debian`."""
    made = TOOLS / "debian-image"
    assert (made / "index.json").exists(), f"there is no {made}: scripts/test makes it of Debian's packages"
    return made


def policy(name, runtime, lines):
    """The text of the runtime's shipped policy, under another name, without what it shows of the host, and with more lines."""
    text = shipped_policy(runtime).replace(f'name: "{runtime}"', f'name: "{name}"', 1)
    return re.sub(r'^mount \{ destination: "/(?!dev/|proc"|workspace"|tmp").*\n(?: +".*\n)*', "", text, flags=re.M) + lines + "\n"


def image(*arguments, directory=None, program=IMMURE, **options):
    """immure image …"""
    more = ["--directory", str(directory)] if directory else []
    return subprocess.run([program, "image", *map(str, arguments), *more], capture_output=True, text=True, timeout=PATIENCE * 120, check=False, **options)


def imported(directory, name, source, *options):
    done = image("import", name, source, *options, directory=directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- Archives ----

def entry(name, data=None, mode=0o644, **fields):
    """One entry of a layer: a file where there is data, else what `type` says."""
    info = tarfile.TarInfo(name)
    info.mode, info.size = mode, len(data or b"")
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def directory(name, mode=0o755):
    return entry(name, type=tarfile.DIRTYPE, mode=mode)


def link(name, target):
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name, target):
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def layer(*entries):
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if data is not None else None)
    return text.getvalue()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def config_of(layers, env=()):
    return {"architecture": "amd64", "os": "linux", "config": {"Env": list(env)},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha256(one) for one in layers]}}


def docker_archive(path, *layers, env=(), manifest=None, config=None):
    """What `docker save` writes."""
    names = [f"{n}/layer.tar" for n in range(len(layers))]
    manifest = manifest or [{"Config": "config.json", "RepoTags": ["made:here"], "Layers": names}]
    parts = [*zip(names, layers), ("config.json", json.dumps(config or config_of(layers, env)).encode()),
             ("manifest.json", json.dumps(manifest).encode())]
    with tarfile.open(path, "w") as tar:
        for name, data in parts:
            tar.addfile(entry(name, data)[0], io.BytesIO(data))
    return path


def layout(path, *layers, env=()):
    """An OCI layout, of what may be no archive at all."""
    def blob(data, kind):
        (path / "blobs/sha256" / sha256(data)).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + sha256(data), "size": len(data)}
    (path / "blobs/sha256").mkdir(parents=True)
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    described = [blob(one, "layer.v1.tar") for one in layers]
    config = blob(json.dumps(config_of(layers, env)).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "config": config, "layers": described}).encode(), "manifest.v1+json")
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return path

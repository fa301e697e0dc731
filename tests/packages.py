"""Packages made for tests: wheels and sdists for pip, tarballs for npm."""

import base64
import io
import json
import tarfile
import zipfile

SECONDS = 60  # for an installer


def run(server, code, **fields):
    verdict = server.execute(code, timeout=SECONDS, **fields)
    assert verdict["status"] == "success", verdict
    return verdict


def failure(server, code, **fields):
    verdict = server.execute(code, timeout=SECONDS, **fields)
    assert verdict["status"] == "execution_error", verdict
    return verdict["stderr"].splitlines()[-1]


def wheel(name, version="1.0", files=None, requires=()):
    """-> (its file name, its bytes). `files`: path -> text; default: a module NAME with VERSION in it."""
    files = files or {f"{name}/__init__.py": f"VERSION = {version!r}\n"}
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/METADATA", metadata + "".join(f"Requires-Dist: {one}\n" for one in requires))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}-{version}-py3-none-any.whl", out.getvalue()


def source(name, version="1.0", setup=""):
    """The files of a source directory: path -> text"""
    return {"setup.py": f"from setuptools import setup\n{setup}\nsetup(name={name!r}, version={version!r}, packages=[{name!r}])\n",
            f"{name}/__init__.py": f"VERSION = {version!r}\n"}


def sdist(name, version="1.0", setup=""):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in source(name, version, setup).items():
            data = text.encode()
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return f"{name}-{version}.tar.gz", out.getvalue()


def upload(file):
    """What a request carries it as."""
    name, data = file
    return {"name": name, "data": base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()}


def tarball(name, version="1.0.0", files=None, **manifest):
    """What `npm pack` makes: -> (its file name, its bytes). Default: a CommonJS module that exports NAME and VERSION."""
    files = {"index.js": f"module.exports = {{name: {name!r}, version: {version!r}}};\n", **(files or {}),
             "package.json": json.dumps({"name": name, "version": version, "main": "index.js", **manifest})}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files.items():
            data = text.encode()
            member = tarfile.TarInfo(f"package/{path}")
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return f"{name.split('/')[-1]}-{version}.tgz", out.getvalue()

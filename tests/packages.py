"""Packages made for tests: wheels and sdists for pip."""

import base64
import io
import tarfile
import zipfile


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

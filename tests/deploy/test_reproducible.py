"""The same sources make the same programs: whoever builds them again can hold his to what he was given."""

import os
import shutil
import subprocess
from pathlib import Path

from harness import ROOT

SOURCES = ["Makefile", "CHANGELOG.md", "config", "jail", "policy", "server"]
PROGRAMS = ["immure", "immure-python.so"]
FLAGS = "-O0 -g -U_FORTIFY_SOURCE"  # in little time, and with all that debuggers are told of paths


def build(tree, into):
    tree.mkdir(parents=True)
    for name in SOURCES:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tree / name)
    done = subprocess.run(["make", "-s", "-C", str(tree), f"-j{os.cpu_count()}", f"BUILD={into}", f"CFLAGS={FLAGS}", "all"],
                          env={"PATH": "/usr/bin:/bin", "CCACHE_DISABLE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return [tree / into / name for name in PROGRAMS]


def test_the_directory_of_a_build_is_not_in_it(tmp_path):
    first = build(tmp_path / "a", "build")
    second = build(tmp_path / "elsewhere" / "in-a-longer-path", str(tmp_path / "built"))
    has_python = any(Path("/usr/include").glob("python3.*/Python.h"))
    assert [path.exists() for path in first] == [path.exists() for path in second] == [True, has_python]
    for one, other in zip(first, second):
        if one.exists():
            assert str(tmp_path).encode() not in one.read_bytes(), one.name
            assert one.read_bytes() == other.read_bytes(), one.name

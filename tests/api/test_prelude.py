"""The prelude of Python as code (immure-prelude.pyc): the same as its text, taken where it fits the interpreter, missed by nobody where
it does not."""

import ast
import contextlib
import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from harness import ROOT, Server

TEXT, CODE = "immure-prelude.py", "immure-prelude.pyc"
# Interpreters that are started for the job: a template would have run its prelude before.
EXECUTED = re.sub(r"\n\s*(template|warm_jails|standby):.*", "", (ROOT / "config/server.textproto").read_text())
PREPARE = """import marshal, importlib.util, sys
where = "/usr/local/lib/immure/immure-prelude.py"
code = open(where + "c", "rb").read()
"""


def without(row):
    text, n = re.subn(rf'\n\s*prelude {{ path: "[^"]*/{re.escape(row)}" .*', "", EXECUTED)
    assert n == 1
    return text


@pytest.fixture(scope="module")
def executes(tmp_path_factory):
    """-> what a program prints, with such a configuration"""
    directory, servers = tmp_path_factory.mktemp("prelude"), {}

    def execute(configuration, code):
        if configuration not in servers:
            path = directory / f"{len(servers)}.textproto"
            path.write_text(configuration)
            server = Server(directory / f"{len(servers)}.log", SANDBOX_EXECUTOR_CONFIG=str(path))
            servers[configuration] = stack.enter_context(server)
        verdict = servers[configuration].execute(code)
        assert (verdict["exit_code"], verdict["stderr"]) == (0, ""), verdict
        return verdict["stdout"]

    with contextlib.ExitStack() as stack:
        yield execute


def test_it_is_what_the_text_says(executes):
    told = executes(EXECUTED, PREPARE + "print(code[:4] == importlib.util.MAGIC_NUMBER, marshal.loads(code[16:]) == "
                                        "compile(open(where).read(), where, 'exec', optimize=0), int.from_bytes(code[4:8], 'little'))")
    assert told == "True True 1\n"  # 1: it does not ask when the text was changed


FUNCTIONS = "print([(f.__name__, f.__code__.co_filename, f.__doc__.split()[0]) for f in (call_tool, set_result, install_package)])"


def test_it_is_taken_where_it_fits(executes):
    both = ast.literal_eval(executes(EXECUTED, FUNCTIONS))
    assert both[0] == ("call_tool", "/usr/local/lib/immure/immure-prelude.py", "Call")
    assert ast.literal_eval(executes(without(TEXT), FUNCTIONS)) == both


def test_the_text_does_without_it(executes):
    assert executes(without(CODE), FUNCTIONS) == executes(EXECUTED, FUNCTIONS)


@pytest.mark.parametrize("code", ["b''", "b'\\0' * 100", "(1234).to_bytes(2, 'little') + code[2:]"],
                         ids=["empty", "of no interpreter", "of another interpreter"])
def test_the_text_takes_the_place_of_what_does_not_fit(executes, code):
    """The same lines, run on files of the program's own."""
    assert executes(EXECUTED, PREPARE + f"""
import os
text = open(where).read()
with open("immure-prelude.py", "w") as file:
    file.write(text + "\\nbuiltins.told = 'by the text'\\n")
with open("immure-prelude.pyc", "wb") as file:
    file.write({code})
line = open("/usr/local/lib/python3.11/dist-packages/immure.pth").read()
exec(line.replace("/usr/local/lib/immure", "/workspace"))
print(told)
""") == "by the text\n"


# Every name that can be imported, and what becomes of it: its place, or the error. Not those that do something by being imported.
EVERY_NAME = """
import contextlib, importlib, importlib.util, inspect, io, json, os, sys
names = sorted({name for path in sys.path if os.path.isdir(path) for entry in os.listdir(path)
                for name in [inspect.getmodulename(entry) or entry] if name.isidentifier()} - {"main", "antigravity", "this", "__pycache__"})
found = {}
for name in names:
    try:
        if importlib.util.find_spec(name) is None:
            continue
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            module = importlib.import_module(name)
        found[name] = getattr(module, "__file__", None) or module.__spec__.origin
    except ImportError as error:
        found[name] = f"no {error.name}"
print(json.dumps(found))
"""
# Parts of packages, as Debian's python3-numpy and libpython3-testsuite put them beside the standard library.
PARTS = ["dist-packages/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so", "dist-packages/half.py", "dist-packages/other/__init__.py",
         "tkinter/test/__init__.py", "idlelib/idle_test/__init__.py"]


def test_nothing_is_found_that_is_not_whole(serve):
    found = json.loads(serve("").execute(EVERY_NAME)["stdout"])
    assert len(found) > 200 and None not in found.values(), found


@pytest.fixture
def library():
    """-> the standard library with such parts"""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)  # what is bound is looked up as an unprivileged user
        left_out = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "__pycache__", "config-*", "lib2to3")
        shutil.copytree("/usr/lib/python3.11", place / "library", symlinks=True, ignore=left_out)
        for part in PARTS:
            (place / "library" / part).parent.mkdir(parents=True, exist_ok=True)
            (place / "library" / part).touch()
        yield place / "library"


def test_parts_of_debians_packages_are_not_found(serve, tmp_path, library):
    mount = f'mount {{ destination: "/usr/lib/python3.11" bind {{ source: "{library}" }} }}\n'
    (tmp_path / "python.textproto").write_text(f'name: "python" use: "python" {mount}')
    server = serve(f'policy_path: "{tmp_path}/python.textproto"\n')
    for limits in ({}, {"pids": 63}):  # in a process of the template's, and in one of its own
        verdict = server.execute("import importlib, pkgutil\n"
                                 "def find(name):\n    try: __import__(name)\n    except ImportError as error: return error.name\n"
                                 "for _ in range(2):\n    print([find(name) for name in ('numpy', 'numpy.core', 'half', 'other', 'idlelib', 'tkinter', 'json', 'xml.dom')])\n"
                                 "    importlib.invalidate_caches()\n"
                                 "print({'numpy', 'half', 'other'} & {module.name for module in pkgutil.iter_modules()})", limits=limits)
        assert verdict["stdout"] == 2 * "['numpy', 'numpy', 'half', 'other', 'idlelib', 'tkinter', None, None]\n" + "set()\n", verdict
        found = json.loads(server.execute(EVERY_NAME, limits=limits)["stdout"])
        assert "json" in found and None not in found.values() and not {"numpy", "half", "other", "tkinter"} & set(found)

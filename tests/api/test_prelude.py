"""The prelude of Python as code (immure-prelude.pyc): the same as its text, taken where it fits the interpreter, missed by nobody where
it does not."""

import ast
import contextlib
import re

import pytest

from harness import ROOT, Server

TEXT, CODE = "immure-prelude.py", "immure-prelude.pyc"
# Interpreters that are started for the job: a template would have run its prelude before.
EXECUTED = re.sub(r"\n\s*(template|warm_jails|standby):.*", "", (ROOT / "config/server.textproto").read_text())
PREPARE = """import marshal, importlib.util, sys
where = "/usr/local/lib/python3.11/dist-packages/immure-prelude.py"
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
    assert both[0] == ("call_tool", "/usr/local/lib/python3.11/dist-packages/immure-prelude.py", "Call")
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
exec(line.replace("/usr/local/lib/python3.11/dist-packages", "/workspace"))
print(told)
""") == "by the text\n"

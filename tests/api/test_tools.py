"""What programs find among the builtins: results and tool calls, over the bridge. Every test runs where jobs start an
interpreter of their own and where they are forked from a template."""

import base64
import json
import re

import pytest

from harness import ROOT, Server, wait_for

SHIPPED = (ROOT / "config/server.textproto").read_text()
WHO = "import os\nprint(os.readlink('/proc/self/exe'))"


@pytest.fixture(scope="module", params=["own interpreter", "from a template"])
def tools(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("tools")
    config = SHIPPED if request.param == "from a template" else re.sub(r"\s*(template|warm_jails):.*", "", SHIPPED)
    path = place / "server.textproto"
    path.write_text(config)
    with Server(place / "log", SANDBOX_EXECUTOR_CONFIG=str(path)) as server:
        if request.param == "from a template":
            wait_for(lambda: server.execute(WHO)["stdout"] == "/immure/template\n", "a job from a template")
        yield server


def run(server, code, **fields):
    verdict = server.execute(code, **fields)
    assert verdict["status"] == "success", verdict
    return verdict


def last_line(verdict):
    return verdict["stderr"].splitlines()[-1]


# ---- Results ----

@pytest.mark.parametrize("value", ["None", "True", "0", "-1.5", "2 ** 200", "'text'", "'\\0\\n\\u2028\\\\'", "[1, [2, []]]",
                                   "{'a': {'b': None}, 'é': '🙂'}", "(1, 2)", "{1: 'one', None: 2}"])
def test_result_is_json_text(tools, value):
    verdict = run(tools, f"set_result({value})")
    expected = json.loads(json.dumps(eval(value)))
    assert json.loads(verdict["output"]) == expected
    assert (verdict["stdout"], verdict["stderr"]) == ("", "")


def test_no_result(tools):
    assert run(tools, "print('{\"op\":\"result\",\"id\":1,\"data\":1}')")["output"] == ""


def test_last_result_counts_and_survives(tools):
    verdict = tools.execute("set_result(1)\nset_result({'two': 2})\nraise ValueError('later')")
    assert (verdict["output"], verdict["exit_code"], last_line(verdict)) == ('{"two": 2}', 1, "ValueError: later")
    verdict = tools.execute("import os, signal\nset_result(3)\nos.kill(os.getpid(), signal.SIGKILL)")
    assert (verdict["output"], verdict["signal"]) == ("3", "SIGKILL")
    verdict = tools.execute("import time\nset_result(4)\ntime.sleep(60)", timeout_ms=1500)
    assert (verdict["output"], verdict["status"]) == ("4", "timeout")


@pytest.mark.parametrize("value, error", [
    ("object()", "TypeError: Object of type object is not JSON serializable"),
    ("{(1, 2): 3}", "TypeError: keys must be str, int, float, bool or None, not tuple"),
    ("float('nan')", "ValueError: Out of range float values are not JSON compliant"),
    ("'\\ud800'", "UnicodeEncodeError: "),
    ("'x' * 5000000", "ValueError: set_result: the result is larger than 4194304 bytes"),
    ("(lambda x: x.append(x) or x)([])", "ValueError: Circular reference detected"),
    ("1, files=['a', object()]", "TypeError: "),
    ("1, files=['x' * 70000]", "RuntimeError: set_result: files must be paths, of 64 KiB in all"),
])
def test_what_cannot_be_a_result(tools, value, error):
    verdict = tools.execute(f"set_result('kept')\nset_result({value})")
    assert last_line(verdict).startswith(error)
    assert verdict["output"] == '"kept"'
    assert verdict["stderr"].splitlines()[1].startswith('  File "/immure/main.py", line 2, in <module>')


def test_result_with_files(tools):
    verdict = run(tools, """if True:
        import os, pathlib
        os.mkdir('sub'); os.symlink('/etc/passwd', 'link'); os.symlink('a.txt', 'link.txt')
        open('a.txt', 'w').write('content')
        pathlib.Path('sub/[b].csv').write_text('1,2')
        open('/tmp/outside', 'w').write('not returned')
        os.chdir('sub')
        set_result(1, files=['../a.txt', pathlib.Path('[b].csv'), b'missing', '/workspace/link', '../link.txt', '/tmp/outside',
                             '../../etc/passwd', '/workspace', ''])
    """)
    assert {file["name"]: (file["mime"], base64.b64decode(file["data"])) for file in verdict["files"]} == {
        "a.txt": ("text/plain", b"content"), "[b].csv": ("text/csv", b"1,2")}


def test_files_of_the_last_result(tools):
    make = "for name in 'abc': open(name, 'w').write(name)\n"
    verdict = run(tools, make + "set_result(1, files=['a', 'b'])\nset_result(2, 'c')", outputs=["b"])
    assert [file["name"] for file in verdict["files"]] == ["b", "c"]
    assert run(tools, make + "set_result(1, files=['a'])\nset_result(2)")["files"] == []


def test_file_that_is_written_last(tools):
    """The file is named before it is there, and written in the program's last moment."""
    verdict = run(tools, "import atexit\nset_result(1, files=['late'])\natexit.register(lambda: open('late', 'w').write('x'))")
    assert [file["name"] for file in verdict["files"]] == ["late"]


# ---- The functions ----

def test_functions_are_there_and_shadow_nothing(tools):
    verdict = run(tools, """if True:
        import builtins, inspect, pickle, sys
        for function in call_tool, call_tools_parallel, set_result, install_package:
            assert getattr(builtins, function.__name__) is function and len(inspect.getdoc(function)) > 100
            assert pickle.loads(pickle.dumps(function)) is function
            print(f'{function.__name__}{inspect.signature(function)}')
        print(sorted(globals()))
        def set_result(): return 'my own'
        print(set_result(), sys.argv)
    """)
    assert verdict["stdout"].splitlines() == [
        "call_tool(name, args=None)", "call_tools_parallel(calls)", "set_result(data, files=None)", "install_package(name)",
        "['__annotations__', '__builtins__', '__cached__', '__doc__', '__file__', '__loader__', '__name__', '__package__', "
        "'__spec__', 'builtins', 'function', 'inspect', 'pickle', 'sys']", "my own ['/immure/main.py']"]


def test_line_numbers_and_future(tools):
    verdict = tools.execute("'doc'\nfrom __future__ import annotations\ndef f(x: missing): return x\n\nprint(f(1), __doc__)\n1/0")
    assert verdict["stdout"] == "1 doc\n"
    assert '"/immure/main.py", line 6' in verdict["stderr"]


def test_modules_of_the_programs_own(tools):
    """What the library calls json, re or os is not the program's, and the other way round."""
    files = [{"name": f"{name}.py", "content": f"raise SystemExit('{name} of the program')"}
             for name in ("json", "re", "struct", "socket", "select", "threading", "immure", "prelude")]
    assert run(tools, "set_result({'a': [1]})", files=files)["output"] == '{"a": [1]}'


def test_install_package_says_that_it_cannot(tools):
    verdict = tools.execute("install_package('left-pad')")
    assert last_line(verdict) == "RuntimeError: pip install left-pad failed: this server installs no packages"


# ---- Programs that do as they like with processes and descriptors ----

@pytest.mark.parametrize("code", [
    "import os\nif os.fork() == 0: set_result(2)\nos.wait()",
    "import multiprocessing\np = multiprocessing.Process(target=set_result, args=(2,))\np.start(); p.join()",
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'set_result(2)'])",
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'set_result(2)'], close_fds=False)",
])
def test_other_processes_have_no_bridge(tools, code):
    verdict = tools.execute(f"set_result(1)\nif __name__ == '__main__':\n    " + code.replace("\n", "\n    "))
    assert "set_result: only the program's first process can do this, not one that it has started" in verdict["stderr"]
    assert verdict["output"] == "1"


def test_descriptors_are_not_inherited(tools):
    # ls has its own for the directory.
    assert run(tools, "import os\nos.execv('/bin/ls', ['ls', '/proc/self/fd'])")["stdout"].split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("before", ["", "set_result(1)\n"])
def test_closed_descriptors(tools, before):
    verdict = tools.execute(before + "import os\nos.closerange(0, 1024)\ntry: set_result(2)\nexcept RuntimeError as e: os._exit(7)")
    assert (verdict["exit_code"], verdict["output"]) == (7, "1" if before else "")


def test_descriptors_that_are_something_else_by_now(tools):
    verdict = tools.execute("import os\nos.closerange(3, 1024)\nos.pipe()\ntry: set_result(2)\nexcept RuntimeError as e: print(e)")
    assert verdict["stdout"] == "set_result: the bridge's descriptors are closed\n"


def test_under_a_policy_without_sockets(tools):
    verdict = run(tools, "set_result([1])", policy="strict")
    assert (verdict["output"], verdict["denied_syscalls"]) == ("[1]", [])

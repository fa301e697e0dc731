"""scripts/run at a terminal, and what it says to try."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading

import pytest

from harness import BUILD, ROOT, wait_for

CLEAR = "\r\x1b[K"
END = "Ctrl-C stops the server"


class Terminal:
    """A program with a terminal of its own; `seen` is what has been written there."""

    def __init__(self, *argv):
        self.seen, (ours, theirs) = "", pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("SANDBOX_")}
        self.process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self.reader = threading.Thread(target=self.read, args=[ours])
        self.reader.start()

    def read(self, terminal):
        with contextlib.suppress(OSError):  # EIO: nobody has it any more
            while data := os.read(terminal, 65536):
                self.seen += data.decode().replace("\r\n", "\n")
        os.close(terminal)

    def end(self):
        """As Ctrl-C does: to all of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(60)
        self.reader.join()


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """-> a build of its own, in which one object and the program are not yet made"""
    directory = tmp_path_factory.mktemp("run") / "build"
    directory.mkdir()
    for path in BUILD.resolve().iterdir():
        if path.name in ("gen", "obj", "pic"):
            shutil.copytree(path, directory / path.name)
        elif path.is_file() and (path.suffix == ".a" or path.name in ("immure-front", "immure-python.so")):
            shutil.copy2(path, directory)
    (directory / "obj/server/main.o").unlink()
    return directory


@pytest.fixture(scope="module")
def started(copy):
    terminal = Terminal("scripts/run", "--build", str(copy))
    wait_for(lambda: END in terminal.seen or terminal.process.poll() is not None, "the examples", 300)
    assert END in terminal.seen, terminal.seen
    yield terminal
    terminal.end()
    assert not (copy / "try.env").exists()  # its key is nobody's now


def test_progress_is_one_line(started):
    steps = re.findall(re.escape(CLEAR) + r"\[(\d+)/(\d+)\]  \w+ ", started.seen)
    assert len(steps) >= 2 and steps[0][0] == "1" and len({total for _, total in steps}) == 1, started.seen
    assert int(steps[-1][0]) <= int(steps[-1][1])
    built = started.seen[started.seen.index("[1/"):started.seen.index("serving on")]
    assert "\n" not in built[:built.rindex(CLEAR)], built


def test_the_programs_output_comes_first(started):
    said = started.seen[started.seen.index("a first job:\n"):].splitlines()
    assert re.fullmatch(r"Hello from a jail, Python 3\.\S+", said[1]), said
    assert re.fullmatch(r"run: success in \d+ ms, with ([\d.]+ of|at most) 512 MiB of memory", said[2]), said
    assert '"status"' not in said[1] + said[2]


def test_the_key_is_for_whoever_ran_it(started, copy):
    status = (copy / "try.env").stat()
    assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.geteuid())
    key = re.search(r"IMMURE_KEY=(\w+)", (copy / "try.env").read_text())[1]
    assert key not in started.seen


def one_liners(seen):
    """-> what stands under each heading"""
    return dict(re.findall(r"^  # (.*)\n  (\S.*)$", seen, re.M))


SAYS = {
    "a program": r"42\n\n",
    "a file in, a chart out": r"-rw.* chart\.svg\n",
    "Node": r"v\d+\.\d+\.\d+ 42\n\n",
    "a session, whose files outlive a program": r"success\n\nsuccess\n42\n\n",
    "what a program may do": r"policy python \(shipped:python\)\n(.*\n){19}",
}


@pytest.mark.parametrize("heading", SAYS)
def test_what_it_says_to_try_can_be_pasted(started, copy, tmp_path, heading):
    assert f"\n  . {copy}/try.env\n" in started.seen and one_liners(started.seen).keys() == SAYS.keys()
    if heading == "Node" and not os.path.exists("/usr/bin/node"):
        pytest.skip("Node is not installed")
    done = subprocess.run(["bash", "--norc"], input=f". {copy}/try.env\n{one_liners(started.seen)[heading]}\n", cwd=tmp_path, capture_output=True,
                          text=True, timeout=120)
    assert re.fullmatch(SAYS[heading], done.stdout) and not done.stderr, (done.stdout, done.stderr)
    if heading == "a file in, a chart out":
        assert re.fullmatch(r'<svg xmlns="[^"]*">(<rect [^<>]*/>|<rect [^<>]* />){3}</svg>', (tmp_path / "chart.svg").read_text())


# Whatever is shipped, and where its program prints the answer.
PROGRAMS = {"python": "print(6 * 7)", "node": "console.log(6 * 7)", "bash": "echo $((6 * 7))"}
TYPESCRIPT = "enum A { one = 1 } namespace B { export const rest: number = 41 } export default <number>(A.one + B.rest)"


def answer(copy, path, **body):
    words = f". {copy}/try.env; curl -s -u :$IMMURE_KEY $IMMURE_URL{path}" + (" --json @-" if body else "")
    done = subprocess.run(["bash", "-c", words], input=json.dumps(body), capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def test_every_shipped_runtime_answers(started, copy):
    programs = PROGRAMS if shutil.which("node") else {name: code for name, code in PROGRAMS.items() if name != "node"}
    assert {runtime["name"] for runtime in answer(copy, "/runtimes")["runtimes"]} >= set(programs)
    for name, code in programs.items():
        reply = answer(copy, "/execute", runtime=name, code=code)
        assert (reply["status"], reply["stdout"]) == ("success", "42\n"), reply


@pytest.mark.skipif(not (shutil.which("node") and os.path.exists("/usr/bin/esbuild")), reason="Node or esbuild is not installed")
def test_modules_in_the_default_language(started, copy):
    reply = answer(copy, "/run-code", source=TYPESCRIPT)
    assert reply["result"] == 42, reply

"""What README.md and the manuals of the rooms show is what happens.

Every fenced block of a README.md that opens with ```console is run: a line "$ COMMAND" (continued by lines after a trailing backslash, and
by lines "> LINE", as bash prompts for them) is given to bash in the root of the checkout, and the lines up to the next "$ " are what it must
print. In those, "..." stands for anything, also for several lines. The commands of one block share a shell, so that what one sets the next finds. In their environment:

  IMMURE_URL   http://127.0.0.1:PORT of a fresh server
  IMMURE_KEY   a key that it accepts
  PATH         starts with the build directory, so that `immure` is the one just built

A block that must not run (it installs something, or stays) opens with ```sh."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import BUILD, ROOT, Server  # noqa: E402

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "--- end of command ---"


def manuals():
    return sorted(path for folder in ("", "config/**", "jail/**", "policy/**", "server/**", "tests/**")
                  for path in ROOT.glob(f"{folder}/README.md".lstrip("/")))


def read_blocks():
    """-> [(FILE:LINE, [(command, expected output)])]"""
    found = []
    for path in manuals():
        text = path.read_text()
        found += [(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}", read_commands(block[1]))
                  for block in BLOCK.finditer(text)]
    return found


def read_commands(block):
    commands = []
    continued = False
    for line in block.splitlines():
        if continued:
            commands[-1][0].append(line)
        elif line.startswith("$ "):
            commands.append(([line[2:]], []))
        elif line.startswith("> ") and commands and not commands[-1][1]:
            commands[-1][0].append(line[2:])
            continue
        else:
            assert commands, f"output before the first command: {line}"
            commands[-1][1].append(line)
            continue
        continued = line.endswith("\\")
    return [("\n".join(command), "\n".join(output)) for command, output in commands]


def matches(expected, printed):
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("readme") / "log") as server:
        yield dict(os.environ, IMMURE_URL=server.url, IMMURE_KEY=server.key, PATH=f"{BUILD}:{os.environ['PATH']}")


@pytest.mark.parametrize("place, commands", [pytest.param(*block, id=block[0]) for block in read_blocks()])
def test_block(environment, place, commands):
    script = "".join(f"{command}\necho; echo '{END}'\n" for command, _ in commands)
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    printed = done.stdout.split(END)
    assert len(printed) == len(commands) + 1, done.stdout
    for (command, expected), output in zip(commands, printed):
        assert matches(expected, output), f"{place}: $ {command}\n--- expected\n{expected}\n--- printed\n{output}"


def test_matching():
    assert matches("a ... c", "a b\nb c\n")
    assert not matches("a ... c", "a b")
    assert not matches("{}", "{ }")
    assert read_commands("$ a \\\n  b\nx\n$ c\n") == [("a \\\n  b", "x"), ("c", "")]
    assert read_commands("$ a <<E\n> b\n> E\nx\n> y\n") == [("a <<E\nb\nE", "x\n> y")]


def test_there_are_examples():
    places = [place.split(":")[0] for place, _ in read_blocks()]
    assert {"README.md", "server/README.md", "policy/README.md", "config/README.md"} <= set(places)
    assert sum(len(commands) for _, commands in read_blocks()) > 40

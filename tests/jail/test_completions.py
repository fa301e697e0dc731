"""`immure completions`, and what else the option tables yield: help with examples."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import BUILD

IMMURE = str(BUILD / "immure")
SOURCES = Path(__file__).resolve().parent.parent.parent / "server" / "cli"


def immure(*arguments):
    return subprocess.run([IMMURE, *arguments], capture_output=True, text=True)


def tables():
    """Every table's command, as the sources have them."""
    return sorted({name for source in SOURCES.glob("*.c") for name in re.findall(r'\.command = "([\w ]+)"', source.read_text())})


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completions") / "immure.bash"
    path.write_text(immure("completions", "bash").stdout)
    return path


def complete(script, *words, cwd="/"):
    """What bash offers behind these words, of which the last one has been begun."""
    text = ('. "$1"; shift; COMP_WORDS=(immure "$@"); COMP_CWORD=$#; COMPREPLY=(); _immure; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", text, "bash", str(script), *words], capture_output=True, text=True, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("words, offered", [
    (["ru"], {"run"}),
    (["po"], {"policy"}),
    (["help", "sh"], {"shell"}),
    (["policy", ""], {"list", "lint", "explain", "show"}),
    (["policy", "lint", "--s"], {"--strict", "--sets"}),
    (["policy", "explain", "pyth"], {"python", "python-kernel"}),
    (["run", "--po"], {"--policy"}),
    (["run", "--policy", "st"], {"strict"}),
    (["run", "--cgroup", ""], {"required", "best-effort"}),
    (["run", "--net", ""], {"none"}),
    (["run", "--memory", "1GiB", "--tim"], {"--timeout"}),
    (["run", "--timeout=5s", "--cw"], {"--cwd"}),
    (["run", "--ro", "/etc/host"], {"/etc/hostname", "/etc/hosts"}),
    (["run", "--", "--po"], set()),
    (["run", "ls", "--po"], set()),
    (["run", "ls", "/etc/hostn"], {"/etc/hostname"}),
    (["run", "gunzi"], {"gunzip"}),
    (["key", "add", "x", "--fil"], {"--file"}),
    (["image", ""], {"import", "list", "rm"}),
    (["completions", "z"], {"zsh"}),
    (["serve", "--config", "/etc/hostn"], {"/etc/hostname"}),
])
def test_bash(script, words, offered):
    got = set(complete(script, *words))
    assert offered <= got
    if len(offered) < 4 and not words[-1].startswith(("/", "pyth", "gunzi")) and words[:2] != ["policy", ""]:
        assert got == offered


def test_every_option_of_every_table(script):
    for name in tables():
        shown = set(re.findall(r"^  (--[\w-]+)", immure(*name.split(), "--help").stdout, re.M))
        assert shown and shown <= set(complete(script, *name.split(), "--")), name


@pytest.mark.parametrize("shell, check", [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])])
def test_syntax(tmp_path, shell, check):
    done = immure("completions", shell)
    assert done.returncode == 0 and done.stderr == ""
    for name in tables():
        assert name.split()[-1] in done.stdout
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(done.stdout)
    assert subprocess.run([*check, str(tmp_path / "script")], capture_output=True).returncode == 0


def test_another_shell():
    assert immure("completions").returncode == 2 and immure("completions", "tcsh").returncode == 2


def test_help_has_examples():
    for name in tables():
        lines = immure(*name.split(), "--help").stdout.split("\nexamples:\n")[1].splitlines()
        assert 1 <= len(lines) <= 3 and all(line.startswith(f"  immure {name}") for line in lines), name


def test_policy_list():
    policies, parts = immure("policy", "list").stdout.split("\nparts:\n")
    rows = dict(line.split("\t") for line in policies.splitlines())
    assert {"python", "strict", "command", "shell"} <= set(rows) and all(rows.values())
    parts = dict(line.split("\t") for line in parts.splitlines())
    assert "debian" in parts and all(text.endswith(".") for text in parts.values()) and not set(parts) & set(rows)
    assert immure("policy", "list", "x").returncode == 2


def test_version():
    assert immure("version").stdout == immure("--version").stdout != ""

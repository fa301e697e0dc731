"""The corpus: one small program per behaviour, named by it, and what it is to be run with.

A program says what it needs in lines of its own, anywhere:

    #: stdin "text"                  #: stdin-repeated "text" 1000        #: stdin-hex "61ff"
    #: args ["one", "two"]           #: env {"NAME": "value"}             #: files {"name.py": "content"}
    #: merged                        stdout and stderr are one pipe
    #: fresh                         a started interpreter cannot become what this asks for: it gets one of its own
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent / "programs"
DIRECTIVE = re.compile(rb"^#: (\S+) ?([^\r\n]*)", re.MULTILINE)


@dataclass
class Program:
    name: str
    code: bytes
    stdin: bytes = b""
    args: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    merged: bool = False
    fresh: bool = False


def load(path):
    program = Program(path.stem, path.read_bytes())
    for word, rest in DIRECTIVE.findall(program.code):
        word, rest = word.decode(), rest.decode()
        if word == "stdin":
            program.stdin = json.loads(rest).encode()
        elif word == "stdin-repeated":
            text, count = rest.rsplit(" ", 1)
            program.stdin = json.loads(text).encode() * int(count)
        elif word == "stdin-hex":
            program.stdin = bytes.fromhex(json.loads(rest))
        elif word in ("merged", "fresh"):
            setattr(program, word, True)
        else:
            assert word in ("args", "env", "files"), f"{path}: #: {word}"
            setattr(program, word, json.loads(rest))
    return program


PROGRAMS = [load(path) for path in sorted(DIRECTORY.glob("*.py"))]

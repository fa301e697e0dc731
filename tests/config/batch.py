"""Many inputs through one process of a test tool: length-prefixed frames in, status and length-prefixed answers out."""

import os
import struct
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("BUILD", ROOT / "build"))


def run(tool, arguments, inputs):
    """-> [(accepted, the answer's bytes)]"""
    frames = b"".join(struct.pack("<I", len(data)) + data for data in inputs)
    done = subprocess.run([str(BUILD / "tests/tools" / tool), *arguments], input=frames, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers, at = [], 0
    while at < len(done.stdout):
        status, size = struct.unpack_from("<BI", done.stdout, at)
        answers.append((status == 0, done.stdout[at + 5:at + 5 + size]))
        at += 5 + size
    assert len(answers) == len(inputs)
    return answers

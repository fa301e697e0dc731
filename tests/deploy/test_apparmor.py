"""The AppArmor profile, as the parser of AppArmor 4 reads it. Nothing is loaded."""

import re
import shutil
import subprocess

import pytest

from harness import ROOT

PARSER = shutil.which("apparmor_parser", path="/usr/sbin:/sbin")
MAJOR = int(re.search(r"version (\d+)", subprocess.run([PARSER, "--version"], capture_output=True, text=True).stdout)[1]) if PARSER else 0
pytestmark = pytest.mark.skipif(MAJOR < 4, reason="no parser of AppArmor 4, before which a profile cannot say userns")


def parse(text, path):
    path.write_text(text)
    return subprocess.run([PARSER, "--skip-kernel-load", "--skip-cache", "--kernel-features", "/etc/apparmor.d/abi/4.0", str(path)], capture_output=True,
                          text=True)


def test_it_is_read_and_allows_user_namespaces(tmp_path):
    text = (ROOT / "config/deploy/apparmor/immure").read_text()
    done = parse(text, tmp_path / "immure")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n  userns,\n" in text
    assert parse(text.replace("userns,", "usernss,"), tmp_path / "wrong").returncode != 0

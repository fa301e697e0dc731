"""The recipes of config/examples: each is run as a reader would run it, and prints what its output.txt says."""

import os
import re
import subprocess

import pytest
from harness import BUILD, CGROUP, PATIENCE, ROOT

EXAMPLES = ROOT / "config/examples"
# What they show, other tests hold in the virtual machine.
pytestmark = pytest.mark.host_only
RECIPES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe(recipe, server):
    """One without a configuration of its own uses the shared server, as IMMURE_URL has it do."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOX_")}
    environment |= {"PATH": f"{BUILD}:{os.environ['PATH']}", "SANDBOX_EXECUTOR_CGROUP": CGROUP, "IMMURE_URL": server.url, "IMMURE_KEY": server.key}
    # What a recipe has started ends with it, also where it takes too long.
    done = subprocess.run(["timeout", "--kill-after=30", str(PATIENCE * 120), EXAMPLES / recipe / "run.sh"], env=environment, cwd="/",
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ((EXAMPLES / recipe / "output.txt").read_text(), "", 0)


def test_every_recipe_is_in_the_table_and_nothing_else():
    rows = re.findall(r"^\| .* \| \[([\w-]+)\]\(([\w-]+)/run\.sh\) \|$", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(rows) == [(name, name) for name in RECIPES]


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_recipe_begins_with(recipe):
    """A comment of up to five lines, which says what it shows, and the line that all have in common."""
    lines = (EXAMPLES / recipe / "run.sh").read_text().splitlines()
    begin = lines.index('cd "$(dirname "$0")" && . ../serve.sh')
    assert lines[0] == "#!/bin/bash" and 2 <= begin <= 6 and all(line.startswith("# ") for line in lines[1:begin])

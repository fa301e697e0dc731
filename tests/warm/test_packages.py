"""Packages in a template: no two jobs draw the same from numpy, nothing of an environment can be written to, and what cannot be forked is
refused with the reason."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import ROOT, TOOLS, call, shipped_policy, wait_for

WITHOUT_NODE = True
JOBS = 20
ENVIRONMENT = TOOLS / "environment"  # numpy, from PyPI (scripts/test)
DEBIAN = subprocess.run(["/usr/bin/python3", "-c", "import numpy, pandas, matplotlib"], capture_output=True).returncode == 0
VERSION = Path(os.path.realpath("/usr/bin/python3")).name
LOCAL = f"/usr/local/lib/{VERSION}/dist-packages"  # of Debian's interpreter, before its packages
HAS_DEBIANS = subprocess.run(["/usr/bin/python3", "-c", "import numpy, pandas, matplotlib"], capture_output=True).returncode == 0
needs_debian = pytest.mark.skipif(not HAS_DEBIANS, reason="Debian's python3-numpy, python3-pandas, python3-matplotlib are not there")
RUNTIME = """
runtime {
  name: "data" interpreter: "python3" arg: "-s" extension: "py" policy: "data" template: "immure-python.so" warm_jails: 4
  python_environment: "%s"
  preload: [%s]
}
"""

# Keeps a generator of every kind, all used before any job is there.
KEPT = """
import numpy as np

kept = {name: np.random.Generator(getattr(np.random, name)()) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")}
hidden = ({"state": [np.random.RandomState(7)]},)

def draw():
    sequence = np.random.get_state(legacy=False)["state"]["key"][:8].tolist()
    drawn = {"random": np.random.random(), "normal": np.random.normal(), "integers": int(np.random.randint(2**62)),
             "bytes": np.random.bytes(8).hex(), "permutation": np.random.permutation(1000).tolist(), "state": sequence,
             "fresh": np.random.default_rng().random(), "seedless": np.random.RandomState().random_sample(),
             "sequence": str(np.random.SeedSequence().entropy), "hidden": hidden[0]["state"][0].standard_normal()}
    for name, generator in kept.items():
        drawn |= {name: generator.random(), name + ".normal": generator.standard_normal(),
                  name + ".small": generator.integers(2**16, size=8, dtype="uint16").tolist()}
        numbers = generator.bit_generator
        seeds = getattr(numbers, "seed_seq", None) or numbers._seed_seq
        drawn[name + ".child"] = str(seeds.spawn(1)[0].generate_state(4))
    return drawn
draw()
"""
JOB = "import json, kept\nprint(json.dumps(kept.draw())); print(open('/proc/self/cmdline').read().split(chr(0))[2])"


def policy(tmp_path, **modules):
    """-> the configuration's line of a policy that has these modules of its own where Debian's interpreter finds them"""
    text = shipped_policy("python-data").replace('name: "python-data"', 'name: "data"')
    (tmp_path / "policies").mkdir()
    for name, code in modules.items():
        text += f'mount {{ destination: "{LOCAL}/{name}.py" file {{ content: {json.dumps(code)} }} }}\npreload: "{name}"\n'
    (tmp_path / "policies/data.textproto").write_text(text)
    return f'policy_path: "{tmp_path}/policies"\n'


def runtime(environment, *preload):
    return RUNTIME % (environment, ", ".join(f'"{name}"' for name in preload))


def parked(server):
    wait_for(lambda: server.parked("data") == 4, "the stock", 120)
    return server


def execute(server, code, **fields):
    verdict = server.execute(code, runtime="data", timeout_ms=60000, **fields)
    assert verdict["exit_code"] == 0, verdict
    return verdict["stdout"].splitlines()


@pytest.fixture(scope="module")
def environment():
    """-> a virtual environment with numpy and a module of ours, where anybody can look"""
    if not ENVIRONMENT.exists():
        pytest.skip("there is no environment in build/tools (scripts/test --lane build)")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        copy = shutil.copytree(ENVIRONMENT, Path(name, "environment"), symlinks=True)
        (next(copy.glob("lib/python3*/site-packages")) / "kept.py").write_text(KEPT)
        yield copy


def assert_all_differ(server):
    jobs = []
    for _ in range(JOBS):
        drawn, exe = execute(server, JOB)
        assert exe == "/proc/self/fd/9"
        jobs.append(json.loads(drawn))
    for source in jobs[0]:
        values = [json.dumps(drawn[source]) for drawn in jobs]
        assert len(set(values)) == JOBS, (source, sorted(values))


def test_no_two_jobs_draw_the_same_from_a_virtual_environment(serve, tmp_path, environment):
    server = parked(serve(policy(tmp_path) + runtime(environment, "numpy", "kept")))
    assert_all_differ(server)
    assert execute(server, "import sys; print(sys.prefix)") == [str(environment)]
    row = next(row for row in call(server, "GET", "/runtimes").json["runtimes"] if row["name"] == "data")
    assert [package["name"] for package in row["packages"]] == ["numpy"] and row["preload"][-2:] == ["numpy", "kept"]


@needs_debian
def test_no_two_jobs_draw_the_same_from_debians_packages(serve, tmp_path):
    assert_all_differ(parked(serve(policy(tmp_path, kept=KEPT) + runtime("debian", "numpy"))))


USES = {
    "describe": "import numpy, pandas\nprint(pandas.DataFrame({'a': numpy.arange(5)}).describe()['a']['mean'])",
    "time_zone": "import pandas\nprint(pandas.Timestamp('2024-07-01', tz='Europe/Berlin').utcoffset())",
    "linear_algebra": "import numpy\nprint(numpy.linalg.solve([[2.0, 0], [0, 4]], [2, 4]).tolist())",
    "png": "import matplotlib.pyplot as p\np.plot([1, 2]); p.title('t'); p.savefig('x.png')\n"
           "print(open('x.png', 'rb').read(4), p.get_backend().lower(), p.get_fignums())",
    "prelude": "set_result(1)\nprint(callable(install_package))",
    "one_thread": "import numpy, os\na = numpy.ones((600, 600)); a @ a\nprint(os.listdir('/proc/self/task').__len__())",
}


@needs_debian
def test_the_runtime_that_is_shipped_as_an_example(serve):
    """What programs say is the same with an interpreter of their own, which a variable that numpy reads when it is loaded asks for."""
    shipped = (ROOT / "config/server.textproto").read_text()
    text = re.sub("^# ?", "", shipped[shipped.index("# runtime {"):], flags=re.M)
    server = parked(serve(text.replace('name: "python-data"', 'name: "data"')))
    for name, code in USES.items():
        code += "\nprint(open('/proc/self/cmdline').read().split(chr(0))[2])"
        warm, cold = execute(server, code), execute(server, code, env={"NPY_OTHER": "1"})
        assert warm[:-1] == cold[:-1] and (warm[-1], cold[-1]) == ("/proc/self/fd/9", "/immure/main.py"), name
    shown = {row["name"]: row["version"] for row in next(
        row for row in call(server, "GET", "/runtimes").json["runtimes"] if row["name"] == "data")["packages"]}
    assert {"numpy", "pandas", "matplotlib"} <= set(shown)


def test_they_are_in_the_jobs_of_their_runtime(serve, tmp_path, environment):
    """Whatever the policy; not in those of another runtime that has the same one. Never where a job could write to them."""
    over = f'mount {{ destination: "{environment}" tmpfs {{ }} read_only: false }}'
    config = policy(tmp_path) + runtime(environment, "numpy").replace('policy: "data"', 'policy: "python"')
    (tmp_path / "policies/over.textproto").write_text(f'name: "over" use: "python" {over}')
    server = serve(config)
    seen = f"try:\n    open('{environment}/pyvenv.cfg')\n    print(True)\nexcept OSError: print(False)"
    assert execute(server, seen) == execute(server, seen, policy="strict") == ["True"]
    for policy_name in "python", "data", "strict":
        assert server.execute(seen, runtime="python", policy=policy_name)["stdout"] == "False\n"
    reply = call(server, "POST", "/execute", {"code": "1", "runtime": "data", "policy": "over"})
    assert reply.status == 400 and "where jobs under the policy over can write" in reply.json["error"], reply.body


WRITABLE = """
import os, sys
bad = []
for top in [p for p in sys.path if p.endswith('-packages')] + ['/usr/share/matplotlib', '/etc/matplotlibrc', '/etc/alternatives']:
    for directory, names, files in os.walk(top):
        bad += [path for path in [directory] + [os.path.join(directory, name) for name in files] if os.access(path, os.W_OK)]
# What is mounted over something hides it: a job's procfs that of its template.
mounts = dict(line.split()[4:6] for line in open('/proc/self/mountinfo'))
print(bad + [place for place in mounts if 'rw' in mounts[place].split(',') and place not in ('/tmp', '/workspace', '/dev/shm')])
"""


def assert_nothing_is_writable(server):
    """Neither where the interpreter was started before, nor in one that a variable makes start for the job."""
    for environment in {}, {"PYTHONHASHSEED": "1"}:
        assert execute(server, WRITABLE, env=environment) == ["[]"]


@needs_debian
def test_nothing_of_debians_packages_is_writable(serve, tmp_path):
    assert_nothing_is_writable(parked(serve(policy(tmp_path) + runtime("debian", "numpy", "matplotlib"))))


def test_nothing_of_a_virtual_environment_is_writable(serve, tmp_path, environment):
    assert_nothing_is_writable(parked(serve(policy(tmp_path) + runtime(environment, "numpy"))))


@pytest.mark.parametrize("code, why", [
    ("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()", "the imported modules have started threads"),
    ("file = open('/etc/passwd')", "left: it leaves descriptors open, which jobs would not have"),
    ("import numpy\nsequence = numpy.random.SeedSequence()", "numpy.random: a module keeps a SeedSequence"),
    ("raise OSError('no')", "left: OSError('no')"),
])
@needs_debian
def test_what_cannot_be_forked_is_refused_with_the_reason(serve, tmp_path, code, why):
    server = serve(policy(tmp_path, left=code) + runtime("debian", "numpy"))
    wait_for(lambda: "event=template_failed runtime=data" in server.log(), "the template's end")
    assert why in server.log()
    assert execute(server, "print(1)") == ["1"]

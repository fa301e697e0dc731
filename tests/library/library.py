"""CPython's own tests in jails: `library.py POLICY [POLICY...]` tells in which two policies differ, `IMMURE:POLICY` under which two
builds (Debian: libpython3.11-testsuite).

A test that needs a network fails in both. What takes long or hangs is ended with its module, and the rest of that module is tried
class by class."""

import argparse
import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = Path("/usr/lib/python3.11/test")
ASYNCIO = [f"asyncio.{path.stem}" for path in sorted(TESTS.glob("test_asyncio/test_*.py")) if "windows" not in path.stem]
MODULES = ["tempfile", "threadedtempfile", "signal", "threadsignals", "threading", "thread", "threading_local", "select", "selectors",
           "epoll", "subprocess", "socket", "socketserver", "ssl", "httpservers", "fcntl", "mmap", "posix", "os",
           *ASYNCIO, "multiprocessing_fork", "multiprocessing_spawn", "multiprocessing_forkserver", "multiprocessing_main_handling"]
TIMEOUT_MS = 150000

LIST = """
import sys, unittest
def classes(suite):
    for test in suite:
        yield from classes(test) if isinstance(test, unittest.TestSuite) else [f"{type(test).__module__}.{type(test).__qualname__}"]
for name in sys.argv[1:]: print(*dict.fromkeys(classes(unittest.defaultTestLoader.loadTestsFromName(name))))
"""


def qualified(module):
    return "test.test_" + module


def run(immure, policy, names, timeout_ms=TIMEOUT_MS, options=("--cgroup", "best-effort")):
    """-> ({test: outcome}, the verdict, whether all were run)"""
    with tempfile.NamedTemporaryFile() as report:
        done = subprocess.run(
            [immure, "run", "--policy", policy, "--timeout", str(timeout_ms), "--report", report.name, *options,
             "--file", f"suite.py={HERE / 'suite.py'}", "--", "/usr/bin/python3.11", "suite.py", *names],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        verdict = json.load(open(report.name))
    outcomes = collections.defaultdict(set)
    for outcome, test in re.findall(r"^= (\w+) (\S+)", done.stdout, re.M):
        outcomes[re.sub(r" object at 0x\w+", "", test)].add(outcome)
    worst = {test: min(found) for test, found in outcomes.items()}  # of its parts: "failed" before "passed"
    return worst, verdict, "\n= end\n" in "\n" + done.stdout


def classes_of(module):
    done = subprocess.run(["/usr/bin/python3.11", "-c", LIST, qualified(module)], capture_output=True, text=True)
    return done.stdout.split()


def run_module(immure, policy, module, **options):
    """-> ({test: outcome}, {system call: refused how often})"""
    outcomes, verdict, complete = run(immure, policy, [qualified(module)], **options) if "multi" not in module else ({}, {}, False)
    denied = collections.Counter()
    verdicts = [verdict] if complete else []
    for name in [] if complete else classes_of(module):
        of_class, verdict, complete = run(immure, policy, [name], timeout_ms=40000, **options)
        outcomes.update(of_class)
        verdicts.append(verdict)
        if not complete:
            outcomes[name] = "not finished"
    for verdict in verdicts:
        for row in verdict["denied_syscalls"]:
            denied[row["name"]] += row["count"]
    return outcomes, denied


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("way", nargs="+", help="[IMMURE:]POLICY")
    parser.add_argument("--module", action="append")
    parser.add_argument("--json", help="write what was found there")
    arguments = parser.parse_args()
    found = [{} for _ in arguments.way]
    for module in arguments.module or MODULES:
        rows = []
        for way, outcomes in zip(arguments.way, found):
            immure, _, policy = way.rpartition(":")
            of_module, denied = run_module(immure or "build/immure", policy, module)
            outcomes.update(of_module)
            counts = collections.Counter(of_module.values())
            rows.append(f"{dict(counts)} denied {dict(denied)}")
        print(module, *rows, sep="\n    ", flush=True)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(found))
    differ = {test for outcomes in found[1:] for test in {*outcomes, *found[0]} if outcomes.get(test) != found[0].get(test)}
    for test in sorted(differ):
        print("differs:", test, *(outcomes.get(test) for outcomes in found))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

"""What `scripts/bench --against DIRECTORY` measures: this build and another, taking turns in one run, so that what the machine does
beside it hits both alike. The other's rows are the bases of this one's; against.json has the form that report.py describes."""

import collections
import contextlib
import shutil
import statistics

import measure
from report import Report

WORSE_MAX = 1.05
STEM = "against"


class AgainstReport(Report):
    """No worse by more than five per cent, in every row."""

    def judge(self):
        for row in self.rows.values():
            row["target"] = f"ratio <= {WORSE_MAX}" if row["base"] else None
        self.judge_rows()

    def write(self):
        self.judge()
        self.write_document(STEM)
        (self.directory / f"{STEM}.md").write_text("\n".join(["# This build against another", "", *self.table(self.rows.values())]) + "\n")


def subjects_of(bench, stack, name):
    """-> what this build is asked to do: its label, and the stopwatch's words"""
    ways = ("pool", "off") if bench.warm else ("off",)
    servers = {way: stack.enter_context(bench.server(f"against-{name}-{way}", way)) for way in ways}
    subjects = {"true.immure_run": ["spawn", *bench.run, *measure.TRUE]}
    for workload, code in measure.WORKLOADS.items():
        for way, server in servers.items():
            path = bench.request(server, f"against-{name}-{workload}-{way}", code=code)
            subjects[f"{workload}.post_{way}"] = ["http", str(server.port), path]
    if shutil.which("node"):
        path = bench.request(servers[bench.best()], f"against-{name}-node", code="setResult(1)", runtime="node")
        subjects[f"node.post_{bench.best()}"] = ["http", str(servers[bench.best()].port), path]
    return subjects


def take_turns(bench, ours, its, labels, pause_ms):
    """-> every label's times. Who comes after something heavy is slower for it: so each build goes first in every second race."""
    times = collections.defaultdict(list)
    for pair in ((("", ours), ("other.", its)), (("other.", its), ("", ours))):
        turns = {prefix + label: words[label] for label in labels for prefix, words in pair}
        for subject in measure.race(bench, turns, pause_ms):
            times[subject["label"]] += measure.milliseconds(subject["ns"])
    return times


def compare(bench, other):
    """`other`: a Bench of the other build, which writes where this one does."""
    with contextlib.ExitStack() as stack:
        ours, its = subjects_of(bench, stack, "this"), subjects_of(other, stack, "other")
        labels = [label for label in ours if label in its]
        times = {}
        for pause_ms, slow in ((measure.PAUSE_MS, False), (measure.NODE_PAUSE_MS, True)):
            times |= take_turns(bench, ours, its, [label for label in labels if label.startswith("node.") is slow], pause_ms)
    for label in labels:
        bench.report.add(f"other.{label}", statistics.median(times[f"other.{label}"]), "ms")
        bench.report.add(label, statistics.median(times[label]), "ms", f"other.{label}")

"""What `scripts/bench --against DIRECTORY` measures: this build and another, taking turns in one run, so that what the machine does
beside it hits both alike. The other's rows are the bases of this one's; against.json has the form that report.py describes."""

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


def compare(bench, other):
    """`other`: a Bench of the other build, which writes where this one does."""
    with contextlib.ExitStack() as stack:
        ours, its = subjects_of(bench, stack, "this"), subjects_of(other, stack, "other")
        labels = [label for label in ours if label in its]
        turns = {}
        for label in labels:
            turns[label], turns[f"other.{label}"] = ours[label], its[label]
        quick = {label: words for label, words in turns.items() if "node." not in label}
        slow = {label: words for label, words in turns.items() if "node." in label}
        results = [*measure.race(bench, quick, measure.PAUSE_MS), *measure.race(bench, slow, measure.NODE_PAUSE_MS)]
    medians = {subject["label"]: statistics.median(measure.milliseconds(subject["ns"])) for subject in results}
    for label in labels:
        bench.report.add(f"other.{label}", medians[f"other.{label}"], "ms")
        bench.report.add(label, medians[label], "ms", f"other.{label}")

"""`scripts/bench --quick`: every row is there and says what it should. What the figures are is no matter here."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from harness import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tests/bench"))

from report import TARGETS  # noqa: E402

END_S = 1200


@pytest.fixture(scope="module")
def results():
    done = subprocess.run([ROOT / "scripts/bench", "--quick", BUILD], capture_output=True, text=True, timeout=END_S)
    assert done.returncode == 0, done.stderr
    document = json.loads((BUILD / "bench/results.json").read_text())
    document["rows"] = {row["name"]: row for row in document["rows"]}
    document["printed"] = done.stdout
    return document


def test_rows_are_complete(results):
    for row in results["rows"].values():
        assert set(row) == {"name", "value", "unit", "base", "ratio", "target", "met"}
        # That is a difference: so few rounds, on a busy machine, may make it anything.
        if row["value"] is None and row["name"] == "floor.bwrap":
            continue
        assert (row["value"] > 0 or row["name"] == "true.immure_run_extra") and row["unit"], row


def test_ratios_are_of_the_values(results):
    rows = results["rows"]
    compared = [row for row in rows.values() if row["base"]]
    assert len(compared) > 20
    for row in compared:
        assert row["ratio"] == pytest.approx(row["value"] / rows[row["base"]]["value"])


def test_targets_are_judged(results):
    for name in TARGETS:
        row = results["rows"][name]
        if row["value"] is None and name == "floor.bwrap":
            assert row["met"] is None and any("bubblewrap" in said or "bwrap" in said for said in results["left_out"])
            continue
        field, operator, bound = row["target"].split()
        assert row["met"] is (row[field] <= float(bound) if operator == "<=" else row[field] >= float(bound)), row


def test_everybody_takes_part(results):
    for workload in ("print", "stdlib"):
        for subject in ("bare", "unshare", "immure_run", "bare_ready", "post_ready", "post_pool", "post_template", "post_off"):
            assert f"{workload}.{subject}" in results["rows"]
    for subject in ("bare", "unshare", "immure_run"):
        assert f"true.{subject}" in results["rows"]
    for clients in (1, 2, 4, 16, 64):
        assert f"throughput.clients_{clients}" in results["rows"]


def test_the_start_of_immure_itself_is_told(results):
    assert results["rows"]["true.immure_version"]["base"] == "true.bare"


def test_what_the_kernel_takes_for_a_jail_is_told(results):
    rows = results["rows"]
    assert rows["floor.immure_run"]["base"] == "floor.true"
    for clients in (2, 4):
        assert rows[f"floor.clients_{clients}"]["base"] == f"floor.fork_{clients}"


def test_sleeping_jobs_all_answer(results):
    assert results["rows"]["sleepers.answered"]["value"] == results["settings"]["sleepers"]


def test_the_report_has_every_row_and_says_what_is_left_out(results):
    report = (BUILD / "bench/report.md").read_text()
    for name in results["rows"]:
        assert f"| {name} |" in report and name in results["printed"]
    for sentence in results["left_out"]:
        assert sentence in report


def test_against_another_build(tmp_path):
    """The other one is a copy of this, that anybody may have made anywhere."""
    for program in ("immure", "immure-front", "immure-python.so"):
        if (BUILD / program).exists():
            shutil.copy2(BUILD / program, tmp_path)
    done = subprocess.run([ROOT / "scripts/bench", "--quick", "--against", tmp_path, BUILD], capture_output=True, text=True, timeout=END_S)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads((BUILD / "bench/against.json").read_text())["rows"]}
    assert {"true.immure_run", "print.post_pool", "print.post_off", "stdlib.post_pool", "stdlib.post_off"} <= set(rows)
    for name, row in rows.items():
        if name.startswith("other."):
            assert row["value"] > 0 and row["target"] is None
        else:
            assert row["base"] == f"other.{name}" and row["ratio"] == pytest.approx(row["value"] / rows[row["base"]]["value"])
            assert row["met"] is (row["ratio"] <= 1.05) and name in done.stdout


def test_a_missing_tool_is_named_with_its_package(tmp_path):
    """Only the lookup: nothing is measured for it."""
    code = """if True:
        import types, measure
        measure.contest = lambda *_: None
        measure.SECTIONS = ()
        report = types.SimpleNamespace(leave_out=print)
        bench = types.SimpleNamespace(have=set(measure.TOOLS) - {"bwrap", "gnuplot"}, report=report)
        measure.all_of_it(bench, None, lambda _: None)
    """
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "tests/bench")])
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=path), capture_output=True, text=True)
    assert done.stdout == "the comparison with bubblewrap; the plots (for which: apt-get install bubblewrap gnuplot-nox)\n", done.stderr

"""The page of approvals, in a browser: what waits, the whole of a job, the decision."""

import hashlib

from approvals import KEYS, decide, look, settled, submitted
from conftest import BOSS
from harness import PATIENCE

CODE = "import os\n\nprint(os.getcwd())\n"


def test_a_job_is_approved(server, tab):
    approval = submitted(server, CODE, files=[{"name": "in.txt", "content": "of the file\n"}], stdin="of the input\n", args=["--fast"])
    page = tab(BOSS)
    page.until(f"document.querySelector('a[href$=\"{approval}\"]')")
    row = page.evaluate(f"document.querySelector('a[href$=\"{approval}\"]').closest('tr').textContent")
    assert "import os" in row and "caller" in row and "held" in row and "python" in row
    page.evaluate(f"document.querySelector('a[href$=\"{approval}\"]').click()")
    page.until("document.querySelector('button[name=approve]:enabled')")
    text = page.text()
    for part in ("caller", "t", "held", "--fast", "of the file", "of the input", "in.txt", hashlib.sha256(CODE.encode()).hexdigest(), look(server, approval).json["job_sha256"],
                 "What the policy gives", "Networknone", "the same as when the job was submitted"):
        assert part in text, part
    lines = page.evaluate("[...[...document.querySelectorAll('.listing')].pop().querySelectorAll('.line')].map(line => line.textContent)")
    assert lines == ["1import os", "2", "3print(os.getcwd())"]
    page.press("Approve")
    page.until_text("You have approved it.")
    assert settled(server, approval)["outcome"] == "success"
    page.until_text("It was approved, and has run.")


def test_a_job_is_rejected_with_a_reason_by_the_keyboard(server, tab):
    approval = submitted(server, CODE)
    page = tab(KEYS["approver"], f"#approvals/{approval}")
    page.until("document.querySelector('button[name=reject]:enabled')")
    page.evaluate("document.querySelector('[name=reason]').focus()")
    page.call("Input.insertText", text="reads <b>too</b> much")
    page.key("Tab")
    page.key("Tab")
    assert page.evaluate("document.activeElement.name") == "reject"
    page.key("Enter", text="\r")
    page.until_text("You have rejected it.")
    page.until_text("It was rejected.")
    told = look(server, approval).json
    assert (told["status"], told["decided_by"], told["reason"]) == ("rejected", "approver", "reads <b>too</b> much")
    page.until_text("Reason: reads <b>too</b> much")


def test_the_queue_is_kept_up_to_date(server, tab):
    page = tab(KEYS["approver"])
    page.until("document.querySelector('main table, main p')")
    approval = submitted(server, CODE)
    page.until(f"document.querySelector('a[href$=\"{approval}\"]')")
    assert decide(server, approval, "reject").status == 200
    page.until(f"!document.querySelector('a[href$=\"{approval}\"]')")


def test_two_approvers_make_one_decision(server, tab):
    """The second is told, whichever way it hears of it first."""
    approval = submitted(server, CODE)
    page = tab(KEYS["approver"])
    # The other one is faster, and this page has not asked again for what waits: its own decision is refused.
    page.evaluate("window.real = window.fetch; window.fetch = (url, init) => String(url).endsWith('/approvals') ? new Promise(() => {}) : real(url, init)")
    page.evaluate(f"location.hash = '#approvals/{approval}'")
    page.until("document.querySelector('button[name=reject]:enabled')")
    assert decide(server, approval, "approve").status == 200
    page.press("Reject")
    page.until_text("Your decision came too late.")
    page.until_text("Decided by approver.")
    assert look(server, approval).json["status"] in ("approved", "running", "done")
    assert page.evaluate("[...document.querySelectorAll('button[name]')].every(button => button.disabled)")


def test_a_decision_elsewhere_is_seen(server, tab):
    approval = submitted(server, CODE)
    page = tab(KEYS["approver"], f"#approvals/{approval}")
    page.until("document.querySelector('button[name=reject]:enabled')")
    assert decide(server, approval, "reject", reason="no").status == 200
    page.until_text("It was rejected. Decided by approver. Reason: no")
    page.until("[...document.querySelectorAll('button[name]')].every(button => button.disabled)")


def test_ten_thousand_lines_do_not_freeze_it(server, tab):
    """No task of the page takes long, and its last line is there."""
    approval = submitted(server, "".join(f"print({n})  # {'x' * 60}\n" for n in range(10000)))
    page = tab(KEYS["approver"])
    page.evaluate("window.longest = 0; new PerformanceObserver(list => list.getEntries().forEach(entry => { longest = Math.max(longest, entry.duration); }))"
                  ".observe({entryTypes: ['longtask']})")
    page.evaluate(f"location.hash = '#approvals/{approval}'")
    page.until("document.querySelector('button[name=approve]:enabled')", 60)
    assert page.evaluate("document.querySelectorAll('.listing .line').length") == 10000
    assert page.evaluate("[...document.querySelectorAll('.listing .number')].pop().textContent") == "10000"
    assert page.evaluate("longest") < PATIENCE * 2000
    assert decide(server, approval, "reject").status == 200


def test_a_long_line_is_folded(server, tab):
    approval = submitted(server, "x = '" + "é" * 100_000 + "'\nprint(len(x))\n")
    page = tab(KEYS["approver"], f"#approvals/{approval}")
    page.until("document.querySelector('button[name=approve]:enabled')")
    lines = page.evaluate("[...document.querySelectorAll('.listing .line')].map(line => [line.children[0].textContent, line.children[1].textContent.length])")
    assert lines[0] == ["1", 400] and lines[1] == [">", 400] and lines[-1] == ["2", 13]
    assert sum(length for _, length in lines[:-1]) == 100_006
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert decide(server, approval, "reject").status == 200


def test_a_key_that_is_no_approver_is_told(server, tab):
    page = tab(KEYS["caller"])
    page.until("document.querySelector('[role=alert]')")
    assert "approver" in page.text()

"""Texts of others on the page: shown, spelled out, and never run. (Each tab is held to it that no policy was violated.)"""

import base64
import json
import re
import subprocess

import hostile
import pytest
from approvals import KEYS, decide, look, submitted
from conftest import BOSS
from harness import ROOT


def assert_harmless(page, texts=hostile.STRINGS, selector="main"):
    """The texts are there, as text alone."""
    there = page.text(selector)
    squeezed = re.sub(r"\s+", " ", there)
    for text in texts:
        assert re.sub(r"\s+", " ", hostile.ascii_part(text)) in squeezed, text
    assert not [char for char in hostile.UNSEEN if char in there]
    assert page.evaluate("window.pwned === undefined")
    assert page.evaluate("document.querySelectorAll('main script, main iframe, main object, main embed, main link, main style, main base, main meta, main marquee, "
                         "main [onerror], main [onload], main b, main math, main form[action]').length") == 0
    assert page.evaluate("[...document.querySelectorAll('a[href]')].every(one => one.getAttribute('href').startsWith('#') || one.href.startsWith('blob:'))")
    assert page.evaluate("[...document.querySelectorAll('*')].every(one => !one.getAttributeNames().some(name => name.startsWith('on')))")


def test_there_are_enough_of_them():
    assert len(set(hostile.STRINGS)) >= 60


def test_a_hostile_job_is_shown(server, tab):
    """As code, in files, their names, arguments, variables, input; and the queue has its first line."""
    names = [text.replace("/", "|").replace("\0", "")[:80] for text in hostile.STRINGS if ".." not in text and len(text.encode()) < 200]
    approval = submitted(server, "\n".join(hostile.STRINGS), args=hostile.STRINGS, stdin="\n".join(hostile.STRINGS),
                         files=[*({"name": name, "content": name} for name in names), {"name": "nul", "data": base64.b64encode(b"a\0b\xff\n").decode()}])
    page = tab(BOSS)
    page.until(f"document.querySelector('a[href$=\"{approval}\"]')")
    assert_harmless(page, hostile.STRINGS[:1])
    page.evaluate(f"location.hash = '#approvals/{approval}'")
    page.until("document.querySelector('button[name=approve]:enabled')")
    assert_harmless(page)
    assert_harmless(page, names)
    told = page.text()
    for spelled in [*hostile.SPELLED, "<U+0000>"]:
        assert spelled in told, spelled
    # Spelled out, not written by the program: they are marked.
    assert page.evaluate("[...document.querySelectorAll('.spelled')].some(one => one.textContent === '<U+202E>')")
    assert decide(server, approval, "reject").status == 200


def test_hostile_first_lines_are_shown_in_the_queue(server, tab):
    held = [submitted(server, text + "\nprint(1)") for text in hostile.STRINGS[-10:]]
    page = tab(KEYS["approver"])
    page.until(f"document.querySelector('a[href$=\"{held[-1]}\"]')")
    assert_harmless(page, hostile.STRINGS[-10:])
    for approval in held:
        assert decide(server, approval, "reject").status == 200


def test_hostile_reasons_and_errors_are_shown(server, tab):
    for reason in (hostile.STRINGS[0], "abc\u202etxt"):
        approval = submitted(server)
        assert decide(server, approval, "reject", reason=reason).status == 200
        assert look(server, approval).json["reason"] == reason
        page = tab(KEYS["approver"], f"#approvals/{approval}")
        page.until_text("It was rejected.")
        assert_harmless(page, [reason])
    page = tab(KEYS["approver"], "#approvals/" + "%3Cimg%20src=x%20onerror='window.pwned=1'%3E%E2%80%AE")
    page.until("document.querySelector('[role=alert]')")
    assert_harmless(page, [])
    # Whatever stands for the server: an error with markup in it.
    for message in hostile.STRINGS:
        body = json.dumps({"error": message, "code": "x", "field": None})
        page.evaluate(f"window.fetch = async () => new Response({json.dumps(body)}, {{status: 500}}); location.hash = '#approvals/{hostile.STRINGS.index(message)}'")
        page.until(f"document.querySelector('[role=alert]') && document.querySelector('[role=alert]').textContent.includes({json.dumps(hostile.ascii_part(message))})")
    assert page.evaluate("window.pwned === undefined")


@pytest.mark.parametrize("key", ["", "no such key", "clé", "k\u202e", "a" * 300, "wrong"])
def test_wrong_keys_are_told(tab, key):
    page = tab()
    page.fill("key", key)
    page.press("Sign in")
    page.until("document.querySelector('[role=alert]')")
    assert "The server does not know this key." in page.text() or "A key has letters" in page.text()
    assert page.evaluate("document.querySelector('nav') === null")


def test_it_spells_out_what_immure_approve_does(tmp_path):
    """Each character up to U+1FFFF, by itself and between letters: the page's table is the command's."""
    table = {}
    rows = re.findall(r"\{0x([0-9a-f]+), 0x([0-9a-f]+), LOOKS_(\w+)\}", (ROOT / "server/cli/shown_text.c").read_text())
    for first, last, looks in rows:
        table.update(dict.fromkeys(range(int(first, 16), int(last, 16) + 1), looks))
    assert len(rows) > 50
    program = tmp_path / "all.mjs"
    program.write_text(f"import {{shownText}} from {json.dumps(str(ROOT / 'server/console/shown.js'))};\n"
                       "const found = [];\nfor (let code = 0; code < 0x20000; code++) {\n  const char = String.fromCodePoint(code);\n"
                       "  found.push([shownText(char) === char, shownText(`Д${char}Ж`).includes(char), shownText(`a${char}`).includes(char)].map(Number).join(''));\n}\n"
                       "console.log(found.join(' '));\n")
    (tmp_path / "package.json").write_text("{}")
    done = subprocess.run(["node", "--experimental-default-type=module", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for code, found in enumerate(done.stdout.split()):
        looks = table.get(code) if code >= 0x80 else "PLAIN" if 0x20 <= code < 0x7f else None
        if code in (0x414, 0x416):
            continue  # the neighbours themselves
        assert found == {"PLAIN": "111", "OWN": "110", "FOREIGN": "010", None: "000"}[looks], hex(code)

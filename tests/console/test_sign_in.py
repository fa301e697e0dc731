"""Who is signed in, and what is kept of the key."""

import contextlib

import pytest
from approvals import KEYS
from conftest import configured, sign_in

import harness
from harness import config_key, wait_for


@pytest.fixture
def own_server(tmp_path):
    """A server with a file of keys, which a test may change. -> it and the file"""
    keys = tmp_path / "keys.textproto"
    keys.write_text(config_key("temp", "ktemp").replace(" }", " approver: true }"))
    before, harness.NODE = harness.NODE, "off"
    with contextlib.ExitStack() as stack:
        started = stack.enter_context(configured(tmp_path, f'key_file: "{keys}"\n'))
        harness.NODE = before
        yield started, keys


def test_a_revoked_key_is_signed_out_with_a_sentence(own_server, tab):
    server, keys = own_server
    page = tab("ktemp", at=server)
    page.until("document.querySelector('main table, main p') && !document.body.textContent.includes('Loading')")
    keys.write_text("")
    wait_for(lambda: server.request("GET", "/runtimes", headers={"X-Service-API-Key": "ktemp"}).status == 401, "the reload")
    page.until_text("You have been signed out: the server takes this key no more.")
    assert page.evaluate("document.querySelector('nav') === null && sessionStorage.length === 0 && document.querySelector('[name=key]').value === ''")


def reload(page):
    page.evaluate("window.before = true")
    page.call("Page.reload")
    page.until("window.before === undefined && document.readyState === 'complete' && document.querySelector('main h1')")


def test_the_key_is_gone_when_the_page_is_loaded_again(tab):
    page = tab(KEYS["approver"])
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0 and page.evaluate("document.cookie") == ""
    reload(page)
    assert page.evaluate("document.querySelector('[name=key]') !== null")


def test_the_key_is_kept_in_the_tab_where_its_user_says_so(tab):
    page = tab()
    page.evaluate("document.querySelector('[name=keep]').click()")
    sign_in(page, KEYS["approver"])
    reload(page)
    assert page.evaluate("document.querySelector('nav') !== null")
    assert page.evaluate("localStorage.length") == 0 and page.evaluate("document.cookie") == ""
    page.press("Sign out", "header")
    page.until_text("You have signed out.")
    assert page.evaluate("sessionStorage.length") == 0
    reload(page)
    assert page.evaluate("document.querySelector('nav') === null")


def test_the_key_is_in_no_address_and_its_field_is_a_password(tab):
    page = tab()
    assert page.evaluate("document.querySelector('[name=key]').type") == "password"
    sign_in(page, KEYS["approver"])
    assert KEYS["approver"] not in page.evaluate("location.href")
    urls = [event["params"]["request"]["url"] for event in page.browser.events if event["method"] == "Network.requestWillBeSent" and event.get("sessionId") == page.session]
    assert urls and not [url for url in urls if KEYS["approver"] in url.rpartition("/ui/")[2]]

"""A headless Chromium that is told what to do over two pipes, in its own protocol (Chrome DevTools): no driver and no port between."""

import itertools
import json
import os
import select
import shutil
import subprocess
import time

from harness import PATIENCE, wait_for

CHROMIUM = shutil.which("chromium")
# The sandbox of Chromium does not start as root. What runs here is our own page.
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe", "about:blank"]
REPLY_S = 60


class Browser:
    def __init__(self, directory):
        self.ids, self.events, self.buffered = itertools.count(1), [], b""
        read_by_it, self.write_end = os.pipe()
        self.read_end, written_by_it = os.pipe()
        with open(directory / "chromium.log", "wb") as log:
            # It reads from descriptor 3, and writes to 4.
            self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{read_by_it} 4>&{written_by_it}', "bash", CHROMIUM,
                                             f"--user-data-dir={directory}/profile", *ARGUMENTS], pass_fds=(read_by_it, written_by_it),
                                            env={**os.environ, "HOME": str(directory)}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(read_by_it)
        os.close(written_by_it)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.send("Browser.close")
        except OSError:
            pass
        try:
            self.process.wait(PATIENCE * REPLY_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)

    def send(self, method, session=None, **params):
        message = {"id": next(self.ids), "method": method, "params": params, **({"sessionId": session} if session else {})}
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.write_end, rest):]
        return message["id"]

    def receive(self, deadline):
        while b"\0" not in self.buffered:
            ready, _, _ = select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self.read_end, 1 << 20)
            assert data, "Chromium has ended"
            self.buffered += data
        message, _, self.buffered = self.buffered.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **params):
        number, deadline = self.send(method, session, **params), time.monotonic() + PATIENCE * REPLY_S
        while (message := self.receive(deadline)).get("id") != number:
            self.events.append(message)
        assert "error" not in message, (method, message)
        return message["result"]

    def page(self, url):
        """-> a tab of its own, with `url` loaded"""
        return Page(self, url)


class Page:
    def __init__(self, browser, url):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        # What no test may see: told to whoever asks, in every document of this tab.
        self.call("Page.addScriptToEvaluateOnNewDocument", source="window.violations = []; document.addEventListener('securitypolicyviolation', "
                  "event => violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));")
        self.go(url)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def evaluate(self, expression):
        """-> the value of an expression of JavaScript, awaited"""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in done, (expression, done["exceptionDetails"])
        return done["result"].get("value")

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && document.querySelector('main h1')")

    def until(self, expression, seconds=30):
        """Waits until it is true. What it reads may not be there yet."""
        truth = f"(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        try:
            wait_for(lambda: self.evaluate(truth), expression, seconds)
        except AssertionError:
            print(self.text("body"), *self.complaints(), sep="\n")
            raise

    def text(self, selector="main"):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def until_text(self, text, selector="main", seconds=30):
        self.until(f"document.querySelector({json.dumps(selector)})?.textContent.includes({json.dumps(text)})", seconds)

    def fill(self, name, value):
        self.evaluate(f"(() => {{ const field = document.querySelector('[name=\"{name}\"]'); field.value = {json.dumps(value)}; "
                      "field.dispatchEvent(new Event('input', {bubbles: true})); field.dispatchEvent(new Event('change', {bubbles: true})); })()")

    def press(self, text, inside="main"):
        """Presses the button of that text, once it is there and can be pressed."""
        button = f"[...document.querySelectorAll('{inside} button')].find(one => one.textContent === {json.dumps(text)} && !one.disabled)"
        self.until(button + " !== undefined")
        self.evaluate(button + ".click()")

    def key(self, key, code=None, text=None):
        """One key of the keyboard."""
        params = {"key": key, "code": code or key, **({"text": text} if text else {})}
        if key in ("Tab", "Enter"):
            params["windowsVirtualKeyCode"] = {"Tab": 9, "Enter": 13}[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", **params)
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def complaints(self):
        """What should never be: a violation of the content security policy, an error that nobody caught, a dialog, a request to elsewhere."""
        found = list(self.evaluate("window.violations"))
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Page.javascriptDialogOpening":
                found.append(f"a dialog: {params['message']}")
            elif event["method"] == "Log.entryAdded" and params["entry"]["source"] == "security":
                found.append(params["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                found += self.elsewhere(params["request"]["url"])
        return found

    def elsewhere(self, url):
        origin = self.evaluate("location.origin")
        return [] if url.startswith((origin + "/", "data:", "blob:", "about:")) else [f"a request to {url}"]

    def picture(self, path):
        """A screenshot."""
        import base64
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

"""Drives a real Chromium without a window, through DevTools messages on a pair of pipes; nothing but
the browser is needed.

    with Chromium(tmp_path) as browser:
        browser.open(page.as_uri())
        browser.value("document.title")
        browser.key("ArrowRight")
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# name: (code, key code, text)
KEYS = {
    "Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), " ": ("Space", 32, " "),
    "ArrowLeft": ("ArrowLeft", 37, ""), "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""), "ArrowDown": ("ArrowDown", 40, ""),
    "Home": ("Home", 36, ""), "End": ("End", 35, ""),
}


def find_chromium():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    def __init__(self, profile, path=None):
        # The browser reads file descriptor 3 and writes 4.
        to_browser, self.out = os.pipe()
        self.inn, from_browser = os.pipe()
        shell = f"exec 3<&{to_browser} 4>&{from_browser}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "-", path or find_chromium(), "--headless=new",
             "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        os.close(self.inn)
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _receive(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.inn], [], [], max(0, deadline - time.time()))[0]:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self.inn, 1 << 20)
            if not piece:
                raise EOFError("Chromium has ended")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, timeout=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.time() + timeout
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        """Of a JavaScript expression; a promise is waited for."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait_for(self, expression, seconds=20):
        deadline = time.time() + seconds
        while not self.value(expression):
            assert time.time() < deadline, f"in vain waited for {expression}"
            time.sleep(0.02)

    def open(self, address, ready="document.documentElement?.dataset.ready === 'true'"):
        self.send("Page.navigate", url=address)
        self.wait_for(ready)

    def size(self, width, height, mobile=False, dark=False, still=True):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def key(self, name, times=1):
        code, number, text = KEYS.get(name) or (f"Key{name.upper()}", ord(name.upper()), name)
        for _ in range(times):
            event = {"key": name, "code": code, "windowsVirtualKeyCode": number}
            self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def click(self, selector):
        """A mouse click in the middle of an element, which is scrolled into view."""
        x, y = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self):
        """What went to the console, uncaught exceptions, and requests other than of the file itself."""
        self.value("0")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            if event["method"] == "Runtime.consoleAPICalled":
                found.append(str(params["args"]))
            if event["method"] == "Log.entryAdded":
                found.append(params["entry"]["text"])
            if event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:", "about:")):
                    found.append(f"request of {url}")
        return found

    def screenshot(self, path, selector=None):
        options = {}
        if selector:
            options["clip"] = self.value(
                f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
                ".getBoundingClientRect(); return {x: b.left + scrollX, y: b.top + scrollY,"
                "width: b.width, height: b.height, scale: 1}; })()")
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True, **options)
        path.write_bytes(base64.b64decode(shot["data"]))

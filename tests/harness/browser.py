"""A headless Chromium, controlled by its DevTools protocol."""

import base64
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from websockets.sync.client import ClientConnection, connect

from graveler.base.clock import SystemClock

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 120.0


class Browser:
    """One tab of the browser.

    Attributes:
        said: The entries of its log since `Log.enable`.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.said: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=_PATIENCE))
            if answer.get("method") == "Log.entryAdded":
                self.said.append(answer["params"]["entry"])
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self.call("Runtime.evaluate", expression=script)["result"].get("value")

    def look(self, *, width: int, height: int, dark: bool) -> None:
        """Set the size of the window, and whether it is dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, url: str) -> None:
        """Load a page."""
        self.call("Page.navigate", url=url)

    def wait(self, condition: str, what: str) -> None:
        """Wait until an expression in the page is true."""
        deadline = monotonic() + _PATIENCE
        while not self.run(f"Boolean({condition})"):
            assert monotonic() < deadline, f"waited {_PATIENCE:.0f} s for {what}"
            SystemClock().sleep(0.3)

    def shoot(self, file: Path, *, of: str = "") -> None:
        """Take a picture of the window, or of the element that a selector names."""
        SystemClock().sleep(1)  # animations have ended
        part = {}
        if of:
            box = f"document.querySelector({json.dumps(of)}).getBoundingClientRect()"
            part = {"clip": {**json.loads(self.run(f"JSON.stringify({box})")), "scale": 1}}
        taken = self.call("Page.captureScreenshot", format="png", **part)
        file.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium with a new profile; it ends with the ``with`` block.

    Raises:
        SystemExit: Chromium is not installed.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        raise SystemExit(
            f"This takes pictures with Chromium, and there is none of {', '.join(_NAMES)} on "
            "the PATH. On Debian and Ubuntu: apt-get install chromium fonts-inter"
        )
    # Chromium's helpers may run a moment longer, and write into the profile during its removal.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",  # root in a container may have none; only local pages are loaded
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                "--no-proxy-server",
                "--remote-debugging-port=0",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with connect(_tab(Path(profile)), max_size=None, proxy=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            process.wait(30)


def _tab(profile: Path) -> str:
    """Wait until the tab listens; return its address."""
    deadline = monotonic() + _PATIENCE
    said = profile / "DevToolsActivePort"
    while not (said.exists() and said.read_text().count("\n")):
        assert monotonic() < deadline, "Chromium does not start"
        SystemClock().sleep(0.1)
    port = said.read_text().splitlines()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
        (tab,) = [each for each in json.load(answer) if each["type"] == "page"]
    return str(tab["webSocketDebuggerUrl"])

"""Takes the picture of graveler's metadata in Dagster: ``python -m tests.screenshots.of_dagster``."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import urlencode

import graveler
from graveler.base.clock import SystemClock
from graveler.config import environment
from tests.harness.browser import Browser, browser
from tests.harness.wires import free_port
from tests.real.airflow.home import ROOT

_KEYS = [f"2013-01-01-0{hour}:00" for hour in range(4)]
_DEFINITIONS = ROOT / "tests/screenshots/definitions.py"
_PATIENCE = 240

# runs the example's job once for each hour, in a persistent instance
_PROGRAM = """
import sys
import dagster as dg
from tests.real.dagster.programs.flights import load
defs = load(__import__("pathlib").Path(sys.argv[1])).defs
job = defs.resolve_job_def("flights_job")
with dg.DagsterInstance.get() as instance:
    for key in sys.argv[2:]:
        assert job.execute_in_process(instance=instance, partition_key=key).success
"""


def main() -> None:
    """Run some hours, and take a picture of what the last publish shows."""
    with browser() as tab, tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "dagster").mkdir()
        with graveler.open(home / "lake", create=True) as lake:
            lake.create_repository("flights").protection.add("main")
        command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(_DEFINITIONS), *_KEYS]
        subprocess.run(command, cwd=ROOT, env=_env(home), check=True, capture_output=True)
        with _webserver(home) as base:
            _take(tab, base, _KEYS[-1])


def _take(tab: Browser, base: str, key: str) -> None:
    tab.look(width=1440, height=1010, dark=False)
    query = urlencode({"view": "partitions", "partition": key})
    tab.go(f"{base}/assets/flights_publish?{query}")
    tab.wait("document.body?.innerText.includes('graveler/commit')", "the metadata of the asset")
    tab.wait(_PRESSED.format("Skip"), "the newsletter's button")
    tab.wait("!document.body.innerText.includes('Join the Dagster')", "the newsletter to go")
    _shoot(tab, "dagster-published")
    tab.wait(_PRESSED.format("[Show Markdown]"), "the plot's button")
    _shoot(tab, "dagster-plot", of="[role=dialog]")


_PRESSED = """
(() => {{
  const found = [...document.querySelectorAll("button, a, [role=button]")]
    .find((each) => each.innerText.trim() === "{}");
  found?.click();
  return found !== undefined;
}})()
"""


def _shoot(tab: Browser, name: str, *, of: str = "") -> None:
    file = ROOT / f"docs/images/{name}.png"
    tab.shoot(file, of=of)
    sys.stdout.write(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1000} kB\n")


def _env(home: Path) -> dict[str, str]:
    return {
        "PATH": environment("PATH"),
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
        "DAGSTER_HOME": str(home / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "GRAVELER_LAKE": str(home / "lake"),
        "NO_PROXY": "127.0.0.1",
    }


@contextmanager
def _webserver(home: Path) -> Iterator[str]:
    """Run Dagster's web server with the example; yield its address."""
    port = free_port()
    program = Path(sys.executable).with_name("dagster-webserver")
    process = subprocess.Popen(
        [str(program), "-f", str(_DEFINITIONS), "-p", str(port)],
        cwd=home,
        env=_env(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    base = f"http://127.0.0.1:{port}"
    try:
        deadline = monotonic() + _PATIENCE
        while not _up(base):
            assert monotonic() < deadline, f"waited {_PATIENCE} s for {program.name}"
            SystemClock().sleep(0.5)
        yield base
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # also the process with the code
        process.wait(60)


def _up(base: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{base}/server_info", timeout=10) as answer:
            return "dagster_version" in json.load(answer)
    except (OSError, urllib.error.URLError):
        return False


if __name__ == "__main__":
    main()

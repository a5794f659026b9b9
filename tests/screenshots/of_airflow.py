"""Takes the pictures of graveler's pages in Airflow: ``python -m tests.screenshots.of_airflow``."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import graveler
from tests.harness.browser import Browser, browser
from tests.harness.wires import free_port
from tests.real.airflow.home import AIRFLOW, ROOT, Api, Home

DAG = "departures"
FIRST, LAST = "2013-01-01T05:00:00Z", "2013-01-01T07:00:00Z"
WIDTH = 1280
_PAGE = "document.querySelector('iframe')?.contentDocument"


def main() -> None:
    """Run three hours, of which one is refused, and take pictures of the result."""
    with browser() as tab, tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder), free_port())
        home.dags.mkdir()
        shutil.copy(ROOT / "tests/screenshots/dag.py", home.dags / f"{DAG}.py")
        with graveler.open(home.lake, create=True) as lake:
            lake.create_repository("flights").protection.add("main")
        home.run(AIRFLOW, "db", "migrate")
        with home.services() as api:
            api.sign_in()
            api.backfill(DAG, FIRST, LAST)
            states = api.finished(DAG, 3)
            assert sorted(states.values()) == ["failed", "success", "success"], states
            for backfill in api.call("GET", f"/api/v2/backfills?dag_id={DAG}")["backfills"]:
                api.call("PUT", f"/api/v2/backfills/{backfill['id']}/cancel")  # its runs are over
            runs = {run["partition_key"]: run["dag_run_id"] for run in api.runs(DAG)}
            _take(tab, home, api, runs)


def _take(tab: Browser, home: Home, api: Api, runs: dict[str, str]) -> None:
    base = f"http://127.0.0.1:{home.port}"
    token = api.call("GET", "/auth/token")["access_token"]
    tab.call("Network.setCookie", name="_token", value=token, url=base)
    of_run = f"{base}/dags/{DAG}/runs/{{}}/plugin/graveler-run".format
    pictures: list[tuple[str, str, int, bool, str]] = [
        ("airflow-published", of_run(runs["2013-01-01T07:00"]), 1020, False, ".run"),
        ("airflow-refused", of_run(runs["2013-01-01T06:00"]), 900, True, ".run"),
        ("airflow-runs", f"{base}/plugin/graveler", 440, False, "table"),
    ]
    for name, url, height, dark, there in pictures:
        tab.look(width=WIDTH, height=height, dark=dark)
        _theme(tab, base, dark=dark)
        tab.go(url)
        tab.wait(f"{_PAGE}?.querySelector({json.dumps(there)})", f"{there} of {url}")
        file = ROOT / f"docs/images/{name}.png"
        tab.shoot(file)
        _said(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1000} kB")


def _theme(tab: Browser, base: str, *, dark: bool) -> None:
    """Set Airflow's theme, which is kept in the browser."""
    tab.go(f"{base}/graveler/lakes.json")
    tab.wait(f"location.origin === {json.dumps(base)}", "Airflow's own origin")
    tab.run(f"localStorage.setItem('theme', {json.dumps('dark' if dark else 'light')})")


def _said(line: Any) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

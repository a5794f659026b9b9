"""Reads and writes a lake by Airflow's paths, and prints what it saw."""

import json
import sys
from typing import Any

from airflow.sdk import ObjectStoragePath
from airflow.sdk.serde import deserialize, serialize

import graveler
from graveler_airflow.assets import get_fs


def main(folder: str):
    with graveler.open(folder, create=True) as lake:
        flights = lake.create_repository("flights")
        flights.create_branch("dev")
        root = ObjectStoragePath("grav://stored@flights/dev/input/2026/11/20/15:00/")
        (root / "a.csv").write_text("a,b")
        yield "read", (root / "a.csv").read_text()
        yield "staged", [change.path for change in flights.branch("dev").uncommitted()]
        flights.branch("dev").commit("a file")
        commit = flights.commit("dev").id
        (root / "b.csv").write_text("b")
        yield "listed", sorted(path.name for path in root.iterdir())
        pinned = ObjectStoragePath(f"grav://stored@flights/{commit}/input/2026/11/20/15:00/")
        yield "pinned", [path.name for path in pinned.iterdir()]
        yield "found", [path.name for path in pinned.parent.rglob("*.csv")]
        try:
            (root / "c.csv").read_text()
        except FileNotFoundError:
            yield "missing", (root / "c.csv").exists()
        try:
            (pinned / "d.csv").write_text("no")
        except OSError as error:
            yield "read only", type(error).__name__
        travelled: Any = deserialize(json.loads(json.dumps(serialize(root / "a.csv"))))
        yield "travelled", travelled.read_text()
    given = get_fs(None, {"lake": folder})
    yield "given", given.cat_file(f"grav://flights/{commit}/input/2026/11/20/15:00/a.csv").decode()


sys.stdout.write("\n" + json.dumps(dict(main(sys.argv[1]))) + "\n")

"""Reads and writes a lake by Airflow's paths, and prints the results."""

import json
import os
import pickle
import sys
from types import SimpleNamespace
from typing import Any

from airflow.sdk import ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.serde import deserialize, serialize

import graveler
from graveler_airflow.storage.filesystem import get_fs
from graveler_airflow.storage.xcom import GravelerXComBackend

BROKEN = {
    "no lake": "grav://unmounted@flights/dev/a.csv",
    "not defined": "grav://undefined@flights/dev/a.csv",
    "wrong": "grav://wrong@flights/dev/a.csv",
    "no connection": "grav://flights/dev/a.csv",
}


WRONG = ("", "s3://bucket/values", "grav://stored@flights", "grav://stored@flights/none/values")


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
        values = ObjectStoragePath("grav://stored@flights/dev/xcom")
        try:
            (values / "x/return_value").write_bytes(b"{}")
        except AirflowFailException as error:
            yield "xcom", str(error)
        yield "settings", {path: stored(path) for path in WRONG}
        right = "grav://stored@flights/dev/values"
        yield "compressions", {name: stored(right, name) for name in ("", "gzip", "zstd", "none")}
        flights.protection.add("dev")
        yield "protected", stored(right)
        flights.protection.remove("dev")
        try:
            (pinned / "d.csv").write_text("no")
        except OSError as error:
            yield "read only", type(error).__name__
        travelled: Any = deserialize(json.loads(json.dumps(serialize(root / "a.csv"))))
        yield "travelled", travelled.read_text()
    given = get_fs(None, {"lake": folder})
    yield "pickled", [type(pickle.loads(pickle.dumps(fs))).__name__ for fs in (given, root.fs)]
    yield "given", given.cat_file(f"grav://flights/{commit}/input/2026/11/20/15:00/a.csv").decode()

    yield "broken", {name: list(broken(path)) for name, path in BROKEN.items()}


def stored(path: str, compression: str = "") -> str:
    """Return a value that the XCom backend has stored and read again, or the error."""
    os.environ["AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_THRESHOLD"] = "0"
    os.environ["AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH"] = path
    os.environ["AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_COMPRESSION"] = compression
    try:
        value = GravelerXComBackend.serialize_value([1, 2], key="k", task_id="t")
        return str(GravelerXComBackend.deserialize_value(SimpleNamespace(value=value)))
    except AirflowFailException as error:
        return str(error)


def broken(path: str):
    """Yield the error of each kind of access to a path."""
    for look in (
        lambda: ObjectStoragePath(path).exists(),
        lambda: ObjectStoragePath(path).is_file(),
        lambda: ObjectStoragePath(path).is_dir(),
        lambda: list(ObjectStoragePath(path).iterdir()),
        lambda: ObjectStoragePath(path).read_text(),
        lambda: ObjectStoragePath(path).write_text("lost"),
        lambda: ObjectStoragePath(path).unlink(missing_ok=True),
    ):
        try:
            yield f"no error: {look()}"
        except Exception as error:
            yield f"{type(error).__name__}: {error}"


sys.stdout.write("\n" + json.dumps(dict(main(sys.argv[1]))) + "\n")

"""Makes assets, and prints what Airflow makes of them. It runs in a separate Airflow."""

import json
import sys

from airflow.sdk import Asset

from graveler_airflow import graveler_asset, graveler_partitions
from graveler_airflow.assets import create_asset


def outcome(act):
    try:
        return act()
    except Exception as error:
        return [type(error).__name__, str(error)]


def assets():
    asset = graveler_asset("x", "flights", "dev", "input/", poll_interval=5)
    (watcher,) = asset.watchers
    yield "asset", [asset.uri, watcher.trigger.serialize()]
    yield "not watched", len(graveler_asset("x", "flights", watch=False).watchers)
    yield "by partition", graveler_partitions("y", "flights", prefix="input").uri
    other = graveler_asset("x", "flights", watch=False, graveler_conn_id="other")
    yield "other lake", other.uri
    colons = "grav://flights/main/input/2013/01/01/05:00"
    yield (
        "one form",
        [Asset(f"{colons}/").uri, Asset(colons.replace("//", "//graveler_default@")).uri],
    )
    wrong = ("grav://Flights/main", "grav://flights", "grav://flights/main?x=1", "grav://f/main~1")
    yield "wrong", [outcome(lambda uri=uri: Asset(uri).uri) for uri in wrong]
    yield "wrong branch", outcome(lambda: graveler_asset("x", "flights", "main~1"))
    yield "made", create_asset(repo="flights", prefix="a b/").uri


sys.stdout.write("\n" + json.dumps(dict(assets())) + "\n")

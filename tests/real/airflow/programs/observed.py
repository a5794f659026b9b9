# mypy: ignore-errors
"""Prints the hook lineage of each call that reads or commits."""

import json
import os
import tempfile
from unittest.mock import patch

import graveler
from graveler_airflow import GravelerHook

folder = tempfile.mkdtemp()
os.environ["AIRFLOW_CONN_GRAVELER_DEFAULT"] = json.dumps(
    {"conn_type": "graveler", "host": folder, "extra": {"repo": "flights"}}
)
results = {}


class Collector:
    def __init__(self):
        self.read, self.wrote = [], []

    def add_input_asset(self, context, *, scheme, asset_kwargs, asset_extra):
        self.read.append(f"{asset_kwargs['ref']}/{asset_kwargs['prefix']}")

    def add_output_asset(self, context, *, scheme, asset_kwargs, asset_extra):
        self.wrote.append([f"{asset_kwargs['ref']}/{asset_kwargs['prefix']}", asset_extra])


def observe(name, act):
    """Print what a call has read, and the branches on which it has committed."""
    collector = Collector()
    getter = "graveler_airflow.lineage.hooks.get_hook_lineage_collector"
    with patch(getter, return_value=collector), GravelerHook().repository() as repo:
        act(repo)
        heads = {branch: repo.commit(branch).id for branch in ("main", "dev", "ingest")}
    wrote = [place for place, extra in collector.wrote if extra["commit"] in heads.values()]
    results[name] = [sorted(collector.read), sorted(wrote)]


def commit_changes(repo):
    entry = repo.branch("dev").store("d/x", b"d")
    repo.branch("dev").commit_changes([entry], message="d")


def publish(repo):
    with repo.run("k") as run:
        run.put("k/x", run.get("a/x"))


def tick(repo):
    repo.branch("ingest").put("i/x", b"i")
    repo.ingestion("ingest").tick("2013-01-01T05:00")


def cherry(repo):
    repo.cherry_pick("dev", "main")


with graveler.open(folder, create=True) as lake:
    made = lake.create_repository("flights")
    main = made.branch("main")
    main.put("a/x", b"a")
    main.commit("a")
    for name in ("dev", "ingest"):
        made.create_branch(name)

observe("get", lambda repo: repo.ref("main").get("a/x"))
observe("get_many", lambda repo: list(repo.ref("main").get_many(["a/x"])))
observe("stat_many", lambda repo: list(repo.ref("main").stat_many(["a/x"])))
observe("has_below", lambda repo: repo.branch("main").has_below("a/"))
observe("view", lambda repo: repo.view("main").exists("a/x"))
observe(
    "an entry", lambda repo: [repo.ref("main").get(c.after) for c in repo.diff("main~1", "main")]
)
observe("copy", lambda repo: repo.branch("dev").copy("main", "a/", "c/"))
observe("commit", lambda repo: repo.branch("dev").commit("c"))
observe("commit_changes", commit_changes)
observe("cherry_pick", cherry)
observe("revert", lambda repo: repo.revert("main", "main"))
observe("merge", lambda repo: repo.merge("dev", "main"))
observe("publish", publish)
observe("rollback", lambda repo: repo.runs.rollback("k"))
observe("tick", tick)
observe("undo", lambda repo: repo.undo("dev"))
print(json.dumps(results))

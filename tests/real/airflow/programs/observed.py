# mypy: ignore-errors
"""Prints the hook lineage of each call that reads or commits."""

import json
import os
import tempfile
from unittest.mock import patch

import graveler
from graveler.ingest import Ingestion
from graveler.lake import Branch, Repository
from graveler.lake.places import Tags
from graveler.runs.run import Run
from graveler.runs.runs import Runs
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


def heads(repo):
    """Return the head of each branch that belongs to no run."""
    return {branch.name: branch.commit_id for branch in repo.branches(hidden=True)}


def since(repo, head, before):
    """Return the commits that a branch has got; none if it was made, or moved back."""
    line = list(repo.log(head, first_parent=True))
    ids = [commit.id for commit in line]
    return line[: ids.index(before)] if before in ids else []


def observe(call, act):
    """Keep what a call has read, where it has committed by the lineage, and where by the branches."""
    collector = Collector()
    getter = "graveler_airflow.lineage.hooks.get_hook_lineage_collector"
    with patch(getter, return_value=collector), GravelerHook().repository() as repo:
        before = heads(repo)
        act(repo)
        landed = {
            (f"{branch}/{change.path.rpartition('/')[0]}", commit.id)
            for branch, head in heads(repo).items()
            for commit in since(repo, head, before.get(branch))
            for change in repo.diff(commit.parents[0], commit)
        }
    wrote = {(place, extra["commit"]) for place, extra in collector.wrote if extra}
    results[call] = [
        sorted(collector.read),
        *(sorted(place for place, _ in places) for places in (wrote, landed)),
    ]


def commit_changes(repo):
    entry = repo.branch("dev").store("d/x", b"d")
    repo.branch("dev").commit_changes([entry], message="d")


def publish(repo):
    run = repo.runs.open("l")
    run.put("l/x", run.get("a/x"))
    run.commit("l")
    run.publish()


def block(repo):
    with repo.run("k") as run:
        run.put("k/x", run.get("a/x"))


def tick(repo):
    repo.branch("ingest").put("i/x", b"i")
    repo.ingestion("ingest").tick("2013-01-01T05:00")


def refused_tick(repo):
    repo.branch("ingest").put("j/x", b"j")
    ingestion = repo.ingestion("ingest", gates=[lambda _: "no"], on_refusal="quarantine")
    ingestion.tick("2013-01-01T06:00")


def release(repo):
    ingestion = repo.ingestion("ingest")
    (aside,) = ingestion.quarantined()
    ingestion.release(aside.name, gates=[])


with graveler.open(folder, create=True) as lake:
    made = lake.create_repository("flights")
    main = made.branch("main")
    main.put("a/x", b"a")
    main.commit("a")
    for name in ("dev", "ingest"):
        made.create_branch(name)

READS = {
    "View.get": lambda repo: repo.ref("main").get("a/x"),
    "View.get_many": lambda repo: list(repo.ref("main").get_many(["a/x"])),
    "View.stat_many": lambda repo: list(repo.ref("main").stat_many(["a/x"])),
    "View.has_below": lambda repo: repo.branch("main").has_below("a/"),
    "Repository.view": lambda repo: repo.view("main").exists("a/x"),
    "View.get of an entry": lambda repo: [
        repo.ref("main").get(change.after) for change in repo.diff("main~1", "main")
    ],
    "Branch.copy": lambda repo: repo.branch("dev").copy("main", "a/", "c/"),
}
COMMITS = {
    "Branch.commit": lambda repo: repo.branch("dev").commit("c"),
    "Branch.commit_changes": commit_changes,
    "Repository.cherry_pick": lambda repo: repo.cherry_pick("dev", "main"),
    "Repository.revert": lambda repo: repo.revert("main", "main"),
    "Repository.merge": lambda repo: repo.merge("dev", "main"),
    "Repository.run": block,
    "Run.publish": publish,
    "Runs.rollback": lambda repo: repo.runs.rollback("k"),
    "Ingestion.tick": tick,
    "Ingestion.tick that is refused": refused_tick,
    "Ingestion.release": release,
}
OTHERS = {
    "Branch.move": lambda repo: repo.branch("main").move("a/", "z/"),
    "Branch.reset": lambda repo: repo.branch("main").reset(),
    "Repository.undo": lambda repo: repo.undo("dev"),
    "Repository.pack": lambda repo: repo.pack(everything=True),
}
for call, act in (READS | COMMITS | OTHERS).items():
    observe(call, act)
kinds = (Repository, Branch, Runs, Run, Ingestion, Tags)
public = {
    f"{kind.__name__}.{name}"
    for kind in kinds
    for name in dir(kind)
    if not name.startswith("_") and not (kind is Run and hasattr(Branch, name))
}
print(json.dumps({"calls": results, "public": sorted(public)}))

"""Writes, commits and resets of one branch, with concurrent readers."""

from tests.simulate.checkers import CHECKERS, listings_show_one_version
from tests.simulate.scenarios.actions import (
    branches,
    commit,
    delete,
    in_turn,
    list_all,
    pack,
    put,
    read_k,
    recut,
    reset,
    reset_paths,
    sealed,
    start,
    two_sealed,
)
from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.schedules.client import Client


def _generations(c: Client) -> None:
    """Give main one version of two paths, and each of two branches a later version of both."""
    for path in "ab":
        c.put(path, "0")
    c.commit()
    c.put("s", "staged")
    for name, source in (("1", "main"), ("2", "1")):
        c.create_branch(name, source, contents=_both(chr(ord(name) - 1)))
        for path in "ab":
            c.put(path, name, name)
        c.commit(name)


def _both(version: str) -> dict[str, str]:
    return dict.fromkeys("ab", version)


def _publish(c: Client) -> None:
    for name in "12":
        c.merge(name, writes=_both(name))


def _merge_dev(c: Client) -> None:
    c.merge("dev", writes={"d": "dev"})


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("write-commit", {"writer": put("k", "new"), "committer": commit}, start),
    Scenario(
        "overwrite-commit",
        {"writer": in_turn(put("k", "a"), put("k", "b")), "committer": commit},
        start,
    ),
    Scenario(
        "writes-commit",
        {"one": put("k", "a"), "two": put("k", "b"), "committer": commit},
        start,
    ),
    Scenario(
        "three-writers",
        {"one": put("k", "a"), "two": delete("k"), "three": put("j", "c")},
        start,
    ),
    Scenario(
        "write-two-commits",
        {"writer": put("k", "new"), "first": commit, "second": commit},
        start,
    ),
    Scenario(
        "each-writes-and-commits",
        {
            "one": in_turn(put("k", "a"), commit),
            "two": in_turn(put("k", "b"), commit),
        },
        start,
    ),
    Scenario(
        "write-commit-read",
        {"writer": put("k", "new"), "committer": commit, "reader": read_k},
        start,
    ),
    Scenario(
        "write-commit-list",
        {"writer": put("k", "new"), "committer": commit, "lister": list_all},
        start,
    ),
    Scenario(
        "delete-commit-read",
        {
            "writer": in_turn(put("j", "new"), delete("j")),
            "committer": commit,
            "reader": lambda c: c.read("j"),
        },
        start,
    ),
    Scenario(
        "delete-committed",
        {"writer": delete("k"), "committer": commit, "reader": read_k},
        start,
    ),
    Scenario(
        "sealed-left",
        {"writer": put("j", "new"), "committer": commit, "reader": read_k},
        sealed,
    ),
    Scenario(
        "sealed-left-two-commits",
        {"writer": put("j", "new"), "first": commit, "second": commit},
        sealed,
    ),
    Scenario(
        "two-sealed-left",
        {"first": commit, "second": commit, "lister": list_all},
        two_sealed,
    ),
    Scenario(
        "sealed-left-write",
        {"writer": in_turn(put("k", "a"), delete("k")), "committer": commit},
        sealed,
    ),
    Scenario(
        "reset-commit",
        {"writer": put("k", "new"), "committer": commit, "reset": reset},
        start,
    ),
    Scenario(
        "reset-sealed",
        {
            "writer": in_turn(put("k", "new"), read_k),
            "reset": in_turn(reset, list_all),
        },
        sealed,
    ),
    Scenario(
        "reset-paths-commit",
        {"writer": put("k", "new"), "committer": commit, "reset": reset_paths},
        sealed,
    ),
    Scenario(
        "reset-paths-sealed",
        {
            "writer": in_turn(put("k", "new"), read_k),
            "reset": in_turn(reset_paths, list_all),
        },
        sealed,
    ),
    Scenario(
        "reset-paths-twice",
        {"one": reset_paths, "other": in_turn(reset_paths, put("k", "new"), list_all)},
        sealed,
    ),
    Scenario(
        "pack-commit",
        {"writer": put("k", "new"), "committer": commit, "packer": pack},
        recut,
    ),
    Scenario("pack-merge", {"merger": _merge_dev, "packer": pack, "lister": list_all}, recut),
    Scenario("pack-twice", {"one": pack, "two": pack, "committer": commit}, recut),
    Scenario(
        "spooled-listing",
        {"publisher": _publish, "committer": commit, "lister": list_all},
        _generations,
        checkers=(*CHECKERS, listings_show_one_version),
    ),
    Scenario(
        "commits-in-turn",
        {"writer": put("k", "new"), "first": commit, "second": commit},
        start,
        turns=True,
    ),
    Scenario(
        "upload-commit",
        {"writer": lambda c: c.upload("k", "new"), "committer": commit, "reader": read_k},
        start,
    ),
    Scenario(
        "empty-commits",
        {
            "writer": put("k", "new"),
            "first": lambda c: c.commit(allow_empty=True),
            "second": commit,
        },
        branches,
    ),
)

"""Branch protection by pattern and action, in every operation."""

import pytest

from graveler.base.records import encode_json
from graveler.errors import CorruptionError, InvalidInputError, ProtectedBranchError
from graveler.refs.settings import ACTIONS, USUAL


@pytest.fixture
def prepared(repo):
    for name in ("main", "dev", "old"):
        branch = repo.create_branch(name, exist_ok=True)
        branch.put(name, b"1")
        branch.commit(name)
        branch.put("staged", b"1")
    repo.tags.create("work", "dev")
    return repo


def publish(repo):
    with repo.run("hour 05", into="dev") as run:
        run.put("out", b"1")


DOORS = {
    "put": ("write", lambda repo: repo.branch("dev").put("a", b"1")),
    "delete": ("write", lambda repo: repo.branch("dev").delete("a")),
    "new-address": ("write", lambda repo: repo.branch("dev").new_address()),
    "commit": ("commit", lambda repo: repo.branch("dev").commit("c")),
    "merge": ("merge", lambda repo: repo.merge("main", into="dev")),
    "publish": ("merge", publish),
    "revert": ("revert", lambda repo: repo.revert("work", on="dev")),
    "cherry-pick": ("revert", lambda repo: repo.cherry_pick("old", onto="dev")),
    "hard-reset": ("reset", lambda repo: repo.branch("dev").reset(to="dev~1")),
    "delete-branch": ("delete", lambda repo: repo.delete_branch("dev")),
}


@pytest.mark.parametrize("door", DOORS)
def test_each_door_is_closed_by_its_action_alone(prepared, door):
    repo = prepared
    action, enter = DOORS[door]
    repo.protection.add("d*", [action])
    with pytest.raises(ProtectedBranchError) as refused:
        enter(repo)
    for said in ("'dev'", action, "'d*'", "graveler branch unprotect"):
        assert said in str(refused.value)
    repo.protection.add("d*", [other for other in ACTIONS if other != action])
    enter(repo)


def test_rules_are_listed_and_changed(repo):
    repo.protection.add("main")
    repo.protection.add("release-*", ["delete", "reset"])
    assert list(repo.protection.list()) == ["main", "release-*"]
    assert repo.protection.list() == {"main": USUAL, "release-*": ("reset", "delete")}
    repo.protection.add("release-*", ["merge"])
    assert repo.protection.list()["release-*"] == ("merge",)
    repo.protection.add("release-*")
    assert repo.protection.list()["release-*"] == USUAL
    repo.protection.remove("release-*")
    for actions in ([], ["wriet"], ["write", "push"]):
        with pytest.raises(InvalidInputError, match="write, commit, merge, revert, reset, delete"):
            repo.protection.add("release-*", actions)
    assert repo.protection.list() == {"main": USUAL}


def test_a_record_without_actions_has_the_usual_ones(repo):
    stores = repo.stores
    partition, key = f"refs:{stores.uid}", b"settings/protection"
    stores.kv.set(partition, key, encode_json({"patterns": ["main"], "nonce": "n"}))
    assert repo.protection.list() == {"main": USUAL}
    repo.protection.add("dev")  # usual actions are still written as before
    assert b"actions" not in stores.kv.get(partition, key).value
    for damaged in ({"nonce": "n"}, {"patterns": ["main"], "actions": {"main": ["fly"]}}, [1]):
        stores.kv.set(partition, key, encode_json(damaged))
        with pytest.raises(CorruptionError, match="protection rules"):
            repo.branch("main").put("a", b"1")

"""The log of moves compared with a plain list, over random histories."""

from random import Random

import pytest

from graveler.errors import RefNotFoundError
from tests.harness.worlds import ScriptedWorld


class Model:
    """The positions of a branch, one for each move: a commit id or None. The latest is the last."""

    def __init__(self, head):
        self.places = [head]

    def put(self, head):
        """Record the position if it is a new one."""
        if self.places[-1] != head:
            self.places.append(head)

    @property
    def now(self):
        return self.places[-1]

    def ago(self, number):
        return self.places[-1 - number] if number < len(self.places) else "before"


def commit(random, repo, _):
    branch = repo.branch("dev")
    branch.put(f"k{random.randrange(5)}", str(random.random()).encode())
    return branch.commit("c").id


def merge(_, repo, __):
    return repo.merge("main", into="dev", strategy="source-wins").commit.id


def revert(_, repo, __):
    return repo.revert("main", on="dev", strategy="source-wins", allow_empty=True).id


def moved_back(model, to, go):
    """Go to a place of the log, which may be none."""
    there = model.ago(to)
    if there in (None, "before"):
        with pytest.raises(RefNotFoundError):
            go()
        return model.now
    go()
    return there


def reset(random, repo, model):
    to = random.randrange(4)
    return moved_back(model, to, lambda: repo.branch("dev").reset(to=f"dev@{{{to}}}"))


def undo(random, repo, model):
    to = random.randrange(1, 12)
    return moved_back(model, to, lambda: repo.undo("dev", to=to))


def delete(_, repo, __):
    repo.delete_branch("dev")


def create(_, repo, __):
    return repo.create_branch("dev", "main").head.id


THERE = [commit, commit, commit, commit, merge, revert, reset, undo, undo, delete]
GONE = [create, undo]


@pytest.mark.parametrize("seed", range(6))
def test_every_place_of_a_branch_is_found_again(seed):
    random = Random(seed)  # the seed of one test
    repo = ScriptedWorld().repo(scripted=False)
    repo.branch("main").put("base", b"0")
    repo.branch("main").commit("base")
    head = repo.create_branch("dev").head.id
    model = Model(head)
    times = {}
    for _ in range(60):
        step = random.choice(THERE if model.now else GONE)
        expected = step(random, repo, model)
        model.put(expected)
        found = {one.name: one.commit_id for one in repo.branches()}.get("dev")
        assert found == expected
        times[repo.stores.clock.now()] = found
    lines = list(repo.moves("dev"))
    assert [line.after for line in lines] == model.places[::-1]
    if model.now is None:
        repo.undo("dev", to=next(n for n in range(99) if model.ago(n)))
        model.put(repo.commit("dev").id)
    for number in range(len(model.places)):
        there = model.ago(number)
        if there is not None:
            assert repo.commit(f"dev@{{{number}}}").id == there
    for moment, there in times.items():
        expression = f"dev@{{{moment.isoformat()}}}"
        if there is None:
            with pytest.raises(RefNotFoundError, match="was deleted"):
                repo.commit(expression)
        else:
            assert repo.commit(expression).id == there

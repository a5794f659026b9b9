"""Tables of Delta Lake in merges: a table is one conflict, and a merge takes one side of it."""

import pytest

from graveler.errors import InvalidInputError, MergeConflictError
from tests.harness.worlds import tree

LOG = "tables/a/_delta_log"


def write(branch, files):
    for path, text in files.items():
        branch.put(path, text.encode())
    branch.commit("c")


@pytest.fixture
def sides(repo):
    """Two branches that both appended to the table ``tables/a`` and changed ``top``."""
    main = repo.branch("main")
    write(main, {f"{LOG}/0.json": "0", "tables/a/part-0": "0", "top": "base"})
    dev = repo.create_branch("dev", "main")
    for branch in (dev, main):
        side = branch.name
        write(branch, {f"{LOG}/1.json": side, f"tables/a/part-{side}": side})
    return repo


def table(side):
    return {
        f"{LOG}/0.json": "0",
        f"{LOG}/1.json": side,
        "tables/a/part-0": "0",
        f"tables/a/part-{side}": side,
        "top": "base",
    }


PATHS_ONLY = {"**/*.json": "source-wins", "**/part-*": "dest-wins"}
LEFT = [None, PATHS_ONLY, {"tables/b/**": "source-wins"}, lambda conflict: None]


@pytest.mark.parametrize("strategy", LEFT, ids=["none", "files", "another", "resolver"])
def test_two_logs_are_one_conflict_whatever_files_have(sides, strategy):
    with pytest.raises(MergeConflictError, match="stands for a whole table") as refused:
        sides.merge("dev", into="main", strategy=strategy)
    assert [conflict.path for conflict in refused.value.conflicts] == [LOG]
    preview = sides.preview_merge("dev", into="main", strategy=strategy)
    assert preview.conflicts == refused.value.conflicts
    assert tree(sides.ref("main")) == table("main")


TAKEN = [
    ("source-wins", "dev"),
    ("dest-wins", "main"),
    ({"tables/a/": "source-wins"}, "dev"),
    ({"**/_delta_log": "dest-wins", "**": "source-wins"}, "main"),
    (lambda conflict: "source-wins" if conflict.path == LOG else None, "dev"),
]


@pytest.mark.parametrize(("strategy", "side"), TAKEN)
def test_a_strategy_takes_the_whole_table_of_a_side(sides, strategy, side):
    preview = sides.preview_merge("dev", into="main", strategy=strategy)
    changes = list(preview.changes())
    merged = sides.merge("dev", into="main", strategy=strategy).commit
    assert tree(sides.ref("main")) == table(side)
    assert merged.metadata["graveler.whole"] == LOG
    assert [change.path for change in changes] == (
        [f"{LOG}/1.json", "tables/a/part-dev", "tables/a/part-main"] if side == "dev" else []
    )


def test_an_answer_for_a_file_is_none_for_a_table(sides):
    with pytest.raises(InvalidInputError, match="whole table"):
        sides.merge("dev", into="main", strategy=lambda _: "delete")


def test_after_a_merge_the_other_side_goes_on_from_it(sides):
    sides.merge("dev", into="main", strategy="source-wins")
    write(sides.branch("main"), {f"{LOG}/2.json": "main"})
    sides.merge("main", into="dev")
    assert tree(sides.ref("dev")) == tree(sides.ref("main"))

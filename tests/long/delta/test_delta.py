"""A table of Delta Lake on branches: written through the gateway, judged, merged, read at refs."""

import pytest

from graveler import checks
from graveler.errors import GateFailedError, MergeConflictError

LOG = "orders/_delta_log"
ALL = "select id, day from {orders}"


@pytest.fixture(scope="module")
def repo(lake, sql):
    """A repository with a table on main, which has two rows and two versions."""
    repo = lake.create_repository("tables")
    sql("create table {orders} (id int, day string) using delta partitioned by (day)")
    sql("insert into {orders} values (1, 'a'), (2, 'b')")
    repo.branch("main").commit("orders")
    return repo


def test_a_branch_is_changed_judged_merged_and_read_at_two_refs(repo, sql):
    before = repo.commit("main").id
    dev = repo.create_branch("dev", "main")
    for statement in (
        "insert into {orders} values (3, 'c')",
        "update {orders} set id = 20 where id = 2",
        "delete from {orders} where id = 1",
        "merge into {orders} t using (select 3 as id, 'd' as day union all select 4, 'd') s "
        "on t.id = s.id when matched then update set * when not matched then insert *",
    ):
        sql(statement, "dev")
    dev.commit("four versions")
    repo.gates.require("main", checks.only_within("days/"))
    with pytest.raises(GateFailedError, match="only_within"):
        repo.merge("dev", into="main")
    assert sql(ALL) == [(1, "a"), (2, "b")]
    repo.gates.require("main", checks.only_within("orders/"))
    repo.merge("dev", into="main")
    assert sql(ALL) == [(3, "d"), (4, "d"), (20, "b")]
    assert sql(ALL, before) == [(1, "a"), (2, "b")]
    assert sql(f"{ALL} version as of 2") == [(1, "a"), (2, "b"), (3, "c")]
    operations = [row[4] for row in sql("describe history {orders}")]
    assert operations == ["CREATE TABLE", "WRITE", "WRITE", "UPDATE", "DELETE", "MERGE"]


def test_two_sides_with_new_versions_are_one_conflict(repo, sql):
    repo.create_branch("side", "main")
    before = sql(ALL)
    for branch, statement in (
        ("side", "insert into {orders} values (50, 'e')"),
        ("main", "insert into {orders} values (60, 'f')"),
    ):
        sql(statement, branch)
        repo.branch(branch).commit("insert")
    with pytest.raises(MergeConflictError) as refused:
        repo.merge("side", into="main", strategy={"**/*.json": "source-wins"})
    assert [conflict.path for conflict in refused.value.conflicts] == [LOG]
    assert sql(ALL) == sorted([*before, (60, "f")])
    repo.merge("side", into="main", strategy={"orders/": "source-wins"})
    assert sql(ALL) == sorted([*before, (50, "e")])
    sql("insert into {orders} values (60, 'f')")
    repo.branch("main").commit("again")
    repo.merge("main", into="side")
    assert sql(ALL, "side") == sql(ALL) == sorted([*before, (50, "e"), (60, "f")])


def test_what_delta_removes_is_still_there_at_earlier_refs(repo, sql):
    before = repo.commit("main").id
    rows, files = sql(ALL), len(list(repo.ref(before).entries("orders/")))
    sql("optimize {orders}")
    sql("vacuum {orders} retain 0 hours")
    repo.branch("main").commit("vacuum")
    assert sql(ALL) == sql(ALL, before) == rows
    assert len(list(repo.ref(before).entries("orders/"))) == files

"""Namespaces that one side makes or drops, and the other one fills; a table and a namespace of one name."""

import pytest

from tests.harness.iceberg import catalog_of, delays, with_table


@pytest.fixture
def main(repo):
    return catalog_of(repo.branch("main"))


@pytest.fixture
def sides(repo, main):
    main.create_namespace("db")
    main.create_namespace("new", {"owner": "ann"})
    return [repo.create_branch(name, source="main") for name in ("one", "other")]


@pytest.mark.parametrize("call", ["drop", "rename"])
def test_a_table_goes_without_what_is_nested_in_its_name(repo, main, sides, call):
    one, other = sides
    with_table(catalog_of(one), 7, table="db.x")
    with_table(catalog_of(other), 8, table="db.x.deep")
    repo.merge("one", into="main"), repo.merge("other", into="main")
    if call == "drop":
        main.drop_table("db.x")
    else:
        main.rename_table("db.x", "db.z")
        assert delays(main, "db.z") == [7]
    assert main.list_tables("db.x") == [("db", "x", "deep")]
    assert delays(main, "db.x.deep") == [8]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_namespace_dropped_beside_a_new_table_is_there(repo, main, sides, turn):
    one, other = sides
    catalog_of(one).drop_namespace("new")
    with_table(catalog_of(other), 8, table="new.t")
    for name in ("one", "other")[::turn]:
        repo.merge(name, into="main")
    assert main.list_tables("new") == [("new", "t")]
    assert delays(main, "new.t") == [8]
    with_table(main, 9, table="new.u")
    main.update_namespace_properties("new", updates={"owner": "bob"})
    assert main.load_namespace_properties("new") == {"owner": "bob"}
    assert ("new",) in main.list_namespaces()


def test_a_rollback_leaves_the_namespace_of_later_tables(repo, main):
    for key in ("a", "b"):
        with repo.run(key) as run, run.step("s") as step:
            with_table(catalog_of(step), 5, table=f"new.{key}")
    repo.runs.rollback("a")
    assert main.list_tables("new") == [("new", "b")]
    assert main.list_namespaces() == [("new",)]
    repo.runs.rollback("b")
    assert main.list_namespaces() == []


def test_a_step_that_runs_again_leaves_the_namespace_of_others(repo, main):
    with repo.run("a") as run:
        for name in ("s", "t", "s"):
            with run.step(name) as step:
                with_table(catalog_of(step), 5, table=f"new.{name}")
        run.undo_step("s")
        assert catalog_of(run).list_namespaces() == [("new",)]
    assert main.list_tables("new") == [("new", "t")]

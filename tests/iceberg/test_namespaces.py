"""Namespaces: nested ones, properties, and names that are no plain words."""

from hashlib import sha256

import pytest
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from tests.harness.iceberg import REFUSED, SCHEMA, with_table

ODD = ["a/b", "a.b", ".b", "...", "_table.json", "_namespace.json", "100%", "%2F", "Zürich", " x "]


def test_namespaces_are_nested_and_have_properties(repo, main):
    main.create_namespace(("db", "raw", "us"), {"owner": "ann"})
    assert main.list_namespaces() == [("db",)]
    assert main.list_namespaces("db.raw") == [("db", "raw", "us")]
    assert main.load_namespace_properties("db") == {}
    assert main.load_namespace_properties("db.raw.us") == {"owner": "ann"}
    done = main.update_namespace_properties("db.raw.us", {"owner", "none"}, {"a": "1"})
    assert (done.removed, done.updated, done.missing) == (["owner"], ["a"], ["none"])
    assert main.load_namespace_properties("db.raw.us") == {"a": "1"}
    assert [entry.path for entry in repo.ref("main")] == [
        "db/_namespace.json",
        "db/raw/_namespace.json",
        "db/raw/us/_namespace.json",
    ]
    for namespace in ("db.raw.us", "db.raw", "db"):
        main.drop_namespace(namespace)
    assert not list(repo.ref("main"))


def test_the_records_are_as_their_format_says(repo, main):
    """docs/formats/iceberg.md"""
    table, view = with_table(main), repo.ref("main")
    assert view.get("db/_namespace.json").hex(" ") == (
        "7b 22 66 6f 72 6d 61 74 22 3a 32 2c 22 70 72 6f 70 65 72 74 69 65 73 22 3a 7b 7d 7d"
    )
    key = table.metadata_location.removeprefix(f"{repo.storage}/")
    assert view.get("db/flights/_table.json").decode() == (
        f'{{"format":2,"metadata":"{key}","uuid":"{table.metadata.table_uuid}"}}'
    )
    owner = f"{repo.stores.refs.branches.get('main').born}/{table.metadata.table_uuid}"
    place = sha256(owner.encode()).hexdigest()[:32]
    assert key.startswith(f"tables/{repo.stores.storage_id}/{place}/metadata/00000-")


def test_each_change_is_one_commit_and_nothing_is_staged(repo, main):
    repo.branch("main").put("theirs", b"staged")
    before = repo.branch("main").head
    main.create_namespace(("db", "raw"))
    assert repo.branch("main").head.parents == (before.id,)
    assert [change.path for change in repo.branch("main").uncommitted()] == ["theirs"]


def test_what_is_missing_or_there_is_said(main):
    main.create_namespace("db")
    with pytest.raises(NamespaceAlreadyExistsError):
        main.create_namespace("db")
    for call in (
        main.drop_namespace,
        main.load_namespace_properties,
        main.list_tables,
        main.list_namespaces,
    ):
        with pytest.raises(NoSuchNamespaceError):
            call("none")
    assert main.namespace_exists("db")
    assert not main.namespace_exists("none")
    assert main.list_views("db") == []
    assert not main.view_exists("db.view")


def test_a_namespace_with_tables_or_namespaces_is_not_dropped(repo, main):
    with_table(main)
    main.create_namespace("db.raw")
    head = repo.branch("main").head
    with pytest.raises(NamespaceNotEmptyError):
        main.drop_namespace("db")
    assert repo.branch("main").head == head
    main.drop_table("db.flights")
    with pytest.raises(NamespaceNotEmptyError):
        main.drop_namespace("db")
    main.drop_namespace("db.raw")
    main.drop_namespace("db")
    assert main.list_namespaces() == []


def test_a_table_and_a_namespace_do_not_share_a_name(main):
    with_table(main)
    with pytest.raises(NamespaceAlreadyExistsError):
        main.create_namespace("db.flights")
    with pytest.raises(NamespaceAlreadyExistsError):
        main.create_namespace("db.flights.raw")
    main.create_namespace("db.raw")
    with pytest.raises(TableAlreadyExistsError):
        main.create_table("db.raw", SCHEMA)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_a_name(repo, main, name):
    main.create_namespace((name,))
    main.create_table((name, name), SCHEMA)
    assert main.list_namespaces() == [(name,)]
    assert main.list_tables((name,)) == [(name, name)]
    assert main.load_table((name, name)).name() == (name, name)
    assert all(len(entry.path.split("/")) in (2, 3, 4) for entry in repo.ref("main"))
    main.rename_table((name, name), (name, "plain"))
    with pytest.raises(NoSuchTableError):
        main.load_table((name, name))
    main.drop_table((name, "plain"))
    main.drop_namespace((name,))


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "\0", "\x1b[2J", "x" * 1100])
def test_a_name_that_is_none_is_refused(repo, main, name):
    main.create_namespace("db")
    head = repo.branch("main").head
    with pytest.raises((*REFUSED, NoSuchNamespaceError)):
        main.create_namespace((name,))
    with pytest.raises((*REFUSED, NoSuchTableError)):
        main.create_table(("db", name), SCHEMA)
    assert repo.branch("main").head == head

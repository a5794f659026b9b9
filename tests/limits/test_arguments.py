"""Wrong arguments of public methods: the error names the argument, and nothing changes."""

import inspect
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

import pytest

import graveler
from graveler.errors import GravelerError, InvalidInputError
from graveler.lake.factory import init
from graveler.model import Entry
from graveler.repository.merges import MergeTerms
from graveler.repository.reverts import PickTerms
from graveler.repository.writes.uploads import PutTerms
from graveler.runs.opener import RunTerms
from graveler.testing import World

NONE, NUMBER, BYTES, OBJECT = None, 5, b"x", object()
NAN, LONE, EMPTY = float("nan"), "\ud800", ""
LIST: list[object] = []
MAPPING: dict[str, str] = {}
VALUES = {
    "None": NONE,
    "5": NUMBER,
    "bytes": BYTES,
    "object": OBJECT,
    "list": LIST,
    "mapping": MAPPING,
    "nan": NAN,
    "lone surrogate": LONE,
    "empty": EMPTY,
}
TEXT = {"None", "5", "bytes", "object", "list", "mapping", "nan", "lone surrogate", "empty"}
FREE = TEXT - {"empty"}  # these texts may be empty
OPTIONAL = TEXT - {"None"}
STRATEGY = OPTIONAL - {"mapping"}  # patterns; an empty mapping has none
FLAG = TEXT
FUNCTION = TEXT - {"None"}
NUMBERS = TEXT - {"5"}
SOME = TEXT - {"list", "empty"} - {"mapping"}  # iterables; "" has no items
PAIRS = TEXT - {"None", "mapping"}
MAYBE = {"bytes", "object", "list", "mapping", "nan", "lone surrogate", "empty"}
MAYBE_NUMBER = MAYBE
MAYBE_TEXT = OPTIONAL
TIME = TEXT
MAYBE_TIME = OPTIONAL
ENTRY = Entry("p", "data/x", 1)

FACE: Any = {
    # owner: {method: (valid arguments, {argument: names of its invalid values})}
    "lake": {
        "repository": ({"name": "flights"}, {"name": TEXT}),
        "create_repository": (
            {"name": "other"},
            {
                "name": TEXT,
                "storage": OPTIONAL,
                "default_branch": TEXT,
                "exist_ok": FLAG,
                "splitting": OPTIONAL,
                "take_over": FLAG,
            },
        ),
        "restore_repository": (
            {"file": "missing"},
            {"file": TEXT, "name": OPTIONAL, "storage": OPTIONAL},
        ),
    },
    "repository": {
        "branch": ({"name": "main"}, {"name": TEXT}),
        "create_branch": (
            {"name": "other"},
            {"name": TEXT, "source": TEXT, "exist_ok": FLAG, "hidden": FLAG},
        ),
        "delete_branch": ({"name": "dev"}, {"name": TEXT}),
        "branches": ({}, {"hidden": FLAG, "limit": MAYBE_NUMBER, "after": FREE}),
        "ref": ({"expression": "main"}, {"expression": TEXT}),
        "commit": ({"expression": "main"}, {"expression": TEXT}),
        "log": (
            {},
            {
                "ref": TEXT,
                "limit": MAYBE_NUMBER,
                "first_parent": FLAG,
                "path": FREE,
                "prefix": FREE,
                "metadata": PAIRS,
                "run": FREE,
                "committer": FREE,
                "since": MAYBE_TIME,
                "until": MAYBE_TIME,
            },
        ),
        "diff": (
            {"left": "main~1", "right": "main"},
            {"left": TEXT, "right": TEXT, "prefix": FREE},
        ),
        "merge": (
            {"source": "dev", "into": "main"},
            {
                "source": TEXT,
                "into": TEXT,
                "message": MAYBE_TEXT - {"empty"},
                "metadata": PAIRS,
                "strategy": STRATEGY,
                "committer": FREE,
            },
        ),
        "revert": (
            {"commit": "main"},
            {
                "commit": TEXT,
                "on": TEXT,
                "parent": MAYBE_NUMBER,
                "message": MAYBE_TEXT - {"empty"},
                "metadata": PAIRS,
                "strategy": STRATEGY,
                "committer": FREE,
                "allow_empty": FLAG,
            },
        ),
        "cherry_pick": (
            {"commit": "dev"},
            {
                "commit": TEXT,
                "onto": TEXT,
                "parent": MAYBE_NUMBER,
                "message": MAYBE_TEXT - {"empty"},
                "metadata": PAIRS,
                "strategy": STRATEGY,
                "committer": FREE,
                "allow_empty": FLAG,
            },
        ),
        "moves": ({}, {"branch": OPTIONAL, "limit": MAYBE_NUMBER, "hidden": FLAG}),
        "maintain": (
            {},
            {"pack": FLAG, "reap": FLAG, "gc": FLAG, "dry_run": FLAG, "progress": FUNCTION},
        ),
        "fsck": ({}, {"progress": FUNCTION}),
        "undo": ({}, {"branch": TEXT, "to": NUMBERS}),
        "dump_refs": ({}, {"file": TEXT}),
        "restore_refs": ({}, {"file": TEXT}),
        "why": ({"path": "a"}, {"path": TEXT, "ref": TEXT}),
        "ingestion": ({}, {"branch": TEXT, "into": TEXT, "on_refusal": TEXT}),
        "run": (
            {"key": "k"},
            {
                "key": TEXT,
                "into": TEXT,
                "on_failure": TEXT,
                "metadata": PAIRS,
                "lease": TIME,
                "ttl": TIME,
                "strategy": STRATEGY,
            },
        ),
    },
    "tags": {
        "create": ({"name": "v2"}, {"name": TEXT, "ref": TEXT}),
        "delete": ({"name": "v1"}, {"name": TEXT}),
        "undelete": ({"name": "v0"}, {"name": TEXT}),
        "moves": ({"name": "v1"}, {"name": TEXT}),
    },
    "protection": {
        "add": ({"pattern": "main"}, {"pattern": TEXT, "actions": {"5", "object", "empty"}}),
        "remove": ({"pattern": "main"}, {"pattern": TEXT}),
    },
    "links": {
        "allow": ({}, {"place": TEXT}),
        "disallow": ({}, {"place": TEXT}),
    },
    "branch": {
        "has_below": ({}, {"prefix": FREE}),
        "put": (
            {"path": "p", "body": b"1"},
            {
                "path": TEXT,
                "body": {"None", "5", "object", "list", "mapping", "nan"},
                "content_type": FREE,
                "metadata": PAIRS,
                "replace": FLAG,
            },
        ),
        "store": (
            {"path": "p", "body": b"1"},
            {"path": TEXT, "content_type": FREE, "metadata": PAIRS},
        ),
        "put_many": (
            {"items": [("p", b"1")]},
            {
                "items": TEXT - {"list", "mapping"},
                "content_type": FREE,
                "metadata": PAIRS,
                "replace": FLAG,
                "threads": MAYBE_NUMBER,
                "progress": FUNCTION,
            },
        ),
        "upload": (
            {"folder": "."},
            {
                "folder": TEXT,
                "prefix": FREE,
                "delete": FLAG,
                "exclude": TEXT - {"list"},
                "follow_links": FLAG,
                "content_type": FREE,
                "metadata": PAIRS,
                "replace": FLAG,
                "threads": MAYBE_NUMBER,
                "progress": FUNCTION,
            },
        ),
        "link": (
            {"path": "p", "address": "data/x", "size": 1},
            {"path": TEXT, "address": TEXT, "size": MAYBE_NUMBER, "checksum": OPTIONAL - {"empty"}},
        ),
        "link_many": ({}, {"entries": TEXT - {"list"}}),
        "copy": (
            {"source": "main", "path": "a", "to": "z"},
            {"source": TEXT, "path": FREE, "to": FREE, "replace": FLAG},
        ),
        "move": ({"path": "a", "to": "z"}, {"path": FREE, "to": FREE}),
        "import_": (
            {"source": "/none"},
            {"source": TEXT, "prefix": FREE, "below": FREE, "replace": FLAG, "verify": FLAG},
        ),
        "delete": ({}, {"path": TEXT}),
        "delete_many": ({}, {"paths": TEXT - {"list"}}),
        "commit": (
            {"message": "m"},
            {
                "message": TEXT,
                "metadata": PAIRS,
                "committer": FREE,
                "allow_empty": FLAG,
                "paths": OPTIONAL - {"list"},
            },
        ),
        "commit_changes": (
            {"message": "m", "entries": [ENTRY]},
            {
                "entries": TEXT - {"list"},
                "deleted": TEXT - {"list"},
                "message": TEXT,
                "metadata": PAIRS,
                "committer": FREE,
            },
        ),
        "reset": ({}, {"to": OPTIONAL}),
    },
    "ref": {
        "list": ({}, {"prefix": FREE, "after": FREE, "delimiter": FREE}),
        "entries": ({}, {"prefix": FREE}),
        "stat": ({}, {"path": TEXT}),
        "exists": ({}, {"path": TEXT}),
        "get": ({}, {"path": TEXT}),
        "get_many": (
            {"paths": ["a"]},
            {"paths": TEXT - {"list"}, "missing": TEXT, "threads": MAYBE_NUMBER},
        ),
        "download": (
            {"prefix": "", "folder": "never-made"},
            {
                "prefix": FREE,
                "folder": TEXT,
                "delete": FLAG,
                "exclude": TEXT - {"list"},
                "threads": MAYBE_NUMBER,
                "progress": FUNCTION,
            },
        ),
        "open": ({}, {"path": TEXT}),
        "uris": ({}, {"prefix": FREE}),
        "has_below": ({}, {"prefix": FREE}),
        "uri": ({}, {"entry": TEXT}),
    },
    "runs": {
        "open": (
            {"key": "k"},
            {
                "key": TEXT,
                "into": TEXT,
                "metadata": PAIRS,
                "on_failure": TEXT,
                "lease": TIME,
                "ttl": TIME,
            },
        ),
        "open_or_attach": (
            {"key": "k", "owner": "o"},
            {
                "key": TEXT,
                "owner": TEXT,
                "into": TEXT,
                "metadata": PAIRS,
                "lease": TIME,
                "accepts": FUNCTION,
            },
        ),
        "attach": ({}, {"handle": TEXT}),
        "handle_of": ({"given": "g"}, {"given": TEXT}),
        "open_step": ({"given": "g"}, {"given": TEXT}),
        "on_targets": ({"records": []}, {"records": SOME}),
        "get": ({}, {"key": TEXT}),
        "list": ({}, {"state": OPTIONAL, "live": FLAG, "limit": MAYBE_NUMBER, "after": OPTIONAL}),
        "park": (
            {"key": "open"},
            {
                "key": TEXT,
                "owner": OPTIONAL,
                "attempt": MAYBE_NUMBER,
                "reason": FREE - {"lone surrogate"},
            },
        ),
        "abandon": (
            {"key": "open"},
            {
                "key": TEXT,
                "owner": OPTIONAL,
                "attempt": MAYBE_NUMBER,
                "reason": FREE - {"lone surrogate"},
            },
        ),
        "reap": ({}, {"dry_run": FLAG, "now": MAYBE_TIME, "limit": MAYBE_NUMBER}),
        "rollback": (
            {"key_or_commit": "done"},
            {"key_or_commit": TEXT, "message": MAYBE_TEXT, "metadata": PAIRS},
        ),
        "readers": ({}, {"key_or_commit": TEXT}),
    },
    "run": {
        "step": ({"name": "s"}, {"name": TEXT, "try_number": NUMBERS, "metadata": PAIRS}),
        "undo_step": ({"step": "s"}, {"step": TEXT, "metadata": PAIRS}),
        "commit": ({"message": "m"}, {"message": FREE, "metadata": PAIRS}),
        "view": ({}, {"ref": OPTIONAL}),
        "reads": ({}, {"prefix": FREE, "ref": OPTIONAL}),
        "has_below": ({}, {"prefix": FREE}),
        "publish": ({}, {"strategy": STRATEGY}),
        "close": ({}, {"reason": FREE - {"lone surrogate"}}),
        "park": ({}, {"reason": FREE - {"lone surrogate"}}),
        "abandon": ({}, {"reason": FREE - {"lone surrogate"}}),
    },
    "gates": {
        "require_named": ({"pattern": "x", "check": "rows"}, {"pattern": TEXT, "check": TEXT}),
        "drop": ({}, {"pattern": TEXT}),
        "judgements": ({}, {"limit": MAYBE_NUMBER}),
        "judgement": ({}, {"ref": TEXT}),
    },
    "gc": {
        "keep": ({}, {"pattern": OPTIONAL, "days": MAYBE_NUMBER, "count": MAYBE_NUMBER}),
        "forget": ({}, {"pattern": OPTIONAL}),
        "get": ({}, {"mark": TEXT}),
        "mark": ({}, {"grace": TIME, "window": TIME, "dry_run": FLAG, "progress": FUNCTION}),
        "sweep": ({"mark": "m"}, {"mark": TEXT, "dry_run": FLAG, "progress": FUNCTION}),
        "run": ({}, {"grace": TIME, "window": TIME, "progress": FUNCTION}),
        "undelete": ({}, {"mark": TEXT}),
    },
    "ingestion": {
        "tick": ({}, {"hour": OPTIONAL, "metadata": PAIRS}),
        "hour": ({}, {"hour": TEXT}),
        "release": ({"name": "q"}, {"name": TEXT, "metadata": PAIRS, "strategy": STRATEGY}),
    },
}
CASES = [
    pytest.param(owner, method, sound, argument, value, id=f"{owner}.{method} {argument}={value}")
    for owner, methods in FACE.items()
    for method, (sound, arguments) in methods.items()
    for argument, values in arguments.items()
    for value in sorted(values)
]


@pytest.fixture(scope="module")
def face():
    """A lake with the objects that get wrong arguments, and its stores."""
    world = World()
    with world.open() as lake:
        repository = lake.create_repository("flights")
        main = repository.branch("main")
        for name in "abc":
            main.put(name, b"1")
            main.commit(name)
        repository.create_branch("dev").put("d", b"d")
        repository.branch("dev").commit("d")
        repository.tags.create("v1")
        with repository.run("done") as run:
            run.put("r", b"r")
        owners = {
            "lake": lake,
            "repository": repository,
            "tags": repository.tags,
            "protection": repository.protection,
            "links": repository.links,
            "branch": main,
            "ref": repository.ref("main"),
            "runs": repository.runs,
            "run": repository.runs.open("open"),
            "gates": repository.gates,
            "gc": repository.gc,
            "ingestion": repository.ingestion(),
        }
        yield world, owners


TERMS = (RunTerms, MergeTerms, PickTerms, PutTerms)


def test_the_table_is_long_enough_and_knows_every_argument(face):
    assert len(CASES) >= 600
    for owner, methods in FACE.items():
        for method, (sound, arguments) in methods.items():
            known = {*inspect.signature(getattr(face[1][owner], method)).parameters}
            for terms in TERMS if "terms" in known else ():
                known |= terms.__annotations__.keys()
            assert {*sound, *arguments} <= known, (owner, method)


@pytest.mark.parametrize(("owner", "method", "sound", "argument", "value"), CASES)
def test_a_wrong_argument_is_named_and_nothing_is_done(face, owner, method, sound, argument, value):
    world, owners = face
    before = world.snapshot()
    try:
        with pytest.raises(GravelerError) as caught:
            done = getattr(owners[owner], method)(**{**sound, argument: VALUES[value]})
            if method == "run" and owner == "repository":
                done.__enter__()
            elif hasattr(done, "__next__"):
                list(done)
        assert isinstance(caught.value, InvalidInputError)
        assert argument in str(caught.value)
        assert world.kv.snapshot() == before[0]
    finally:
        world.restore(before)


def refused(call, *said):
    with pytest.raises(InvalidInputError) as caught:
        call()
    for each in said:
        assert each in str(caught.value)


def test_written_misuses_are_refused_by_name(face):
    world, owners = face
    repository, runs, main = owners["repository"], owners["runs"], owners["branch"]
    any_entry: Any = Entry
    any_open: Any = graveler.open
    any_init: Any = init
    before = world.snapshot()[0]
    refused(lambda: main.link_many([{"path": "p"}]), "entries[0]", "graveler.Entry")
    refused(lambda: main.link_many(ENTRY), "entries")
    refused(lambda: main.link_many([any_entry("p", "data/x", "7")]), "size='7'")
    refused(lambda: main.link_many([any_entry(5, "data/x", 7)]), "path=5")
    refused(
        lambda: main.link_many([any_entry("p", "data/x", 7, metadata={"k": 1})]), "metadata['k']"
    )
    refused(lambda: main.link_many([Entry("p", "data/x", -1)]), "size=-1")
    refused(lambda: main.delete_many("abc"), "paths='abc'", "list")
    refused(lambda: repository.gc.keep(days="30"), "days='30'")
    refused(lambda: repository.gc.keep(days=-1), "days=-1")
    refused(lambda: main.commit("m", metadata="a=b"), "metadata='a=b'", "mapping")
    refused(lambda: main.commit("m", metadata={"a": 1}), "metadata['a']")
    refused(lambda: repository.merge("main", into="main"), "two different branches")
    refused(lambda: repository.merge(main, into="main", strategy="source-wins"), "two different")
    refused(lambda: list(runs.list(state="DONE")), "state='DONE'", "PUBLISHED")
    refused(lambda: runs.open(5), "a run key must be a non-empty text, not int")
    refused(lambda: runs.open("  "), "a run key must be a non-empty text, not an empty text")
    refused(lambda: runs.open("k", lease="soon"), "lease='soon'", "36h")
    refused(lambda: runs.open("k", ttl=timedelta(0)), "ttl")
    refused(lambda: runs.reap(now="today"), "now='today'", "ISO 8601")
    refused(lambda: repository.log(limit="3"), "limit='3'")
    refused(lambda: repository.protection.add("x", ["fly"]), "fly")
    refused(lambda: any_open(5), "target=5")
    refused(lambda: any_open(None), "target=None")
    refused(lambda: any_init(5), "folder=5")
    assert world.snapshot()[0] == before


def test_what_names_a_commit_or_a_branch_may_be_given_as_it_is(face):
    world, owners = face
    repository, before = owners["repository"], world.snapshot()
    main, dev = repository.branch("main"), repository.branch("dev")
    head = main.head
    try:
        assert repository.ref(head).commit == repository.ref(main).commit == head
        assert repository.ref(repository.ref("main")).commit_id == head.id
        assert [commit.id for commit in repository.log(head, limit=1)] == [head.id]
        assert list(repository.diff(head, main)) == []
        repository.create_branch("copy", head)
        merged = repository.merge(dev, into=main)
        assert merged.commit.message == "merge dev into main"
        repository.revert(merged.commit, on=main, parent=1)
        main.reset(head)
        assert repository.tags.create("here", dev.head) == dev.head
        with repository.run("into a branch", into=main, lease="1h", ttl="2d") as run:
            run.put(PurePosixPath("folder") / "file", b"1")
            assert run.view(main).commit == run.view(head).commit == head
            assert run.reads(PurePosixPath("folder"), repository.ref(head)).prefix == "folder/"
        assert run.record.lease == timedelta(hours=1)
        assert main.get(PurePosixPath("folder/file")) == b"1"
        assert [entry.path for entry in main.entries(PurePosixPath("folder"))] == ["folder/file"]
        assert not repository.runs.reap(now="2013-01-01T05:00Z")
        assert not repository.runs.reap(now=datetime(2013, 1, 1, tzinfo=UTC))
        assert repository.runs.rollback(run.result.commit).commit
        assert repository.gc.mark(grace="7d", window="36h", dry_run=True).window == 36 * 3600
        repository.delete_branch(repository.branch("copy"))
        assert [move.ref for move in repository.moves(dev, limit=1)] == ["dev"]
    finally:
        world.restore(before)


def test_spark_and_the_file_system_name_a_wrong_argument(face):
    from graveler import fs, spark

    url: Any = fs.url
    read: Any = spark.read
    write: Any = spark.write
    view: Any = face[1]["ref"]
    refused(lambda: url(5), "view=5")
    refused(lambda: url(view, 5), "path=5")
    refused(lambda: read(view, 5), "path=5")
    refused(lambda: read(view, "a", format=5), "format=5")
    refused(lambda: read(view, "a", verify="yes"), "verify='yes'")
    refused(lambda: write(view, view, 5), "path=5")
    refused(lambda: read(view, "a", where=["day"]), "where=")
    refused(lambda: read(view, "a", columns="day"), "columns='day'")
    refused(lambda: write(view, view, "a", partition_by="day"), "partition_by='day'")
    refused(lambda: write(view, view, "a", mode="merge"), "mode='merge'")

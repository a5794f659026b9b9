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
TEXT = set(VALUES)
FREE = TEXT - {"empty"}  # these texts may be empty
OPTIONAL = TEXT - {"None"}
STRATEGY = OPTIONAL - {"mapping"}  # patterns; an empty mapping has none
MAYBE = OPTIONAL - {"5"}
SOME = TEXT - {"list", "empty", "mapping"}  # iterables; "" has no items
NO_LIST = TEXT - {"list"}
ITEMS = NO_LIST - {"mapping"}
ENTRY = Entry("p", "data/x", 1)

KINDS = (
    (
        TEXT,
        "name default_branch exist_ok take_over file source hidden expression ref "
        "first_parent path left right into commit on allow_empty onto branch pack "
        "reap gc dry_run on_refusal key on_failure lease ttl pattern place replace "
        "folder delete follow_links address verify missing entry handle given live "
        "key_or_commit step check mark grace window",
    ),
    (OPTIONAL, "storage splitting since until progress owner accepts state now hour"),
    (MAYBE, "limit parent threads size attempt days count"),
    (FREE, "after prefix run committer to content_type below delimiter"),
    (STRATEGY, "metadata strategy expected"),
    (TEXT - {"None", "empty"}, "message checksum"),
    ({"5", "empty", "object"}, "actions"),
    (FREE - {"bytes", "lone surrogate"}, "body"),
    (ITEMS, "items"),
    (NO_LIST, "exclude entries paths deleted"),
    (SOME, "records"),
    (TEXT - {"empty", "lone surrogate"}, "reason"),
    (TEXT - {"5"}, "try_number"),
)
"""Wrong values, and the arguments for which they usually are."""
FACE: dict[str, tuple[dict[str, Any], str]] = {
    "lake.repository": ({"name": "flights"}, "name"),
    "lake.create_repository": (
        {"name": "other"},
        "name storage default_branch exist_ok splitting take_over",
    ),
    "lake.restore_repository": ({"file": "missing"}, "file name storage"),
    "repository.branch": ({"name": "main"}, "name"),
    "repository.create_branch": ({"name": "other"}, "name source exist_ok hidden"),
    "repository.delete_branch": ({"name": "dev"}, "name"),
    "repository.branches": ({}, "hidden limit after"),
    "repository.ref": ({"expression": "main"}, "expression"),
    "repository.commit": ({"expression": "main"}, "expression"),
    "repository.log": ({}, "ref limit first_parent path prefix metadata run committer since until"),
    "repository.diff": ({"left": "main~1", "right": "main"}, "left right prefix"),
    "repository.merge": (
        {"source": "dev", "into": "main"},
        "source into message metadata strategy committer",
    ),
    "repository.revert": (
        {"commit": "main"},
        "commit on parent message metadata strategy committer allow_empty",
    ),
    "repository.cherry_pick": (
        {"commit": "dev"},
        "commit onto parent message metadata strategy committer allow_empty",
    ),
    "repository.moves": ({}, "branch limit hidden"),
    "repository.maintain": ({}, "pack reap gc dry_run progress"),
    "repository.fsck": ({}, "progress"),
    "repository.undo": ({}, "branch to"),
    "repository.dump_refs": ({}, "file"),
    "repository.restore_refs": ({}, "file"),
    "repository.why": ({"path": "a"}, "path ref"),
    "repository.ingestion": ({}, "branch into on_refusal"),
    "repository.run": ({"key": "k"}, "key into on_failure metadata lease ttl strategy"),
    "tags.create": ({"name": "v2"}, "name ref"),
    "tags.delete": ({"name": "v1"}, "name"),
    "tags.undelete": ({"name": "v0"}, "name"),
    "tags.moves": ({"name": "v1"}, "name"),
    "protection.add": ({"pattern": "main"}, "pattern actions"),
    "protection.remove": ({"pattern": "main"}, "pattern"),
    "links.allow": ({}, "place"),
    "links.disallow": ({}, "place"),
    "branch.has_below": ({}, "prefix"),
    "branch.put": ({"path": "p", "body": b"1"}, "path body content_type metadata replace"),
    "branch.store": ({"path": "p", "body": b"1"}, "path content_type metadata"),
    "branch.put_many": (
        {"items": [("p", b"1")]},
        "items content_type metadata replace threads progress",
    ),
    "branch.upload": (
        {"folder": "."},
        "folder prefix delete exclude follow_links content_type metadata replace threads progress",
    ),
    "branch.link": ({"path": "p", "address": "data/x", "size": 1}, "path address size checksum"),
    "branch.link_many": ({}, "entries"),
    "branch.copy": ({"source": "main", "path": "a", "to": "z"}, "source path to replace"),
    "branch.move": ({"path": "a", "to": "z"}, "path to"),
    "branch.import_": ({"source": "/none"}, "source prefix below replace verify"),
    "branch.delete": ({}, "path"),
    "branch.delete_many": ({}, "paths"),
    "branch.commit": ({"message": "m"}, "message metadata committer allow_empty paths"),
    "branch.commit_changes": (
        {"message": "m", "entries": [ENTRY]},
        "entries deleted expected message metadata committer",
    ),
    "branch.reset": ({}, "to"),
    "ref.list": ({}, "prefix after delimiter"),
    "ref.entries": ({}, "prefix"),
    "ref.stat": ({}, "path"),
    "ref.exists": ({}, "path"),
    "ref.get": ({}, "path"),
    "ref.get_many": ({"paths": ["a"]}, "paths missing threads"),
    "ref.download": (
        {"prefix": "", "folder": "never-made"},
        "prefix folder delete exclude threads progress",
    ),
    "ref.open": ({}, "path"),
    "ref.uris": ({}, "prefix"),
    "ref.has_below": ({}, "prefix"),
    "ref.uri": ({}, "entry"),
    "runs.open": ({"key": "k"}, "key into metadata on_failure lease ttl"),
    "runs.open_or_attach": ({"key": "k", "owner": "o"}, "key owner into metadata lease accepts"),
    "runs.attach": ({}, "handle"),
    "runs.handle_of": ({"given": "g"}, "given"),
    "runs.open_step": ({"given": "g"}, "given"),
    "runs.on_targets": ({"records": []}, "records"),
    "runs.get": ({}, "key"),
    "runs.list": ({}, "state live limit after"),
    "runs.park": ({"key": "open"}, "key owner attempt reason"),
    "runs.abandon": ({"key": "open"}, "key owner attempt reason"),
    "runs.reap": ({}, "dry_run now limit"),
    "runs.rollback": ({"key_or_commit": "done"}, "key_or_commit message metadata"),
    "runs.readers": ({}, "key_or_commit"),
    "run.step": ({"name": "s"}, "name try_number metadata"),
    "run.undo_step": ({"step": "s"}, "step metadata"),
    "run.commit": ({"message": "m"}, "message metadata"),
    "run.view": ({}, "ref"),
    "run.reads": ({}, "prefix ref"),
    "run.has_below": ({}, "prefix"),
    "run.publish": ({}, "strategy"),
    "run.close": ({}, "reason"),
    "run.park": ({}, "reason"),
    "run.abandon": ({}, "reason"),
    "gates.require_named": ({"pattern": "x", "check": "rows"}, "pattern check"),
    "gates.drop": ({}, "pattern"),
    "gates.judgements": ({}, "limit"),
    "gates.judgement": ({}, "ref"),
    "gc.keep": ({}, "pattern days count"),
    "gc.forget": ({}, "pattern"),
    "gc.get": ({}, "mark"),
    "gc.mark": ({}, "grace window dry_run progress"),
    "gc.sweep": ({"mark": "m"}, "mark dry_run progress"),
    "gc.run": ({}, "grace window progress"),
    "gc.undelete": ({}, "mark"),
    "ingestion.tick": ({}, "hour metadata"),
    "ingestion.hour": ({}, "hour"),
    "ingestion.release": ({"name": "q"}, "name metadata strategy"),
}
"""Owner and method: valid arguments, and the arguments of which wrong values are given."""
UNUSUAL = {
    "lake.restore_repository.name": OPTIONAL,
    "repository.log.path": FREE,
    "repository.moves.branch": OPTIONAL,
    "repository.undo.to": TEXT - {"5"},
    "branch.copy.path": FREE,
    "branch.move.path": FREE,
    "branch.commit.message": TEXT,
    "branch.commit.paths": TEXT - {"None", "list"},
    "branch.commit_changes.message": TEXT,
    "branch.reset.to": OPTIONAL,
    "runs.open_or_attach.owner": TEXT,
    "runs.list.after": OPTIONAL,
    "runs.rollback.message": OPTIONAL,
    "run.commit.message": FREE,
    "run.view.ref": OPTIONAL,
    "run.reads.ref": OPTIONAL,
    "gc.keep.pattern": OPTIONAL,
    "gc.forget.pattern": OPTIONAL,
    "ingestion.hour.hour": TEXT,
}
USUAL = {argument: kind for kind, arguments in KINDS for argument in arguments.split()}
CASES = [
    pytest.param(place, sound, argument, value, id=f"{place} {argument}={value}")
    for place, (sound, arguments) in FACE.items()
    for argument in arguments.split()
    for value in sorted(UNUSUAL.get(f"{place}.{argument}", USUAL[argument]))
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
    assert {place.rpartition(".")[0] for place in UNUSUAL} <= FACE.keys()
    for place, (sound, arguments) in FACE.items():
        owner, method = place.split(".")
        known = {*inspect.signature(getattr(face[1][owner], method)).parameters}
        for terms in TERMS if "terms" in known else ():
            known |= terms.__annotations__.keys()
        assert {*sound, *arguments.split()} <= known, place


@pytest.mark.parametrize(("place", "sound", "argument", "value"), CASES)
def test_a_wrong_argument_is_named_and_nothing_is_done(face, place, sound, argument, value):
    world, owners = face
    owner, method = place.split(".")
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
    refused(lambda: repository.gc.keep(days=-1), "days=-1")
    refused(lambda: repository.gc.keep(days=float("nan")), "days=nan")
    refused(lambda: repository.gc.keep(count=0), "count=0")
    refused(lambda: repository.gc.keep("", count=1), "pattern=''")
    refused(lambda: main.commit("m", metadata={"a": 1}), "metadata['a']")
    refused(lambda: repository.merge(main, into="main", strategy="source-wins"), "two different")
    refused(lambda: runs.open("  "), "a run key must be a non-empty text, not an empty text")
    refused(lambda: runs.open("k", lease="soon"), "lease='soon'", "36h")
    refused(lambda: runs.open("k", ttl=timedelta(0)), "ttl")
    refused(lambda: runs.reap(now="today"), "now='today'", "ISO 8601")
    refused(lambda: any_open(5), "target=5")
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

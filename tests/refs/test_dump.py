"""Damaged, forged, truncated and other wrong dumps of refs are refused, and change nothing."""

import json
import os
from hashlib import sha256

import pytest

from graveler.base.clock import from_unix_us
from graveler.base.records import encode_json
from graveler.errors import (
    AlreadyExistsError,
    CorruptionError,
    GravelerError,
    InvalidInputError,
    NewerFormatError,
    NotFoundError,
    OlderFormatError,
)
from graveler.model import Commit
from graveler.refs.commits import id_of
from graveler.refs.dump import read_dump
from tests.harness.worlds import ScriptedWorld


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """The lines of a dump of a history with a merge, a tag and a rule."""
    repo = ScriptedWorld().repo(scripted=False)
    for name in ("main", "dev"):
        branch = repo.create_branch(name, exist_ok=True)
        branch.put(name, b"1")
        branch.commit(name, metadata={"k": "v"})
    repo.merge("dev", into="main")
    repo.tags.create("v1")
    repo.protection.add("main")
    path = tmp_path_factory.mktemp("dump") / "refs"
    repo.dump_refs(path)
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def file(tmp_path):
    """Writes lines to a file, with a matching end line unless the test gives one."""

    def write(lines, *, end=True):
        body = b"".join(lines)
        if end:
            body += encode_json({"end": {"sha256": sha256(body).hexdigest()}}) + b"\n"
        path = tmp_path / "refs"
        path.write_bytes(body)
        return path

    return write


def changed(line, **fields):
    return encode_json({**json.loads(line), **fields}) + b"\n"


def test_a_dump_is_readable_lines(dumped):
    header, *rest, end = [json.loads(line) for line in dumped]
    assert header == {
        "kind": "graveler refs",
        "format": 2,
        "repository": "flights",
        "storage": "",
        "storage_id": f"s{1:016x}",
        "settings": {
            "links": {"places": []},
            "packing": {"after": 100, "branches": []},
            "retention": {"default": [None, None], "format": 2, "patterns": {}},
        },
        "default_branch": "main",
        "splitting": {
            "policy": "hash",
            "min_bytes": 0,
            "max_bytes": 2000,
            "raggedness": 3,
            "hard": 32,
            "number": 0,
        },
    }
    kinds = [
        next(key for key in ("metarange", "branch", "tag", "protection") if key in one)
        for one in rest
    ]
    assert kinds == ["metarange"] * 4 + ["branch"] * 2 + ["tag", "protection"]
    assert [one["generation"] for one in rest[:4]] == [1, 2, 3, 4]
    assert rest[-1] == {"protection": {"main": ["write", "commit", "reset", "delete"]}}
    assert end["end"]["sha256"] == sha256(b"".join(dumped[:-1])).hexdigest()


def test_a_dump_is_read_whole(dumped, file):
    contents = read_dump(file(dumped[:-1]))
    assert sorted(contents.branches) == ["dev", "main"]
    assert list(contents.generations.values()) == [1, 2, 3, 4]
    assert len(contents.trees) == 2  # the trees of the heads


def test_a_commit_that_is_not_what_its_id_says_is_refused(dumped, file):
    repo = ScriptedWorld().repo(scripted=False)
    before = (list(repo.stores.refs.commits.list()), list(repo.moves()), repo.protection.list())
    for field, value in {
        "message": "forged",
        "committer": "mallory",
        "metadata": {"k": "w"},
        "created": 1,
        "metarange": "0" * 64,
        "parents": [],
    }.items():
        forged = file([*dumped[:2], changed(dumped[2], **{field: value}), *dumped[3:-1]])
        with pytest.raises(CorruptionError, match=r"line 3: commit .* does not match its id"):
            read_dump(forged)
        with pytest.raises(CorruptionError, match="nothing was written"):
            repo.restore_refs(forged)
    after = (list(repo.stores.refs.commits.list()), list(repo.moves()), repo.protection.list())
    assert after == before


def root(tree):
    """Return the line of a commit whose id matches its content."""
    fields = {"metarange": tree, "message": "m", "committer": "", "metadata": {}}
    commit = Commit(**fields, id="", parents=(), generation=1, created=from_unix_us(0))
    identifier = id_of(commit)
    fields |= {"commit": identifier, "parents": [], "created": 0, "generation": 1, "spans": None}
    return encode_json(fields) + b"\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: [d[0], *d[2:-1]], "is not in the file before it"),
        (lambda d: [d[0], d[2], d[1], *d[3:-1]], "is not in the file before it"),
        (lambda d: [*d[:2], changed(d[2], generation=7), *d[3:-1]], "has generation 7"),
        (lambda d: [*d[:-1], changed(d[-3], head="0" * 64)], "is not in the file before it"),
        (
            lambda d: [d[0], root("../../etc"), *d[1:-1]],
            r"line 2 cannot be read: field 'metarange' is '../../etc'",
        ),
        (lambda d: [*d[:-1], b"not json\n"], "is not JSON"),
        (lambda d: [*d[:-1], b"[1]\n"], "cannot be read"),
        (lambda d: [*d[:-1], b"{}\n"], "cannot be read"),
        (lambda d: [*d[:-1], b'{"branch":"a/b","head":1}\n'], "is not in the file|cannot be read"),
        (lambda d: [*d[:-1], changed(d[-3], tag="a b")], "cannot be read"),
        (lambda d: [*d[:-1], b'{"protection":{"main":["fly"]}}\n'], "cannot be read"),
        (lambda d: [*d[:-1], b'{"protection":[]}\n'], "cannot be read"),
        (lambda d: [*d[:5], *d[7:-1]], "it has no branch 'main'"),
        (
            lambda d: [*d[:2], changed(d[2], metadata={"k": 1}), *d[3:-1]],
            "line 3 cannot be read: .*'metadata.k'",
        ),
        (lambda d: [*d[:2], changed(d[2], parents=None), *d[3:-1]], "cannot be read"),
    ],
)
def test_what_does_not_fit_together_is_told(dumped, file, change, said):
    with pytest.raises(CorruptionError, match=said):
        read_dump(file(change(dumped)))


def test_a_dump_that_was_truncated_or_damaged_is_refused(dumped, file):
    for kept in range(1, len(dumped)):
        with pytest.raises(CorruptionError, match="has no end"):
            read_dump(file(dumped[:kept], end=False))
    with pytest.raises(CorruptionError, match="checksum differs"):
        read_dump(file([*dumped[:-2], dumped[-1]], end=False))
    with pytest.raises(CorruptionError, match="checksum differs"):
        read_dump(file([*dumped[:-1], dumped[-1][:-3]], end=False))
    with pytest.raises(CorruptionError, match="after its end"):
        read_dump(file([*dumped, dumped[1]], end=False))


def test_no_changed_byte_goes_unnoticed(dumped, file):
    whole = b"".join(dumped)
    for position in range(0, len(whole), 37):
        body = bytearray(whole)
        body[position] ^= 0x11
        with pytest.raises(GravelerError):
            read_dump(file([bytes(body)], end=False))


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"[]\n", b"PK\x03\x04\xff\n", b'{"format":2,"kind":"graveler refs"}\n']
)
def test_another_file_is_no_dump(dumped, file, line):
    with pytest.raises((InvalidInputError, CorruptionError), match="not a dump"):
        read_dump(file([line, *dumped[1:-1]] if line else [], end=False))


def test_a_header_of_another_format_or_name_is_refused(dumped, file):
    unnamed = {name: value for name, value in json.loads(dumped[0]).items() if name != "format"}
    for header, error, said in (
        (changed(dumped[0], format=3), NewerFormatError, "format 3"),
        (changed(dumped[0], format=1), OlderFormatError, r"line 1 has format 1.*only format 2"),
        (encode_json(unnamed) + b"\n", OlderFormatError, "line 1 has format 1"),
        (changed(dumped[0], repository="../x"), InvalidInputError, "repository name"),
    ):
        with pytest.raises(error, match=said):
            read_dump(file([header, *dumped[1:-1]]))


def test_a_dump_replaces_an_older_one_at_once_and_nothing_else(tmp_path):
    repo = ScriptedWorld().repo(scripted=False)
    for _ in range(2):
        repo.dump_refs(tmp_path / "refs")
    assert [path.name for path in tmp_path.iterdir()] == ["refs"]
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, error, said in (
        ("folder", InvalidInputError, "is a folder"),
        ("pipe", InvalidInputError, "not a regular file"),
        ("nowhere/refs", NotFoundError, "no folder"),
    ):
        with pytest.raises(error, match=said):
            repo.dump_refs(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe", "refs"]
    with pytest.raises(NotFoundError, match="nowhere"):
        repo.restore_refs(tmp_path / "nowhere")
    taken = ScriptedWorld().repo(scripted=False)
    taken.branch("main").commit("moved", allow_empty=True)
    with pytest.raises(AlreadyExistsError, match="branch 'main'"):
        taken.restore_refs(tmp_path / "refs")

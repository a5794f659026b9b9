"""Limits: the largest allowed value is written and read on every store, a larger one is refused."""

import json
import re
from itertools import count
from pathlib import Path

import pytest

from graveler import model
from graveler.base.background import Inline
from graveler.base.clock import RandomIds, SystemClock
from graveler.config import LakeConfig
from graveler.errors import CorruptionError, InvalidInputError
from graveler.gates import checks
from graveler.kv.registry import open_kv
from graveler.kv.store import MAX_VALUE_BYTES
from graveler.lake import Lake
from graveler.model import Entry
from graveler.refs.commits import decode_commit
from graveler.values import decode_entry, encode_entry, encode_value
from tests.harness.lakes import kv_uri
from tests.harness.servers import DATABASES

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "limits.md"
NAMES = count(1)
QUOTE = '"'  # takes two bytes in a record


@pytest.fixture(params=["mem", "sqlite", "rocksdb", *DATABASES])
def repo(request, tmp_path):
    clock = SystemClock()
    config = LakeConfig("/lake", "mem://", f"mem://limits-{next(NAMES)}")
    kv = open_kv(kv_uri(request.param, tmp_path, request))
    with Lake(config, kv, clock=clock, ids=RandomIds(clock), background=Inline()) as lake:
        yield lake.create_repository("flights")


def pairs(size):
    """Return metadata of `size` bytes of JSON."""
    empty = len(json.dumps({"k": ""}, separators=(",", ":")))
    return {"k": "é" * ((size - empty) // 2) + "x" * ((size - empty) % 2)}


def test_an_entry_as_large_as_may_be_is_written_and_read(repo):
    main = repo.branch("main")
    path = "p" * model.PATH_BYTES
    content_type = QUOTE * (model.CONTENT_TYPE_BYTES // 2)
    metadata = pairs(model.METADATA_BYTES)
    main.put(path, b"1", content_type=content_type, metadata=metadata)
    assert main.stat(path).metadata == metadata
    main.commit("large")
    found = repo.ref("main").stat(path)
    assert (found.content_type, found.metadata) == (content_type, metadata)


def test_the_largest_commit_and_run_are_written_and_read(repo):
    message = "m" * model.MESSAGE_BYTES
    metadata = pairs(model.METADATA_BYTES)
    main = repo.branch("main")
    main.put("a", b"1")
    main.commit(message, metadata=metadata, committer="c" * model.COMMITTER_BYTES)
    found = repo.commit("main")
    assert (found.message, found.metadata) == (message, metadata)
    key = "k" * model.RUN_KEY_BYTES
    with repo.run(key, metadata=metadata) as run:
        run.put("b", b"1")
    assert repo.runs.get(key).metadata == metadata
    name = "b" * model.REF_CHARACTERS
    assert repo.create_branch(name).name == name
    repo.tags.create(name)
    assert repo.tags.list() == {name: repo.commit("main").id}


TOO_LARGE = {
    "path": lambda repo, main: main.put("p" * (model.PATH_BYTES + 1), b"1"),
    "content_type": lambda repo, main: main.put(
        "p", b"1", content_type=QUOTE * (model.CONTENT_TYPE_BYTES // 2) + "x"
    ),
    "metadata of": lambda repo, main: main.put("p", b"1", metadata=pairs(model.METADATA_BYTES + 1)),
    "1001 pairs": lambda repo, main: main.store(
        "p", b"1", metadata={str(number): "" for number in range(model.METADATA_PAIRS + 1)}
    ),
    "address": lambda repo, main: main.link_many(
        [Entry("p", "data/" + "x" * model.ADDRESS_BYTES, 1)]
    ),
    "checksum": lambda repo, main: main.link_many(
        [Entry("p", "data/x", 1, "x" * (model.CHECKSUM_BYTES + 1))]
    ),
    "version": lambda repo, main: main.link_many(
        [Entry("p", "data/x", 1, version="x" * (model.CHECKSUM_BYTES + 1))]
    ),
    "message": lambda repo, main: main.commit("m" * (model.MESSAGE_BYTES + 1)),
    "committer": lambda repo, main: main.commit("m", committer="c" * (model.COMMITTER_BYTES + 1)),
    "of a commit": lambda repo, main: main.commit("m", metadata=pairs(model.METADATA_BYTES + 1)),
    "of a merge": lambda repo, main: repo.merge(
        "main~1", into="main", metadata=pairs(model.METADATA_BYTES + 1)
    ),
    "of a run": lambda repo, main: repo.runs.open("k", metadata=pairs(model.METADATA_BYTES + 1)),
    "key": lambda repo, main: repo.runs.open("k" * (model.RUN_KEY_BYTES + 1)),
    "branch": lambda repo, main: repo.create_branch("b" * (model.REF_CHARACTERS + 1)),
    "tag": lambda repo, main: repo.tags.create("b" * (model.REF_CHARACTERS + 1)),
    "lease": lambda repo, main: repo.runs.open("k", lease=f"{model.LONGEST_DURATION.days + 1}d"),
}


@pytest.mark.parametrize("repo", ["mem"], indirect=True)
@pytest.mark.parametrize("what", TOO_LARGE)
def test_what_is_larger_is_refused_before_anything_is_stored(repo, what):
    main = repo.branch("main")
    main.put("a", b"1")
    main.commit("a")
    main.put("staged", b"1")
    kv, objects = repo.stores.kv, repo.stores.objects
    before = kv.snapshot(), [info.key for info in objects.list()]
    with pytest.raises(InvalidInputError) as caught:
        TOO_LARGE[what](repo, main)
    assert re.search(r"\d{3}", str(caught.value))  # contains the limit
    assert (kv.snapshot(), [info.key for info in objects.list()]) == before


def test_a_reader_takes_no_more_than_a_writer_writes():
    _, value = encode_entry(Entry("p", "data/x", 1, metadata=pairs(model.METADATA_BYTES)))
    assert len(value) < model.ENTRY_BYTES
    assert decode_entry(b"p", value).size == 1
    large = encode_value(b"\0" * 32, b" " * model.ENTRY_BYTES)
    with pytest.raises(CorruptionError, match=str(model.ENTRY_BYTES)):
        decode_entry(b"p", large)
    with pytest.raises(CorruptionError, match=str(model.RECORD_BYTES)):
        decode_commit("0" * 64, b" " * (model.RECORD_BYTES + 1))
    fields = 6 * (model.ADDRESS_BYTES + 2 * model.CHECKSUM_BYTES + model.CONTENT_TYPE_BYTES)
    assert model.METADATA_BYTES + fields < model.ENTRY_BYTES  # for any content
    assert model.ENTRY_BYTES < model.BLOCK_BYTES
    assert model.RECORD_BYTES + 2 * model.PATH_BYTES + 3 <= 400 * 1024  # an item of DynamoDB


def test_the_page_has_every_limit():
    rows = dict(
        re.findall(r"^\| `(\w+)` \|[^|]*\| ([\d,]+)", PAGE.read_text("utf-8"), re.MULTILINE)
    )
    numbers = {name: int(number.replace(",", "")) for name, number in rows.items()}
    expected = {name: limit for name, limit in vars(model).items() if isinstance(limit, int)}
    expected["LONGEST_DURATION"] = model.LONGEST_DURATION.days
    assert numbers == expected
    assert "9800" in PAGE.read_text("utf-8")
    assert model.TIMES[1].year == 9800


def wide(number, size=9_000):
    return f"{number:04}" + "x" * size


GATE = checks.file_size("a/")
GROWING = {
    "protection": lambda repo: [repo.protection.add(wide(n)) for n in range(50)],
    "gates": lambda repo: [repo.gates.require(wide(n), GATE) for n in range(50)],
    "links": lambda repo: [repo.links.allow(f"s3://b/{wide(n, 900)}") for n in range(500)],
    "retention": lambda repo: [repo.gc.keep(wide(n), days=1) for n in range(50)],
}


@pytest.mark.parametrize("repo", ["mem"], indirect=True)
@pytest.mark.parametrize("what", GROWING)
def test_a_record_that_grew_too_large_is_refused_by_name(repo, what):
    with pytest.raises(InvalidInputError, match=f"at most {MAX_VALUE_BYTES}"):
        GROWING[what](repo)
    main = repo.branch("main")
    main.put("a", b"1")
    assert main.commit("a").message == "a"

"""Many paths at once: `stat_many` and `table` have the same results as `stat` and `list`."""

import pickle
from copy import deepcopy
from dataclasses import replace
from datetime import UTC
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed.cache.flat import Run
from graveler.errors import CorruptionError, InvalidInputError
from graveler.model import Entry
from graveler.reads.table import SCHEMA, record_batch
from graveler.values import encode_entry, encode_value

PATHS = [f"t/{number:05}.csv" for number in range(600)]


@pytest.fixture
def main(repo):
    """A branch with every second path."""
    branch = repo.branch("main")
    stored = branch.store("x", b"x")
    branch.link_many(
        replace(stored, path=path, metadata={"n": str(number)})
        for number, path in list(enumerate(PATHS))[::2]
    )
    branch.commit("even")
    return branch


def test_each_path_has_the_entry_that_stat_gives(repo, main):
    """Also staged and deleted ones, in any order, and as a copy for another process."""
    main.put(PATHS[1], b"new")
    main.put(PATHS[2], b"changed")
    main.delete(PATHS[4])
    paths = [PATHS[0], *Random(5).sample(PATHS, len(PATHS))]
    for view in (main, repo.ref("main")):
        found = view.stat_many(paths)
        for path, one in zip(paths, found, strict=True):
            assert (one is not None) == view.exists(path)
            assert one is None or (one.path, one) == (path, view.stat(path))
        assert [view.stat_many([path])[0] for path in paths] == found
        assert view.stat_many([]) == []
        with pytest.raises(InvalidInputError, match="path"):
            view.stat_many([*PATHS, "a\0b"])
        for few in (found, found[:3]):
            assert pickle.loads(pickle.dumps(few)) == few == deepcopy(few)


def test_reads_in_a_run_are_its_inputs(repo, main):
    with repo.run("r", into="main") as run:
        run.stat_many(PATHS[:3])
        run.put("out", b"1")
    read = {item.prefix for record in repo.runs.list() for item in record.inputs}
    assert read
    assert all(path.startswith(tuple(read)) for path in PATHS[:3])
    assert not PATHS[3].startswith(tuple(read - {"t/"}))


def test_a_table_has_the_entries_of_a_listing(repo, main):
    main.put("t/00001.csv", b"staged", content_type="text/plain", metadata={"a": "b"})
    main.delete("t/00004.csv")
    for view in (main, repo.ref("main")):
        assert view.listing().schema == SCHEMA
        for prefix in ("", "t/", "t/000", "t/00598", "u"):
            reader = view.listing(prefix)
            rows = [
                Entry(**{**row, "metadata": dict(row["metadata"])})
                for row in reader.read_all().to_pylist()
            ]
            assert rows == list(view.entries(prefix))
    first = next(iter(repo.ref("main").listing()))  # it is read batch by batch
    assert 0 < first.num_rows < 200


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ENTRIES = st.builds(
    Entry,
    path=st.just("p"),
    address=TEXT.filter(bool),
    size=st.integers(0, 2**62),
    checksum=TEXT,
    content_type=TEXT,
    mtime=st.none() | st.datetimes(timezones=st.just(UTC)).filter(lambda at: 1 < at.year < 9800),
    metadata=st.dictionaries(TEXT, TEXT, max_size=3),
    version=TEXT,
    computed=st.booleans(),
)


@settings(max_examples=25)
@given(st.dictionaries(TEXT.filter(bool), ENTRIES, min_size=1, max_size=30))
def test_any_entries_are_in_the_columns_as_they_are(entries):
    rows = sorted((path.encode(), encode_entry(one)[1]) for path, one in entries.items())
    batch = record_batch(Run.of(rows))
    batch.validate(full=True)
    assert batch.column("path").to_pylist() == [key.decode() for key, _ in rows]
    for row, (key, _) in zip(batch.to_pylist(), rows, strict=True):
        one = entries[key.decode()]
        row["metadata"] = dict(row["metadata"])
        assert {**row, "path": "p"} == {name: getattr(one, name) for name in SCHEMA.names}


@given(st.data())
def test_what_is_no_entry_is_refused_with_its_path(data):
    one = Entry("t", "data/x", 1, f"sha256:{sha256().hexdigest()}", "text/csv", metadata={"n": "1"})
    rows = [(f"{n:03}".encode(), encode_entry(one)[1]) for n in range(5)]
    key, value = rows[2]
    cut = data.draw(st.integers(0, len(value) - 1))
    rows[2] = (
        key,
        data.draw(
            st.sampled_from(
                [value[:cut], encode_value(bytes(32), value[35 : 35 + cut]), value + b"x"]
            )
        ),
    )
    with pytest.raises(CorruptionError, match="002"):
        record_batch(Run.of(rows))

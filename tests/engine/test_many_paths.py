"""Many paths at once: `stat_many` and `table` have the same results as `stat` and `list`."""

import pickle
from copy import deepcopy
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count, islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.committed.cache.flat import Run
from graveler.committed.lookup import find_many
from graveler.errors import CorruptionError, InvalidInputError
from graveler.model import Entry
from graveler.reads.table import SCHEMA, record_batch
from graveler.values import encode_entry, encode_value


def entry(number, **fields):
    known = {
        "checksum": f"sha256:{sha256(str(number).encode()).hexdigest()}",
        "computed": True,
        "content_type": "text/csv" if number % 3 else "",
        "mtime": datetime(2013, 1, 1, number % 24, tzinfo=UTC) if number % 5 else None,
        "metadata": {"n": str(number), "ß": "ä"} if number % 7 == 0 else {},
    }
    return Entry(f"t/{number:05}.csv", f"data/x/{number}", number * 1000, **{**known, **fields})


def fill(branch, numbers):
    stored = branch.store("x", b"x")
    return branch.link_many(
        Entry(f"t/{number:05}.csv", stored.address, 1, stored.checksum, computed=True,
              metadata={"n": str(number)})
        for number in numbers
    )  # fmt: skip


@pytest.fixture
def main(repo):
    branch = repo.branch("main")
    fill(branch, range(0, 2_000, 2))
    branch.commit("even")
    return branch


PATHS = [f"t/{number:05}.csv" for number in range(2_000)]


def shuffled(paths):
    return Random(5).sample(paths, len(paths))


def test_each_path_has_the_entry_that_stat_gives(repo, main):
    paths = shuffled(PATHS)
    for view in (main, repo.ref("main")):
        found = view.stat_many(paths)
        for path, one in list(zip(paths, found, strict=True))[:100]:
            assert (one is not None) == view.exists(path)
            assert one is None or one == view.stat(path)
        assert [one is not None for one in found] == [int(path[2:7]) % 2 == 0 for path in paths]
        assert [one.path for one in found if one] == [
            path for path in paths if int(path[6]) % 2 == 0
        ]


def test_a_few_paths_and_many_give_the_same(main):
    paths = shuffled(PATHS)[:300]
    assert [main.stat_many([path])[0] for path in paths] == main.stat_many(paths)


@pytest.mark.parametrize("count", [3, 300])
def test_found_entries_can_go_to_another_process(main, count):
    found = main.stat_many(PATHS[:count])
    assert pickle.loads(pickle.dumps(found)) == found
    assert deepcopy(found[1:]) == found[1:]


def test_a_path_may_come_twice_and_none_may_come_at_all(main):
    assert main.stat_many([]) == []
    first, second = main.stat_many([PATHS[0], PATHS[0]])
    assert first == second == main.stat(PATHS[0])


def test_staged_writes_and_deletions_count(main):
    main.put(PATHS[1], b"new")
    main.put(PATHS[2], b"changed")
    main.delete(PATHS[4])
    found = dict(zip(PATHS, main.stat_many(PATHS), strict=True))
    assert found[PATHS[1]] == main.stat(PATHS[1])
    assert found[PATHS[2]].size == len(b"changed")
    assert found[PATHS[4]] is None
    assert found[PATHS[6]] == main.stat(PATHS[6])


def test_many_paths_are_found_on_a_branch_that_never_rests(main, monkeypatch):
    numbers = count()

    def moving(*asked):
        main.put(PATHS[1], str(next(numbers)).encode())
        main.commit("later")
        return find_many(*asked)

    main.put(PATHS[0], b"staged")
    monkeypatch.setattr("graveler.reads.view.find_many", moving)
    first, second = main.stat_many(PATHS[:2])
    assert (first.size, second) == (len(b"staged"), None)


@pytest.mark.parametrize("wrong", ["", "a\0b", "x" * 2000, "\udcff", 5, None])
def test_what_is_no_path_is_refused_by_name(main, wrong):
    with pytest.raises(InvalidInputError, match="path"):
        main.stat_many([*PATHS, wrong])


@pytest.mark.parametrize("wrong", ["abc", b"abc", 5, None, {"a": 1}])
def test_what_is_no_list_of_paths_is_refused(main, wrong):
    with pytest.raises(InvalidInputError, match="several paths"):
        main.stat_many(wrong)


def test_reads_in_a_run_are_its_inputs(repo, main):
    with repo.run("r", into="main") as run:
        run.stat_many(PATHS[:3])
        run.put("out", b"1")
    read = {item.prefix for record in repo.runs.list() for item in record.inputs}
    assert read
    assert all(path.startswith(tuple(read)) for path in PATHS[:3])
    assert not PATHS[3].startswith(tuple(read - {"t/"}))


def rows_of(reader):
    return [
        Entry(**{**row, "metadata": dict(row["metadata"])}) for row in reader.read_all().to_pylist()
    ]


def test_a_table_has_the_entries_of_a_listing(repo, main):
    main.put("t/00001.csv", b"staged", content_type="text/plain", metadata={"a": "b"})
    main.delete("t/00004.csv")
    for view in (main, repo.ref("main")):
        for prefix in ("", "t/", "t/000", "t/01999", "u"):
            assert rows_of(view.table(prefix)) == list(view.entries(prefix))


def test_a_table_is_read_batch_by_batch(repo, main):
    main.commit("more", allow_empty=True)
    reader = repo.ref("main").table()
    assert reader.schema == SCHEMA
    first = next(iter(reader))
    assert 0 < first.num_rows < 1_000


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
    rows = [(f"{n:03}".encode(), encode_entry(entry(n))[1]) for n in range(5)]
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


def test_a_listing_decodes_nothing_that_is_not_looked_at(main):
    one = next(iter(main.entries()))
    assert one.size == 1
    assert (one.path, one.metadata) == ("t/00000.csv", {"n": "0"})
    assert repr(one).startswith("Entry(path='t/00000.csv'")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        one.nothing  # noqa: B018
    assert len(list(islice(main.entries(), 7))) == 7

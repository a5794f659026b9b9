"""Statistics are read from footers by ranges, kept with the commit, and say when data is gone."""

import io
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graveler
from graveler import checks
from graveler.frames.footers import read_footer
from graveler.gates import Candidate, Gate
from graveler.gates.statistics import STATISTICS, Statistics, statistics
from graveler.model import Entry
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ANYTHING
from tests.gates.files import parquet, rows

LARGE = rows(200_000, text=[f"{number:032x}" for number in range(200_000)])


class Stored:
    """A stand-in for the files of a tree."""

    def __init__(self, data):
        self.data = data

    def get(self, path):
        return self.data[path]

    def open(self, path):
        return io.BytesIO(self.data[path])

    def read_range(self, path, start, length):
        return self.data[path][start : start + length]


class Counting(MemoryStore):
    """A store that counts the bytes read of each object."""

    def __init__(self, name):
        super().__init__(name)
        self.read: Counter[str] = Counter()

    def get_range(self, key, start, length, expected=ANYTHING):
        piece = super().get_range(key, start, length, expected)
        self.read[key] += len(piece)
        return piece

    def get(self, key, expected=ANYTHING):
        whole = super().get(key, expected)
        self.read[key] += len(whole)
        return whole


@pytest.fixture
def counted(repo):
    """A repository on a store that counts, with that store."""
    store = Counting("mem://counted")
    repo.stores = replace(repo.stores, objects=store, open_store=lambda _: store)
    return repo, store


def candidate_of(repo, files):
    repo.create_branch("dev", exist_ok=True)
    dev = graveler.Branch(repo.stores, "dev")
    for path, data in files.items():
        dev.put(path, data)
    commit = dev.commit("files")
    return Candidate(repo.stores, commit, target=repo.commit("main"), into="main")


@pytest.mark.parametrize(
    "gate",
    [
        checks.row_count("t/"),
        checks.schema("t/", {"id": ""}),
        checks.not_null("t/", "id", "text"),
        checks.in_range("t/", "id", 0),
        checks.file_format("t/"),
        checks.row_count_change("t/"),
    ],
    ids=lambda gate: gate.name,
)
def test_no_data_is_read_where_footers_suffice(counted, gate):
    repo, store = counted
    candidate = candidate_of(repo, {"t/a.parquet": LARGE})
    address = candidate.stat("t/a.parquet").address
    assert gate(candidate) is None
    assert 0 < store.read[address] < 140_000 < len(LARGE) / 15


def test_a_footer_is_read_once_for_all_that_ask_for_statistics(counted):
    repo, store = counted
    candidate = candidate_of(repo, {"t/a.parquet": LARGE})
    address = candidate.stat("t/a.parquet").address
    first = candidate.stats("t/")
    read = store.read[address]
    assert (
        candidate.new_stats("t/") == candidate.of("g", ("t/",), ("content",)).stats("t/") == first
    )
    assert store.read[address] == read


def test_statistics_say_what_is_there(repo):
    candidate = candidate_of(
        repo,
        {
            "t/a.parquet": rows(2, x=[None, 1.5], s=["b" * 100, "c"]),
            "t/b.parquet": rows(3, x=[0.5, 2.5, None]),
            "t/_SUCCESS": b"",
        },
    )
    found = candidate.stats("t/")
    assert (found.files, found.rows) == (2, 5)
    assert (found.columns["x"].nulls, found.columns["x"].least) == (2, 0.5)
    assert found.columns["s"].least == "b" * 64
    assert STATISTICS.read(STATISTICS.plain(found), "statistics") == found
    assert candidate.stats("nothing/") == Statistics()
    assert candidate_of(repo, {"u/a.bin": b"1"}).stats("u/").rows is None


def publish(repo, hour, number, gates=()):
    with repo.run(f"hour {hour}", gates=gates) as run:
        run.put(f"t/{hour}/a.parquet", rows(number))


@graveler.gate(reads="history")
def look(candidate):
    candidate.report(
        past=[[past.run, past.stats.rows, past.stats.files] for past in candidate.history("t/", 3)]
    )


def past_of(repo, hour):
    verdicts = repo.runs.get(f"hour {hour}").verdicts
    return next(verdict.facts["past"] for verdict in verdicts if verdict.gate == "look")


def test_history_is_without_what_was_rolled_back(repo):
    for hour in range(4):
        publish(repo, hour, 10 + hour)
    for hour in (1, 2):
        repo.runs.rollback(f"hour {hour}")
    repo.revert(repo.branch("main").head)  # hour 2 stands again
    publish(repo, 4, 1, [look])
    assert past_of(repo, 4) == [["hour 3", 13, 1], ["hour 2", 12, 1], ["hour 0", 10, 1]]


def test_history_outlives_the_data(repo):
    for hour in range(3):
        publish(repo, hour, 10 + hour, [checks.row_count("t/")])
    store = repo.stores.objects
    for info in list(store.list("data/")):
        store.delete(info.key)
    publish(repo, 3, 1, [look])
    assert past_of(repo, 3) == [["hour 2", 12, 1], ["hour 1", 11, 1], ["hour 0", 10, 1]]


def test_a_commit_reset_to_keeps_what_it_brought(repo):
    for hour in range(3):
        publish(repo, hour, 10 + hour)
    repo.gates.require("main", checks.row_count("t/", at_least=0))
    repo.branch("main").reset(to="main~1")  # judged, because hour 2 would be removed
    publish(repo, 4, 1, [look])
    assert past_of(repo, 4) == [["hour 1", 11, 1], ["hour 0", 10, 1]]


def test_what_cannot_be_read_is_left_out_of_history(repo):
    with repo.run("hour 0") as run:
        run.put("t/0/a.parquet", b"no parquet")
    publish(repo, 1, 5)
    publish(repo, 2, 1, [look])
    assert past_of(repo, 2) == [["hour 1", 5, 1]]


def adds(candidate):
    past = [one.stats.rows for one in candidate.history("t/")]
    candidate.report(past=past, rows=candidate.new_stats("t/").rows)


def test_an_isolated_gate_keeps_statistics_of_its_candidate_only(disk):
    for hour in range(2):
        publish(disk, hour, 10 + hour)
    publish(disk, 2, 5, [Gate("adds", adds, reads="history", isolated=True)])
    assert disk.runs.get("hour 2").verdicts[0].facts == {"past": [11, 10], "rows": 5}
    (key,) = (key.decode() for key, _ in disk.stores.kv.scan(f"stats:{disk.stores.uid}"))
    assert key.split("/")[1] == disk.commit("main").id


_VALUES = st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=12)


@given(st.lists(_VALUES, min_size=1, max_size=4), st.integers(1, 5))
def test_statistics_of_footers_are_those_of_the_data(files, group):
    entries, everything = [], []
    there = Stored({})
    for number, values in enumerate(files):
        data = parquet({"x": pa.array(values, pa.int64())}, row_group_size=group)
        address = f"data/{number}.parquet"
        there.data[f"{number}.parquet"] = data
        entries.append(Entry(path=f"{number}.parquet", address=address, size=len(data)))
        everything += values
        assert read_footer(there, entries[-1]).rows == len(values)
    found = statistics(there, entries, {})
    present = [value for value in everything if value is not None]
    assert found.rows == len(everything)
    column = found.columns.get("x")
    if column is None:
        assert not everything
        return
    assert column.nulls == len(everything) - len(present)

    def told(value):
        return value if abs(value) <= 2**53 else str(value)

    if present:
        assert column.least == told(min(present))
        assert column.greatest == told(max(present))
    else:
        assert column.least is None

"""The ranges that result from equal records, for any number and order of commits."""

from itertools import groupby, pairwise, zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.merge import merge
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_writer import RangeWriter
from graveler.committed.splitting import DIRECTORY, HASH, Cutter, Splitting
from graveler.sstable.reader import TableReader
from graveler.values import total
from tests.committed.trees import between, contents, new_store, problems_of, record, rows_of

SMALL = [
    Splitting(HASH, max_bytes=400, raggedness=4, hard=3),
    Splitting(HASH, min_bytes=100, max_bytes=600, raggedness=3, hard=4),
    Splitting(DIRECTORY, max_bytes=600, raggedness=4, hard=5, hard_directories=7),
    Splitting(DIRECTORY, max_bytes=200, raggedness=2, hard=4, hard_directories=3),
]
POLICIES = [
    Splitting(HASH, max_bytes=20_000, raggedness=128),
    Splitting(DIRECTORY, max_bytes=20_000),
]
TREES = st.dictionaries(st.text("ab/", min_size=1, max_size=6), st.sampled_from("AB"), max_size=40)


def segments(tree, store, splitting):
    """Return range ids by records, for parts between hard breaks whose ranges all end naturally."""
    cutter = Cutter(splitting)
    infos = metarange.read(store, tree)
    at, number = [], 0
    for info, following in zip_longest(infos, infos[1:]):
        at.append((number, info))
        if following is None or cutter.hard(info.max_key, following.min_key):
            number += 1
    found = {}
    for _, group in groupby(at, key=lambda item: item[0]):
        ranges = [info for _, info in group]
        if all(info.natural for info in ranges):
            records = [item for info in ranges for item in rows_of(store.open(info.id))]
            found[tuple(records)] = [info.id for info in ranges]
    return found


@settings(max_examples=120, deadline=None)
@given(
    st.lists(TREES, min_size=1, max_size=4),
    st.lists(TREES, max_size=3),
    st.sampled_from(SMALL),
)
def test_equal_records_between_hard_breaks_have_equal_ranges(one, other, splitting):
    store = new_store()
    found = []
    for states in (one, [*other, one[-1]], [one[-1]]):
        tree, before = EMPTY_METARANGE, dict[str, str]()
        for after in states:
            tree = apply(store, tree, between(before, after), splitting).metarange
            before = after
        found.append(segments(tree, store, splitting))
    first, second, fresh = found
    for records in first.keys() & fresh.keys():
        assert first[records] == fresh[records]
    for records in second.keys() & fresh.keys():
        assert second[records] == fresh[records]


@settings(max_examples=150, deadline=None)
@given(st.lists(TREES, min_size=1, max_size=5), st.sampled_from(SMALL))
def test_a_range_says_whether_the_policy_ends_it(states, splitting):
    store, cutter = new_store(), Cutter(splitting)
    tree, before = EMPTY_METARANGE, dict[str, str]()
    for after in states:
        tree = apply(store, tree, between(before, after), splitting).metarange
        before = after
        assert contents(store, tree) == after
        assert list(problems_of(store, tree)) == []
        infos = metarange.read(store, tree)
        for info, following in zip_longest(infos, infos[1:]):
            next_key = None if following is None else following.min_key
            assert info.natural == cutter.cut(info.max_key, next_key, info.size)
            size = 0
            records = store.open(info.id).records()
            for (key, _, value), (after_it, _, _) in pairwise(records):
                size += len(key) + len(value)
                assert not cutter.cut(key, after_it, size)
            assert info.total == total(b"".join(identifier for _, identifier, _ in records))


@settings(max_examples=100, deadline=None)
@given(TREES, TREES, TREES, st.sampled_from(SMALL))
def test_a_merge_is_what_dicts_give_and_says_how_ranges_end(base, ours, theirs, splitting):
    store, cutter = new_store(), Cutter(splitting)
    trees = [
        apply(store, EMPTY_METARANGE, between({}, state), splitting).metarange
        for state in (base, ours, theirs)
    ]
    merged = merge(store, *trees, splitting=splitting, strategy="source-wins")
    expected = {}
    for key in base.keys() | ours.keys() | theirs.keys():
        was, source, dest = base.get(key), ours.get(key), theirs.get(key)
        value = dest if source == was else source
        if value is not None:
            expected[key] = value
    assert contents(store, merged.metarange) == expected
    infos = metarange.read(store, merged.metarange)
    for info, following in zip_longest(infos, infos[1:]):
        next_key = None if following is None else following.min_key
        assert info.natural == cutter.cut(info.max_key, next_key, info.size)


def hourly(hours, files):
    return [
        [record(f"input/2021/{hour // 24:03d}/{hour % 24:02d}/{part:03d}") for part in range(files)]
        for hour in range(hours)
    ]


def grown(store, commits, splitting):
    tree, written = EMPTY_METARANGE, []
    for commit in commits:
        applied = apply(store, tree, commit, splitting)
        tree = applied.metarange
        written.append(applied.summary.ranges_written)
    return metarange.read(store, tree), written


@pytest.mark.parametrize("splitting", POLICIES, ids=lambda rule: rule.policy)
def test_equal_entries_of_200_and_160_commits_share_their_ranges(splitting):
    files = [item for hour in hourly(800, 8) for item in hour]
    store = new_store()
    trees = []
    for commits in (200, 160):
        step = len(files) // commits
        parts = [files[at : at + step] for at in range(0, len(files), step)]
        assert len(parts) == commits
        trees.append(grown(store, parts, splitting))
    (one, written), (other, _) = trees
    shared = {info.id for info in one} & {info.id for info in other}
    natural = [info for info in one if info.natural]
    assert {info.id for info in natural} <= shared
    assert sum(info.size for info in one if info.id in shared) > 0.95 * sum(i.size for i in one)
    assert sum(written) <= 2 * len(written)
    with RangeWriter(store, splitting) as writer:
        writer.add_all(files)
        assert [info.id for info in writer.finish()][:-1] == [info.id for info in natural]


@pytest.mark.parametrize("splitting", POLICIES, ids=lambda rule: rule.policy)
def test_small_appends_leave_few_ranges_and_write_little(splitting):
    store = new_store()
    infos, written = grown(store, hourly(720, 8), splitting)
    assert len(infos) < 72
    assert max(written) <= 3
    assert sum(written) / len(written) < 1.1
    bodies = (TableReader(store.objects.get(each.key)) for each in store.objects.list())
    sizes = [
        int(body.user_properties["size"])
        for body in bodies
        if body.user_properties["type"] == "range"
    ]
    assert sum(sizes) < 7 * sum(info.size for info in infos)


def test_appends_to_many_tables_write_each_byte_a_few_times():
    splitting = Splitting(DIRECTORY, max_bytes=20_000)
    store = new_store()
    names = "abcdefgh"

    def hour(number, files):
        paths = (
            f"lake/{name}/2021/04/26/{number:03}/{at}" for name in names for at in range(files)
        )
        return dict.fromkeys(paths, "1")

    base = {path: text for number in range(20) for path, text in hour(number, 10).items()}
    tree = apply(store, EMPTY_METARANGE, between({}, base), splitting).metarange
    written = appended = 0
    for number in range(20, 60):
        before = {info.id for info in metarange.read(store, tree)}
        changes = between({}, hour(number, 2))
        tree = apply(store, tree, changes, splitting).metarange
        written += sum(i.size for i in metarange.read(store, tree) if i.id not in before)
        appended += sum(len(key) + len(value or b"") for key, _, value in changes)
    assert written < 8 * appended

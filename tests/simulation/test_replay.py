"""A replay does what the product would do, and its figures describe the replay."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest as xxh64

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.splitting import DIRECTORY, HASH, HASH_MASK, Splitting
from graveler.model import RangeInfo
from graveler.simulation.figures import figures
from graveler.simulation.history import History, nothing, removed, sorted_changes, written
from graveler.simulation.patterns import PATTERNS, pattern
from graveler.simulation.replay import BASELINE, Merge, Policy, Replay, Step, replay
from tests.committed.trees import new_store

MIB = 1 << 20
SMALL = (
    Splitting(HASH, max_bytes=2_000, raggedness=4, hard=3),
    Splitting(DIRECTORY, max_bytes=2_000, raggedness=4, hard=5, hard_directories=7),
)
SIZES = {"files": 3, "commits": 4, "tables": 2, "base": 2_000}
KEYS = st.text("ab/", min_size=1, max_size=5).map(str.encode)
COMMITS = st.lists(st.dictionaries(KEYS, st.integers(-1, 3), min_size=1, max_size=30), max_size=5)


def changes(versions):
    """Return the changes of a commit from versions by key. A version below 0 removes the key."""
    return sorted_changes(
        removed(key) if version < 0 else written(key, version) for key, version in versions.items()
    )


def history(*commits, base=(), other=None):
    return History("test", "", lambda: iter(base), lambda: iter(commits), other)


def contents(base, commits):
    tree = {change[0]: change for change in base}
    for commit in commits:
        tree.update((change[0], change) for change in commit)
    return sorted(key for key, (_, _, value) in tree.items() if value is not None)


def keys_of(ranges):
    return [(info.min_key, info.max_key, info.count) for info in ranges]


@settings(max_examples=60, deadline=None)
@given(COMMITS, st.sampled_from(SMALL))
def test_a_replay_gives_the_tree_that_the_product_writes(versions, splitting):
    commits = [changes(each) for each in versions]
    store, tree = new_store(), EMPTY_METARANGE
    for commit in commits:
        tree = apply(store, tree, commit, splitting).metarange
    found = replay(history(*commits), Policy("policy", splitting))
    assert found.ranges == metarange.read(store, tree)
    assert len(found.steps) == len(commits)


def as_lakefs(tree, commit, splitting):
    """Return the tree after a commit, as a list of (key, version) for each range."""
    touched: dict[int, dict[bytes, int]] = {}
    for key, version in sorted(commit.items()):
        place = next((at for at, each in enumerate(tree) if each[-1][0] >= key), len(tree))
        touched.setdefault(place, {})[key] = version
    result: list[list[tuple[bytes, int]]] = []
    current: list[tuple[bytes, int]] = []
    for at, old in enumerate([*tree, []]):
        if at not in touched:
            result += [current, old]
            current = []
            continue
        for key, version in sorted({**dict(old), **touched[at]}.items()):
            if version < 0:
                continue
            current.append((key, version))
            size = sum(len(each) + len(written(each, of)[2] or b"") for each, of in current)
            digest = xxh64(key, splitting.seed) & HASH_MASK
            if size >= splitting.max_bytes or digest % splitting.raggedness == 0:
                result.append(current)
                current = []
    return [each for each in (*result, current) if each]


@settings(max_examples=200, deadline=None)
@given(COMMITS, st.integers(1, 8), st.integers(100, 3_000))
def test_the_baseline_cuts_and_rewrites_as_lakefs_does(versions, raggedness, most):
    splitting = Splitting(HASH, max_bytes=most, raggedness=raggedness, hard=1)
    found = replay(history(*map(changes, versions)), Policy("lakefs", splitting, as_lakefs=True))
    tree: list[list[tuple[bytes, int]]] = []
    for commit, step in zip(versions, found.steps, strict=True):
        before, tree = tree, as_lakefs(tree, commit, splitting)
        sizes = [
            sum(len(written(*each)[2] or b"") + len(each[0]) for each in part) for part in tree
        ]
        new = [size for size, part in zip(sizes, tree, strict=True) if part not in before]
        assert (step.ranges, step.size) == (len(tree), sum(sizes))
        assert step.written == tuple(new)
    assert keys_of(found.ranges) == [(part[0][0], part[-1][0], len(part)) for part in tree]


def test_the_baseline_rewrites_the_range_that_follows_a_gap():
    base = [written(b"a"), written(b"c")]
    found = replay(history([written(b"d")], [written(b"b")], base=base), BASELINE)
    assert keys_of(found.ranges) == [(b"a", b"c", 3), (b"d", b"d", 1)]
    assert [len(step.written) for step in found.steps] == [1, 1]
    assert [len(step.opened) for step in found.steps] == [0, 1]
    found = replay(history([written(b"d")], [written(b"cc")], base=base), BASELINE)
    assert keys_of(found.ranges) == [(b"a", b"c", 2), (b"cc", b"d", 2)]


def test_a_step_says_what_it_read_wrote_and_took_over():
    base = [written(b"a/1", size=100), written(b"a/2", size=100)]
    found = replay(
        history([written(b"a/2", 1, size=200)], [removed(b"a/1")], base=base),
        Policy("hash", SMALL[0]),
    )
    first, second = found.steps
    assert (first.changed, first.size, first.written, first.opened) == (203, 306, (306,), (206,))
    assert (second.changed, second.size, second.written, second.opened) == (3, 203, (203,), (306,))
    assert (found.base, first.ranges, second.ranges) == (206, 1, 1)


def test_branches_that_add_equal_files_share_their_ranges():
    files = [written(b"b/%04d" % at) for at in range(300)]
    added = [[file] for file in files]
    other = [files[at : at + 7] for at in range(0, 300, 7)]
    base = [written(b"a")]
    found = replay(history(*added, base=base, other=lambda: iter(other)), Policy("hash", SMALL[0]))
    assert found.merge is not None
    assert 0.8 < found.merge.bytes_shared <= 1
    assert found.merge.bytes_read < 3 * 2_000


def test_the_figures_are_those_of_the_steps():
    sizes = (MIB // 4, MIB, 9 * MIB // 4)
    ranges = tuple(
        RangeInfo(bytes([at]), b"%d" % at, b"%d" % at, 1, size, natural=at > 0)
        for at, size in enumerate(sizes)
    )
    steps = (
        Step(MIB, 2, 3 * MIB, (MIB, 2 * MIB), (), 1000),
        Step(MIB, 3, 7 * MIB // 2, (MIB // 2,), (MIB, MIB), 1500),
    )
    merge = Merge(2, 4 * MIB, 0.25)
    policy = Policy("name", Splitting(HASH, max_bytes=2 * MIB))
    found = figures(Replay(policy, MIB, steps, ranges, merge))
    assert (found.policy, found.commits, found.ranges, found.bytes) == ("name", 2, 3, 7 * MIB // 2)
    assert (found.ranges_written, found.bytes_written) == (1.5, 7 * MIB / 4)
    assert (found.ranges_read, found.bytes_read) == (1, MIB)
    assert found.amplification == pytest.approx(1.75)
    assert found.ranges_reused == pytest.approx(1 - 3 / 5)
    assert found.bytes_reused == pytest.approx(1 - 3.5 / 6.5)
    # a request costs as much as 4 MiB, an object 0.5 MiB or more; each commit puts a metarange
    assert found.write_cost == pytest.approx((3 * 4 + 1 + 2 + 0.5 + 2 * 4 + 0.5 + 0.5) / 2)
    assert found.sizes == sizes
    assert found.small == pytest.approx(1 / 3)
    assert found.well_sized == pytest.approx(3.25 / 3.5)
    assert found.natural == pytest.approx(1 / 3)  # the size limit ended one of the two
    assert found.history_bytes == MIB + 7 * MIB // 2
    assert found.listing_cost == pytest.approx(3 * 4 + 0.5 + 1 + 2.25)
    assert found.merge == merge


def test_a_history_without_commits_has_the_figures_of_its_tree():
    found = figures(replay(history(base=[written(b"a")]), Policy("hash", SMALL[0])))
    assert (found.commits, found.ranges, found.ranges_written, found.bytes_reused) == (0, 1, 0, 1)
    empty = figures(replay(History("", "", nothing, lambda: ()), BASELINE))
    assert (empty.ranges, empty.bytes, empty.sizes) == (0, 0, (0, 0, 0))


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("policy", [BASELINE, *(Policy(each.policy, each) for each in SMALL)])
def test_a_pattern_is_the_same_under_every_policy(name, policy):
    made = pattern(name, **SIZES)
    found = replay(made, policy)
    assert len(found.steps) == 4
    expected = contents(made.base(), made.commits())
    assert sum(info.count for info in found.ranges) == len(expected)
    assert found.ranges[0].min_key == expected[0]
    assert found.ranges[-1].max_key == expected[-1]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_follows_its_seed_and_has_its_keys_in_order(name):
    one, again, other = (pattern(name, seed=seed, **SIZES) for seed in (1, 1, 2))
    trees = [list(each.base()) for each in (one, again, other)]
    commits = [list(each.commits()) for each in (one, again, other)]
    assert trees[0] == trees[1] != trees[2]
    assert commits[0] == commits[1] != commits[2]
    for group in (trees[0], *commits[0]):
        keys = [change[0] for change in group]
        assert keys == sorted(set(keys))


def test_progress_is_told_after_each_commit():
    told: list[int] = []
    replay(pattern("branches", **SIZES), BASELINE, told.append)
    assert told == [1, 2, 3, 4, 5, 6]


def test_hourly_appends_leave_few_ranges_and_reuse_bytes():
    hourly = pattern("hourly", files=40, commits=720)
    lakefs = figures(replay(hourly, BASELINE))
    for policy in (HASH, DIRECTORY):
        found = figures(replay(hourly, Policy(policy, Splitting(policy))))
        assert found.ranges_written <= 2
        assert found.ranges <= lakefs.ranges / 20
        assert found.bytes_reused >= 0.95


def test_appends_to_tables_write_a_fifteenth_of_lakefs():
    tables = pattern("tables", commits=8)
    lakefs = figures(replay(tables, BASELINE))
    found = figures(replay(tables, Policy(DIRECTORY, Splitting(DIRECTORY))))
    assert found.bytes_written <= lakefs.bytes_written / 15

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from graveler.committed import splitting
from graveler.committed.splitting import (
    DEFAULT,
    DIRECTORY,
    HASH,
    HASH_MASK,
    HASH_SEED,
    SPLITTING,
    Cutter,
    Splitting,
    directory_of,
)
from graveler.errors import CorruptionError, InvalidInputError

MIB = 1 << 20
# SELECT xxhash64(k) for binary k, Spark 4.3.0
SPARK = {
    b"a": -8582455328737087284,
    b"input/2013/01/01/05:00/part-0.parquet": 3722708427766660946,
    bytes(range(256)) * 2: -9063642143790846605,
    "données/été".encode(): -3637012846193602542,
    b"\xff\x00\xfe" * 11: -921767405953486112,
}
NEVER = 1 << 40

RULES = st.one_of(
    st.builds(
        Splitting,
        policy=st.just(HASH),
        min_bytes=st.sampled_from([0, 20, 60]),
        max_bytes=st.sampled_from([60, 100, 10_000]),
        raggedness=st.integers(1, 6),
        hard=st.integers(1, 4),
        number=st.integers(0, 3),
    ),
    st.builds(
        Splitting,
        policy=st.just(DIRECTORY),
        max_bytes=st.sampled_from([1, 60, 100, 10_000]),
        raggedness=st.integers(1, 6),
        hard=st.integers(1, 4),
        hard_directories=st.integers(1, 6),
        number=st.integers(0, 3),
    ),
)
RECORDS = st.dictionaries(
    st.text("ab/", min_size=1, max_size=8).map(str.encode), st.binary(max_size=30), max_size=60
).map(lambda found: sorted(found.items()))


def chunks(cutter, records):
    """Return the ranges that the rule gives, record by record."""
    found, current, size = [], [], 0
    for at, (key, value) in enumerate(records):
        current.append(key)
        size += len(key) + len(value)
        following = records[at + 1][0] if at + 1 < len(records) else None
        if following is not None and cutter.cut(key, following, size):
            found.append((current, size))
            current, size = [], 0
    return [*found, (current, size)] if current else found


def test_the_hash_is_the_one_spark_computes():
    for key, hashed in SPARK.items():
        assert xxh64_intdigest(key, HASH_SEED) & HASH_MASK == hashed & HASH_MASK


def test_the_seed_is_the_hash_of_the_repositorys_number():
    assert Splitting().seed == xxh64_intdigest(bytes(8), 42)
    assert Splitting(number=258).seed == xxh64_intdigest(b"\x02\x01" + bytes(6), 42)


@pytest.mark.parametrize("many", [1, 1_000])
@settings(max_examples=60)
@given(RULES, RECORDS, st.integers(0, 100), st.integers(1, 60))
def test_records_at_once_are_cut_where_the_rule_cuts(many, rule, records, begun, step):
    cutter = Cutter(rule)
    last, size, expected = b"\0", begun, []
    for at, (key, value) in enumerate(records):
        if size and cutter.cut(last, key, size):
            expected.append((at, size))
            size = 0
        last, size = key, size + len(key) + len(value)
    found, last, left = [], b"\0", begun
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "MANY", many)
        for start in range(0, len(records), step):
            some = records[start : start + step]
            keys = [key for key, _ in some]
            cuts, left = cutter.cuts(
                last, left, keys, [len(part) for record in some for part in record]
            )
            found += [(start + place, ended) for place, ended in cuts]
            last = keys[-1]
    assert (found, left) == (expected, size)


@pytest.mark.parametrize("many", [1, 1_000])
def test_directories_between_files_are_cut_at_each(many, monkeypatch):
    monkeypatch.setattr(splitting, "MANY", many)
    names = [f"t/{number:04d}" for number in range(300)]
    names += ["t/0020/a/b", "t/0020/c", "t/0150/x", "t/0299/1", "t/0299/2", "u", "s/1", "/"]
    keys = sorted(name.encode() for name in names)
    rule = Splitting(DIRECTORY, max_bytes=NEVER, raggedness=NEVER, hard_directories=1)
    cuts, _ = Cutter(rule).cuts(keys[0], 0, keys, [1] * 2 * len(keys))
    expected = [
        at for at in range(1, len(keys)) if directory_of(keys[at - 1]) != directory_of(keys[at])
    ]
    assert [place for place, _ in cuts] == expected


@settings(max_examples=50)
@given(RULES, RECORDS, st.integers(0, 10_000))
def test_builders_that_start_at_different_hard_breaks_agree(rule, records, size):
    cutter = Cutter(rule)
    whole = [keys for keys, _ in chunks(cutter, records)]
    for at, ((key, _), (following, _)) in enumerate(pairwise(records), 1):
        if cutter.hard(key, following):
            parts = chunks(cutter, records[:at]) + chunks(cutter, records[at:])
            assert [keys for keys, _ in parts] == whole
            assert cutter.cut(key, following, size)  # whatever the size


def test_by_hash_a_range_ends_between_its_two_sizes():
    never = Cutter(Splitting(min_bytes=10, max_bytes=20, raggedness=NEVER))
    assert [never.cut(b"k", b"l", size) for size in (10, 19, 20, 21)] == [False, False, True, True]
    always = Cutter(Splitting(min_bytes=10, max_bytes=20, raggedness=1, hard=NEVER))
    assert [always.cut(b"k", b"l", size) for size in (9, 10)] == [False, True]


BY_DIRECTORY = Cutter(Splitting(DIRECTORY, raggedness=NEVER, hard_directories=NEVER))


@pytest.mark.parametrize(
    ("key", "following", "least"),
    [
        ("a/b/c/1", "b/b/c/1", "table_bytes"),
        ("a/b/c/1", "a/c/c/1", "part_bytes"),
        ("a/b/c/1", "a/b/d/1", "directory_bytes"),
        ("a/b/c/1", "a/b/c/2", "max_bytes"),
        ("1", "2", "max_bytes"),
        ("1", "a/1", "table_bytes"),
        ("a/1", "a/b/1", "part_bytes"),
        # a table ends where the first level changes, or one of three where there are more
        ("lake/a/2021/04/26/x", "lake/b/2021/04/26/x", "table_bytes"),
        ("lake/a/2021/04/26/x", "lake/a/2022/01/01/x", "table_bytes"),
        ("lake/a/2021/04/26/x", "lake/a/2021/05/01/x", "part_bytes"),
        ("lake/a/x", "lake/b/x", "part_bytes"),
        ("a/x", "a/b/c/d/x", "table_bytes"),
        ("a/x", "a//x", "part_bytes"),
        ("x", "x/x", "table_bytes"),
    ],
)
def test_the_change_of_directory_needed_falls_as_a_range_grows(key, following, least):
    size = getattr(DEFAULT, least)
    assert not BY_DIRECTORY.cut(key.encode(), following.encode(), size - 1)
    assert BY_DIRECTORY.cut(key.encode(), following.encode(), size)


FLAT = [b"t/d/%06d" % number for number in range(20_000)]
NESTED = [b"t/%04d/%d" % divmod(number, 2) for number in range(4_000)]
RAGGED = Cutter(Splitting(DIRECTORY, raggedness=100, hard_directories=NEVER))
HARD = Cutter(Splitting(DIRECTORY, raggedness=NEVER, hard_directories=10))
HASHED = Cutter(Splitting(raggedness=100))


@pytest.mark.parametrize(
    ("breaks", "names", "least", "most"),
    [
        (lambda one, two: HASHED.cut(one, two, 100), FLAT, 160, 240),
        (HASHED.hard, FLAT, 1, 15),
        (lambda one, two: BY_DIRECTORY.cut(one, two, DEFAULT.part_bytes), NESTED[::2], 400, 600),
        (lambda one, two: RAGGED.cut(one, two, DEFAULT.key_bytes - 1), FLAT, 0, 20),
        (lambda one, two: RAGGED.cut(one, two, DEFAULT.key_bytes), FLAT, 150, 250),
        (HARD.hard, NESTED, 150, 250),
    ],
    ids=["hash", "hard hash", "directories", "in one, small", "in one, large", "hard directories"],
)
def test_so_many_keys_end_a_range(breaks, names, least, most):
    found = [after for before, after in pairwise(names) if breaks(before, after)]
    assert least <= len(found) <= most
    if names is NESTED:
        assert all(name.endswith(b"/0") for name in found)


def test_the_directory_of_a_key_ends_with_its_last_slash():
    keys = {b"a": b"", b"a/b": b"a/", b"a/b/": b"a/b/", b"/a": b"/"}
    assert {key: directory_of(key) for key in keys} == keys


def test_the_thresholds_are_shares_of_the_largest_size():
    rule = Splitting(DIRECTORY, max_bytes=32 * MIB)
    assert (rule.table_bytes, rule.part_bytes) == (MIB, 10 * MIB)
    assert (rule.directory_bytes, rule.key_bytes) == (14 * MIB, 16 * MIB)
    assert Splitting(HASH, max_bytes=32 * MIB).min_bytes == 8 * MIB
    assert Splitting(HASH, raggedness=2048).min_bytes == 0
    assert Splitting(DIRECTORY, max_bytes=100, table_bytes=7).table_bytes == 7


def test_a_record_gives_the_policy_again_and_is_checked():
    for rule in (Splitting(), DEFAULT, Splitting(DIRECTORY, max_bytes=400)):
        assert SPLITTING.read(rule.encode(), "splitting") == rule
    for wrong in (
        {"policy": "other"},
        {"max_bytes": "1"},
        {"max_bytes": 0},
        {"min_bytes": 1 << 30},
    ):
        with pytest.raises(CorruptionError, match="splitting cannot be read"):
            SPLITTING.read(Splitting().encode() | wrong, "splitting")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"policy": "size"}, "policy 'size': give hash or directory"),
        ({"min_bytes": -1}, "min_bytes -1"),
        ({"max_bytes": True}, "max_bytes True"),
        ({"raggedness": 1 << 63}, "raggedness"),
        ({"min_bytes": 2, "max_bytes": 1}, "min_bytes 2, max_bytes 1: give min_bytes <= max_bytes"),
        ({"max_bytes": 0}, "at least 1"),
        ({"table_bytes": 5}, "by hash has no table_bytes"),
        ({"policy": DIRECTORY, "min_bytes": 5}, "by directory has no min_bytes"),
        ({"policy": DIRECTORY, "part_bytes": 5 * MIB}, "part_bytes 5242880, directory_bytes"),
    ],
)
def test_parameters_that_contradict_are_refused_with_values(parameters, said):
    with pytest.raises(InvalidInputError, match=said):
        Splitting(**parameters)

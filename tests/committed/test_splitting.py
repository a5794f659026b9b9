import pytest
from xxhash import xxh64_intdigest

from graveler.committed.range_writer import HASH_MASK, HASH_SEED, Splitting
from graveler.errors import InvalidInputError

# SELECT xxhash64(k) for binary k, Spark 4.3.0
SPARK = {
    b"a": -8582455328737087284,
    b"input/2013/01/01/05:00/part-0.parquet": 3722708427766660946,
    bytes(range(256)) * 2: -9063642143790846605,
    "données/été".encode(): -3637012846193602542,
    b"\xff\x00\xfe" * 11: -921767405953486112,
}


def test_the_hash_is_the_one_spark_computes():
    for key, hashed in SPARK.items():
        assert xxh64_intdigest(key, HASH_SEED) & HASH_MASK == hashed & HASH_MASK


def test_one_key_in_raggedness_ends_a_range():
    splitting = Splitting(raggedness=100)
    keys = [b"key-%06d" % number for number in range(100_000)]
    ends = [key for key in keys if splitting.ends_range(key, 100)]
    assert len(ends) == 973
    assert ends[:3] == [b"key-000100", b"key-000247", b"key-000399"]


def test_a_range_ends_at_its_maximum_whatever_the_key():
    splitting = Splitting(min_bytes=10, max_bytes=20, raggedness=1 << 62)
    assert [splitting.ends_range(b"k", size) for size in (10, 19, 20, 21)] == [
        False,
        False,
        True,
        True,
    ]


def test_a_range_never_ends_below_its_minimum():
    splitting = Splitting(min_bytes=10, max_bytes=20, raggedness=1)
    assert not splitting.ends_range(b"k", 9)
    assert splitting.ends_range(b"k", 10)


def test_the_defaults_are_those_of_the_design():
    assert Splitting() == Splitting(min_bytes=0, max_bytes=20 * 1024 * 1024, raggedness=50_000)


@pytest.mark.parametrize(
    ("least", "most", "raggedness"), [(-1, 1, 1), (2, 1, 1), (0, 0, 1), (0, 1, 0)]
)
def test_parameters_that_make_no_sense_are_refused(least, most, raggedness):
    with pytest.raises(InvalidInputError, match="splitting of"):
        Splitting(min_bytes=least, max_bytes=most, raggedness=raggedness)

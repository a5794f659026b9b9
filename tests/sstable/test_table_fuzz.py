"""Random damage with corrected checksums, so that it reaches the parsers."""

from itertools import pairwise
from random import Random

import pytest

from graveler.errors import CorruptionError
from graveler.sstable.format import FOOTER_BYTES, varints
from graveler.sstable.reader import TableReader
from tests.sstable.damage import mutations
from tests.sstable.tables import rocksdb_written, some_records, written

pytestmark = pytest.mark.usefixtures("_in_bounded_time")

ROUNDS = 300


def check(data: bytes) -> bool:
    """Return whether all was read. The keys must ascend, and no other error may be raised."""
    found: list[bytes] = []
    try:
        table = TableReader(data)
        found.extend(key for key, _ in table.items())
    except CorruptionError:
        return False
    finally:
        assert all(one < other for one, other in pairwise(found))
    return True


@pytest.mark.parametrize("compression", ["none", "snappy", "lz4", "zstd"])
def test_random_damage_to_our_tables_is_always_corruption(compression):
    records = some_records(30)
    data = written(records, compression=compression, properties={"type": "range"})
    random = Random(compression)
    outcomes = [check(each) for each in mutations(data, random, ROUNDS)]
    assert True in outcomes
    assert False in outcomes


@pytest.mark.parametrize("version", [2, 5])
@pytest.mark.parametrize("index_restart", [1, 8])
def test_random_damage_to_a_two_level_index_is_always_corruption(tmp_path, version, index_restart):
    records = some_records(60)
    data = rocksdb_written(
        tmp_path / "t.sst",
        records,
        version=version,
        compression="none",
        block_bytes=150,
        two_levels=True,
        index_restart=index_restart,
    )
    random = Random(version * 100 + index_restart)
    outcomes = [check(each) for each in mutations(data, random, ROUNDS // 2)]
    assert True in outcomes
    assert False in outcomes


def test_random_handles_in_the_footer_are_always_corruption():
    data = written(some_records(30))
    random = Random(1)
    start = len(data) - FOOTER_BYTES
    for _ in range(ROUNDS):
        numbers = [
            random.choice((0, 1, start - 5, start, len(data), 2**31, 2**32, 2**63, 2**64 - 1))
            if random.randrange(2)
            else random.randrange(len(data))
            for _ in range(4)
        ]
        handles = b"".join(map(varints, numbers))[:40].ljust(40, b"\0")
        assert not check(data[: start + 1] + handles + data[-12:])

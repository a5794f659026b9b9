import hashlib
from dataclasses import replace

import pytest

from graveler import spark as gspark
from graveler.errors import CorruptionError, SourceChangedError

TEXT = "1\n2\n3\n"


@pytest.fixture
def table(branch):
    """A table of a few files: some in partition folders, and one with an odd name."""
    for path in ("t/day=1/a.csv", "t/day=2/b.csv", "t/day=2/c d%20.csv"):
        branch.put(path, TEXT.encode())
    branch.put("t/day=2/empty.csv", b"")
    branch.commit("a table")
    return branch


def read(spark, branch, **options):
    return gspark.read(branch, "t/", format="csv", spark=spark, verify=True, **options)


def damage(branch, path, content):
    entry = branch.stat(path)
    branch.repository.objects.put(entry.address, content.encode())
    return entry


def test_a_sound_table_is_read(spark, table):
    assert read(spark, table).count() == 9
    assert sorted(set(read(spark, table).columns)) == ["_c0", "day"]


@pytest.mark.parametrize("content", ["1\n2\n4\n", "1\n2\n", TEXT + "4\n"])
def test_a_damaged_file_is_no_reading(spark, table, content):
    entry = damage(table, "t/day=2/c d%20.csv", content)
    assert gspark.read(table, "t/", format="csv", spark=spark).count() >= 6  # without verification
    with pytest.raises(CorruptionError, match=r"'t/day=2/c d%20\.csv'") as raised:
        read(spark, table)
    assert entry.address in str(raised.value)
    assert "replace=True" in str(raised.value)


def test_all_damaged_files_are_counted(spark, table):
    damage(table, "t/day=1/a.csv", "x")
    damage(table, "t/day=2/b.csv", "x")
    with pytest.raises(CorruptionError, match="and 1 other file"):
        read(spark, table)


@pytest.mark.parametrize("algorithm", ["md5", "sha512", "blake2b"])
def test_declared_checksums_are_compared(spark, table, algorithm):
    entry = table.stat("t/day=1/a.csv")
    right = hashlib.new(algorithm, TEXT.encode(), usedforsecurity=False).hexdigest()
    table.link_many([replace(entry, checksum=f"{algorithm}:{right}", computed=False)])
    assert read(spark, table).count() == 9
    table.link_many([replace(entry, checksum=f"{algorithm}:{right[::-1]}", computed=False)])
    if algorithm == "blake2b":  # Spark lacks this algorithm, so only the size is checked
        assert read(spark, table).count() == 9
        return
    with pytest.raises(CorruptionError, match=algorithm):
        read(spark, table)


def test_a_linked_file_that_was_changed_is_told_as_that(spark, branch, tmp_path):
    file = tmp_path / "linked file [1].csv"
    file.write_text(TEXT)
    checksum = f"sha256:{hashlib.sha256(TEXT.encode()).hexdigest()}"
    branch.repository.refs.links.add(f"file://{tmp_path}")
    branch.link("t/linked.csv", address=f"file://{file}", size=len(TEXT), checksum=checksum)
    assert read(spark, branch).count() == 3
    file.write_text("1\n2\n4\n")
    with pytest.raises(SourceChangedError, match="linked"):
        read(spark, branch)

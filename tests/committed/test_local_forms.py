"""The local forms of tables in the cache folder: damaged, of another version, of another user."""

import errno
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache import disk_cache
from graveler.committed.cache.flat import HEADER, MAGIC, VERSION
from graveler.committed.cache.form import Form
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import KINDS, TableKind
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import CorruptionError, InternalError
from graveler.objects.memory import MemoryStore
from tests.committed.cache_files import MANY, MIB, names, range_of_many
from tests.committed.trees import WHOLE, Forest, contents, problems_of, record, rows_of


@pytest.mark.parametrize("count", [1, 1_024])
def test_a_small_table_has_the_form_that_a_reader_makes(tmp_path, count):
    objects, records = MemoryStore(), MANY[:count]
    stores = [RangeStore(objects, RangeCache(tmp_path / name, MIB)) for name in ("w", "r")]
    tree = apply(stores[0], EMPTY_METARANGE, records, WHOLE).metarange
    assert contents(stores[1], tree) == {key.decode(): "1" for key, _, _ in records}
    (info,) = metarange.read(stores[1], tree)
    stores[1].open(info.id)  # the second file, which has record ids
    assert names(tmp_path / "w") == names(tmp_path / "r")
    for name in names(tmp_path / "w"):
        written, read = ((tmp_path / side / name).read_bytes() for side in ("w", "r"))
        assert name.endswith(".flat")
        assert written == read


def test_a_large_table_is_left_as_it_was_stored(tmp_path):
    store = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    name = range_of_many(store).hex()
    assert {f"{name}.sst", f"{name}.rid"} < set(names(tmp_path))
    assert f"{name}.flat" not in names(tmp_path)


DAMAGES = ["flipped", "cut", "empty", "missing"]


def spoil(path: Path, damage: str, at: int = 50) -> None:
    body = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
    else:
        path.write_bytes(body[:-1] if damage == "cut" else b"")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_local_form_is_dropped_and_built_again(tmp_path, damage):
    forest = Forest()
    tree = forest.tree("a b c")
    (info,) = metarange.read(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), tree)
    RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open(info.id)
    spoil(tmp_path / (info.id.hex() + ".flat"), damage)
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    assert store.open(info.id).records() == [record("a"), record("b"), record("c")]
    assert store.stats.fetched == 1
    assert store.cache.damaged == (damage not in {"missing", "empty"})
    later = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    assert later.open(info.id).get(b"c") == record("c")[2]


def test_a_local_form_of_another_version_is_replaced(tmp_path, caplog):
    objects = MemoryStore()
    identifier = range_of_many(RangeStore(objects, RangeCache(None, MIB)))
    RangeStore(objects, RangeCache(tmp_path, MIB)).open(identifier)
    path = tmp_path / (identifier.hex() + ".flat")
    now = path.read_bytes()
    path.write_bytes(now[:13] + b"\2" + now[14:])
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    assert store.open(identifier).records() == MANY
    assert (store.cache.damaged, caplog.messages) == (0, [])
    assert path.read_bytes() == now


@pytest.mark.parametrize("ending", [".sst", ".rid"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_damaged_where_its_writer_left_it_is_fetched(tmp_path, ending, damage):
    objects = MemoryStore()
    identifier = range_of_many(RangeStore(objects, RangeCache(tmp_path, MIB)))
    spoil(tmp_path / (identifier.hex() + ending), damage, at=20)
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    assert store.open(identifier).records() == MANY
    assert store.stats.fetched == 1
    assert store.cache.damaged == (damage != "missing")


def test_another_tables_files_under_the_name_are_fetched(tmp_path):
    objects = MemoryStore()
    writer = RangeStore(objects, RangeCache(tmp_path, MIB))
    identifier, other = range_of_many(writer), range_of_many(writer, "9")
    for ending in (".rid", ".sst"):
        (tmp_path / (other.hex() + ending)).replace(tmp_path / (identifier.hex() + ending))
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    assert store.open(identifier).records() == MANY
    assert store.cache.damaged == 1


def test_mapped_tables_leave_descriptors_to_the_process(tmp_path, monkeypatch):
    forest = Forest()
    tree = forest.tree(*(f"{letter}1 {letter}2" for letter in "abcdefghijklmnopqrstuvwxyz"))
    monkeypatch.setattr(resource, "getrlimit", lambda _limit: (40, 40))
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    infos = metarange.read(store, tree)
    before = len(list(Path("/dev/fd").iterdir()))
    for info in infos:
        assert store.open(info.id).count == 2
    assert len(list(Path("/dev/fd").iterdir())) <= before + 10


@pytest.mark.parametrize(("number", "dropped"), [(errno.ENOMEM, 2), (errno.ENODEV, 0)])
def test_a_form_that_cannot_be_mapped_is_read(tmp_path, monkeypatch, number, dropped):
    def refuse(*_args):
        raise OSError(number, "refused")

    forest = Forest()
    first, second = (forest.tree(line) for line in ("a b", "c d"))
    for tree in (first, second):
        contents(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), tree)
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    assert metarange.get(store, first, b"a") == record("a")[2]
    before = maps_below(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("graveler.committed.cache.disk_cache.mapped", refuse)
        assert contents(store, second) == {"c": "1", "d": "1"}
        assert maps_below(tmp_path) == before - dropped
    assert store.stats.fetched == 0


def maps_below(folder):
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_a_byte_flipped_in_a_local_form_changes_no_answer(tmp_path):
    forest = Forest()
    keys = [f"k{n:03d}" for n in range(90)]  # the form has three pages of data
    tree = forest.tree(" ".join(keys))
    (info,) = metarange.read(forest.fresh(), tree)
    RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open(info.id)
    path = tmp_path / (info.id.hex() + ".flat")
    good = path.read_bytes()
    for at in range(0, len(good), 41):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        for look in (
            lambda table: [table.get(key.encode()) for key in keys],
            lambda table: [value for _, value in rows_of(table)],
            lambda table: [value for _, _, value in table.records()],
        ):
            store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
            assert look(store.open(info.id)) == [record(key)[2] for key in keys], at


def test_a_form_with_a_damaged_page_is_replaced_on_disk(tmp_path):
    forest = Forest()
    tree = forest.tree("a b c")
    (info,) = metarange.read(forest.fresh(), tree)
    RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open(info.id)
    spoil(tmp_path / (info.id.hex() + ".flat"), "flipped", at=-2)
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    for keep in (True, False, True):
        assert store.open(info.id, keep=keep).get(b"c") == record("c")[2]
    assert (store.stats.fetched, store.cache.damaged, store.cache.memory_bytes) == (1, 1, 2)
    later = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    assert later.open(info.id).get(b"c") == record("c")[2]


def test_a_file_of_another_user_is_checked_against_its_id(tmp_path, monkeypatch):
    forest = Forest()
    tree = forest.tree("a b c")
    (info,) = metarange.read(forest.fresh(), tree)
    RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open(info.id)
    monkeypatch.setattr(disk_cache, "_is_own", lambda _descriptor: False)
    honest = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    assert honest.open(info.id).get(b"b") == record("b")[2]
    assert honest.stats.fetched == 0
    # a file with correct checksums and with records that do not belong to the id
    lie = Form()
    lie.add([b"a", b"b", b"c"], [record("x", "9")[2]] * 3)
    pieces = lie.finish(KINDS[TableKind.RANGE], info.id, bytes(96))
    (tmp_path / (info.id.hex() + ".flat")).write_bytes(b"".join(pieces))
    deceived = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    assert deceived.open(info.id).get(b"b") == record("b")[2]
    assert (deceived.stats.fetched, deceived.cache.damaged) == (1, 1)


def test_a_range_is_verified_by_the_digest_of_its_metarange(tmp_path):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    for folder in (None, tmp_path):
        table = RangeStore(forest.objects, RangeCache(folder, MIB)).open_range(info)
        assert not table.numbered
        assert dict(rows_of(table)) == {key: value for key, _, value in map(record, "abc")}
        with pytest.raises(InternalError, match="without its record ids"):
            table.record_ids()


@pytest.mark.parametrize("how", ["same process", "later process", "in memory"])
def test_record_ids_are_computed_once_from_what_is_here(tmp_path, how):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    folder = None if how == "in memory" else tmp_path
    store = RangeStore(forest.objects, RangeCache(folder, MIB))
    store.open_range(info)
    if how == "later process":
        store = RangeStore(MemoryStore(), RangeCache(folder, MIB))
    table = store.open_range(info, numbered=True)
    assert table.records() == [record("a"), record("b"), record("c")]
    assert store.open_range(info, numbered=True) is table
    assert store.open_range(info) is table
    assert store.stats.fetched == (how != "later process")
    if folder:
        later = RangeStore(MemoryStore(), RangeCache(folder, MIB))
        assert later.open_range(info).numbered
        assert names(folder) == [f"{info.id.hex()}.flat"]


def test_a_range_that_was_written_here_has_its_record_ids(tmp_path):
    store = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    tree = apply(store, EMPTY_METARANGE, [record("a"), record("b")], WHOLE).metarange
    (info,) = metarange.read(store, tree)
    assert store.open_range(info).numbered
    assert store.stats.fetched == 0


def test_a_form_of_another_digest_serves_nobody_else(tmp_path):
    # a metarange with a false digest, and a store that has the matching false table under the id
    honest, other = Forest(), Forest()
    (info,) = metarange.read(honest.fresh(), honest.tree("a b"))
    (lie,) = metarange.read(other.fresh(), other.tree("a=9 b=9"))
    lies = replace(lie, id=info.id)
    key = honest.fresh().key(info.id)
    other.objects.put(key, other.objects.get(other.fresh().key(lie.id)))
    for numbered in (False, True):
        for folder in (None, tmp_path / str(numbered)):
            cache = RangeCache(folder, MIB)
            deceived = RangeStore(other.objects, cache)
            assert deceived.open_range(lies).get(b"a") == record("a", "9")[2]
            # the same cache, asked for the same id
            store = RangeStore(honest.objects, cache)
            assert store.open_range(info, numbered=numbered).get(b"a") == record("a")[2]
            assert store.stats.fetched == 1
            with pytest.raises(CorruptionError, match=info.id.hex()):
                RangeStore(other.objects, RangeCache(None, MIB)).open_range(lies, numbered=True)


def test_a_form_without_record_ids_heals_as_one_with_them(tmp_path):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    path = tmp_path / (info.id.hex() + ".flat")
    for damage in DAMAGES:
        RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open_range(info)
        spoil(path, damage, at=-2)
        for numbered in (True, False):
            store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
            table = store.open_range(info, numbered=numbered)
            assert [value for _, value in rows_of(table)] == [record(key)[2] for key in "abc"]
            assert (table.numbered, store.stats.fetched) == (True, numbered)
        path.unlink()


def test_a_digest_that_is_wrong_is_damage_of_the_metarange(tmp_path):
    forest = Forest()
    store = forest.fresh()
    (info,) = metarange.read(store, forest.tree("a b"))
    tree = metarange.write(store, [replace(info, digest=bytes(32))])
    with pytest.raises(CorruptionError, match=f"{info.id.hex()} holds 2 records of digest"):
        contents(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), tree)
    (problem,) = problems_of(store, tree)
    assert f"digest is {info.digest.hex()}, its metarange says 0000" in problem.message


@pytest.mark.parametrize("numbered", [False, True])
def test_a_form_of_another_user_is_read_whole_before_it_is_used(tmp_path, monkeypatch, numbered):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open_range(info, numbered=numbered)
    monkeypatch.setattr(disk_cache, "_is_own", lambda _descriptor: False)
    honest = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    assert honest.open_range(info).get(b"b") == record("b")[2]
    assert honest.stats.fetched == 0
    lie = Form()
    values = [record(key, "1" if numbered else "9")[2] for key in "abc"]
    lie.add([b"a", b"b", b"c"], values)
    # correct records with wrong ids, or other records with another digest
    pieces = lie.finish(1, info.id, bytes(96) if numbered else b"", digest=info.digest)
    (tmp_path / (info.id.hex() + ".flat")).write_bytes(b"".join(pieces))
    deceived = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    assert deceived.open_range(info).get(b"b") == record("b")[2]
    assert (deceived.stats.fetched, deceived.cache.damaged) == (1, 1)


@pytest.mark.parametrize("most", [1, 100, 1 << 30])
def test_a_file_is_whole_however_little_one_call_writes(tmp_path, monkeypatch, most):
    real = os.writev
    monkeypatch.setattr(
        os, "writev", lambda file, pieces: real(file, [b"".join(pieces)[:most]]) if pieces else 0
    )
    monkeypatch.setattr(disk_cache, "_PIECES", 2)
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open_range(info)
    again = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    table = again.open_range(info)
    assert dict(rows_of(table)) == {key: value for key, _, value in map(record, "abc")}
    assert (again.stats.fetched, again.cache.damaged) == (0, 0)


@pytest.mark.parametrize("numbered", [True, False])
def test_an_index_of_another_user_that_hides_a_key_is_refused(tmp_path, monkeypatch, numbered):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    lie = Form()
    lie.add([b"a", b"b", b"c"], [record(key)[2] for key in "abc"])
    lie._hashes[8:16] = bytes(8)  # the hash of b is wrong, but every checksum is correct
    ids = b"".join(record(key)[1] for key in "abc") if numbered else b""
    monkeypatch.setattr(disk_cache, "_is_own", lambda _descriptor: False)
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    (tmp_path / (info.id.hex() + ".flat")).write_bytes(
        b"".join(lie.finish(1, info.id, ids, digest=info.digest))
    )
    assert store.open_range(info, numbered=numbered).get(b"b") == record("b")[2]
    assert (store.stats.fetched, store.cache.damaged) == (1, 1)


def test_a_table_of_another_user_is_checked_before_it_is_used(tmp_path, monkeypatch):
    objects = MemoryStore()
    identifier = range_of_many(RangeStore(objects, RangeCache(tmp_path, MIB)))
    other = range_of_many(RangeStore(MemoryStore(), RangeCache(tmp_path / "b", MIB)), "2")
    for ending in (".sst", ".rid"):
        source = tmp_path / "b" / (other.hex() + ending)
        (tmp_path / (identifier.hex() + ending)).write_bytes(source.read_bytes())
    monkeypatch.setattr(disk_cache, "_is_own", lambda _descriptor: False)
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    assert store.open(identifier).records() == MANY
    assert (store.stats.fetched, store.cache.damaged) == (1, 1)


@pytest.mark.parametrize("numbered", [True, False])
def test_a_form_of_another_user_without_records_is_refused(tmp_path, monkeypatch, numbered):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    index = bytes(8)  # no slot, and the end of the last row
    known = (
        MAGIC,
        VERSION,
        KINDS[TableKind.RANGE],
        numbered,
        info.id,
        info.digest,
        0,
        0,
        0,
        bytes(16),
    )
    sums = xxh3_64_intdigest(index).to_bytes(8, "little")
    head = HEADER.pack(*known, xxh3_128_digest(HEADER.pack(*known, bytes(16)) + sums))
    (tmp_path / (info.id.hex() + ".flat")).write_bytes(head + sums + index)
    monkeypatch.setattr(disk_cache, "_is_own", lambda _descriptor: False)
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    assert store.open_range(info, numbered=numbered).get(b"b") == record("b")[2]
    assert (store.stats.fetched, store.cache.damaged) == (1, 1)

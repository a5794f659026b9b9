import errno
import os
import pickle
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

from graveler.committed import disk_cache, metarange
from graveler.committed.apply import apply
from graveler.committed.disk_cache import DiskCache
from graveler.committed.form import Form, Piece
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.range_cache import RangeCache
from graveler.committed.range_store import RangeStore
from graveler.committed.table import KINDS, TableKind
from graveler.committed.verify import verify_metarange
from graveler.errors import CorruptionError, InternalError
from graveler.objects.local import LocalStore
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ANYTHING, Expected, ObjectStore
from tests.committed.trees import CRUMBS, WHOLE, Forest, contents, new_store, record, write_ranges
from tests.harness.programs import FORKS, output_of, start_program

MIB = 1 << 20


class FaultyStore(MemoryStore):
    """Serves each object with a flipped byte a given number of times."""

    def __init__(self, good: ObjectStore) -> None:
        super().__init__()
        for info in good.list():
            self.put(info.key, good.get(info.key))
        self.bad = 0

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        body = super().get(key, expected)
        if not self.bad:
            return body
        self.bad -= 1
        middle = len(body) // 3
        return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


@pytest.fixture
def faulty():
    forest = Forest()
    tree = forest.tree("a b c", "d e f")
    return FaultyStore(forest.objects), tree


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix)


def test_a_copy_damaged_on_the_way_is_fetched_once_more(faulty, tmp_path):
    objects, tree = faulty
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    (first, second) = metarange.read(store, tree)
    objects.bad = 1
    assert store.open(first.id).get(b"b") == record("b")[2]
    assert store.stats.fetched == 3
    assert store.open(second.id).get(b"e") == record("e")[2]


def test_a_damaged_range_is_an_error_and_is_never_cached(faulty, tmp_path):
    objects, tree = faulty
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    (first, _) = metarange.read(store, tree)
    before = names(tmp_path)
    objects.bad = 2
    with pytest.raises(CorruptionError):
        store.open(first.id)
    assert names(tmp_path) == before
    assert not store.cache.has(first.id)
    assert store.open(first.id).get(b"b") == record("b")[2]


@pytest.mark.parametrize("position", range(0, 900, 7))
def test_a_flipped_byte_anywhere_is_found_or_harmless(position):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    key = forest.fresh().key(info.id)
    body = bytearray(forest.objects.get(key))
    body[position % len(body)] ^= 0x10
    forest.objects.put(key, bytes(body))
    store = forest.fresh()
    try:
        records = store.open(info.id).records()
    except CorruptionError:
        return
    assert records == [record("a"), record("b"), record("c")]


def test_another_ranges_file_under_the_name_is_refused():
    forest = Forest()
    store = forest.fresh()
    (first, second) = metarange.read(store, forest.tree("a b", "c d"))
    forest.objects.put(store.key(first.id), forest.objects.get(store.key(second.id)))
    with pytest.raises(CorruptionError, match=second.id.hex()):
        store.open(first.id)


def test_a_metarange_is_no_range():
    forest = Forest()
    tree = forest.tree("a b")
    with pytest.raises(CorruptionError, match="type"):
        forest.fresh().open(bytes.fromhex(tree))
    table = forest.fresh().open(bytes.fromhex(tree), TableKind.METARANGE)
    assert [key for key, _ in table.items()] == [b"b"]


def test_a_missing_range_is_damage_and_not_a_missing_path():
    forest = Forest()
    tree = forest.tree("a b")
    (info,) = metarange.read(forest.fresh(), tree)
    forest.objects.delete(forest.fresh().key(info.id))
    with pytest.raises(CorruptionError, match="missing"):
        metarange.get(forest.fresh(), tree, b"a")


def test_files_are_read_from_the_folder_by_a_later_process(tmp_path):
    forest = Forest()
    tree = forest.tree("a b", "c d")
    contents(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), tree)
    store = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    assert contents(store, tree) == dict.fromkeys("abcd", "1")
    assert store.stats.fetched == 0


def test_what_is_written_is_in_the_cache(tmp_path):
    objects = MemoryStore()
    store = RangeStore(objects, RangeCache(tmp_path, MIB))
    tree = apply(store, EMPTY_METARANGE, [record("a"), record("b")], WHOLE).metarange
    again = RangeStore(MemoryStore(), RangeCache(tmp_path, MIB))
    assert contents(again, tree) == {"a": "1", "b": "1"}
    assert list((tmp_path / "tmp").iterdir()) == []


MANY = [record(f"k{number:04d}") for number in range(5_000)]
"""More records than a writer makes the local form of."""


def range_of_many(store: RangeStore, text: str = "1") -> bytes:
    records = [record(key.decode(), text) for key, _, _ in MANY]
    tree = apply(store, EMPTY_METARANGE, records, WHOLE).metarange
    (info,) = metarange.read(store, tree)
    return info.id


@pytest.mark.parametrize("count", [1, 1_024])
def test_a_small_table_has_the_form_that_a_reader_makes(tmp_path, count):
    objects, records = MemoryStore(), MANY[:count]
    stores = [RangeStore(objects, RangeCache(tmp_path / name, MIB)) for name in ("w", "r")]
    tree = apply(stores[0], EMPTY_METARANGE, records, WHOLE).metarange
    assert contents(stores[1], tree) == {key.decode(): "1" for key, _, _ in records}
    (info,) = metarange.read(stores[1], tree)
    stores[1].open(info.id)  # with record ids
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


def test_a_byte_flipped_in_a_local_form_changes_no_answer(tmp_path):
    forest = Forest()
    keys = [f"k{n:03d}" for n in range(90)]  # three pages of data
    tree = forest.tree(" ".join(keys))
    (info,) = metarange.read(forest.fresh(), tree)
    RangeStore(forest.objects, RangeCache(tmp_path, MIB)).open(info.id)
    path = tmp_path / (info.id.hex() + ".flat")
    good = path.read_bytes()
    for at in range(0, len(good), 41):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        for look in (
            lambda table: [table.get(key.encode()) for key in keys],
            lambda table: [value for _, value in table.items()],
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
    assert (store.stats.fetched, store.cache.damaged, store.cache.memory_bytes) == (1, 1, 1)
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
    # a file whose checksums are right, and whose records are not those of the id
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
        assert dict(table.items()) == {key: value for key, _, value in map(record, "abc")}
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
    # a metarange that lies, and a store that has the table of the lie under the id
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
            # the same cache, by the same id
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
            assert [value for _, value in table.items()] == [record(key)[2] for key in "abc"]
            assert (table.numbered, store.stats.fetched) == (True, numbered)
        path.unlink()


def test_a_digest_that_is_wrong_is_damage_of_the_metarange(tmp_path):
    forest = Forest()
    store = forest.fresh()
    (info,) = metarange.read(store, forest.tree("a b"))
    tree = metarange.write(store, [replace(info, digest=bytes(32))])
    with pytest.raises(CorruptionError, match=f"{info.id.hex()} holds 2 records of digest"):
        contents(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), tree)
    (problem,) = verify_metarange(store, tree)
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
    # right records and wrong ids, or records that have another digest
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
    assert dict(table.items()) == {key: value for key, _, value in map(record, "abc")}
    assert (again.stats.fetched, again.cache.damaged) == (0, 0)


@pytest.mark.parametrize("numbered", [True, False])
def test_an_index_of_another_user_that_hides_a_key_is_refused(tmp_path, monkeypatch, numbered):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b c"))
    lie = Form()
    lie.add([b"a", b"b", b"c"], [record(key)[2] for key in "abc"])
    lie._hashes[8:16] = bytes(8)  # the hash of b; every sum fits it
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


def test_threads_that_miss_a_range_at_once_fetch_it_once(tmp_path):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b"))
    for folder in (None, tmp_path):
        store = RangeStore(forest.objects, RangeCache(folder, MIB))
        with ThreadPoolExecutor(8) as pool:
            tables = list(pool.map(store.open, [info.id] * 32))
        assert {table.get(b"a") for table in tables} == {record("a")[2]}
        assert store.stats.fetched == 1


def test_a_reader_does_not_wait_for_a_process_that_is_stopped(tmp_path, monkeypatch):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b"))
    monkeypatch.setattr(disk_cache, "PATIENCE_S", 0.1)
    with DiskCache(tmp_path, MIB).single(info.id.hex()):
        store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
        assert store.open(info.id).get(b"a") == record("a")[2]


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_folder_stays_within_its_bound_and_keeps_used_files(tmp_path):
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(120)))
    infos = metarange.read(forest.fresh(), tree)
    bound = 20_000
    hot = infos[0].id
    fetched = 0
    for info in infos:
        # a new cache each time, so that nothing comes from memory
        store = RangeStore(forest.objects, RangeCache(tmp_path, bound))
        store.open(hot)
        fetched += store.stats.fetched
        store.open(info.id)
        assert folder_bytes(tmp_path) <= bound
    assert fetched == 1
    assert DiskCache(tmp_path, bound).load_flat(hot.hex()) is not None
    assert DiskCache(tmp_path, bound).load_flat(infos[1].id.hex()) is None
    assert DiskCache(tmp_path, bound).load_flat(infos[-1].id.hex()) is not None


def test_one_process_keeps_within_the_bound_without_scanning(tmp_path):
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(120)))
    store = RangeStore(forest.objects, RangeCache(tmp_path, 50_000))
    for info in metarange.read(store, tree):
        store.open(info.id)
        assert folder_bytes(tmp_path) <= 50_000
    assert folder_bytes(tmp_path) > 25_000


def test_a_local_stores_file_is_shared_and_not_copied(tmp_path):
    objects, folder = LocalStore(tmp_path / "objects"), tmp_path / "cache"
    store = RangeStore(objects, RangeCache(folder, 2**20))
    identifier = range_of_many(store)
    stored = tmp_path / "objects" / store.key(identifier)
    cached = folder / f"{identifier.hex()}.sst"
    assert stored.samefile(cached)
    before = objects.head(store.key(identifier))
    assert RangeStore(objects, RangeCache(folder, 2**20)).open(identifier).records() == MANY
    assert objects.head(store.key(identifier)) == before, "a read is no change of the object"
    objects.delete(store.key(identifier))
    assert RangeStore(objects, RangeCache(folder, 2**20)).open(identifier).records() == MANY


def test_where_no_second_name_can_be_had_a_copy_is_kept(tmp_path, monkeypatch):
    link = Path.hardlink_to

    def refuse(self, target):
        if self.is_relative_to(tmp_path / "cache"):
            raise OSError(errno.EXDEV, "another disk")
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    objects, folder = LocalStore(tmp_path / "objects"), tmp_path / "cache"
    store = RangeStore(objects, RangeCache(folder, 2**20))
    identifier = range_of_many(store)
    stored = tmp_path / "objects" / store.key(identifier)
    cached = folder / f"{identifier.hex()}.sst"
    assert cached.read_bytes() == stored.read_bytes()
    assert not stored.samefile(cached)


class Held(DiskCache):
    """Stops one table between its room and its name."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        super().__init__(folder, max_bytes)
        self.waiting, self.go = Event(), Event()

    def adopt(self, name: str, data: bytes, path: Path, record_ids: bytes) -> bool:
        self.held = current_thread()
        return super().adopt(name, data, path, record_ids)

    def _write(self, *pieces: Piece) -> Path:
        if current_thread() is getattr(self, "held", None):
            self.waiting.set()
            assert self.go.wait(30)
        return super()._write(*pieces)


def test_threads_leave_room_for_what_another_is_about_to_place(tmp_path):
    bound, body = 50_000, bytes(10_000)
    cache = Held(tmp_path, bound)
    scratch = cache.scratch()
    assert scratch is not None
    mine = scratch / "mine"
    mine.write_bytes(body)
    thread = Thread(target=cache.adopt, args=("mine", body, mine, b""))
    thread.start()
    assert cache.waiting.wait(30)
    for number in range(4):
        assert cache.add(f"other{number}", body, b"")
    cache.go.set()
    thread.join()
    assert cache.load("mine") is not None
    assert folder_bytes(tmp_path) <= bound


def test_a_child_forked_beside_a_lock_does_not_keep_it(tmp_path):
    output_of("committed.programs.fork_beside_lock", tmp_path, warnings=FORKS)


def test_a_child_forked_during_a_read_does_not_wait_for_it(tmp_path):
    output_of("committed.programs.fork_beside_cache", tmp_path, warnings=FORKS)
    cache = DiskCache(tmp_path, 50_000)
    assert cache.load("child") == cache.load("parent") == (b"table", b"", True)


def test_processes_that_take_turns_see_what_the_others_add(tmp_path):
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(200)))
    bound = 60_000
    stores = [RangeStore(forest.objects, RangeCache(tmp_path, bound)) for _ in range(4)]
    for number, info in enumerate(metarange.read(forest.fresh(), tree)):
        stores[number % 4].open(info.id)
        assert folder_bytes(tmp_path) <= bound + 4 * (bound // 16)


def test_memory_keeps_what_is_used():
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(60)))
    infos = metarange.read(forest.fresh(), tree)
    store = RangeStore(forest.objects, RangeCache(None, 20_000))
    for info in infos:
        store.open(infos[0].id)
        store.open(info.id)
    assert store.stats.fetched == 60


def test_memory_stays_within_its_bound():
    forest = Forest()
    tree = forest.tree(*(f"k{n:03d}a k{n:03d}b" for n in range(60)))
    store = RangeStore(forest.objects, RangeCache(None, 20_000))
    for _ in range(2):
        for info in metarange.read(store, tree):
            store.open(info.id)
            assert 0 < store.cache.memory_bytes <= 20_000
    assert store.stats.fetched > 60


def test_a_table_larger_than_the_cache_is_still_read(tmp_path):
    forest = Forest()
    (info,) = metarange.read(forest.fresh(), forest.tree("a b"))
    store = RangeStore(forest.objects, RangeCache(tmp_path, 10))
    assert store.open(info.id).get(b"a") == record("a")[2]
    assert names(tmp_path) == []
    assert store.cache.memory_bytes == 0


@contextmanager
def no_room():
    """Let no file of this process grow beyond a few bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_under_the_cache_fails_no_read(tmp_path):
    forest = Forest()
    tree = forest.tree("a b", "c d")
    store = RangeStore(forest.objects, RangeCache(tmp_path, MIB))
    with no_room():
        found = contents(store, tree)
        again = contents(store, tree)
    assert found == again == dict.fromkeys("abcd", "1")
    assert store.stats.fetched == 3  # held in memory
    assert folder_bytes(tmp_path) == 0


def test_a_folder_that_cannot_be_made_fails_no_read_or_write(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = RangeStore(MemoryStore(), RangeCache(tmp_path / "file" / "cache", MIB))
    tree = apply(store, EMPTY_METARANGE, [record("a"), record("b")], WHOLE).metarange
    assert contents(store, tree) == {"a": "1", "b": "1"}


def test_what_killed_writers_left_is_removed_a_day_later(tmp_path):
    scratch = tmp_path / "tmp"
    (scratch / "graveler-old").mkdir(parents=True)
    (scratch / "graveler-old" / "0.sst").write_bytes(b"half")
    (scratch / "old").write_bytes(b"half")
    for path in (scratch / "graveler-old", scratch / "old"):
        os.utime(path, (path.stat().st_mtime - 90_000,) * 2)
    (scratch / "young").write_bytes(b"half")
    forest = Forest()
    contents(RangeStore(forest.objects, RangeCache(tmp_path, MIB)), forest.tree("a b"))
    assert [path.name for path in scratch.iterdir()] == ["young"]


def fill(objects: Path, folder: Path, tree: str, bound: int) -> int:
    store = RangeStore(LocalStore(objects), RangeCache(folder, bound))
    for _ in range(3):
        assert len(contents(store, tree)) == 300
    return store.cache.damaged


def forms_of(store: RangeStore, tree: str, name: str) -> list[bytes]:
    """Return the local forms of a table of a tree as other hosts build them."""
    store = RangeStore(store.objects, RangeCache(None, 1 << 26))
    for info in metarange.read(store, tree):
        if info.id.hex() == name:
            tables = [store.open_range(info, numbered=numbered) for numbered in (False, True)]
            return [bytes(table.buffer) for table in tables]
    return [bytes(store.open(bytes.fromhex(name), TableKind.METARANGE).buffer)]


def test_several_processes_fill_one_folder_at_once(tmp_path):
    objects = tmp_path / "objects"
    store = new_store(LocalStore(objects))
    tree = apply(
        store, EMPTY_METARANGE, (record(f"k{n:04d}") for n in range(300)), CRUMBS
    ).metarange
    bound = 60_000
    with get_context("spawn").Pool(3) as pool:
        found = pool.starmap(fill, [(objects, tmp_path / "cache", tree, bound)] * 3)
    assert found == [0, 0, 0]
    assert folder_bytes(tmp_path / "cache") <= bound + 3 * bound // 16
    cache = DiskCache(tmp_path / "cache", bound)
    kept = {name.partition(".")[0] for name in names(tmp_path / "cache")}
    assert len(kept) > 10
    for name in kept:
        loaded = cache.load_flat(name)
        assert loaded is None or loaded.buffer[:] in forms_of(store, tree, name)
    assert cache.damaged == 0


@pytest.mark.crash
@pytest.mark.parametrize("killed_after", [1, 7, 40])
def test_a_process_killed_while_it_fills_leaves_no_bad_file(tmp_path, killed_after):
    objects, folder = tmp_path / "objects", tmp_path / "cache"
    store = new_store(LocalStore(objects))
    tree = write_ranges(store, [f"k{n:03d}a k{n:03d}b" for n in range(60)])
    with start_program("committed.programs.cache_filler", objects, folder, tree) as child:
        assert child.stdout is not None
        for _ in range(killed_after):
            assert child.stdout.readline() == "opened\n"
        child.send_signal(signal.SIGKILL)
    kept = {name.partition(".")[0] for name in names(folder)}
    assert kept
    cache = DiskCache(folder, MIB)
    for name in kept:
        loaded = cache.load_flat(name)
        assert loaded is None or loaded.buffer[:] in forms_of(store, tree, name)
    assert cache.damaged == 0
    assert len(contents(RangeStore(store.objects, RangeCache(folder, MIB)), tree)) == 120


def test_a_pickled_store_reads_and_cannot_publish(tmp_path):
    store = RangeStore(LocalStore(tmp_path / "lake"), RangeCache(tmp_path / "cache", MIB))
    tree = write_ranges(store, ["a b c", "d e f"])
    copy = pickle.loads(pickle.dumps(store))
    assert contents(copy, tree) == contents(store, tree)
    assert copy.stats.fetched == 0  # both have one cache folder
    with pytest.raises(InternalError, match="for reading"):
        write_ranges(copy, ["a b c", "d e f"])


def test_a_pickled_cache_in_memory_is_an_empty_one(tmp_path):
    store = RangeStore(LocalStore(tmp_path / "lake"), RangeCache(None, MIB))
    tree = write_ranges(store, ["a b c"])
    copy = pickle.loads(pickle.dumps(store))
    assert contents(copy, tree) == contents(store, tree)
    assert copy.stats.fetched == 2

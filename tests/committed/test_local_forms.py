"""The local forms of tables in the cache folder: damaged, of another version, of another user."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from graveler.committed import metarange
from graveler.committed.apply import apply
from graveler.committed.cache import disk_cache
from graveler.committed.cache.flat import HEADER, MAGIC, VERSION
from graveler.committed.cache.form import Form
from graveler.committed.cache.table import KINDS, TableKind
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import CorruptionError, InternalError
from graveler.objects.memory import MemoryStore
from tests.committed.cache_files import MANY, names, one_range, range_of_many, store_over
from tests.committed.trees import WHOLE, Forest, contents, record, rows_of

ABC = [record(key) for key in "abc"]
VALUES = {key: value for key, _, value in ABC}


def flat(folder, info):
    return folder / (info.id.hex() + ".flat")


def spent(store):
    """Return how many tables were fetched, and how many files were found damaged."""
    return store.stats.fetched, store.cache.damaged


def test_a_small_table_has_the_form_that_a_reader_makes(tmp_path):
    objects, records = MemoryStore(), MANY[:1_024]
    writer, reader = (store_over(objects, tmp_path / name) for name in ("w", "r"))
    tree = apply(writer, EMPTY_METARANGE, records, WHOLE).metarange
    assert contents(reader, tree) == {key.decode(): "1" for key, _, _ in records}
    (info,) = metarange.read(reader, tree)
    reader.open(info.id)  # the second file, which has record ids
    assert names(tmp_path / "w") == names(tmp_path / "r")
    for name in names(tmp_path / "w"):
        written, read = ((tmp_path / side / name).read_bytes() for side in ("w", "r"))
        assert name.endswith(".flat")
        assert written == read
    assert writer.open_range(info).numbered
    assert spent(writer) == (0, 0)


def test_a_large_table_is_left_as_it_was_stored(tmp_path):
    name = range_of_many(store_over(None, tmp_path)).hex()
    assert {f"{name}.sst", f"{name}.rid"} < set(names(tmp_path))
    assert f"{name}.flat" not in names(tmp_path)


DAMAGES = ["flipped", "cut", "empty", "missing"]


def spoil(path: Path, damage: str, at: int = -2) -> None:
    body = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":
        path.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
    else:
        path.write_bytes(body[:-1] if damage == "cut" else b"")


@pytest.mark.parametrize("damage", [*DAMAGES, "header"])
@pytest.mark.parametrize("numbered", [True, False])
def test_a_damaged_local_form_is_dropped_and_built_again(tmp_path, damage, numbered):
    objects, info = one_range()
    store_over(objects, tmp_path).open_range(info, numbered=numbered)
    spoil(
        flat(tmp_path, info),
        "flipped" if damage == "header" else damage,
        at=-2 if damage != "header" else 50,
    )
    store = store_over(objects, tmp_path)
    for keep in (True, False, True):
        assert store.open(info.id, keep=keep).records() == ABC
    assert spent(store) == (1, damage not in {"missing", "empty"})
    later = store_over(None, tmp_path)
    assert later.open_range(info).records() == ABC
    assert spent(later) == (0, 0)


def test_a_local_form_of_another_version_is_replaced(tmp_path, caplog):
    objects = MemoryStore()
    identifier = range_of_many(store_over(objects))
    store_over(objects, tmp_path).open(identifier)
    path = tmp_path / (identifier.hex() + ".flat")
    now = path.read_bytes()
    path.write_bytes(now[:13] + b"\2" + now[14:])
    store = store_over(objects, tmp_path)
    assert store.open(identifier).records() == MANY
    assert (store.cache.damaged, caplog.messages) == (0, [])
    assert path.read_bytes() == now


@pytest.mark.parametrize("ending", [".sst", ".rid"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_damaged_where_its_writer_left_it_is_fetched(tmp_path, ending, damage):
    objects = MemoryStore()
    identifier = range_of_many(store_over(objects, tmp_path))
    spoil(tmp_path / (identifier.hex() + ending), damage, at=20)
    store = store_over(objects, tmp_path)
    assert store.open(identifier).records() == MANY
    assert spent(store) == (1, damage != "missing")


@pytest.mark.parametrize("own", [True, False], ids=["own", "another user"])
def test_another_tables_files_under_the_name_are_fetched(tmp_path, monkeypatch, own):
    objects = MemoryStore()
    identifier = range_of_many(store_over(objects, tmp_path))
    other = range_of_many(store_over(None, tmp_path / "b"), "9")
    for ending in (".rid", ".sst"):
        (tmp_path / "b" / (other.hex() + ending)).replace(tmp_path / (identifier.hex() + ending))
    if not own:
        monkeypatch.setattr(disk_cache, "_is_own", lambda _descriptor: False)
    store = store_over(objects, tmp_path)
    assert store.open(identifier).records() == MANY
    assert spent(store) == (1, 1)


@pytest.mark.parametrize(("number", "dropped"), [(errno.ENOMEM, 2), (errno.ENODEV, 0)])
def test_a_form_that_cannot_be_mapped_is_read(tmp_path, monkeypatch, number, dropped):
    def refuse(*_args):
        raise OSError(number, "refused")

    def maps():
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    forest = Forest()
    first, second = (forest.tree(line) for line in ("a b", "c d"))
    for tree in (first, second):
        contents(store_over(forest.objects, tmp_path), tree)
    store = store_over(forest.objects, tmp_path)
    assert metarange.get(store, first, b"a") == record("a")[2]
    before = maps()
    with monkeypatch.context() as patched:
        patched.setattr("graveler.committed.cache.disk_cache.mapped", refuse)
        assert contents(store, second) == {"c": "1", "d": "1"}
        assert maps() == before - dropped
    assert store.stats.fetched == 0


def test_a_range_is_verified_by_the_digest_of_its_metarange(tmp_path):
    objects, info = one_range()
    for folder in (None, tmp_path):
        table = store_over(objects, folder).open_range(info)
        assert not table.numbered
        assert dict(rows_of(table)) == VALUES
        with pytest.raises(InternalError, match="without its record ids"):
            table.record_ids()


@pytest.mark.parametrize("how", ["same process", "later process", "in memory"])
def test_record_ids_are_computed_once_from_what_is_here(tmp_path, how):
    objects, info = one_range()
    folder = None if how == "in memory" else tmp_path
    store = store_over(objects, folder)
    store.open_range(info)
    if how == "later process":
        store = store_over(None, folder)
    table = store.open_range(info, numbered=True)
    assert table.records() == ABC
    assert store.open_range(info, numbered=True) is table
    assert store.open_range(info) is table
    assert store.stats.fetched == (how != "later process")
    if folder:
        assert store_over(None, folder).open_range(info).numbered
        assert names(folder) == [f"{info.id.hex()}.flat"]


def test_a_form_of_another_digest_serves_nobody_else(tmp_path):
    # a metarange with a false digest, and a store that has the matching false table under the id
    honest, info = one_range("a b")
    other, lie = one_range("a=9 b=9")
    lies = replace(lie, id=info.id)
    key = store_over(None).key
    other.put(key(info.id), other.get(key(lie.id)))
    for numbered in (False, True):
        for folder in (None, tmp_path / str(numbered)):
            deceived = store_over(other, folder)
            assert deceived.open_range(lies).get(b"a") == record("a", "9")[2]
            # the same cache, asked for the same id
            store = type(deceived)(honest, deceived.cache)
            assert store.open_range(info, numbered=numbered).get(b"a") == record("a")[2]
            assert store.stats.fetched == 1
            with pytest.raises(CorruptionError, match=info.id.hex()):
                store_over(other).open_range(lies, numbered=True)


@pytest.mark.parametrize("most", [1, 100, 1 << 30])
def test_a_file_is_whole_however_little_one_call_writes(tmp_path, monkeypatch, most):
    real = os.writev
    monkeypatch.setattr(
        os, "writev", lambda file, pieces: real(file, [b"".join(pieces)[:most]]) if pieces else 0
    )
    monkeypatch.setattr(disk_cache, "_PIECES", 2)
    objects, info = one_range()
    store_over(objects, tmp_path).open_range(info)
    again = store_over(objects, tmp_path)
    assert dict(rows_of(again.open_range(info))) == VALUES
    assert spent(again) == (0, 0)


def form_of(info, values, ids, hashes=lambda _hashes: None):
    """Return a form with correct checksums and any content."""
    lie = Form()
    lie.add([b"a", b"b", b"c"], values)
    hashes(lie._hashes)
    return b"".join(lie.finish(KINDS[TableKind.RANGE], info.id, ids, digest=info.digest))


def hide_b(hashes):
    hashes[8:16] = bytes(8)


def empty_form(info, numbered):
    index = bytes(8)  # no slot, and the end of the last row
    kind = KINDS[TableKind.RANGE]
    known = (MAGIC, VERSION, kind, numbered, info.id, info.digest, 0, 0, 0, bytes(16))
    sums = xxh3_64_intdigest(index).to_bytes(8, "little")
    head = HEADER.pack(*known, xxh3_128_digest(HEADER.pack(*known, bytes(16)) + sums))
    return head + sums + index


IDS = b"".join(identifier for _, identifier, _ in ABC)
HONEST, FALSE = list(VALUES.values()), [record("x", "9")[2]] * 3
LIES = {
    "false ids": lambda info: form_of(info, HONEST, bytes(96)),
    "false records": lambda info: form_of(info, FALSE, bytes(96)),
    "false records, no ids": lambda info: form_of(info, FALSE, b""),
    "a hidden key": lambda info: form_of(info, HONEST, IDS, hide_b),
    "a hidden key, no ids": lambda info: form_of(info, HONEST, b"", hide_b),
    "no records": lambda info: empty_form(info, numbered=True),
    "no records, no ids": lambda info: empty_form(info, numbered=False),
}


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("lie", LIES)
def test_a_form_of_another_user_is_read_whole_before_it_is_used(
    tmp_path, monkeypatch, lie, numbered
):
    objects, info = one_range()
    monkeypatch.setattr(disk_cache, "_is_own", lambda _descriptor: False)
    store_over(objects, tmp_path).open_range(info, numbered=numbered)
    honest = store_over(objects, tmp_path)
    assert honest.open_range(info, numbered=numbered).get(b"b") == VALUES[b"b"]
    assert spent(honest) == (0, 0)
    flat(tmp_path, info).write_bytes(LIES[lie](info))
    deceived = store_over(objects, tmp_path)
    assert deceived.open_range(info, numbered=numbered).get(b"b") == VALUES[b"b"]
    assert spent(deceived) == (1, 1)

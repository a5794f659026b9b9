"""The contract of an object store driver, as tests.

Derive from :class:`ObjectStoreSuite` in a test module and give it a fixture ``store`` that returns
an empty store for each test::

    class TestMyStore(ObjectStoreSuite):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)
"""

# Each test is named by the sentence it checks.

import io
import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from graveler.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RetryableError,
)
from graveler.objects.store import MAX_KEY_BYTES, Expected, ObjectStore, version_of

_CONTENT = bytes(range(256)) * 20
_THREADS = 8

_GOOD_KEYS = (
    *("a", "d/b/c", "..a", "a..", ".hidden", "...", "a b", " a", "a ", "a:b", "05:00/x", "~a"),
    *("a%2Fb", "a%b", "a+b", "a&b=c", "a?b", "a#b", "a;b", "a'b", 'a"b', "a*", "[a]", "{a}", "<a>"),
    *("\u00e9", "e\u0301", "\U0001f980", "\uffee", "year=2013/part-0.parquet", "a\tb", "x" * 255),
)
_BAD_KEYS = (
    *("", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/../b", "a/./b", "a/..", "//"),
    *("a\0b", "a\\b", "..\\a", "\ud800", "x/" * (MAX_KEY_BYTES // 2) + "x", "\u00e9/" * 400),
)
_IN_ORDER = (
    *("A", "a!/x", "a-b", "a.b", "a/-", "a/b", "a/b.c", "a/c/d", "a/c0", "a/\u00e9", "a0", "aa"),
    *("b/a/a/a", "b/a/a0", "b/b", "\u00e9", "\uffee", "\U0001f980"),
)
_PREFIXES = (
    *("a", "a/", "a/b", "a/b.", "a/c", "a/c/", "b/a/a", "b/a/a/a", "A", "\u00e9"),
    *("z", "a/z", "a/b/", "/", "/a", "//", "a//", "../", "./", "a/../", ".", "x/y/"),
)


class ObjectStoreSuite:
    """The contract of :class:`graveler.objects.ObjectStore`."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        raise NotImplementedError("give the suite a fixture `store`: an empty store")

    def test_a_pickled_store_reaches_the_same_objects(self, store: ObjectStore) -> None:
        store.put("a/b", b"1")
        other = pickle.loads(pickle.dumps(store))
        assert (other.root, other.get("a/b")) == (store.root, b"1")
        assert other.put_if_absent("a/c", b"2")
        assert store.get("a/c") == b"2"
        other.close()

    def test_a_key_may_hold_any_name(self, store: ObjectStore) -> None:
        for number, key in enumerate(_GOOD_KEYS):
            store.put(key, b"%d" % number)
        assert [info.key for info in store.list()] == sorted(_GOOD_KEYS, key=str.encode)
        for number, key in enumerate(_GOOD_KEYS):
            assert store.get(key) == b"%d" % number
            assert store.head(key).key == key
            assert key in [info.key for info in store.list(key)]
            store.delete(key)
        assert list(store.list()) == list(store.list("a/b")) == []

    @pytest.mark.parametrize("key", _BAD_KEYS, ids=range(len(_BAD_KEYS)))
    def test_a_key_that_some_driver_could_not_keep_is_refused_by_all(
        self, store: ObjectStore, key: str
    ) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.put(key, b""),
            lambda: store.put_if_absent(key, b""),
            lambda: store.put_if_match(key, b"", "etag"),
            lambda: store.get(key),
            lambda: store.get_range(key, 0, 1),
            lambda: store.open(key),
            lambda: store.head(key),
            lambda: store.delete(key),
        ]
        for call in calls:
            with pytest.raises(InvalidInputError):
                call()

    def test_every_kind_of_body_is_stored(self, store: ObjectStore, tmp_path: Path) -> None:
        file = tmp_path / "body"
        file.write_bytes(_CONTENT)
        with file.open("rb") as stream:
            stream.seek(1000)
            store.put("stream", stream)
            assert not stream.closed
        store.put("path", file)
        store.put("bytearray", bytearray(_CONTENT))
        store.put("memoryview", memoryview(_CONTENT)[::2])
        store.put("trickle", cast("BinaryIO", _Trickle(_CONTENT)))
        store.put("empty", b"")
        assert store.get("stream") == _CONTENT[1000:]
        assert store.get("path") == _CONTENT
        assert store.get("bytearray") == _CONTENT
        assert store.get("memoryview") == _CONTENT[::2]
        assert store.get("trickle") == _CONTENT
        assert store.get("empty") == store.get_range("empty", 0, 10) == b""

    @pytest.mark.parametrize(
        ("body", "refusal"),
        [
            (lambda: io.StringIO("text"), InvalidInputError),
            (lambda: "text", InvalidInputError),
            (lambda: Path("/nowhere/body"), RetryableError),
            (lambda: _Trickle(_CONTENT, fails=True), ZeroDivisionError),
        ],
        ids=["a stream of text", "text", "no file", "fails half-way"],
    )
    def test_a_body_that_cannot_be_read_leaves_nothing(
        self, store: ObjectStore, body: Callable[[], Any], refusal: type[Exception]
    ) -> None:
        store.put("a", b"old")
        with pytest.raises(refusal):
            store.put("a", body())
        with pytest.raises(refusal):
            store.put_if_absent("b", body())
        assert store.get("a") == b"old"
        assert [info.key for info in store.list()] == ["a"]

    def test_put_head_and_list_tell_what_is_stored(self, store: ObjectStore) -> None:
        first = store.put("a/b", b"first")
        put = store.put("a/b", io.BytesIO(_CONTENT))
        assert store.get("a/b") == _CONTENT
        assert (put.key, put.size) == ("a/b", len(_CONTENT))
        assert put.checksum == f"sha256:{sha256(_CONTENT).hexdigest()}"
        assert put.mtime.utcoffset() == timedelta(0)
        head = store.head("a/b")
        assert [head] == list(store.list())
        assert (head.key, head.size, head.etag) == (put.key, put.size, put.etag)
        assert head.etag not in {"", first.etag}
        assert head.checksum in {"", put.checksum}
        assert abs(head.mtime - put.mtime) < timedelta(seconds=5)

    def test_put_if_absent_stores_once(self, store: ObjectStore) -> None:
        assert store.put_if_absent("a/b", b"first") is True
        assert store.put_if_absent("a/b", b"second") is False
        assert store.get("a/b") == b"first"
        store.delete("a/b")
        assert store.put_if_absent("a/b", b"second") is True
        assert store.get("a/b") == b"second"

    def test_of_several_objects_the_absent_ones_are_stored(self, store: ObjectStore) -> None:
        store.put("a/b", b"first")
        objects = [("a/a", b"1"), ("a/b", b"2"), ("c", b"3")]
        assert list(store.put_all_if_absent(objects)) == [True, False, True]
        assert {info.key: store.get(info.key) for info in store.list()} == {
            "a/a": b"1",
            "a/b": b"first",
            "c": b"3",
        }
        assert not any(store.put_all_if_absent(objects))
        assert list(store.put_all_if_absent([])) == []

    def test_of_many_put_if_absent_exactly_one_wins(self, store: ObjectStore) -> None:
        bodies = [bytes([number]) * 1000 for number in range(_THREADS)]
        with ThreadPoolExecutor(_THREADS) as pool:
            won = list(pool.map(lambda body: store.put_if_absent("a/b", body), bodies))
        assert won.count(True) == 1
        assert store.get("a/b") == bodies[won.index(True)]

    def test_put_if_match_replaces_only_what_was_seen(self, store: ObjectStore) -> None:
        first = store.put("a/b", b"first")
        second = store.put_if_match("a/b", b"second", first.etag)
        assert store.get("a/b") == b"second"
        assert second.etag == store.head("a/b").etag
        assert second.checksum == f"sha256:{sha256(b'second').hexdigest()}"
        with pytest.raises(PreconditionFailedError):
            store.put_if_match("a/b", b"third", first.etag)
        assert store.get("a/b") == b"second"
        store.delete("a/b")
        with pytest.raises(PreconditionFailedError):
            store.put_if_match("a/b", b"third", second.etag)
        assert list(store.list()) == []

    def test_no_increment_by_put_if_match_is_lost(self, store: ObjectStore) -> None:
        store.put("n", b"0")

        def increment(_: int) -> None:
            while True:
                etag = store.head("n").etag
                value = int(store.get("n"))
                try:
                    store.put_if_match("n", str(value + 1).encode(), etag)
                except PreconditionFailedError:
                    continue
                return

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(increment, range(12)))
        assert store.get("n") == b"12"

    def test_what_is_not_there_is_named(self, store: ObjectStore) -> None:
        store.put("a/b", b"1")
        for key in ("a", "b", "a/b/c", "a/bb", "x/y/z"):
            calls: list[Callable[[], object]] = [
                lambda key=key: store.get(key),  # type: ignore[misc]  # default of a lambda
                lambda key=key: store.get_range(key, 0, 1),  # type: ignore[misc]
                lambda key=key: store.get_range(key, 0, 0),  # type: ignore[misc]
                lambda key=key: store.open(key),  # type: ignore[misc]
                lambda key=key: store.head(key),  # type: ignore[misc]
            ]
            for call in calls:
                with pytest.raises(ObjectNotFoundError, match=f"/{key}"):
                    call()

    def test_a_range_is_what_slicing_gives(self, store: ObjectStore) -> None:
        content = b"0123456789"
        store.put("a", content)
        for start, length in [(0, 1), (0, 10), (3, 4), (9, 100), (10, 1), (50, 5), (0, 0), (10, 0)]:
            assert store.get_range("a", start, length) == content[start : start + length]
        for start, length in [(-1, 5), (0, -1)]:
            with pytest.raises(InvalidInputError):
                store.get_range("a", start, length)
        assert store.get_range("a", 10, 5, Expected(10)) == b""
        with pytest.raises(PreconditionFailedError, match="/a"):
            store.get_range("a", 15, 5, Expected(20))

    @pytest.mark.parametrize("kind", ["etag", "mtime"])
    def test_a_read_refuses_an_object_that_is_not_the_expected_one(
        self, store: ObjectStore, kind: str
    ) -> None:
        store.put("a", b"0123456789")
        info = store.head("a")
        version = version_of(info, f"{kind}:")
        earlier = version_of(
            replace(info, etag='"0"', mtime=info.mtime - timedelta(seconds=9)), version
        )
        reads: list[Callable[[Expected], object]] = [
            lambda expected: store.get("a", expected),
            lambda expected: store.get_range("a", 0, 3, expected),
            lambda expected: store.get_range("a", 8, 100, expected),
            lambda expected: store.get_range("a", 3, 0, expected),
            lambda expected: store.open("a", expected).close(),
        ]
        for read in reads:
            read(Expected())
            read(Expected(10, version))
            for wrong in (Expected(9), Expected(11, version), Expected(10, earlier)):
                with pytest.raises(PreconditionFailedError, match="/a"):
                    read(wrong)

    def test_an_open_object_reads_and_seeks_like_a_file(self, store: ObjectStore) -> None:
        content = random.Random(1).randbytes(3_000_000)
        store.put("a", content)
        with store.open("a") as file:
            assert file.readable()
            assert file.seekable()
            assert file.read(10) == content[:10]
            assert file.tell() == 10
            assert file.seek(-8, io.SEEK_END) == len(content) - 8
            assert file.read() == content[-8:]
            assert file.read() == b""
            assert file.seek(5) == 5
            assert file.seek(2_000_000, io.SEEK_CUR) == 2_000_005
            assert file.read(500_000) == content[2_000_005:2_500_005]
            file.seek(0)
            assert file.read() == content
        assert file.closed

    def test_an_open_empty_object_ends_at_once(self, store: ObjectStore) -> None:
        store.put("a", b"")
        with store.open("a") as file:
            assert file.read() == b""
            assert file.seek(100) == 100
            assert file.read(1) == b""

    def test_delete_removes_one_object_only(self, store: ObjectStore) -> None:
        for key in ("a/b", "a/bc", "a/c", "d"):
            store.put(key, b"1")
        for key in ("a/b", "a/b", "x", "a", "a/c/d", "a/x"):  # what is not there is no error
            assert store.delete(key) is False
        assert [info.key for info in store.list()] == ["a/bc", "a/c", "d"]

    def test_objects_are_listed_in_byte_order_of_their_keys(self, store: ObjectStore) -> None:
        shuffled = list(_IN_ORDER)
        random.Random(1).shuffle(shuffled)
        for key in shuffled:
            store.put(key, key.encode())
        keys = sorted(_IN_ORDER, key=str.encode)
        assert [(info.key, info.size) for info in store.list()] == [
            (key, len(key.encode())) for key in keys
        ]
        for prefix in _PREFIXES:
            below = [key for key in keys if key.startswith(prefix)]
            assert [info.key for info in store.list(prefix)] == below
        for prefix in ("", "a", "a/", "b/a"):
            below = [key for key in keys if key.startswith(prefix)]
            for after in [*_IN_ORDER, "a", "a/", "a/b", "b/a/", "\u00e9", "zzz", "0"]:
                expected = [key for key in below if key.encode() > after.encode()]
                assert [info.key for info in store.list(prefix, after=after)] == expected
        for folder in ("", "a/", "a/b/", "b/", "z/"):
            level = list(store.level(folder))
            parts = [key[len(folder) :].partition("/") for key in keys if key.startswith(folder)]
            names = {item if isinstance(item, str) else item.key for item in level}
            assert names == {folder + name + slash for name, slash, _ in parts}
            assert len(names) == len(level)
            infos = {info.key: info for info in store.list(folder)}
            assert all(isinstance(item, str) or item == infos[item.key] for item in level)

    def test_a_prefix_that_is_no_text_is_refused(self, store: ObjectStore) -> None:
        with pytest.raises(InvalidInputError):
            list(store.list("\ud800"))
        with pytest.raises(InvalidInputError):
            list(store.list(after="\ud800"))

    def test_objects_may_be_deleted_while_they_are_listed(self, store: ObjectStore) -> None:
        keys = [f"{folder}/{name}" for folder in "abc" for name in "abc"]
        for key in keys:
            store.put(key, b"")
        seen = []
        for info in store.list():
            seen.append(info.key)
            store.delete(info.key)
        assert seen == keys
        assert list(store.list()) == []

    def test_any_history_gives_what_a_dict_gives(self, store: ObjectStore) -> None:
        draw = random.Random(1)
        model: dict[str, bytes] = {}
        keys = ["a", "b/a", "b/b/a", "b/b.a", "b-b", "c/a"]
        for step in range(100):
            key = draw.choice(keys)
            body = str(step).encode()
            match draw.choice(["put", "absent", "match", "delete", "list"]):
                case "put":
                    store.put(key, body)
                    model[key] = body
                case "absent":
                    assert store.put_if_absent(key, body) is (key not in model)
                    model.setdefault(key, body)
                case "match" if key in model:
                    store.put_if_match(key, body, store.head(key).etag)
                    model[key] = body
                case "delete":
                    store.delete(key)
                    model.pop(key, None)
                case _:
                    listed = {info.key: store.get(info.key) for info in store.list()}
                    assert listed == model
        assert [info.key for info in store.list()] == sorted(model, key=str.encode)

    def test_the_uri_is_the_root_and_the_key(self, store: ObjectStore) -> None:
        assert not store.root.endswith("/")
        assert "://" in store.root
        assert store.uri("a b/c:d") == f"{store.root}/a b/c:d"
        store.close()
        store.close()


class _Trickle:
    """A stream that returns a few bytes at a time, like a pipe, and may fail half-way."""

    def __init__(self, content: bytes, *, fails: bool = False) -> None:
        self._stream = io.BytesIO(content)
        self._fails_at = len(content) // 2 if fails else len(content) + 1

    def read(self, size: int = -1) -> bytes:
        if self._stream.tell() >= self._fails_at:
            raise ZeroDivisionError
        return self._stream.read(min(size, 700))

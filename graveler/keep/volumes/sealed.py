"""A volume whose blocks are encrypted, around another volume.

A sealed block is a header, and pieces of 1 MiB, each an AES-256-GCM message. So a part of a block is
read without the rest, and memory holds one piece. ``docs/formats/keep-volumes.md`` has the bytes.
"""

# `Volume` documents the methods.
# ruff: noqa: D102

import hmac
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from graveler.base.bounded import SeekableFile
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    MissingDependencyError,
    StateError,
)
from graveler.keep.volumes.volume import (
    Opened,
    Space,
    Stored,
    Trashed,
    Volume,
    Writer,
    reading,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC = b"KeepAEAD"
_VERSION = 1
_HEADER = struct.Struct(">8sB7x16s8s24s")  # magic, version, the key's id and check, salt
_SALT_BYTES = 24
_KEY_BYTES = 32
_ID_BYTES = 16
_CHECK_BYTES = 8
_PIECE_BYTES = 1 << 20
_TAG_BYTES = 16
_SEALED_BYTES = _PIECE_BYTES + _TAG_BYTES


class SealedVolume(Volume):
    """A volume around another one, which has only sealed blocks.

    Args:
        keys: Keys of 32 bytes by their ids, which have 1 to 16 ASCII characters. The last one seals
            new blocks, and all of them open blocks.
        random: Returns as many random bytes.
    """

    def __init__(
        self,
        inner: Volume,
        keys: Mapping[str, bytes],
        *,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        super().__init__(inner.uuid, inner.device, inner.role, inner.clock)
        for name, key in keys.items():
            if not (name.isascii() and name.isprintable() and 0 < len(name) <= _ID_BYTES):
                raise InvalidInputError(f"key id {name!r}: give 1 to {_ID_BYTES} ASCII characters")
            if len(key) != _KEY_BYTES:
                raise InvalidInputError(f"key {name!r} has {len(key)} bytes: give {_KEY_BYTES}")
        if not keys:
            raise InvalidInputError(f"volume {inner.uuid} has no key: give one")
        self._inner = inner
        self._keys = dict(keys)
        self._newest = list(keys)[-1]
        self._random = random
        _aesgcm()

    def open(self, digest: str) -> Opened:
        opened = self._inner.open(digest)
        try:
            header, name = self._header(digest, opened.file)
            size = _plain_size(opened.size)
            file = _SealedFile(opened.file, _Cipher(self._keys[name], digest, header), size)
        except BaseException:
            opened.file.close()
            raise
        return Opened(file, size, opened.mtime_ns)  # type: ignore[arg-type]  # a raw file

    def status(self, digest: str) -> Stored:
        return _plain(self._inner.status(digest))

    @contextmanager
    def writer(self, digest: str) -> Iterator[Writer]:
        key, name = self._keys[self._newest], self._newest.encode()
        salt = self._random(_SALT_BYTES)
        header = _HEADER.pack(_MAGIC, _VERSION, name, _check(key), salt)
        with self._inner.writer(digest) as inner:
            inner.write(header)
            yield _SealedWriter(inner, _Cipher(key, digest, header))

    def touch(self, digest: str) -> None:
        self._inner.touch(digest)

    def trash(self, digest: str, ttl: int, life: int, mtime_ns: int | None = None) -> Trashed:
        return self._inner.trash(digest, ttl, life, mtime_ns)

    def untrash(self, digest: str) -> None:
        self._inner.untrash(digest)

    def in_trash(self, digest: str) -> int:
        return self._inner.in_trash(digest)

    def set_aside(self, digest: str, mtime_ns: int) -> bool:
        return self._inner.set_aside(digest, mtime_ns)

    def damaged(self) -> int:
        return self._inner.damaged()

    def empty(self) -> int:
        return self._inner.empty()

    def index(self, prefix: str = "", after: str = "") -> Iterator[Stored]:
        return map(_plain, self._inner.index(prefix, after))

    def space(self) -> Space:
        return self._inner.space()

    def bookmark(self) -> str:
        return self._inner.bookmark()

    def set_bookmark(self, digest: str) -> None:
        self._inner.set_bookmark(digest)

    def is_outdated(self, digest: str) -> bool:
        with self._inner.open(digest) as opened:
            return self._header(digest, opened.file)[1] != self._newest

    def _header(self, digest: str, file: BinaryIO) -> tuple[bytes, str]:
        """Return the header of a sealed block, and the id of its key.

        A block of an unknown key is not damaged, so that it is not set aside because a key is missing.
        """
        with reading(f"block {digest} of volume {self.uuid} is damaged"):
            header = file.read(_HEADER.size)
        if len(header) != _HEADER.size or header[: len(_MAGIC) + 1] != _MAGIC + bytes([_VERSION]):
            raise CorruptionError(f"block {digest} of volume {self.uuid} is not a sealed block")
        _, _, name, check, _ = _HEADER.unpack(header)
        name = name.rstrip(b"\0").decode("ascii", "replace")
        if name not in self._keys or check != _check(self._keys[name]):
            raise StateError(
                f"block {digest} of volume {self.uuid} was sealed with another key {name!r}, and the "
                f"keys given are {', '.join(self._keys)}: give that key too, before the newest"
            )
        return header, name


class _Cipher:
    """Seals and opens the pieces of one block."""

    def __init__(self, key: bytes, digest: str, header: bytes) -> None:
        # a key for each block: 24 random bytes never come twice, and a block fits no other name
        material = b"graveler keep block\0" + digest.encode() + header
        self._cipher = _aesgcm()(hmac.digest(key, material, "sha256"))
        self._header = header
        self._digest = digest

    def seal(self, number: int, piece: bytes, *, is_last: bool) -> bytes:
        return self._cipher.encrypt(_nonce(number, is_last), piece, self._header)

    def open(self, number: int, sealed: bytes, *, is_last: bool) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(_nonce(number, is_last), sealed, self._header)
        except InvalidTag:
            raise CorruptionError(
                f"piece {number} of the sealed block {self._digest} is damaged"
            ) from None


class _SealedFile(SeekableFile):
    """The content of a sealed block. One piece of it is in memory."""

    def __init__(self, file: BinaryIO, cipher: _Cipher, size: int) -> None:
        super().__init__(size)
        self._file = file
        self._cipher = cipher
        self._number = -1
        self._piece = b""
        if not size:
            self._load(0)  # the piece of an empty block is not read, but it may be damaged

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view, begin = memoryview(buffer).cast("B"), self._position
        while view and (count := super().readinto(view)):
            view = view[count:]
        return self._position - begin

    def _next(self, most: int, /) -> memoryview:
        if self._position >= self._size:
            return memoryview(b"")
        number, offset = divmod(self._position, _PIECE_BYTES)
        if number != self._number:
            self._load(number)
        found = memoryview(self._piece)[offset:][:most]
        self._position += len(found)
        return found

    def close(self) -> None:
        self._file.close()
        super().close()

    def _load(self, number: int) -> None:
        self._file.seek(_HEADER.size + number * _SEALED_BYTES)
        is_last = (number + 1) * _PIECE_BYTES >= self._size
        self._piece = self._cipher.open(number, self._file.read(_SEALED_BYTES), is_last=is_last)
        self._number = number


class _SealedWriter(Writer):
    def __init__(self, inner: Writer, cipher: _Cipher) -> None:
        self._inner = inner
        self._cipher = cipher
        self._number = 0
        self._rest = bytearray()

    def write(self, piece: bytes | memoryview) -> None:
        view = memoryview(piece)
        while view:
            if len(self._rest) == _PIECE_BYTES:  # not the last one, as there is more
                self._seal(is_last=False)
            room = _PIECE_BYTES - len(self._rest)
            self._rest += view[:room]
            view = view[room:]

    def commit(self) -> None:
        self._seal(is_last=True)
        self._inner.commit()

    def _seal(self, *, is_last: bool) -> None:
        self._inner.write(self._cipher.seal(self._number, bytes(self._rest), is_last=is_last))
        self._number += 1
        self._rest.clear()


def _aesgcm() -> "type[AESGCM]":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingDependencyError(
            f'sealed volumes need a library ({error}): pip install "graveler[keep]"'
        ) from error
    return AESGCM


def _check(key: bytes) -> bytes:
    return hmac.digest(key, b"graveler keep check", "sha256")[:_CHECK_BYTES]


def _nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


def _plain_size(sealed: int) -> int:
    body = sealed - _HEADER.size
    return max(0, body - _TAG_BYTES * max(1, -(-body // _SEALED_BYTES)))


def _plain(stored: Stored) -> Stored:
    return stored._replace(size=_plain_size(stored.size))

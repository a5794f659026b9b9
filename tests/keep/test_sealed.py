"""Volumes that are encrypted: what is on the disk, and what an attacker can do there."""

import sys

import pytest

from graveler.errors import CorruptionError, InvalidInputError, MissingDependencyError
from graveler.keep.volumes.memory import MemoryVolume
from graveler.keep.volumes.sealed import SealedVolume
from tests.harness.keep import KEYS, TWINS, content, digest, uuid

MIB = 1 << 20
HASH = digest(b"x")


@pytest.fixture
def inner():
    return MemoryVolume(uuid("1"))


@pytest.fixture
def volume(inner):
    return SealedVolume(inner, KEYS)


def test_the_disk_has_a_header_and_sealed_pieces(inner, volume):
    data = b"secret" * 200_000
    volume.put(HASH, data)
    sealed = content(inner, HASH)
    assert sealed[:16] == b"KeepAEAD\x01" + bytes(7)
    assert sealed[16:32] == b"2026" + bytes(12)
    assert len(sealed) == 64 + len(data) + 2 * 16
    assert b"secret" not in sealed
    volume.put(HASH, data)
    again = content(inner, HASH)
    assert again[:40] == sealed[:40]
    assert again[40:64] != sealed[40:64]
    assert again[64:80] != sealed[64:80]


def test_the_fields_are_those_of_the_volume_inside(inner, volume):
    assert (volume.uuid, volume.device, volume.space()) == (inner.uuid, inner.device, inner.space())


@pytest.mark.parametrize("size", [0, 3, MIB, 2 * MIB, 2 * MIB + 5])
@pytest.mark.parametrize("place", ["magic", "version", "zero", "salt", "first", "last", "tag"])
def test_a_changed_byte_is_noticed(inner, volume, size, place):
    volume.put(HASH, bytes(size))
    sealed = bytearray(content(inner, HASH))
    at = {"magic": 3, "version": 8, "zero": 12, "salt": 41, "first": 64, "last": -17, "tag": -1}
    sealed[at[place]] ^= 1
    inner.put(HASH, bytes(sealed))
    with pytest.raises(CorruptionError):
        content(volume, HASH)


@pytest.mark.parametrize("left", [0, 63, 64, 79, 80, 64 + MIB + 16, -1, -MIB - 16])
def test_a_block_that_was_cut_is_noticed(inner, volume, left):
    volume.put(HASH, bytes(3 * MIB))
    inner.put(HASH, content(inner, HASH)[:left])
    with pytest.raises(CorruptionError):
        content(volume, HASH)


def test_pieces_and_blocks_cannot_be_exchanged(inner, volume):
    volume.put(HASH, bytes(3 * MIB))
    sealed = content(inner, HASH)
    step = MIB + 16
    first, second = sealed[64 : 64 + step], sealed[64 + step : 64 + 2 * step]
    inner.put(HASH, sealed[:64] + second + first + sealed[64 + 2 * step :])
    with pytest.raises(CorruptionError, match="piece 0"):
        content(volume, HASH)
    other = digest(b"y")
    inner.put(other, sealed)
    with pytest.raises(CorruptionError):
        content(volume, other)


def test_a_damaged_piece_does_not_hide_the_others(inner, volume):
    volume.put(HASH, bytes(3 * MIB))
    sealed = bytearray(content(inner, HASH))
    sealed[64 + MIB + 20] ^= 1
    inner.put(HASH, bytes(sealed))
    with volume.open(HASH) as opened:
        assert opened.file.read(MIB) == bytes(MIB)
        with pytest.raises(CorruptionError, match="piece 1"):
            opened.file.read(1)
        opened.file.seek(2 * MIB)
        assert opened.file.read(MIB) == bytes(MIB)
        assert opened.file.read(1) == b""


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "has no key"),
        ({"a": b"short"}, "has 5 bytes: give 32"),
        ({"": bytes(32)}, "1 to 16"),
        ({"x" * 17: bytes(32)}, "1 to 16"),
        ({"é": bytes(32)}, "1 to 16"),
    ],
)
def test_keys_that_cannot_be_used_are_refused(inner, keys, message):
    with pytest.raises(InvalidInputError, match=message):
        SealedVolume(inner, keys)


def test_a_sealed_block_is_its_bytes(inner):
    """The format: other programs, and later versions, read what this one wrote."""
    volume = SealedVolume(inner, {"k": bytes(range(32))}, random=lambda size: b"s" * size)
    volume.put(digest(TWINS[0]), TWINS[0])
    assert content(inner, digest(TWINS[0])).hex() == (
        "4b6565704145414401000000000000006b000000000000000000000000000000"
        "592b2cf5caa03fcf737373737373737373737373737373737373737373737373"
        "40b1a9c7dc88476b93b69e1feee4bcf89327ce8f361a1b112b986db8702d43d4"
        "fd13e7ca241522a144262f64e83bb2442164ddadbcbddd740dba6f4651c46a5c"
        "a15853ef2c0da5efeaf85f1d437528cd"
    )


def test_a_missing_library_is_named(inner, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "graveler\[keep\]"'):
        SealedVolume(inner, KEYS)

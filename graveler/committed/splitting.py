"""Splitting policies: where a range ends, as values and pure functions of keys and logical bytes.

``hash`` ends a range by the hash of a key, ``directory`` where the directory changes. Both have
hard breaks, which do not depend on sizes, so that builders which start at different places agree
after one. The hash is the one that Spark computes natively. See ``docs/design/0018-splitting.md``.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from itertools import pairwise, repeat
from typing import Any, Self

from xxhash import xxh64_digest
from xxhash import xxh64_intdigest as xxh64

from graveler.base.forks import held_off
from graveler.base.records import FieldType, Unfit, checked, integer, load_fields
from graveler.errors import InvalidInputError

HASH_SEED = 42
HASH_MASK = (1 << 63) - 1
HASH = "hash"
DIRECTORY = "directory"
POLICIES = (HASH, DIRECTORY)
_MIB = 1 << 20
_LARGEST = (1 << 63) - 1
_RAGGEDNESS = {HASH: 2048, DIRECTORY: 1024}
_HARD = {HASH: 32, DIRECTORY: 64}
_LEAST = 4
_HARD_DIRECTORIES = 8192
_SHARES = {
    "table_bytes": 1 / 32, "part_bytes": 5 / 16, "directory_bytes": 7 / 16, "key_bytes": 1 / 2,
}  # fmt: skip
_PARTS = 4
_TABLE_LEVELS = 3
_SLASH = ord("/")
_BEHIND = b"0"
_FIRST_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Splitting:
    """The splitting policy of a repository and its parameters. All sizes are logical bytes.

    A parameter of 0 gets the policy's default. The thresholds of ``directory`` are then shares of
    `max_bytes`.

    Attributes:
        policy: ``hash`` or ``directory``.
        min_bytes: ``hash``: below this size a range ends only at hard breaks. If the raggedness has
            its default, the default is a quarter of `max_bytes`.
        max_bytes: A range of this size always ends. It can exceed the size by one record.
        raggedness: ``hash``: from `min_bytes` on, one key in this many ends its range.
            ``directory``: the same from `key_bytes` on.
        hard: Of the keys that `raggedness` selects, one in this many is a hard break at any size.
        table_bytes: ``directory``: from this size on, a range ends where the first directory of the
            path changes, or where three or more levels of directories change at once.
        part_bytes: ``directory``: from this size on, a range also ends where the parent of the
            directory changes, and after one directory in four.
        directory_bytes: ``directory``: from this size on, a range ends after any directory.
        key_bytes: ``directory``: from this size on, a range also ends within a directory.
        hard_directories: ``directory``: one directory in this many has a hard break before it.
        number: The repository's own number, 0 to 2**63 - 1. The seed of its hashes is made from it.
    """

    policy: str = HASH
    min_bytes: int = 0
    max_bytes: int = 4 * _MIB
    raggedness: int = 0
    hard: int = 0
    table_bytes: int = 0
    part_bytes: int = 0
    directory_bytes: int = 0
    key_bytes: int = 0
    hard_directories: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InvalidInputError(
                f"splitting policy {self.policy!r}: give {' or '.join(POLICIES)}"
            )
        for name in PARAMETERS:
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= _LARGEST:
                raise InvalidInputError(
                    f"splitting has {name} {value!r}: give a whole number from 0 to {_LARGEST}"
                )
        if self.policy == HASH and not self.raggedness:
            self._fill("min_bytes", self.max_bytes // _LEAST)
        self._fill("raggedness", _RAGGEDNESS[self.policy])
        self._fill("hard", _HARD[self.policy])
        if self.policy == DIRECTORY:
            self._fill("hard_directories", _HARD_DIRECTORIES)
            for name, share in _SHARES.items():
                self._fill(name, max(1, int(self.max_bytes * share)))
        self._check()

    def _fill(self, name: str, default: int) -> None:
        object.__setattr__(self, name, getattr(self, name) or default)

    def _check(self) -> None:
        foreign = [name for name in PARAMETERS if name not in OF_POLICY[self.policy]]
        for name in foreign:
            if getattr(self, name):
                raise InvalidInputError(
                    f"splitting by {self.policy} has no {name}: leave it out, it is given as "
                    f"{getattr(self, name)}"
                )
        order = [name for name in _ORDER if name in OF_POLICY[self.policy]]
        sizes = [getattr(self, name) for name in order]
        if sizes != sorted(sizes) or self.max_bytes < 1:
            shown = ", ".join(f"{name} {size}" for name, size in zip(order, sizes, strict=True))
            raise InvalidInputError(
                f"splitting by {self.policy} has {shown}: give {' <= '.join(order)}, and a "
                "max_bytes of at least 1"
            )

    @property
    def seed(self) -> int:
        """The seed of all hashes of keys: xxh64 of the number in 8 bytes, little-endian."""
        return xxh64(self.number.to_bytes(8, "little"), HASH_SEED)

    @property
    def usual_bytes(self) -> int:
        """The approximate average size of ranges."""
        return max(1, self.max_bytes * 3 // 8)

    def encode(self) -> dict[str, Any]:
        """Return the fields of a record: the policy and its parameters."""
        return {"policy": self.policy} | {
            name: getattr(self, name) for name in PARAMETERS if name in OF_POLICY[self.policy]
        }

    @classmethod
    def load(cls, value: Any) -> Self:
        """Return the policy of a record's fields, or raise `Unfit`."""
        (policy,) = load_fields(value, policy=_POLICY)
        names = OF_POLICY[policy]
        numbers = load_fields(value, **dict.fromkeys(names, integer()))
        try:
            return cls(policy, **dict(zip(names, numbers, strict=True)))
        except InvalidInputError as error:
            raise Unfit(value, f"a policy of splitting: {error}") from error


MANY = 4_096
"""The number of keys from which on numpy is used. Loading it takes about 100 ms."""

SPLITTING = FieldType(Splitting.load, Splitting.encode)
"""How a policy is stored."""
_POLICY = checked(" or ".join(POLICIES), str, fits=POLICIES.__contains__)

PARAMETERS = tuple(field.name for field in fields(Splitting))[1:]
"""The parameters of all policies, in the order of `Splitting`."""

_ORDER = ("min_bytes", *_SHARES, "max_bytes")
_COMMON = ("max_bytes", "raggedness", "hard", "number")
OF_POLICY = {
    HASH: ("min_bytes", *_COMMON),
    DIRECTORY: (*_SHARES, "hard_directories", *_COMMON),
}
"""The parameters of each policy."""

DEFAULT = Splitting(DIRECTORY)
"""The policy of new repositories. ``graveler splitting simulate`` measures policies."""


def initial(settings: Mapping[str, str | int], name: str) -> Splitting:
    """Return the policy of a new repository."""
    number = int.from_bytes(sha256(name.encode()).digest()[:8]) & _LARGEST
    return changed(replace(DEFAULT, number=number), settings)


def changed(splitting: Splitting, settings: Mapping[str, str | int]) -> Splitting:
    """Return a policy with other parameters.

    Args:
        splitting: The current policy. Its number stays. If the policy changes, parameters that are
            not set get their defaults. If `max_bytes` changes, thresholds that are not set become
            shares of it.
    """
    unknown = settings.keys() - {"policy", *PARAMETERS}
    if unknown:
        raise InvalidInputError(
            f"splitting has no {', '.join(sorted(unknown))}: give policy, {', '.join(PARAMETERS)}"
        )
    kept: dict[str, Any] = splitting.encode()
    if settings.get("policy", splitting.policy) != splitting.policy:
        kept = {"policy": splitting.policy, "number": splitting.number}
    elif settings.get("max_bytes", splitting.max_bytes) != splitting.max_bytes:
        kept = {name: value for name, value in kept.items() if name not in _SHARES}
    return Splitting(**{**kept, **settings})


def directory_of(key: bytes) -> bytes:
    """Return the part of a key up to and including its last slash, b"" without a slash."""
    return key[: key.rfind(b"/") + 1]


def _is_table(before: bytes, after: bytes) -> bool:
    """Return whether two directories differ in the first level, or in the last three or more."""
    left, right = before.split(b"/"), after.split(b"/")  # the last part of each is empty
    shortest, longest = sorted((len(left) - 1, len(right) - 1))
    shared = next((at for at in range(shortest) if left[at] != right[at]), shortest)
    return not shared or longest - shared >= _TABLE_LEVELS


class Cutter:
    """Decides where ranges end: `cut` is the rule, `cuts` applies it to many records."""

    __slots__ = ("_directories", "_hard", "_least", "_low_bits", "_rule", "_seed")

    def __init__(self, splitting: Splitting) -> None:
        self._rule = splitting
        self._directories = splitting.policy == DIRECTORY
        self._hard = splitting.raggedness * splitting.hard
        self._least = splitting.key_bytes if self._directories else splitting.min_bytes
        self._seed = splitting.seed
        # A range ends by the hash of a key only if the hash has none of these bits, because a
        # multiple of the raggedness is a multiple of its power of two. Nearly all hashes have one.
        self._low_bits = (splitting.raggedness & -splitting.raggedness) - 1

    def cut(self, key: bytes, next_key: bytes | None, size: int) -> bool:
        """Return whether a range ends after `key`."""
        if size >= self._rule.max_bytes:
            return True
        digest = xxh64(key, self._seed)
        if not digest & self._low_bits:
            digest &= HASH_MASK
            if digest % self._hard == 0 or (
                size >= self._least and digest % self._rule.raggedness == 0
            ):
                return True
        return self._directories and next_key is not None and self._leaves(key, next_key, size)

    def cuts(
        self, last: bytes, size: int, keys: Sequence[bytes], lengths: Sequence[int]
    ) -> tuple[list[tuple[int, int]], int]:
        """Apply the rule to records.

        Args:
            size: Logical bytes of the current range, or 0 without one.

        Returns:
            For each range that ends, the position of the next record and the size of the range.
            Then the size of the range that has not ended.
        """
        found: list[tuple[int, int]] = []
        most = self._rule.max_bytes
        for start, stop in pairwise([*self._places(keys), len(keys)]):
            if size and self.cut(last, keys[start], size):
                found.append((start, size))
                size = 0
            added = sum(lengths[2 * start : 2 * stop])
            if size + added < most:
                size += added
            else:  # the maximum size is reached at one of these records
                for place in range(start, stop):
                    if size >= most:
                        found.append((place, size))
                        size = 0
                    size += lengths[2 * place] + lengths[2 * place + 1]
            last = keys[stop - 1]
        return found, size

    def hard(self, key: bytes, next_key: bytes | None) -> bool:
        """Return whether there is a hard break between two consecutive keys."""
        if not (xxh64(key, self._seed) & HASH_MASK) % self._hard:
            return True
        return self._directories and next_key is not None and self._leaves(key, next_key, -1)

    def _leaves(self, key: bytes, next_key: bytes, size: int) -> bool:
        """Return whether a change of directory ends a range. Size -1 asks for hard breaks only."""
        before, after = directory_of(key), directory_of(next_key)
        if before == after:
            return False
        rule, seed = self._rule, self._seed
        if size >= rule.directory_bytes or not (
            (xxh64(after, seed) & HASH_MASK) % rule.hard_directories
        ):
            return True
        if size >= rule.part_bytes:
            return (
                directory_of(before[:-1]) != directory_of(after[:-1])
                or (xxh64(before, seed) & HASH_MASK) % _PARTS == 0
            )
        return size >= rule.table_bytes and _is_table(before, after)

    def _places(self, keys: Sequence[bytes]) -> list[int]:
        """Return the positions before which a range may end, including the first one."""
        if not keys:
            return []
        many = len(keys) >= MANY
        found = {0, *(place + 1 for place in self._selected(keys[:-1], many=many))}
        if self._directories:
            place = _directory_end(keys, 0, many=many)
            while place < len(keys):
                found.add(place)
                place = _directory_end(keys, place, many=many)
        return sorted(found)

    def _selected(self, keys: Sequence[bytes], *, many: bool) -> Sequence[int]:
        """Return the positions of the keys whose hash has none of the low bits."""
        if not many:
            seed, low_bits = self._seed, self._low_bits
            return [place for place, key in enumerate(keys) if not xxh64(key, seed) & low_bits]
        with held_off:  # a child would wait forever for an import by a thread of its parent
            import numpy

        digests = b"".join(map(xxh64_digest, keys, repeat(self._seed)))
        low = numpy.frombuffer(digests, ">u8") & numpy.uint64(self._low_bits)
        return numpy.flatnonzero(low == 0).tolist()


def _directory_end(keys: Sequence[bytes], start: int, *, many: bool) -> int:
    """Return the position of the first key after `start` that is in another directory."""
    directory = directory_of(keys[start])
    stop, count = start + 1, len(keys)
    if stop == count or directory_of(keys[stop]) != directory:
        return stop
    # keys are sorted: all keys below a directory come before the next name
    end = bisect_left(keys, directory[:-1] + _BEHIND, stop) if directory else count
    slashes, width = directory.count(b"/"), _FIRST_WIDTH
    while stop < end:  # in growing steps, because the directory may have subdirectories
        some = keys[stop : min(stop + width, end)]
        if _slashes(some, many=many) != slashes * len(some):
            return stop + next(at for at, key in enumerate(some) if key.count(b"/") != slashes)
        stop += len(some)
        width *= 4
    return end


def _slashes(keys: Sequence[bytes], *, many: bool) -> int:
    """Return the total number of slashes in the keys."""
    joined = b"".join(keys)
    if not many or len(keys) <= _FIRST_WIDTH:
        return joined.count(b"/")
    with held_off:
        import numpy

    return int(numpy.count_nonzero(numpy.frombuffer(joined, numpy.uint8) == _SLASH))

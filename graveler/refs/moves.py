"""The log of moves: the commits of every branch over time, and the creation and deletion of tags.

The latest moves of a branch are in its record; eight of them become a page in the partition
``moves:<uid>``, and the last page of a deleted branch has its deletion. A tag has a line for each
change, written before it; a reader omits changes that did not happen. Lives of a name and lines of
a tag are numbered downwards, because clocks do not order them, and old ones are removed.
``docs/formats/kv-layout.md`` has the keys.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from graveler.base.clock import Clock, IdSource, unix_us
from graveler.base.names import is_of_run
from graveler.base.records import (
    ANY,
    DIGEST,
    FLAG,
    MICROSECONDS,
    NAME,
    TEXT,
    FieldType,
    array,
    decode_json,
    encode_json,
    mapping,
    read_fields,
    read_key,
    row,
)
from graveler.config import default_committer
from graveler.errors import CorruptionError
from graveler.kv.store import KVStore
from graveler.model import BranchRecord, Move

MOVES: FieldType[tuple[Move, ...]] = array(row(MICROSECONDS, TEXT, DIGEST, TEXT, make=Move))
"""The moves of a branch, oldest first."""

DELETED = "delete"
UNDONE = "undo"
_KEPT = 8
_TAG = "tag:"
_LAST = "deleted."
_FIRST_NUMBER = 99_999_999
_LIVES_KEPT = 100
_LINES_KEPT = 200
_TRIMMED_EVERY = 50
_BIRTH = re.compile(r"([0-9]{8})-.+")
_LIFE = re.compile(r"([^/]+)/([^/]*)/deleted\.([0-9]{1,12})\.[0-9]{1,12}")
_LINE = re.compile(r"tag:([^/]+)/([0-9]{1,12})-.*")


@dataclass(frozen=True, slots=True)
class Life:
    """A branch from its creation to its deletion, from its last page.

    Attributes:
        hidden: Whether listings omitted it.
        run: Whether a run owned it.
        staged: The tokens of its staged writes, oldest first. None of a run's, or of version 0.2.
    """

    name: str
    born: str
    moves: tuple[Move, ...]
    pages: int
    hidden: bool
    run: bool
    staged: tuple[str, ...] = ()


def number_of_moves(branch: BranchRecord | Life) -> int:
    """Return how many moves the log of a branch has."""
    return branch.pages * _KEPT + len(branch.moves)


class Moves:
    """The log of the branches and tags of one repository."""

    def __init__(self, kv: KVStore, uid: str, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._partition = f"moves:{uid}"
        self._clock = clock
        self._ids = ids

    def logged(self, record: BranchRecord, action: str) -> BranchRecord:
        """Return `record` with its current head as its latest move.

        A move to the same head is one if it drops staged writes, or brings them back.
        """
        stays = record.moves and record.moves[-1].commit == record.commit_id
        drops = record.dropped and record.dropped[-1].move == number_of_moves(record)
        if stays and not drops and action != UNDONE:
            return record
        move = self._move(action, record.commit_id)
        if len(record.moves) < _KEPT:
            return replace(record, moves=(*record.moves, move))
        self._kv.set(
            self._partition,
            _page(record.name, record.born, record.pages),
            encode_moves(record.moves),
        )
        return replace(record, moves=(move,), pages=record.pages + 1)

    def birth(self, name: str) -> str:
        """Return the birth of a new branch. For users' branches, it sorts before earlier births."""
        if is_of_run(name):
            return self._ids.unique()
        start = f"{name}/".encode()
        latest = self._first(start)
        number = 0
        if latest is not None:
            number = (
                _number_of(read_key(latest[len(start) :], "log of moves").partition("/")[0]) + 1
            )
        return f"{_FIRST_NUMBER - number:08d}-{self._ids.unique()}"

    def deleting(self, record: BranchRecord) -> None:
        """Log the record of a branch before it is removed."""
        moves = (*record.moves, self._move(DELETED, record.commit_id))
        key = f"{record.name}/{record.born}/{_LAST}{record.pages:08d}.{len(record.moves)}"
        page = {"hidden": record.hidden, "moves": moves, "run": bool(record.fence)}
        if not record.fence:
            page["staged"] = (*record.sealed_tokens, record.staging_token)
        self._kv.set(self._partition, key.encode(), encode_json(page))
        if not is_of_run(record.name):
            self._trim(f"{record.name}/", _number_of(record.born), _LIVES_KEPT)

    def of(self, branch: BranchRecord | Life) -> Iterator[Move]:
        """Yield the moves of a branch, latest first. Those of a deleted one start with the deletion."""
        yield from reversed(branch.moves)
        for number in reversed(range(branch.pages)):
            stored = self._kv.get(self._partition, _page(branch.name, branch.born, number))
            if stored is None:
                return  # older pages were removed
            yield from reversed(decode_moves(stored.value))

    def lives(self, name: str, *, but: str | None = None) -> Iterator[Life]:
        """Yield the deleted branches of a name, latest first. The log is read as needed.

        Args:
            but: The birth of the existing branch with that name, which is omitted.
        """
        lives = self._lives(name, but)
        yield from sorted(lives, key=_born, reverse=True) if is_of_run(name) else lives

    def _lives(self, name: str, but: str | None) -> Iterator[Life]:
        prefix = f"{name}/"
        for born in self._births(prefix):
            start = f"{prefix}{born}/{_LAST}".encode()
            life = None
            for key, value in self._kv.scan_below(self._partition, start) if born != but else ():
                life = _decode_life(key, value)  # the last page has the most moves
            if life is not None:
                yield life

    def all_lives(self) -> dict[str, list[Life]]:
        """Return the deleted branches by name, latest first, in one scan of the whole log."""
        by_name: dict[str, dict[str, Life]] = {}
        for key, value in self._kv.scan(self._partition):
            if f"/{_LAST}".encode() in key:
                life = _decode_life(key, value)
                by_name.setdefault(life.name, {})[life.born] = life
        return {
            name: sorted(lives.values(), key=_born, reverse=is_of_run(name))
            for name, lives in by_name.items()
        }

    def add_tag(self, name: str, action: str, commit_id: str) -> bytes:
        """Log a change of a tag before it is made. Return the key of the line for `drop_tag`."""
        start = f"{_TAG}{name}/"
        latest = self._first(start.encode())
        number = 0 if latest is None else _FIRST_NUMBER - _tag_line(latest)[1] + 1
        key = f"{start}{_FIRST_NUMBER - number:08d}-{self._ids.unique()}".encode()
        self._kv.set(self._partition, key, encode_moves([self._move(action, commit_id)]))
        self._trim(start, number, _LINES_KEPT)
        return key

    def drop_tag(self, key: bytes) -> None:
        """Remove the line of a change that was not made."""
        self._kv.delete(self._partition, key)

    def of_tag(self, name: str) -> list[Move]:
        """Return the logged changes of a tag, oldest first. Some may not have been made."""
        start = f"{_TAG}{name}/".encode()
        lines: list[tuple[int, bytes, list[Move]]] = []
        for key, value in self._kv.scan_below(self._partition, start):
            lines.append((-_tag_line(key)[1], key, list(decode_moves(value))))
        return [move for _, _, moves in sorted(lines) for move in moves]

    def tags(self) -> Iterator[str]:
        """Yield each tag in the log."""
        return self._births(_TAG)

    def _trim(self, start: str, number: int, kept: int) -> None:
        """Remove the lines before the latest `kept`, once in 50 numbers."""
        if number < kept or number % _TRIMMED_EVERY:
            return
        oldest = f"{start}{_FIRST_NUMBER - number + kept:08d}".encode()
        for key, _ in self._kv.scan_below(self._partition, start.encode(), oldest):
            self._kv.delete(self._partition, key)

    def _births(self, prefix: str) -> Iterator[str]:
        """Yield the names between `prefix` and the next slash, each once."""
        start = prefix.encode()
        position = start
        while (key := self._first(position, start)) is not None:
            child = key[len(start) :].partition(b"/")[0]
            yield read_key(child, "log of moves")
            position = start + child + b"0"  # the byte after a slash

    def _first(self, position: bytes, start: bytes = b"") -> bytes | None:
        """Return the first key at or after `position` if it begins with `start` (or `position`)."""
        key = next((key for key, _ in self._kv.scan(self._partition, position)), None)
        return key if key is not None and key.startswith(start or position) else None

    def _move(self, action: str, commit_id: str) -> Move:
        return Move(unix_us(self._clock.now()), action, commit_id, default_committer())


def _page(name: str, born: str, number: int) -> bytes:
    return f"{name}/{born}/{number:08d}".encode()


def _tag_line(key: bytes) -> tuple[str, int]:
    """Return the tag and the number of a line of the log from its key."""
    match = _LINE.fullmatch(read_key(key, "log of tags"))
    if match is None:
        raise CorruptionError(f"log of tags: key {key!r} is not {_TAG}<name>/<number>-<unique>")
    return match[1], int(match[2])


def _born(life: Life) -> str:
    return life.born


def _number_of(born: str) -> int:
    """Return the number of earlier branches with the name of a user's branch."""
    match = _BIRTH.fullmatch(born)
    if match is None:
        raise CorruptionError(f"log of moves: birth {born!r} of a branch is not <number>-<unique>")
    return _FIRST_NUMBER - int(match[1])


def _decode_life(key: bytes, raw: bytes) -> Life:
    what = f"last page of a branch's log at {key!r}"
    match = _LIFE.fullmatch(read_key(key, what))
    if match is None:
        raise CorruptionError(f"{what}: its key is not <branch>/<born>/{_LAST}<pages>.<moves>")
    fields = {"staged": [], **mapping(ANY).read(decode_json(raw, what), what)}
    moves, hidden, run, staged = read_fields(
        fields, what, moves=MOVES, hidden=FLAG, run=FLAG, staged=array(NAME)
    )
    return Life(match[1], match[2], moves, int(match[3]), hidden, run, staged)


def encode_moves(moves: Iterable[Move]) -> bytes:
    """Return the JSON of a page of the log of moves."""
    return encode_json(list(moves))


def decode_moves(raw: bytes) -> tuple[Move, ...]:
    """Return a page of the log of moves, or raise CorruptionError."""
    what = "page of moves"
    return MOVES.read(decode_json(raw, what), what)

"""Files in blocks: small ones share a block, large ones are cut.

The list of a file's blocks is text, short enough for an entry: ``digest+size`` for a whole block and
``digest+size@offset+length`` for a part, separated by spaces, in the order of the file. A list that
would be longer is itself a block, and the text is ``*`` and its locator.
"""

import io
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import accumulate
from typing import BinaryIO, Generic, Protocol, Self, TypeVar, cast

from graveler.base.background import Threads
from graveler.base.bounded import SeekableFile
from graveler.base.forks import watch
from graveler.base.parallel import Bounds, in_order
from graveler.errors import CorruptionError, InvalidInputError
from graveler.keep.client import KeepClient
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.manifests import Run

LIST_CHARACTERS = 4_000
"""The longest list that is not stored as a block."""

_LIST = "*"
_NUMBER = "(0|[1-9][0-9]{0,8})"
_BLOCK = rf"([0-9a-f]{{32}})\+{_NUMBER}"
_RUN = re.compile(rf"{_BLOCK}(?:@{_NUMBER}\+{_NUMBER})?")
_STORED = re.compile(rf"\*{_BLOCK}")
_PIECE_BYTES = 1 << 20
_RANGE_BYTES = 4 << 20
_BUFFER_BYTES = 256 << 10
K = TypeVar("K")


class Body(Protocol):
    """The content of a file, which is read once."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class BlockList:
    """The runs of a file."""

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Self:
        """Return the list of runs: none is empty, adjacent ones are joined, and hints are dropped."""
        joined: list[Run] = []
        for locator, offset, size in runs:
            bare = Locator(locator.digest, locator.size)
            last = joined[-1] if joined else Run(EMPTY, -1, 0)
            if (last.locator, last.offset + last.size) == (bare, offset):
                joined[-1] = last._replace(size=last.size + size)
            elif size:
                joined.append(Run(bare, offset, size))
        return cls(tuple(joined))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the list of a text that is not stored as a block.

        Raises:
            InvalidInputError: The text is not what `str` makes of a list.
        """
        found = cls.of(_run(each, text) for each in text.split(" ") if text)
        if str(found) != text:
            raise _invalid(text, f"the same list is written as {str(found)[:200]!r}")
        return found

    @classmethod
    def load(cls, client: KeepClient, text: str) -> Self:
        """Return the list of a text. It is read if it is a block.

        Raises:
            CorruptionError: The block is not a list of blocks.
        """
        locator = list_block(text)
        if locator is None:
            return cls.parse(text)
        try:
            return cls.parse(client.get(locator).decode("ascii"))
        except ValueError as error:
            raise CorruptionError(f"block {locator.bare} is no list of blocks: {error}") from error

    def store(
        self, client: KeepClient, *, replicas: int | None = None, classes: Collection[str] = ()
    ) -> str:
        """Return the text. A long list is stored as a block."""
        text = str(self)
        if len(text) <= LIST_CHARACTERS:
            return text
        locator = client.put(text.encode("ascii"), replicas=replicas, classes=classes)
        return f"{_LIST}{locator.bare}"

    @property
    def size(self) -> int:
        """The size of the file."""
        return sum(run.size for run in self.runs)

    def __str__(self) -> str:
        return " ".join(map(_text, self.runs))


def list_block(text: str) -> Locator | None:
    """Return the block that holds a file's list, or None if the text is the list."""
    match = _STORED.fullmatch(text)
    if match is None and text.startswith(_LIST):
        raise _invalid(text, "behind '*' is a locator without hints")
    return None if match is None else Locator(match[1], int(match[2]))


def _text(run: Run) -> str:
    whole = run.offset == 0 and run.size == run.locator.size
    return run.locator.bare if whole else f"{run.locator.bare}@{run.offset}+{run.size}"


def _run(part: str, text: str) -> Run:
    match = _RUN.fullmatch(part)
    if match is None:
        raise _invalid(text, f"{part[:200]!r} is not digest+size or digest+size@offset+length")
    block = int(match[2])
    offset, size = (0, block) if match[3] is None else (int(match[3]), int(match[4]))
    if not (0 < size <= offset + size <= block <= BLOCK_BYTES):
        raise _invalid(text, f"{part!r} is not a part of a block")
    return Run(Locator(match[1], block), offset, size)


def _invalid(text: str, fault: str) -> InvalidInputError:
    return InvalidInputError(f"{text[:200]!r} is not a list of blocks: {fault}")


@dataclass(eq=False, slots=True)
class _File(Generic[K]):
    """A file that is being stored."""

    key: K
    parts: "list[tuple[_Block[K], int, int]]" = field(default_factory=list)
    pending: int = 0
    is_read: bool = False

    def runs(self) -> tuple[Run, ...]:
        """Return the runs, once all blocks are stored."""
        return tuple(Run(block.locator, *part) for block, *part in self.parts)


@dataclass(eq=False, slots=True)
class _Block(Generic[K]):
    """A block that is being filled or stored. Its content is dropped then."""

    content: bytearray = field(default_factory=bytearray)
    files: list[_File[K]] = field(default_factory=list)
    locator: Locator = EMPTY

    def add(self, file: _File[K], content: bytearray) -> Self:
        """Add bytes of a file, and return the block."""
        file.parts.append((self, len(self.content), len(content)))
        file.pending += 1
        self.files.append(file)
        if self.content:
            self.content += content
        else:
            self.content = content
        return self


class BlockWriter:
    """Stores files in blocks.

    A file of at most half a block is never cut, and shares a block with others. The blocks of a
    larger one are its own and begin at multiples of their size, so equal files have equal blocks.

    Args:
        threads: The number of blocks that are sent at a time.
    """

    def __init__(
        self,
        client: KeepClient,
        *,
        block_bytes: int = BLOCK_BYTES,
        threads: int = 4,
        replicas: int | None = None,
        classes: Collection[str] = (),
    ) -> None:
        if not 0 < block_bytes <= BLOCK_BYTES:
            raise InvalidInputError(f"block_bytes={block_bytes}: give 1 to {BLOCK_BYTES}")
        self._client = client
        self._size = block_bytes
        self._threads = threads
        self._replicas = replicas
        self._classes = classes

    def write(self, files: Iterable[tuple[K, Body]]) -> Iterator[tuple[K, tuple[Run, ...]]]:
        """Yield the key of each file, and its runs, once they are stored, in any order.

        The caller's thread reads the files. At most 256 MiB wait to be sent, and two blocks are
        being filled.
        """
        done: deque[_File[K]] = deque()
        bounds: Bounds[_Block[K]] = Bounds(
            self._threads, 2 * self._threads, cost=lambda block: len(block.content)
        )
        for block in in_order(self._stored, self._blocks(files, done), bounds):
            for file in block.files:
                file.pending -= 1
                if file.is_read and not file.pending:
                    done.append(file)
            while done:
                file = done.popleft()
                yield file.key, file.runs()
        for file in done:
            yield file.key, file.runs()

    def _stored(self, block: _Block[K]) -> _Block[K]:
        block.locator = self._client.put(
            block.content, replicas=self._replicas, classes=self._classes
        )
        block.content = bytearray()
        return block

    def _blocks(
        self, files: Iterable[tuple[K, Body]], done: deque[_File[K]]
    ) -> Iterator[_Block[K]]:
        """Yield full blocks. Files without pending ones are done."""
        shared: _Block[K] = _Block()
        for key, body in files:
            file = _File(key)
            while content := self._filled(body):
                if file.parts or 2 * len(content) > self._size:
                    yield _Block[K]().add(file, content)
                else:
                    if len(shared.content) + len(content) > self._size:
                        yield shared
                        shared = _Block()
                    shared.add(file, content)
                if len(content) < self._size:
                    break
            file.is_read = True
            if not file.pending:
                done.append(file)
        if shared.content:
            yield shared

    def _filled(self, body: Body) -> bytearray:
        """Return the next bytes of a file: a whole block, unless the file ends."""
        content = bytearray()
        while piece := body.read(min(_PIECE_BYTES, self._size - len(content))):
            content += piece
        return content


def open_runs(
    client: KeepClient, runs: Iterable[Run], *, ahead: int = 2, verify: bool = True
) -> BinaryIO:
    """Return a file to read, which can seek. Reading in order fetches the next blocks meanwhile.

    Args:
        ahead: The number of blocks that are fetched ahead, and kept in memory.
        verify: Whether blocks are read whole and verified. Otherwise only the wanted ranges are
            read, and the caller compares the file with its checksum.
    """
    raw = _RunsFile(client, [run for run in runs if run.size], ahead, verify=verify)
    return cast("BinaryIO", io.BufferedReader(raw, _BUFFER_BYTES))


class _RunsFile(SeekableFile):
    """The bytes of runs, one after another."""

    def __init__(
        self, client: KeepClient, runs: Sequence[Run], ahead: int, *, verify: bool
    ) -> None:
        super().__init__(sum(run.size for run in runs))
        self._client = client
        self._verify = verify
        self._pieces = runs if verify else list(_ranges(runs))
        self._starts = [0, *accumulate(piece.size for piece in self._pieces)]
        self._ahead = ahead
        self._expected = -1  # reading in order begins with the second read
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Forget what threads of the parent fetch."""
        self._found: dict[int, Future[bytes]] = {}
        self._pool = Threads(self._ahead + 1, thread_name_prefix="graveler-keep")

    def readall(self) -> bytes:
        self._expected = self._position
        return b"".join(iter(lambda: self._next(self._size), b""))

    def close(self) -> None:
        if not self.closed:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._found = {}
        super().close()

    def _next(self, most: int, /) -> memoryview:
        at = bisect_right(self._starts, self._position) - 1
        if at >= len(self._pieces) or not most:
            return memoryview(b"")
        piece, skipped = self._pieces[at], self._position - self._starts[at]
        size = min(most, piece.size - skipped)
        follows = self._position == self._expected
        if self._verify or follows or at in self._found:
            content = memoryview(self._content(at, self._ahead * follows))[skipped:][:size]
        else:
            part = piece._replace(offset=piece.offset + skipped, size=size)
            content = memoryview(self._fetched(part))
        self._position += size
        self._expected = self._position
        return content

    def _content(self, at: int, ahead: int) -> bytes:
        """Return a piece, and let threads fetch those behind it."""
        wanted = range(at, min(at + ahead + 1, len(self._pieces)))
        kept = {number: self._found[number] for number in self._found if at <= number}
        for number in wanted:
            if number not in kept:
                kept[number] = self._pool.submit(self._fetched, self._pieces[number])
        self._found = dict(sorted(kept.items())[: self._ahead + 1])
        try:
            return self._found[at].result()
        except BaseException:
            self._found.pop(at, None)
            raise

    def _fetched(self, piece: Run) -> bytes:
        return self._client.read(piece.locator, piece.offset, piece.size, verify=self._verify)


def _ranges(runs: Iterable[Run]) -> Iterator[Run]:
    for locator, offset, size in runs:
        for start in range(0, size, _RANGE_BYTES):
            yield Run(locator, offset + start, min(_RANGE_BYTES, size - start))

"""Manifests: files as runs of bytes in streams of blocks.

A manifest is text. Each line is a stream: its name, the locators of its blocks, and tokens
``position:size:name``, each a run of bytes of the blocks taken together. The runs of one path are
joined in the order of the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import md5
from itertools import accumulate
from typing import NamedTuple, Self

from graveler.errors import InvalidInputError
from graveler.keep.locators import EMPTY, Locator

_LOCATOR = re.compile(r"[0-9a-f]{32}\+[0-9]+(\+[A-Z][A-Za-z0-9@_-]*)*")
_TOKEN = re.compile(r"([0-9]{1,99}):([0-9]{1,99}):([^ ]+)")
_ESCAPE = re.compile(rb"\\([0-3][0-7][0-7])")
_RAW = re.compile(rb"[\x00-\x20]|\\(?![0-3][0-7][0-7])")
_TO_ESCAPE = re.compile(rb"[\x00-\x20:\\]")
_FOLDER = "."
_NOT_NAMES = frozenset({"", ".", ".."})


class Run(NamedTuple):
    """Consecutive bytes of a block."""

    locator: Locator
    offset: int
    size: int


class Token(NamedTuple):
    """A run of bytes of a stream that belongs to a file.

    Attributes:
        position: The first byte, in all blocks of the stream taken together.
        name: The path of the file below the stream; "." marks an empty folder.
    """

    position: int
    size: int
    name: str


@dataclass(frozen=True, slots=True)
class Stream:
    """A line of a manifest.

    Attributes:
        name: ``.``, or ``./`` and the path of a folder, not escaped.
    """

    name: str
    blocks: tuple[Locator, ...]
    tokens: tuple[Token, ...]

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the stream of a line without its end, or raise InvalidInputError."""
        name, *fields = line.split(" ")
        name = _unescaped(name, line)
        first, *rest = name.split("/")
        if first != _FOLDER or not _NOT_NAMES.isdisjoint(rest):
            raise _invalid(line, f"{name!r} is not '.' or './' and the path of a folder")
        count = next((at for at, field in enumerate(fields) if ":" in field), len(fields))
        for field in fields[:count]:
            if not _LOCATOR.fullmatch(field):
                raise _invalid(line, f"{field!r} is not a locator with a size")
        if not 0 < count < len(fields):
            raise _invalid(line, "a stream has a name, at least one locator and one file")
        blocks = tuple(map(Locator.parse, fields[:count]))
        return cls(name, blocks, tuple(_token(field, line) for field in fields[count:]))

    @property
    def size(self) -> int:
        """The size of all blocks together."""
        return sum(block.size or 0 for block in self.blocks)

    def path(self, token: Token) -> str:
        """Return the path of a token's file in the manifest, without ``./``."""
        return f"{self.name}/{token.name}"[2:]

    def runs(self, token: Token, starts: Sequence[int]) -> Iterator[Run]:
        """Yield the bytes of a token, block by block.

        Args:
            starts: The position of each block, and of the end.
        """
        position, end = token.position, token.position + token.size
        if end > starts[-1]:
            raise InvalidInputError(
                f"{self.path(token)!r} ends at byte {end} of a stream of {starts[-1]} bytes"
            )
        at = bisect_right(starts, position) - 1
        while position < end:
            size = min(end, starts[at + 1]) - position
            if size:
                yield Run(self.blocks[at], position - starts[at], size)
            position, at = position + size, at + 1

    def __str__(self) -> str:
        tokens = (f"{token.position}:{token.size}:{_written(token.name)}" for token in self.tokens)
        return " ".join((_escaped(self.name), *map(str, self.blocks), *tokens)) + "\n"


def _written(name: str) -> str:
    # an empty folder is written as the SDK of Arvados writes it
    return r"\056" if name == _FOLDER else _escaped(name)


def _token(field: str, line: str) -> Token:
    match = _TOKEN.fullmatch(field)
    if match is None:
        raise _invalid(line, f"{field!r} is not position:size:name")
    token = Token(int(match[1]), int(match[2]), _unescaped(match[3], line))
    if token != (0, 0, _FOLDER) and not _NOT_NAMES.isdisjoint(token.name.split("/")):
        raise _invalid(line, f"{token.name!r} is not the path of a file")
    return token


@dataclass(frozen=True, slots=True)
class Manifest:
    """Files in blocks."""

    streams: tuple[Stream, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the manifest of a text.

        Raises:
            InvalidInputError: The text is not a manifest. The message has the line and the fault.
        """
        *lines, end = text.split("\n")
        if end:
            raise _invalid(end, "the last line does not end with a line feed")
        return cls(tuple(map(Stream.parse, lines)))

    @classmethod
    def of(cls, files: Iterable[tuple[str, Sequence[Run]]], folders: Iterable[str] = ()) -> Self:
        """Return the normalised manifest of files: path, and the runs that the file consists of.

        Args:
            folders: The paths of folders that are kept although they are empty; "" for the root.
        """
        below: dict[str, dict[str, Sequence[Run]]] = {}
        for path, runs in files:
            folder, _, name = path.rpartition("/")
            below.setdefault(folder, {})[name] = runs
        for folder in folders:
            below.setdefault(folder, {})
        return cls(tuple(_stream(folder, below[folder]) for folder in sorted(below)))

    def files(self) -> dict[str, list[Run]]:
        """Return the runs of each file by path, in the order of the text.

        Raises:
            InvalidInputError: A file reaches beyond its stream, or is a folder too.
        """
        found: dict[str, list[Run]] = {}
        folders: set[str] = set()
        for stream in self.streams:
            starts = [0, *accumulate(block.size or 0 for block in stream.blocks)]
            for token in stream.tokens:
                if token.name == _FOLDER:
                    folders.add(stream.name[2:])
                    continue
                path = stream.path(token)
                found.setdefault(path, []).extend(stream.runs(token, starts))
                folders.update(path[:at] for at, each in enumerate(path) if each == "/")
        if both := folders.intersection(found):
            raise InvalidInputError(f"{min(both)!r} is a file and a folder of the manifest")
        return found

    def folders(self) -> set[str]:
        """Return the paths of the folders that are marked as empty."""
        return {
            stream.name[2:]
            for stream in self.streams
            for token in stream.tokens
            if token.name == _FOLDER
        }

    def blocks(self) -> Iterator[Locator]:
        """Yield each locator, as often as it comes."""
        for stream in self.streams:
            yield from stream.blocks

    def normalised(self) -> "Manifest":
        """Return the manifest of the same files in the one form that equal files have."""
        files = self.files()
        above = {path[:at] for path in files for at, each in enumerate(path) if each == "/"}
        return Manifest.of(files.items(), self.folders() - above - ({""} if files else set()))

    def stripped(self) -> "Manifest":
        """Return the manifest without hints."""
        return Manifest(
            tuple(
                replace(stream, blocks=tuple(replace(block, hints=()) for block in stream.blocks))
                for stream in self.streams
            )
        )

    def data_hash(self) -> str:
        """Return the portable data hash: the MD5 and the size of the text without hints."""
        return portable_data_hash(str(self))

    def __str__(self) -> str:
        return "".join(map(str, self.streams))


def portable_data_hash(text: str) -> str:
    """Return the MD5 and the size of a manifest's text without hints, all else as it stands."""
    bare = re.sub(rf"(?<= )({_LOCATOR.pattern})", _bare, text).encode()
    return f"{md5(bare, usedforsecurity=False).hexdigest()}+{len(bare)}"


def _bare(match: re.Match[str]) -> str:
    return "+".join(match[1].split("+")[:2])


def _stream(folder: str, files: dict[str, Sequence[Run]]) -> Stream:
    """Return a normalised stream: names sorted, each block once, adjacent runs joined."""
    starts: dict[Locator, int] = {}
    end, tokens = 0, []
    for name in sorted(files):
        joined: list[Token] = []
        for locator, offset, size in files[name]:
            if locator not in starts:
                starts[locator], end = end, end + (locator.size or 0)
            position = starts[locator] + offset
            if joined and sum(joined[-1][:2]) == position:
                joined[-1] = joined[-1]._replace(size=joined[-1].size + size)
            else:
                joined.append(Token(position, size, name))
        tokens += joined or [Token(0, 0, name)]
    name = f"./{folder}" if folder else _FOLDER
    return Stream(name, tuple(starts) or (EMPTY,), tuple(tokens or [Token(0, 0, _FOLDER)]))


def _escaped(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return _TO_ESCAPE.sub(lambda found: b"\\%03o" % found[0][0], raw).decode(
        "utf-8", "surrogateescape"
    )


def _unescaped(name: str, line: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    if fault := _RAW.search(raw):
        raise _invalid(
            line, f"{name!r} has {fault[0]!r}, which is written as \\ and 3 octal digits"
        )
    return _ESCAPE.sub(lambda found: bytes((int(found[1], 8),)), raw).decode(
        "utf-8", "surrogateescape"
    )


def _invalid(line: str, fault: str) -> InvalidInputError:
    return InvalidInputError(f"{line[:200]!r} is not a line of a manifest: {fault}")

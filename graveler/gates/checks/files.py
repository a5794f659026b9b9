"""Checks of whole files: format, size and age."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Final

from graveler.errors import CorruptionError, InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import check_bounds, listed, texts
from graveler.gates.checks.columns import InRange
from graveler.gates.checks.scope import Scoped
from graveler.gates.checks.tables import footer_of
from graveler.gates.footers import Files
from graveler.gates.gate import Gate
from graveler.gates.statistics import csv_header
from graveler.model import Entry

_SUFFIXES: Final = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson"),
}
_BEGINNING: Final = 1 << 16


@dataclass(frozen=True)
class FileFormat(Scoped):
    """Files have the expected formats, by name and by content."""

    kind: ClassVar[str] = "file_format"

    formats: tuple[str, ...] = ("parquet",)

    def __post_init__(self) -> None:
        super().__post_init__()
        formats = texts(self.formats)
        object.__setattr__(self, "formats", formats)
        if not formats or set(formats) - set(_SUFFIXES):
            raise InvalidInputError(
                f"check {self.kind}: formats {formats}: give some of {', '.join(_SUFFIXES)}"
            )

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        return listed(self._problems(candidate, entries))

    def _problems(self, candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        for entry in entries:
            name = entry.path.lower()
            found = next((one for one in self.formats if name.endswith(_SUFFIXES[one])), None)
            if found is None:
                yield f"{entry.path!r} is not named as {' or '.join(self.formats)}"
                continue
            try:
                _check_content(candidate, entry, found)
            except CorruptionError as error:
                yield str(error)


def _check_content(files: Files, entry: Entry, kind: str) -> None:
    """Raise CorruptionError if the beginning or the end of a file does not match its format."""
    if kind == "parquet":
        footer_of(files, entry)
    elif kind == "csv":
        csv_header(files, entry)
    else:
        raw = files.read(entry.path, 0, min(entry.size, _BEGINNING)) if entry.size else b""
        _check_json(entry, raw, whole=entry.size <= _BEGINNING)


def _check_json(entry: Entry, raw: bytes, *, whole: bool) -> None:
    lines = raw.splitlines() or [b""]
    if not whole and len(lines) == 1:  # only the beginning of a value was read
        if raw.lstrip()[:1] not in {b"{", b"["}:
            raise CorruptionError(f"{entry.path!r} does not begin as JSON does")
        return
    # a line for each record, or one value over many lines
    problems = []
    for text in (lines[0], *([raw] if whole else ())):
        try:
            json.loads(text)
        except ValueError as error:
            problems.append(str(error))
        else:
            return
    raise CorruptionError(f"{entry.path!r} cannot be read as JSON: {problems[-1]}")


@dataclass(frozen=True)
class FileSize(Scoped):
    """Files have the expected sizes and number."""

    kind: ClassVar[str] = "file_size"

    at_least: int | None = 1
    at_most: int | None = None
    files_at_most: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds(self.kind, self.at_least, self.at_most, counts=True)
        if self.files_at_most is not None and self.files_at_most < 1:
            raise InvalidInputError(
                f"check {self.kind}: files_at_most {self.files_at_most!r}: give 1 or more"
            )

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        candidate.report(bytes=sum(entry.size for entry in entries))
        problems = [
            f"{entry.path!r} has {entry.size} bytes, {side} than {limit}"
            for entry in entries
            for side, limit, wrong in (
                ("less", self.at_least, entry.size < (self.at_least or 0)),
                ("more", self.at_most, self.at_most is not None and entry.size > self.at_most),
            )
            if wrong
        ]
        if self.files_at_most is not None and len(entries) > self.files_at_most:
            problems.insert(0, f"{len(entries)} files, more than {self.files_at_most}")
        return listed(problems)


@dataclass(frozen=True)
class Freshness(Scoped):
    """The newest file, or the newest time in a column, is at most `max_age` seconds old."""

    kind: ClassVar[str] = "freshness"

    scope: str = "all"
    max_age: float = 86_400.0
    column: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.max_age > 0:
            raise InvalidInputError(f"check {self.kind}: max_age {self.max_age!r}: give seconds")

    def gate(self) -> Gate:
        """Return the gate; its verdict depends on the time and is not stored."""
        made = super().gate()
        return Gate(made.name, self, prefix=self.prefix, reads="anything")

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        if candidate.restores:
            return None
        now = candidate.now()
        times = [time for entry in entries if (time := self._time(candidate, entry)) is not None]
        if not times:
            return f"nothing below {self.prefix!r} tells a time"
        newest = max(times)
        candidate.report(newest=newest.isoformat())
        age = (now - newest).total_seconds()
        if age <= self.max_age:
            return None
        return (
            f"the newest below {self.prefix!r} is of {newest.isoformat(timespec='seconds')}, "
            f"{timedelta(seconds=round(age))} ago: more than {timedelta(seconds=self.max_age)}"
        )

    def nothing(self, candidate: Candidate) -> str | None:
        """Return why the candidate is refused if there is no file, or None."""
        if self.missing == "allow" or candidate.restores:
            return None
        return f"nothing below {self.prefix!r} tells a time"

    def _time(self, candidate: Candidate, entry: Entry) -> datetime | None:
        if not self.column:
            return entry.mtime
        bounds = InRange(prefix=self.prefix, column=self.column, at_least=0, nan=True)
        return _moment(bounds.bounds(candidate, entry)[1], self.column)


def _moment(value: Any, column: str) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise InvalidInputError(f"column {column!r} has {type(value).__name__}, which is no time")

"""Checks of whole files: format, size and age."""

import codecs
import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from graveler.errors import CorruptionError, InvalidInputError
from graveler.frames.footers import Files, reading
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import (
    Rule,
    built_in,
    check_bounds,
    check_some_bound,
    in_utc,
    of_files,
    place_of,
)
from graveler.gates.checks.columns import column_bounds
from graveler.gates.statistics import csv_header, footer_of
from graveler.model import LONGEST_DURATION, Entry

_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson"),
}
_BEGINNING = 1 << 16
_TOKEN = 32
"""Characters of a number or a word at the end of the beginning of a JSON file."""


@built_in
def file_format(
    prefix: str = "",
    *formats: str,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """Files have these formats, by name and by content.

    CSV and JSON are text in UTF-8 and not HTML. Cost: the footer of a Parquet file, and the
    beginning of a CSV (1 MiB) or JSON (64 KiB) file; the rest is not read.

    Args:
        formats: Any of ``parquet``, ``csv`` and ``json`` (which includes JSON lines); by default all.
    """
    chosen = formats or tuple(_SUFFIXES)
    if set(chosen) - set(_SUFFIXES):
        raise InvalidInputError(f"formats {chosen}: give some of {', '.join(_SUFFIXES)}")

    def check(candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        for entry in entries:
            name = entry.path.lower()
            kind = next((kind for kind in chosen if name.endswith(_SUFFIXES[kind])), None)
            if kind is None:
                yield f"{entry.path!r} is not named as {' or '.join(chosen)}"
                continue
            try:
                _check_content(candidate, entry, kind)
            except CorruptionError as error:
                yield str(error)

    return of_files(check, prefix, scope, missing)


def _check_content(files: Files, entry: Entry, kind: str) -> None:
    """Raise CorruptionError if the beginning or the end of a file does not match its format."""
    if kind == "parquet":
        footer_of(files, entry)
    elif kind == "csv":
        csv_header(files, entry)
    else:
        raw = files.read_range(entry.path, 0, min(entry.size, _BEGINNING)) if entry.size else b""
        _check_json(entry, raw, whole=entry.size <= _BEGINNING)


def _check_json(entry: Entry, raw: bytes, *, whole: bool) -> None:
    if not whole and raw.lstrip()[:1] not in {b"{", b"["}:
        raise CorruptionError(f"{entry.path!r} does not begin as JSON does")
    # either one record per line, or one value over many lines
    with reading(entry, "JSON"):
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(raw, final=whole)
    problem = ""
    for part in (text.partition("\n")[0], text):
        try:
            json.loads(part)
        except json.JSONDecodeError as error:
            ends = error.msg.startswith("Unterminated") or error.pos >= len(part) - _TOKEN
            problem = "" if ends and part == text and not whole else str(error)
        else:
            problem = ""
        if not problem:
            return
    raise CorruptionError(f"{entry.path!r} cannot be read as JSON: {problem}")


@built_in
def file_size(
    prefix: str = "",
    at_least: int | None = 1,
    at_most: int | None = None,
    *,
    files_at_most: int | None = None,
    scope: str = "changes",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """Files have the expected sizes and number. Cost: no file is read.

    Args:
        at_least: Smallest size of a file, in bytes.
        at_most: Largest size of a file, in bytes.
        files_at_most: Largest number of files.
    """
    check_bounds(at_least, at_most, counts=True)
    if files_at_most is not None and files_at_most < 1:
        raise InvalidInputError(f"files_at_most {files_at_most!r}: give 1 or more")
    check_some_bound(missing, at_least=at_least, at_most=at_most, files_at_most=files_at_most)

    def check(candidate: Candidate, entries: list[Entry]) -> Iterator[str]:
        candidate.report(bytes=sum(entry.size for entry in entries))
        if files_at_most is not None and len(entries) > files_at_most:
            yield f"{len(entries)} files, more than {files_at_most}"
        for entry in entries:
            if at_least is not None and entry.size < at_least:
                yield f"{entry.path!r} has {entry.size} bytes, less than {at_least}"
            if at_most is not None and entry.size > at_most:
                yield f"{entry.path!r} has {entry.size} bytes, more than {at_most}"

    return of_files(check, prefix, scope, missing)


@built_in
def freshness(
    prefix: str = "",
    max_age: float | str | timedelta = timedelta(days=1),
    *,
    column: str = "",
    ahead: float | str | timedelta = timedelta(days=1),
    table: str = "",
    scope: str = "all",
    missing: str = "refuse",
    **options: Any,
) -> Rule:
    """The newest file, or the newest time in a column, is recent enough.

    The verdict is not stored. Cost: without `column` no file is read.

    Args:
        max_age: Largest age: a timedelta, text (``36h``), or seconds.
        column: A column of times or dates; without a time zone they are UTC.
        ahead: How far in the future the newest time may be, like `max_age`: a later one is refused,
            because the check would then pass until that time.
    """
    place = place_of(prefix, table)
    limit, early = _length("max_age", max_age), _length("ahead", ahead)

    def check(candidate: Candidate, entries: list[Entry]) -> str | None:
        if candidate.restores:
            return None
        now = candidate.now()
        times = [(_time_of(candidate, entry, column), entry.path) for entry in entries]
        newest, path = max(((time, path) for time, path in times if time), default=(None, ""))
        if newest is None:
            return nothing(candidate)
        candidate.report(newest=newest.isoformat())
        age = now - newest
        if -age > early:
            return (
                f"{path!r} has {newest.isoformat(timespec='seconds')}, which is more than {early} "
                "after now: correct it, or give a longer ahead="
            )
        if age <= limit:
            return None
        return (
            f"the newest below {place!r} is of {newest.isoformat(timespec='seconds')}, "
            f"{timedelta(seconds=round(age.total_seconds()))} ago: more than {limit}"
        )

    def nothing(_: Candidate) -> str:
        return f"nothing below {place!r} tells a time"

    return of_files(check, prefix, scope, missing, table=table, nothing=nothing, reads="anything")


def _length(name: str, seconds: Any) -> timedelta:
    longest = LONGEST_DURATION.total_seconds()
    if not (isinstance(seconds, (int, float)) and 0 < seconds <= longest):  # a parameter: seconds
        raise InvalidInputError(f"{name} {seconds!r}: give seconds above 0, at most {longest:.0f}")
    return timedelta(seconds=seconds)


def _time_of(files: Candidate, entry: Entry, column: str) -> datetime | None:
    if not column:
        return entry.mtime
    match column_bounds(files, entry, column, nan=True)[1]:
        case None:
            return None
        case date() as time:
            return in_utc(time)
        case value:
            raise InvalidInputError(
                f"column {column!r} has {type(value).__name__}, which is no time"
            )

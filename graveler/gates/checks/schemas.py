"""A check of columns and types, and of how they may change."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Final

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import listed
from graveler.gates.checks.scope import Scoped
from graveler.gates.checks.tables import footer_of
from graveler.gates.footers import Files
from graveler.gates.gate import Gate
from graveler.gates.statistics import csv_header, kind_of
from graveler.model import Entry

_EVOLUTIONS: Final = ("none", "add", "widen")
_WIDER: Final[Mapping[str, frozenset[str]]] = {
    "int8": frozenset({"int16", "int32", "int64"}),
    "int16": frozenset({"int32", "int64"}),
    "int32": frozenset({"int64"}),
    "uint8": frozenset({"uint16", "uint32", "uint64", "int16", "int32", "int64"}),
    "uint16": frozenset({"uint32", "uint64", "int32", "int64"}),
    "uint32": frozenset({"uint64", "int64"}),
    "float": frozenset({"double"}),
    "halffloat": frozenset({"float", "double"}),
    "string": frozenset({"large_string"}),
    "binary": frozenset({"large_binary"}),
    "date32[day]": frozenset({"timestamp[ms]", "timestamp[us]", "timestamp[ns]"}),
}
_ANY: Final = ""
_PLAIN: Final = (
    *("null", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("halffloat", "float", "double", "string", "large_string", "string_view", "binary"),
    *("large_binary", "binary_view", "date32[day]", "date64[ms]", "time32[s]", "time32[ms]"),
    *("time64[us]", "time64[ns]", "timestamp[us]", "duration[us]", "month_day_nano_interval"),
)
_TYPE: Final = re.compile(
    "|".join(
        (
            *map(re.escape, ("", *_PLAIN)),
            r"(timestamp|duration)\[(s|ms|us|ns)(, tz=[^\]]+)?\]",
            r"decimal(32|64|128|256)\(\d+, -?\d+\)",
            r"fixed_size_binary\[\d+\]",
            r"(list|large_list|list_view|struct|map|dictionary|extension|run_end_encoded)<.+>",
            r"(fixed_size_list<.+>\[\d+\]|(dense|sparse)_union<.+>)",
        )
    )
)
_MEANT: Final[Mapping[str, str]] = {
    "bigint": "int64",
    "boolean": "bool",
    "bytes": "binary",
    "date": "date32[day]",
    "datetime": "timestamp[us]",
    "decimal": "decimal128(38, 9)",
    "float16": "halffloat",
    "float32": "float",
    "float64": "double",
    "int": "int64",
    "long": "int64",
    "object": "string",
    "str": "string",
    "text": "string",
    "timestamp": "timestamp[us]",
    "varchar": "string",
}
"""Names of other systems for the same types."""


@dataclass(frozen=True)
class Schema(Scoped):
    """Columns and types of files, from Parquet footers and CSV headers."""

    kind: ClassVar[str] = "schema"

    columns: tuple[tuple[str, str], ...] = ()
    evolution: str = "add"

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = self.columns.items() if isinstance(self.columns, Mapping) else self.columns
        object.__setattr__(self, "columns", tuple(_column(pair) for pair in pairs))
        if self.evolution not in _EVOLUTIONS:
            raise InvalidInputError(
                f"check {self.kind}: evolution {self.evolution!r}: give one of "
                f"{', '.join(_EVOLUTIONS)}"
            )

    def gate(self) -> Gate:
        """Return the gate; without `columns` it also reads the files of the target."""
        made = super().gate()
        if self.columns:
            return made
        return Gate(made.name, self, prefix=self.prefix)

    def judge(self, candidate: Candidate, entries: list[Entry]) -> str | None:
        """Return what is wrong with the files, of which there is at least one, or None."""
        wanted = dict(self.columns) or self._usual(candidate)
        if wanted is None:
            candidate.report(compared_with="nothing: these are the first files")
            wanted = _fields(candidate, entries[0])
        return listed(self._problems(candidate, entries, wanted))

    def _usual(self, candidate: Candidate) -> dict[str, str] | None:
        """Return the columns of the newest file of the target."""
        before = [
            entry
            for entry in candidate.before.entries(self.prefix)
            if kind_of(entry) and not entry.path.rpartition("/")[2].startswith(("_", "."))
        ]
        if not before:
            return None
        newest = max(before, key=lambda entry: (entry.mtime is not None, entry.mtime, entry.path))
        candidate.report(compared_with=newest.path)
        return _fields(candidate.before, newest)

    def _problems(
        self, candidate: Candidate, entries: list[Entry], wanted: dict[str, str]
    ) -> Iterator[str]:
        for entry in entries:
            wrong = self._wrong(entry.path, _fields(candidate, entry), wanted)
            if wrong:
                yield wrong

    def _wrong(self, path: str, fields: dict[str, str], wanted: dict[str, str]) -> str:
        """Return what is wrong with a file's columns, or ""."""
        missing = [name for name in wanted if name not in fields]
        new = [name for name in fields if name not in wanted]
        types = [
            f"{name} is {fields[name]}, not {kind}"
            for name, kind in wanted.items()
            if name in fields and not self._allows(kind, fields[name])
        ]
        said = [f"lacks {', '.join(missing)}"] if missing else []
        if new and self.evolution == "none":
            said.append(f"has new columns {', '.join(new)}")
        return f"{path!r} {'; '.join([*said, *types])}" if said or types else ""

    def _allows(self, wanted: str, there: str) -> bool:
        if there == wanted or _ANY in {wanted, there}:
            return True
        return self.evolution == "widen" and there in _WIDER.get(wanted, ())


def _column(pair: Any) -> tuple[str, str]:
    """Return the name and type of an expected column.

    Raises:
        InvalidInputError: The name or the type is missing, or Arrow has no such type.
    """
    match pair:
        case (str(name), str(kind)) if not isinstance(pair, str):
            if not _TYPE.fullmatch(kind):
                close = _MEANT.get(kind) or next(iter(get_close_matches(kind, _PLAIN)), "")
                hint = f"did you mean {close!r}? " if close else ""
                raise InvalidInputError(
                    f"check schema: column {name!r}: there is no type {kind!r}: {hint}give it as "
                    "Arrow writes it (int64, double, string, timestamp[us]), '' for any"
                )
            return name, kind
        case _:
            raise InvalidInputError(
                f"check schema: column {pair!r}: give types by name, as {{'id': 'int64'}}; '' for "
                "any type"
            )


def _fields(files: Files, entry: Entry) -> dict[str, str]:
    """Return the types of a file's columns by name; a CSV file has names only."""
    footer = footer_of(files, entry)
    if footer is not None:
        return dict(footer.fields)
    if kind_of(entry) == "csv":
        return dict.fromkeys(csv_header(files, entry), _ANY)
    raise InvalidInputError(
        f"{entry.path!r} is neither Parquet nor CSV by its name: give a narrower prefix"
    )

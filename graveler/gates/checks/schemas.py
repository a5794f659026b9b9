"""Columns and their types, and how they may change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.reading import footer_of
from graveler.gates.checks.scope import Scoped
from graveler.gates.checks.telling import listed
from graveler.gates.footers import Files
from graveler.gates.gate import Gate
from graveler.gates.statistics import csv_header, kind_of
from graveler.model import Entry

__all__ = ["Schema"]

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


@dataclass(frozen=True)
class Schema(Scoped):
    """Columns and types of files, from Parquet footers and CSV headers."""

    kind: ClassVar[str] = "schema"

    columns: tuple[tuple[str, str], ...] = ()
    evolution: str = "add"

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = self.columns.items() if isinstance(self.columns, Mapping) else self.columns
        object.__setattr__(self, "columns", tuple((str(name), str(kind)) for name, kind in pairs))
        if self.evolution not in _EVOLUTIONS:
            raise InvalidInputError(
                f"check {self.kind}: evolution {self.evolution!r}: give one of "
                f"{', '.join(_EVOLUTIONS)}"
            )

    def gate(self) -> Gate:
        """Return the gate; without columns it reads what is on the target, too."""
        made = super().gate()
        if self.columns:
            return made
        return Gate(made.name, self, prefix=self.prefix)

    def __call__(self, candidate: Candidate) -> str | None:
        """Return why not, or None."""
        wanted = dict(self.columns) or self._usual(candidate)
        entries = self.files(candidate)
        if wanted is None:
            candidate.report(compared_with="nothing: these are the first files")
            wanted = _fields(candidate, entries[0]) if entries else {}
        return listed(self._problems(candidate, entries, wanted))

    def _usual(self, candidate: Candidate) -> dict[str, str] | None:
        """Return the columns of the newest file that is on the target."""
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
        """Return what is wrong with a file's columns, "" where nothing is."""
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


def _fields(files: Files, entry: Entry) -> dict[str, str]:
    """Return types by column of a file; of CSV only the names are known."""
    footer = footer_of(files, entry)
    if footer is not None:
        return dict(footer.fields)
    if kind_of(entry) == "csv":
        return dict.fromkeys(csv_header(files, entry), _ANY)
    raise InvalidInputError(
        f"{entry.path!r} is neither Parquet nor CSV by its name: give a narrower prefix"
    )

"""Checks of the paths that a run may change or delete."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any, ClassVar

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import BuiltIn, listed, texts
from graveler.gates.gate import Gate
from graveler.model import Change, ChangeKind
from graveler.names import check_prefix, hour_folder, read_hour


class _Filler(Formatter):
    """Formats prefixes by pairs, whose names may have dots; a time takes a format of its own."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        time = read_hour(value) if "%" in format_spec else None
        return format(value if time is None else time, format_spec)


def _filled(prefixes: tuple[str, ...], pairs: Mapping[str, str]) -> tuple[str, ...]:
    """Return prefixes formatted with the pairs of a run, with times both as text and as folders.

    Raises:
        KeyError: The run has no such pair.
        ValueError: A prefix is not a valid format.
    """
    # a date alone is no hour
    times = {name: read_hour(text) if ":" in text else None for name, text in pairs.items()}
    folders = {name: hour_folder(time) for name, time in times.items() if time is not None}
    filler = _Filler()
    filled = (
        filler.vformat(prefix, (), given)
        for prefix in prefixes
        for given in (pairs, {**pairs, **folders})
    )
    return tuple(dict.fromkeys(filled))


@dataclass(frozen=True)
class _Within(BuiltIn):
    """A check of changed paths; prefixes may name pairs of the run: ``in/{hour}/``."""

    prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = texts(self.prefixes)
        object.__setattr__(self, "prefixes", given)
        if not given or not all(given):
            raise InvalidInputError(f"check {self.kind}: name at least one prefix, and none empty")

        for prefix in given:
            check_prefix(f"check {self.kind}", prefix)

    def gate(self) -> Gate:
        """Return the gate, which reads the change set, and the run if a prefix names it."""
        reads = ("changes", "run") if any("{" in prefix for prefix in self.prefixes) else "changes"
        return Gate(f"{self.kind} {' '.join(self.prefixes)}", self, reads=reads)

    def __call__(self, candidate: Candidate) -> str | None:
        """Return why the candidate is refused, or None."""
        if candidate.restores:
            return None
        named = any("{" in prefix for prefix in self.prefixes)
        pairs = {"key": candidate.run.key, **candidate.run.metadata} if named else {}
        try:
            allowed = _filled(self.prefixes, pairs)
        except KeyError as error:
            return (
                f"prefixes {', '.join(self.prefixes)}: the run has no {error} among its metadata "
                f"({', '.join(sorted(pairs))})"
            )
        except ValueError as error:
            return f"prefixes {', '.join(self.prefixes)} cannot be filled in: {error}"
        if not all(allowed):
            return f"prefixes {', '.join(self.prefixes)}: what they name is empty for this run"
        outside = [
            change
            for change in candidate.changes()
            if self._counts(change) and not change.path.startswith(allowed)
        ]
        candidate.report(allowed=allowed, outside=len(outside))
        return listed(f"{change.path!r} would be {self._verb(change)}" for change in outside)

    def _counts(self, change: Change) -> bool:
        return True

    @staticmethod
    def _verb(change: Change) -> str:
        return {
            ChangeKind.ADDED: "added",
            ChangeKind.CHANGED: "changed",
            ChangeKind.REMOVED: "deleted",
        }[change.kind] + " outside of what the run may touch"


@dataclass(frozen=True)
class OnlyWithin(_Within):
    """Paths are added, changed or deleted only below prefixes."""

    kind: ClassVar[str] = "only_within"


@dataclass(frozen=True)
class NothingDeletedOutside(_Within):
    """Paths are deleted only below prefixes."""

    kind: ClassVar[str] = "nothing_deleted_outside"

    def _counts(self, change: Change) -> bool:
        return change.kind is ChangeKind.REMOVED

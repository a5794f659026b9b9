"""The inputs that a gate declares, and the facts that it reports.

A gate can read only its declared inputs, and the key of its verdict covers all of them. Facts are
small JSON values that are equal in every process.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any

from graveler.errors import InvalidInputError

CONTENT = "content"
CHANGES = "changes"
ANYTHING = "anything"
HISTORY = "history"
_SCOPES = (CONTENT, CHANGES, ANYTHING)
_INPUTS = {
    "message": "the candidate's message",
    "committer": "the candidate's committer",
    "metadata": "the candidate's metadata",
    "parents": "the candidate's parents",
    "created": "the candidate's time",
    "commit": "the candidate's commit itself",
    "target": "the commit that the branch is at",
    "run": "the run's key and metadata",
    "attempt": "the run's attempt",
    HISTORY: "what earlier commits brought",
}
_OF_RUN = ("key", "metadata", "hour_prefix")
_OF_RECORD = {"commit": "commit", "target": "target", "run": "attempt"}
"""The inputs to which the fields of a record belong that have no input of their own."""

_MOST = 64
_MOST_VALUES = 1_000
_DEEPEST = 4
_LONGEST = 500
_PER_VALUE = 50
_LARGEST = 2**53
_LEFT_OUT = "…"


def input_of(record: str, field: str) -> str:
    """Return the input to which a field of the commit, the target or the run belongs."""
    if record == "commit" and field in _INPUTS:
        return field
    return "run" if record == "run" and field in _OF_RUN else _OF_RECORD[record]


def inputs_of(gate: str, reads: Any) -> tuple[str, ...]:
    """Return the inputs of a gate: one extent (content, changes or anything), the others sorted."""
    given = (
        (reads,)
        if isinstance(reads, str)
        else tuple(reads)
        if isinstance(reads, Iterable)
        else None
    )
    known = (*_SCOPES, *_INPUTS)
    if given is None or any(name not in known for name in given):
        raise InvalidInputError(
            f"gate {gate!r}: reads {reads!r}: give one of {', '.join(_SCOPES)}, and any of "
            f"{', '.join(_INPUTS)}"
        )
    extents = sorted({name for name in given if name in _SCOPES}) or [CONTENT]
    if len(extents) > 1:
        raise InvalidInputError(
            f"gate {gate!r}: reads {reads!r}: give only one of {', '.join(extents)}"
        )
    return (extents[0], *sorted({name for name in given if name in _INPUTS}))


@dataclass(frozen=True, slots=True)
class Declared:
    """The inputs that a gate may read."""

    gate: str
    prefixes: tuple[str, ...]
    reads: tuple[str, ...]
    refused: list[str] = field(default_factory=list, compare=False)

    @property
    def anything(self) -> bool:
        """Whether the gate may read everything; its verdicts are then not stored."""
        return ANYTHING in self.reads

    def has(self, name: str) -> bool:
        """Return whether the gate may read an input."""
        return self.anything or name in self.reads

    def check(self, name: str, what: str = "") -> None:
        """Refuse an input that is not declared."""
        if self.has(name):
            return
        kept = {read for read in self.reads if name not in _SCOPES or read not in _SCOPES}
        wanted = sorted({*kept, name} - {CONTENT}) or [CONTENT]
        way = repr(wanted[0]) if len(wanted) == 1 else f"{{{', '.join(map(repr, wanted))}}}"
        raise self._refusal(
            f"gate {self.gate!r} reads {what or _INPUTS.get(name, name)}, but declares only "
            f"{', '.join(map(repr, self.reads))}: give it reads={way}"
        )

    def covers(self, prefix: str) -> bool:
        """Return whether a prefix is inside the declared prefixes."""
        return self.anything or prefix.startswith(self.prefixes)

    def check_prefix(self, prefix: str) -> None:
        """Refuse a prefix outside the declared prefixes."""
        if self.covers(prefix):
            return
        declared = ", ".join(map(repr, self.prefixes))
        raise self._refusal(
            f"gate {self.gate!r} reads {prefix!r}, which is not below what it declares "
            f"({declared}): ask for that prefix only, name the other one too by also=({prefix!r},), "
            "or give the gate no prefix, so that it judges whenever anything changes"
        )

    def _refusal(self, message: str) -> InvalidInputError:
        self.refused.append(message)
        return InvalidInputError(message)


EVERYTHING = Declared("", ("",), (ANYTHING,))
"""The inputs of the publisher itself."""


class Guarded:
    """A record that shows a gate the fields whose input it declares."""

    __slots__ = ("_declared", "_name", "_record")

    def __init__(self, name: str, record: Any, declared: Declared) -> None:
        self._name = name
        self._record = record
        self._declared = declared

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._declared.check(input_of(self._name, name))
        return getattr(self._record, name)

    def __repr__(self) -> str:
        return f"<{type(self._record).__name__} as gate {self._declared.gate!r} sees it>"


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return valid text of at most `longest` characters; the end of a longer text is cut."""
    valid = text[:longest].encode("utf-8", "replace").decode()
    return valid if len(text) <= longest else f"{valid[: longest - 1]}…"


def plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as JSON values.

    Limits: 64 facts, 64 items in a list or mapping, four levels, 1,000 values in total, of
    which a text counts as one for each 50 characters, and 500 characters in a text. Anything beyond a limit is cut.
    """
    plain_facts: dict[str, Any] = _several(facts, 0, count())
    return plain_facts


def _several(value: Any, depth: int, counted: "count[int]") -> Any:
    if isinstance(value, Mapping):
        chosen = islice(value.items(), _MOST)
        return {shortened(str(name)): _plain(item, depth, counted) for name, item in chosen}
    items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
    return [_plain(item, depth, counted) for item in items[:_MOST]]


def _plain(value: Any, depth: int, counted: "count[int]") -> Any:
    if next(counted) >= _MOST_VALUES:
        return _LEFT_OUT
    number = getattr(value, "item", None)
    if callable(number) and getattr(value, "ndim", 1) == 0:
        value = number()  # a NumPy scalar
    if isinstance(value, (Mapping, set, frozenset, list, tuple)):
        return _LEFT_OUT if depth >= _DEEPEST else _several(value, depth + 1, counted)
    match value:
        case None | bool():
            return value
        case int():
            return int(value) if abs(value) <= _LARGEST else shortened(str(value))
        case float():
            return float(value) if math.isfinite(value) else str(float(value))
        case _:
            text = shortened(str(value))
            for _ in range(len(text) // _PER_VALUE):
                next(counted)
            return text

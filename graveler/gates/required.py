"""Gates that branches require, whoever moves them: one record, ``settings/gates``.

Patterns are shell patterns as those of protection (``main``, ``release-*``).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final

from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ThrottledError,
)
from graveler.gates.gate import Gate
from graveler.gates.named import NamedGate
from graveler.judging import refuse_writes
from graveler.kv.store import ABSENT, Stored
from graveler.records import decode_json, encode_json
from graveler.repository.stores import Stores

__all__ = ["RequiredGates", "combined"]

_KEY: Final = b"settings/gates"
_ATTEMPTS: Final = 20

_Rules = dict[str, tuple[NamedGate, ...]]


class RequiredGates:
    """What the branches of one repository require."""

    def __init__(self, stores: Stores) -> None:
        self._kv = stores.kv
        self._partition = f"refs:{stores.uid}"
        self._ids = stores.ids

    def rules(self) -> _Rules:
        """Return the gates by pattern, both in order."""
        return _decode(self._kv.get(self._partition, _KEY))

    def of(self, branch: str) -> tuple[Gate, ...]:
        """Return the gates that a branch requires."""
        found: list[Gate] = []
        for pattern, gates in self.rules().items():
            if fnmatchcase(branch, pattern):
                found += _distinct([gate.gate(pattern) for gate in gates], found, pattern)
        return tuple(found)

    def require(self, pattern: str, gates: Iterable[NamedGate]) -> None:
        """Have branches that match a pattern require these gates and no others.

        Raises:
            InvalidInputError: None is given, or two have one name.
        """
        chosen = tuple(gates)
        if not pattern or not chosen:
            raise InvalidInputError(
                f"gates of branches {pattern!r}: name at least one; `drop` takes a pattern away"
            )
        names = [gate.gate(pattern).name for gate in chosen]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"gates of branches {pattern!r}: names {names} must differ")
        self._change(lambda rules: {**rules, pattern: chosen})

    def drop(self, pattern: str) -> None:
        """Take a pattern away; no error where it is not there."""
        self._change(
            lambda rules: {other: gates for other, gates in rules.items() if other != pattern}
        )

    def _change(self, change: Callable[[_Rules], _Rules]) -> None:
        refuse_writes("required gates")
        for _ in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, _KEY)
            rules = change(_decode(stored))
            value = encode_json(
                {
                    "nonce": self._ids.unique(),
                    "patterns": {
                        pattern: [gate.encode() for gate in gates]
                        for pattern, gates in rules.items()
                    },
                }
            )
            try:
                self._kv.set_if(
                    self._partition, _KEY, value, ABSENT if stored is None else stored.predicate
                )
            except (PreconditionFailedError, OutcomeUnknownError):
                continue  # setting or dropping a pattern twice is harmless
            return
        raise ThrottledError(f"required gates: lost {_ATTEMPTS} races; try again")


def _decode(stored: Stored | None) -> _Rules:
    if stored is None:
        return {}
    fields: dict[str, Any] = decode_json(stored.value, "required gates")
    try:
        return {
            pattern: tuple(NamedGate.decode(gate) for gate in gates)
            for pattern, gates in sorted(fields["patterns"].items())
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(
            f"required gates cannot be read, or a newer graveler wrote them: {stored.value[:80]!r}"
        ) from error


def combined(stores: Stores, branch: str, gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """Return these gates and those that the branch requires, each once."""
    given = list(gates)
    return (*given, *_distinct(RequiredGates(stores).of(branch), given, branch))


def _distinct(gates: Iterable[Gate], others: list[Gate], where: str) -> list[Gate]:
    """Return those gates that are not among the others, under names that none of them has."""
    there = {gate.name: gate for gate in others}
    chosen = []
    for gate in gates:
        renamed = replace(gate, name=f"{gate.name} ({where})")
        same = there.get(gate.name)
        if same is None:
            chosen.append(gate)
        elif _what(same) != _what(gate) and renamed.name not in there:
            chosen.append(renamed)
    return chosen


def _what(gate: Gate) -> tuple[Any, ...]:
    return gate.fingerprint, gate.prefix, gate.also, gate.severity, gate.reads

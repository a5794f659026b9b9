"""Gates that branches require of every move.

Patterns are shell patterns as those of protection (``main``, ``release-*``).
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.gates.gate import Gate
from graveler.gates.named import NamedGate
from graveler.model import BranchRecord
from graveler.refs import move
from graveler.refs.requirements import GateRules
from graveler.repository.stores import Stores


class RequiredGates:
    """What the branches of one repository require.

    A move reads the branch's record, then the gates that the branch requires, then replaces exactly
    that record. So after a change of the requirements, the record of every branch that they match is
    rewritten: a move that was not judged by the new gates loses its compare-and-set and tries again.
    """

    def __init__(self, stores: Stores) -> None:
        self._refs = stores.refs
        self._kept = stores.refs.requirements
        self._allowed = stores.gate_modules

    def rules(self) -> dict[str, tuple[NamedGate, ...]]:
        """Return the gates by pattern, both in order."""
        return {
            pattern: tuple(NamedGate.decode(gate) for gate in gates)
            for pattern, gates in self._kept.rules().items()
        }

    def of(self, branch: str) -> tuple[Gate, ...]:
        """Return the gates that a branch requires."""
        found: list[Gate] = []
        for pattern, gates in self.rules().items():
            if fnmatchcase(branch, pattern):
                found += distinct(
                    [gate.gate(pattern, self._allowed) for gate in gates], found, pattern
                )
        return tuple(found)

    def require(self, pattern: str, gates: Iterable[NamedGate]) -> None:
        """Have branches that match a pattern require these gates and no others.

        Raises:
            InvalidInputError: None is given, or two have one name.
        """
        chosen = list(gates)
        if not pattern or not chosen:
            raise InvalidInputError(
                f"gates of branches {pattern!r}: name at least one; `drop` takes a pattern away"
            )
        names = [gate.gate(pattern, self._allowed).name for gate in chosen]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"gates of branches {pattern!r}: names {names} must differ")
        encoded = [gate.encode() for gate in chosen]
        self._kept.change(lambda rules: {**rules, pattern: encoded})
        self._rewrite_records(pattern)

    def add(self, pattern: str, gate: NamedGate) -> None:
        """Have branches that match a pattern require one gate more, in the place of its namesake.

        In one atomic step: what others require at the same moment is required, too.
        """
        name = gate.gate(pattern, self._allowed).name

        def change(rules: GateRules) -> GateRules:
            there = rules.get(pattern, ())
            others = [
                one
                for one in there
                if NamedGate.decode(one).gate(pattern, self._allowed).name != name
            ]
            return {**rules, pattern: [*others, gate.encode()]}

        if not pattern:
            raise InvalidInputError("gates of branches '': name the branches, by a shell pattern")
        self._kept.change(change)
        self._rewrite_records(pattern)

    def _rewrite_records(self, pattern: str) -> None:
        for name in [name for name in self._refs.branches.names() if fnmatchcase(name, pattern)]:
            with suppress(RefNotFoundError):  # deleted since
                move(self._refs, name, _rewritten, landed=lambda _: True)

    def drop(self, pattern: str) -> None:
        """Take a pattern away; no error where it is not there."""
        self._kept.change(
            lambda rules: {other: gates for other, gates in rules.items() if other != pattern}
        )


def _rewritten(there: BranchRecord) -> BranchRecord:
    return replace(there)  # equal but for the nonce it will get


def distinct(gates: Iterable[Gate], others: list[Gate], where: str) -> list[Gate]:
    """Return those gates that are not among the others, under names that none of them has."""
    there = {gate.name: gate for gate in others}
    chosen = []
    for gate in gates:
        named = gate
        while (same := there.get(named.name)) is not None and _what(same) != _what(gate):
            named = replace(named, name=f"{named.name} ({where})")  # nobody takes its place by name
        if same is None:
            chosen.append(named)
    return chosen


def _what(gate: Gate) -> tuple[Any, ...]:
    rule = gate.fingerprint or id(gate.check)
    return rule, gate.prefixes, gate.severity, gate.inputs

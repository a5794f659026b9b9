"""What a repository's settings demand of links and of branches: declared places, required gates."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from graveler.fields import Fields
from graveler.refs.protection import Protection
from graveler.refs.settings import Setting, Settings

GateRules = Mapping[str, list[dict[str, Any]]]
"""Gates by shell pattern of branch names. A gate is the JSON that `graveler.gates` made of it."""


def read_gate_rules(stored: Fields) -> GateRules:
    """Return stored rules in order, or raise CorruptionError."""
    rules: dict[str, list[dict[str, Any]]] = {}
    for pattern in sorted(stored):
        for gate in stored.records(pattern):
            gate.text("check")
        rules[pattern] = list(stored.array(pattern))
    return rules


REQUIRED_GATES: Final[Setting[GateRules]] = Setting(
    "gates",
    "required gates",
    default={},
    encode=lambda rules: {"patterns": dict(rules)},
    read=lambda fields: read_gate_rules(fields.record("patterns")),
)
LINK_PLACES: Final[Setting[list[str]]] = Setting(
    "links",
    "declared places of links",
    default=[],
    encode=lambda places: {"places": places},
    read=lambda fields: sorted(fields.texts("places")),
)


class Requirements:
    """The gates that the branches of one repository require."""

    def __init__(self, settings: Settings, protection: Protection) -> None:
        self._settings = settings
        self._protection = protection

    def rules(self) -> GateRules:
        """Return the gates by pattern, in order."""
        return self._settings.get(REQUIRED_GATES)

    def change(self, change: Callable[[GateRules], GateRules]) -> None:
        """Replace the rules by ``change(rules)``, which must do no harm when repeated."""

        def changed(rules: GateRules) -> GateRules:
            new = change(rules)
            self._protection.expect_gates(new)
            return new

        self._settings.change(REQUIRED_GATES, changed)


class LinkPlaces:
    """The foreign places that a repository may link to, each in the one form of its address."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def list(self) -> list[str]:
        """Return the places, sorted."""
        return self._settings.get(LINK_PLACES)

    def add(self, place: str) -> None:
        """Declare a place; no error where it is declared."""
        self._settings.change(LINK_PLACES, lambda places: sorted({*places, place}))

    def remove(self, place: str) -> None:
        """Remove a declared place; no error where it is not declared."""
        self._settings.change(LINK_PLACES, lambda places: sorted({*places} - {place}))

"""Gates that branches require, as settings hold them: one record, ``settings/gates``.

What a gate is, is not known here: it is kept as the JSON that `graveler.gates` made of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from graveler.clock import IdSource
from graveler.errors import (
    OutcomeUnknownError,
    PreconditionFailedError,
    ThrottledError,
)
from graveler.fields import Fields
from graveler.judging import refuse_writes
from graveler.kv.store import ABSENT, KVStore, Stored
from graveler.records import decode_json, encode_json
from graveler.refs.protection import Protection

__all__ = ["GateRules", "Requirements", "read_gate_rules"]

_KEY: Final = b"settings/gates"
_ATTEMPTS: Final = 20

GateRules = Mapping[str, list[dict[str, Any]]]
"""Gates by shell pattern of branch names."""


class Requirements:
    """What the branches of one repository require."""

    def __init__(self, kv: KVStore, partition: str, ids: IdSource, protection: Protection) -> None:
        self._protection = protection
        self._kv = kv
        self._partition = partition
        self._ids = ids

    def rules(self) -> GateRules:
        """Return the gates by pattern, in order."""
        return _decode(self._kv.get(self._partition, _KEY))

    def change(self, change: Callable[[GateRules], GateRules]) -> None:
        """Replace the rules by ``change(rules)``, which must do no harm when repeated."""
        refuse_writes("required gates")
        for _ in range(_ATTEMPTS):
            stored = self._kv.get(self._partition, _KEY)
            rules = change(_decode(stored))
            self._protection.expect_gates(rules)
            value = encode_json({"nonce": self._ids.unique(), "patterns": dict(rules)})
            predicate = ABSENT if stored is None else stored.predicate
            try:
                self._kv.set_if(self._partition, _KEY, value, predicate)
            except (PreconditionFailedError, OutcomeUnknownError):
                continue
            return
        raise ThrottledError(f"required gates: lost {_ATTEMPTS} races; try again")


def read_gate_rules(stored: Fields) -> GateRules:
    """Return stored rules in order, or raise CorruptionError."""
    rules: dict[str, list[dict[str, Any]]] = {}
    for pattern in sorted(stored):
        for gate in stored.records(pattern):
            gate.text("check")
        rules[pattern] = list(stored.array(pattern))
    return rules


def _decode(stored: Stored | None) -> GateRules:
    if stored is None:
        return {}
    what = "required gates"
    return read_gate_rules(Fields(decode_json(stored.value, what), what).record("patterns"))

"""The settings of a repository: records ``settings/<name>``, each replaced by compare-and-set.

``settings/protection`` holds shell patterns (``main``, ``release-*``), and the list of
forbidden actions where it is not the usual one. It also has the patterns of branches that
may require gates. Every operation that moves a branch reads this record, and reads the required
gates only if one of those patterns matches. Other settings name the places that links may lead
to, and the gates that branches require.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, Generic, TypeVar

from graveler.clock import Clock, IdSource
from graveler.errors import InvalidInputError, ProtectedBranchError
from graveler.fields import Fields
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.process import refuse_writes
from graveler.records import decode_json, encode_json

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Setting(Generic[S]):
    """One setting of a repository, and the form of its record.

    Attributes:
        name: Its record is ``settings/<name>``.
        what: Names it in errors.
        default: Its value where there is no record.
        encode: Returns the fields of a value; the nonce is added to them.
        read: Returns the value that the fields of a record give.
    """

    name: str
    what: str
    default: S
    encode: Callable[[S], Mapping[str, Any]]
    read: Callable[[Fields], S]

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return f"settings/{self.name}".encode()

    def decode(self, raw: bytes) -> S:
        """Return the value of a stored record, or raise CorruptionError."""
        return self.read(Fields(decode_json(raw, self.what), self.what))


class Settings:
    """The settings of one repository.

    Args:
        kv: The key-value store.
        uid: The repository.
        clock: Measures pauses after lost races.
        ids: Draws nonces and jitter.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._partition = f"refs:{uid}"
        self._clock = clock
        self._ids = ids

    def get(self, setting: Setting[S]) -> S:
        """Return the value of a setting."""
        stored = self._kv.get(self._partition, setting.key)
        return setting.default if stored is None else setting.decode(stored.value)

    def change(self, setting: Setting[S], change: Callable[[S], S]) -> S:
        """Replace the value by ``change(value)``, and return it.

        Args:
            setting: The setting.
            change: Runs again after a lost race; it must do no harm when repeated.

        Raises:
            ReadOnlyError: A gate is judging.
            ThrottledError: 200 races were lost in a row.
        """
        refuse_writes(setting.what)
        record: RecordStore[bytes, S] = RecordStore(
            self._kv,
            self._partition,
            key=bytes,
            encode=partial(self._encode, setting),
            decode=setting.decode,
        )
        return record.update(
            setting.key,
            lambda value: change(setting.default if value is None else value),
            what=setting.what,
            clock=self._clock,
            ids=self._ids,
        )

    def _encode(self, setting: Setting[S], value: S) -> bytes:
        return encode_json({**setting.encode(value), "nonce": self._ids.unique()})


ACTIONS: Final = ("write", "commit", "merge", "revert", "reset", "delete")
"""What can be forbidden: staging writes, committing them, merging and publishing runs into the
branch, revert and cherry-pick, moving it back or elsewhere (hard reset, undo), deleting it."""

USUAL: Final = ("write", "commit", "reset", "delete")
"""What is forbidden by default: such a branch only moves forward, by merges."""

_INSTEAD: Final = {
    "write": "write to another branch and merge it",
    "commit": "commit on another branch and merge it",
    "merge": "merge into another branch",
    "revert": "do it on another branch and merge that",
    "reset": "revert what should not be there",
    "delete": "keep it",
}

_Rules = dict[str, tuple[str, ...]]


class Protection:
    """The protection rules of one repository."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rules(self) -> dict[str, tuple[str, ...]]:
        """Return what is forbidden, by pattern, both in order."""
        return self._settings.get(PROTECTION).forbidden

    def patterns(self) -> list[str]:
        """Return the patterns, sorted."""
        return list(self.rules())

    def add(self, pattern: str, actions: Iterable[str] | None = None) -> None:
        """Forbid `actions` on the branches that match `pattern`; the usual ones where None.

        These actions replace the earlier ones of the pattern.

        Raises:
            InvalidInputError: There is no such action, or none is given.
        """
        chosen = USUAL if actions is None else check_actions(actions)
        self._change(lambda rules: {**rules, pattern: chosen})

    def remove(self, pattern: str) -> None:
        """Remove a pattern; no error if it does not exist."""
        self._change(
            lambda rules: {other: what for other, what in rules.items() if other != pattern}
        )

    def replace(self, rules: Mapping[str, Iterable[str]]) -> None:
        """Replace all rules by these."""
        chosen = {pattern: check_actions(actions) for pattern, actions in rules.items()}
        self._change(lambda _: chosen)

    def check(self, branch: str, action: str) -> bool:
        """Raise ProtectedBranchError if `action` is forbidden on `branch`.

        Returns:
            Whether the branch may require gates: see `may_require_gates`.
        """
        stored = self._settings.get(PROTECTION)
        for pattern, actions in stored.forbidden.items():
            if action in actions and fnmatchcase(branch, pattern):
                raise ProtectedBranchError(
                    f"branch {branch!r} is protected against {action} (pattern {pattern!r}): "
                    f"{_INSTEAD[action]}, or take the rule away with "
                    f"`graveler branch unprotect {pattern!r}`"
                )

        return _matches(branch, stored.judged)

    def may_require_gates(self, branch: str) -> bool:
        """Return whether branches of this name require gates, or did so once."""
        return _matches(branch, self._settings.get(PROTECTION).judged)

    def expect_gates(self, patterns: Iterable[str]) -> None:
        """Record that branches that match may require gates, before they do; it stays recorded."""
        wanted = frozenset(patterns)
        if not wanted <= self._settings.get(PROTECTION).judged:
            self._settings.change(
                PROTECTION, lambda stored: _Stored(stored.forbidden, stored.judged | wanted)
            )

    def _change(self, change: Callable[[_Rules], _Rules]) -> None:
        self._settings.change(
            PROTECTION, lambda stored: _Stored(change(stored.forbidden), stored.judged)
        )


def check_actions(actions: Iterable[str]) -> tuple[str, ...]:
    """Return the actions in their order.

    Raises:
        InvalidInputError: There is no such action, or none is given.
    """
    given = {actions} if isinstance(actions, str) else set(actions)
    if not given or given - set(ACTIONS):
        raise InvalidInputError(f"protection of {sorted(given)}: give some of {', '.join(ACTIONS)}")
    return tuple(action for action in ACTIONS if action in given)


def read_actions(rules: Fields, pattern: str) -> tuple[str, ...]:
    """Return what stored rules forbid on a pattern, or raise CorruptionError."""
    try:
        return check_actions(rules.texts(pattern))
    except InvalidInputError:
        raise rules.wrong(pattern, f"some of {ACTIONS}") from None


def _matches(branch: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(branch, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The record: what is forbidden by pattern, and the patterns that may require gates."""

    forbidden: _Rules = field(default_factory=dict)
    judged: frozenset[str] = frozenset()


def _encode(stored: _Stored) -> dict[str, Any]:
    value: dict[str, Any] = {"patterns": sorted(stored.forbidden)}
    if stored.judged:
        value["judged"] = sorted(stored.judged)
    other = {pattern: what for pattern, what in stored.forbidden.items() if what != USUAL}
    if other:
        value["actions"] = other
    return value


def _read(fields: Fields) -> _Stored:
    other = fields.record("actions") if "actions" in fields else Fields({}, fields.what)
    forbidden = {
        pattern: read_actions(other, pattern) if pattern in other else USUAL
        for pattern in sorted(fields.texts("patterns"))
    }
    return _Stored(forbidden, frozenset(fields.texts("judged", ())))


PROTECTION: Final = Setting(
    "protection", "protection rules", default=_Stored(), encode=_encode, read=_read
)


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

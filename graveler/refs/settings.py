"""The settings of a repository: records ``settings/<name>``, each replaced by compare-and-set.

``settings/protection`` holds branch patterns (``main``, ``release-*``), and the forbidden actions
of each pattern that does not use the default. It also holds the patterns of branches that may
require gates. Every operation that moves a branch reads this record, and reads the required
gates only if one of those patterns matches. The other settings are the required gates and the
declared places of links.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Generic, TypeVar

from graveler.base.clock import Clock, IdSource
from graveler.base.read_only import refuse_writes
from graveler.base.records import Fields, decode_json, encode_json
from graveler.errors import InvalidInputError, ProtectedBranchError
from graveler.kv.record_store import Place, RecordStore, Version
from graveler.kv.store import KVStore

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Setting(Generic[S]):
    """One setting of a repository, and the format of its record.

    Attributes:
        name: The record's key is ``settings/<name>``.
        what: The name of the setting in error messages.
        default: The value if no record exists.
        encode: Returns the record fields of a value, without the nonce.
        read: Returns the value from the record fields.
    """

    name: str
    what: str
    default: S
    encode: Callable[[S], Mapping[str, Any]]
    read: Callable[[Fields], S]

    @property
    def key(self) -> bytes:
        """The key of the setting's record."""
        return f"settings/{self.name}".encode()

    def decode(self, raw: bytes) -> S:
        """Return the value of a stored record, or raise CorruptionError."""
        return self.read(Fields(decode_json(raw, self.what), self.what))


class Settings:
    """The settings of one repository.

    Args:
        clock: Measures the pauses after lost races.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._partition = f"refs:{uid}"
        self._clock = clock
        self._ids = ids

    def place(self, setting: Setting[Any]) -> Place:
        """Return the place of a setting, to read it together with others."""
        return Place(self._partition, setting.key, setting.decode)

    def get(self, setting: Setting[S]) -> S:
        """Return the value of a setting."""
        stored = self._kv.get(self._partition, setting.key)
        return setting.default if stored is None else setting.decode(stored.value)

    def change(self, setting: Setting[S], change: Callable[[S], S]) -> S:
        """Replace the value with ``change(value)``, and return it.

        Args:
            change: Returns the new value. It must be repeatable: a lost race runs it again.
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


ACTIONS = ("write", "commit", "merge", "revert", "reset", "delete")
"""The actions that a rule can forbid: staging writes, committing them, merging and publishing runs
into the branch, revert and cherry-pick, hard reset and undo, deleting the branch."""

USUAL = ("write", "commit", "reset", "delete")
"""The actions forbidden by default: the branch moves only by merges, reverts and cherry-picks."""

_INSTEAD = {
    "write": "write to another branch and merge it",
    "commit": "commit on another branch and merge it",
    "merge": "merge into another branch",
    "revert": "revert or cherry-pick on another branch and merge it",
    "reset": "revert the unwanted commits",
    "delete": "keep it",
}

_Forbidden = dict[str, tuple[str, ...]]


class Protection:
    """The protection rules of one repository."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rules(self) -> dict[str, tuple[str, ...]]:
        """Return the forbidden actions by pattern, sorted by pattern."""
        return self._settings.get(PROTECTION).forbidden

    def patterns(self) -> list[str]:
        """Return the patterns, sorted."""
        return list(self.rules())

    def add(self, pattern: str, actions: Iterable[str] | None = None) -> None:
        """Forbid `actions`, by default those in `USUAL`, on the branches that match `pattern`.

        They replace the forbidden actions that the pattern had before.

        Raises:
            InvalidInputError: An action is unknown, or `actions` is empty.
        """
        chosen = USUAL if actions is None else check_actions(actions)
        self._change(lambda rules: {**rules, pattern: chosen})

    def remove(self, pattern: str) -> None:
        """Remove a pattern. A missing pattern is not an error."""
        self._change(
            lambda rules: {other: what for other, what in rules.items() if other != pattern}
        )

    def replace(self, rules: Mapping[str, Iterable[str]]) -> None:
        """Replace all rules with `rules`."""
        chosen = {pattern: check_actions(actions) for pattern, actions in rules.items()}
        self._change(lambda _: chosen)

    def check(self, branch: str, action: str) -> bool:
        """Raise ProtectedBranchError if `action` is forbidden on `branch`; see `Rules.check`."""
        return self._settings.get(PROTECTION).check(branch, action)

    def expect_gates(self, patterns: Iterable[str]) -> None:
        """Add `patterns` to those that may require gates. Patterns are never removed.

        Call this before the gates are stored, so that no operation misses a required gate.
        """
        wanted = frozenset(patterns)
        if not wanted <= self._settings.get(PROTECTION).judged:
            self._settings.change(
                PROTECTION, lambda stored: Rules(stored.forbidden, stored.judged | wanted)
            )

    def _change(self, change: Callable[[_Forbidden], _Forbidden]) -> None:
        self._settings.change(
            PROTECTION, lambda stored: Rules(change(stored.forbidden), stored.judged)
        )


def check_actions(actions: Iterable[str]) -> tuple[str, ...]:
    """Return the actions in the order of `ACTIONS`, without duplicates."""
    given = {actions} if isinstance(actions, str) else set(actions)
    if not given or given - set(ACTIONS):
        raise InvalidInputError(f"protection of {sorted(given)}: give some of {', '.join(ACTIONS)}")
    return tuple(action for action in ACTIONS if action in given)


def read_actions(rules: Fields, pattern: str) -> tuple[str, ...]:
    """Return the actions that stored rules forbid on a pattern, or raise CorruptionError."""
    try:
        return check_actions(rules.texts(pattern))
    except InvalidInputError:
        raise rules.wrong(pattern, f"some of {ACTIONS}") from None


@dataclass(frozen=True, slots=True)
class Rules:
    """The protection rules of one moment.

    Attributes:
        forbidden: Forbidden actions by pattern of branches.
        judged: Patterns of the branches that may require gates.
    """

    forbidden: _Forbidden = field(default_factory=dict)
    judged: frozenset[str] = frozenset()

    def check(self, branch: str, action: str) -> bool:
        """Raise ProtectedBranchError if `action` is forbidden on `branch`.

        Returns:
            Whether the branch may require gates: see `may_require_gates`.
        """
        for pattern, actions in self.forbidden.items():
            if action in actions and fnmatchcase(branch, pattern):
                raise ProtectedBranchError(
                    f"branch {branch!r} is protected against {action} (pattern {pattern!r}): "
                    f"{_INSTEAD[action]}, or remove the rule with "
                    f"`graveler branch unprotect {pattern!r}`"
                )
        return self.may_require_gates(branch)

    def may_require_gates(self, branch: str) -> bool:
        """Return whether a pattern of required gates, current or earlier, matches `branch`."""
        return any(fnmatchcase(branch, pattern) for pattern in self.judged)


def _encode(stored: Rules) -> dict[str, Any]:
    value: dict[str, Any] = {"patterns": sorted(stored.forbidden)}
    if stored.judged:
        value["judged"] = sorted(stored.judged)
    other = {pattern: what for pattern, what in stored.forbidden.items() if what != USUAL}
    if other:
        value["actions"] = other
    return value


def _read(fields: Fields) -> Rules:
    other = fields.record("actions") if "actions" in fields else Fields({}, fields.what)
    forbidden = {
        pattern: read_actions(other, pattern) if pattern in other else USUAL
        for pattern in sorted(fields.texts("patterns"))
    }
    return Rules(forbidden, frozenset(fields.texts("judged", ())))


PROTECTION = Setting("protection", "protection rules", default=Rules(), encode=_encode, read=_read)


GateRules = Mapping[str, list[dict[str, Any]]]
"""Gates by branch pattern. Each gate is the JSON object that `graveler.gates` encodes."""


def read_gate_rules(stored: Fields) -> GateRules:
    """Return stored rules sorted by pattern, or raise CorruptionError."""
    rules: dict[str, list[dict[str, Any]]] = {}
    for pattern in sorted(stored):
        for gate in stored.records(pattern):
            gate.text("check")
        rules[pattern] = list(stored.array(pattern))
    return rules


REQUIRED_GATES: Setting[GateRules] = Setting(
    "gates",
    "required gates",
    default={},
    encode=lambda rules: {"patterns": dict(rules)},
    read=lambda fields: read_gate_rules(fields.record("patterns")),
)
LINK_PLACES: Setting[list[str]] = Setting(
    "links",
    "declared places of links",
    default=[],
    encode=lambda places: {"places": places},
    read=lambda fields: sorted(fields.texts("places")),
)


UNSOUND = Setting(
    "unsound",
    "result of the last check",
    default=False,
    encode=lambda unsound: {"unsound": unsound},
    read=lambda fields: fields.flag("unsound"),
)
"""Whether trees were found incomplete, and no complete check since then found the rest sound."""


LINK_CHANGES: Setting[Mapping[str, int]] = Setting(
    "link-changes",
    "accepted changes of linked files",
    default={},
    encode=lambda accepted: {"accepted": dict(accepted)},
    read=lambda fields: {
        place: fields.record("accepted").number(place) for place in fields.mapping("accepted")
    },
)


class Requirements:
    """The gates that the branches of one repository require."""

    def __init__(self, settings: Settings, protection: Protection) -> None:
        self._settings = settings
        self._protection = protection

    @property
    def place(self) -> Place:
        """The place of the rules, to read them together with others."""
        return self._settings.place(REQUIRED_GATES)

    @staticmethod
    def read(found: Version | None) -> GateRules:
        """Return the rules that were read at `place`."""
        return REQUIRED_GATES.default if found is None else found.record

    def rules(self) -> GateRules:
        """Return the gates by pattern, sorted by pattern."""
        return self._settings.get(REQUIRED_GATES)

    def change(self, change: Callable[[GateRules], GateRules]) -> None:
        """Replace the rules with ``change(rules)``. `change` must be repeatable."""

        def changed(rules: GateRules) -> GateRules:
            new = change(rules)
            self._protection.expect_gates(new)
            return new

        self._settings.change(REQUIRED_GATES, changed)


class LinkPlaces:
    """The places outside its storage that a repository may link to, as canonical addresses."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def list(self) -> list[str]:
        """Return the places, sorted."""
        return self._settings.get(LINK_PLACES)

    def add(self, place: str) -> None:
        """Declare a place. Declaring it again is not an error."""
        self._settings.change(LINK_PLACES, lambda places: sorted({*places, place}))

    def accepted(self) -> Mapping[str, int]:
        """Return the time up to which changes are accepted, in µs since 1970, by file or folder."""
        return self._settings.get(LINK_CHANGES)

    def accept(self, place: str, time: int) -> None:
        """Accept the changes of a file, or of all files below a folder, up to a time."""

        def changed(known: Mapping[str, int]) -> Mapping[str, int]:
            kept = {each: at for each, at in known.items() if not each.startswith(f"{place}/")}
            return {**kept, place: time}

        self._settings.change(LINK_CHANGES, changed)

    def remove(self, place: str) -> None:
        """Remove a declared place. A missing place is not an error."""
        self._settings.change(LINK_PLACES, lambda places: sorted({*places} - {place}))

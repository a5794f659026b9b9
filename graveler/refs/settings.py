"""The settings of a repository: records ``settings/<name>``, each replaced by compare-and-set.

Every operation that moves a branch reads the protection rules, which also have the patterns of
branches that may require gates; the required gates are read only if one of those matches.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, Generic, TypeVar

from graveler.base.clock import Clock, IdSource
from graveler.base.read_only import refuse_writes
from graveler.base.records import (
    FLAG,
    TEXT,
    FieldType,
    Schema,
    Unfit,
    array,
    decode_json,
    encode_json,
    integer,
    load_fields,
    mapping,
)
from graveler.errors import InvalidInputError, ProtectedBranchError
from graveler.kv.record_store import Place, RecordStore, Version
from graveler.kv.store import KVStore

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Setting(Generic[S]):
    """One setting of a repository, and the format of its record.

    Attributes:
        name: The record's key is ``settings/<name>``.
        default: The value if no record exists.
    """

    name: str
    what: str
    default: S
    stored: FieldType[S]

    @property
    def key(self) -> bytes:
        """The key of the setting's record."""
        return f"settings/{self.name}".encode()

    def of(self, found: Version[Any] | None) -> S:
        """Return the value of a record that was read with others."""
        return self.default if found is None else found.record

    def decode(self, raw: bytes) -> S:
        """Return the value of a stored record, or raise CorruptionError."""
        return self.stored.read(decode_json(raw, self.what), self.what)

    def encode(self, value: S) -> dict[str, Any]:
        """Return the fields of a value's record, without the nonce."""
        return dict(self.stored.to_json(value))


class Settings:
    """The settings of one repository."""

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
        record: RecordStore[S] = RecordStore(
            self._kv,
            self._partition,
            encode=lambda value: encode_json(setting.encode(value) | {"nonce": self._ids.unique()}),
            decode=setting.decode,
        )
        return record.update(
            setting.key,
            lambda value: change(setting.default if value is None else value),
            what=setting.what,
            clock=self._clock,
            ids=self._ids,
        )


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

    def add(self, pattern: str, actions: Iterable[str] | None = None) -> None:
        """Forbid `actions`, by default those in `USUAL`, on the branches that match `pattern`.

        They replace the forbidden actions that the pattern had before.
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


def _load_actions(value: Any) -> tuple[str, ...]:
    try:
        return check_actions(array(TEXT).load(value))
    except InvalidInputError:
        raise Unfit(value, f"some of {ACTIONS}") from None


_ACTIONS = FieldType(_load_actions)
FORBIDDEN = mapping(_ACTIONS)
"""How forbidden actions by pattern are stored."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The protection rules of one moment.

    Attributes:
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


@dataclass(frozen=True, slots=True)
class _Protection:
    """The record of the rules. `actions` has the patterns that do not forbid the usual ones."""

    patterns: tuple[str, ...]
    judged: tuple[str, ...] = ()
    actions: Mapping[str, Annotated[tuple[str, ...], _ACTIONS]] = field(default_factory=dict)


_PROTECTION = Schema(_Protection, sparse=("judged", "actions"))


def _load(value: Any) -> Rules:
    stored = _PROTECTION.load(value)
    forbidden = {each: stored.actions.get(each, USUAL) for each in sorted(stored.patterns)}
    return Rules(forbidden, frozenset(stored.judged))


def _plain(rules: Rules) -> dict[str, Any]:
    other = {pattern: what for pattern, what in rules.forbidden.items() if what != USUAL}
    stored = _Protection(tuple(sorted(rules.forbidden)), tuple(sorted(rules.judged)), other)
    return _PROTECTION.plain(stored)


PROTECTION = Setting("protection", "protection rules", Rules(), FieldType(_load, _plain))


GateRules = Mapping[str, list[dict[str, Any]]]
"""Gates by branch pattern. Each gate is the JSON object that `graveler.gates` encodes."""


def _load_gate(value: Any) -> Any:
    load_fields(value, check=TEXT)
    return value


def _load_gates(value: Any) -> GateRules:
    rules = mapping(array(FieldType(_load_gate))).load(value)
    return {pattern: list(rules[pattern]) for pattern in sorted(rules)}


def _alone(name: str, item: FieldType[S]) -> FieldType[S]:
    """Return the type of a record with one field."""
    return FieldType(
        lambda value: load_fields(value, **{name: item})[0],
        lambda value: {name: item.to_json(value)},
    )


GATES: FieldType[GateRules] = FieldType(_load_gates, dict)
"""How required gates by pattern are stored. They are loaded sorted by pattern."""
REQUIRED_GATES = Setting("gates", "required gates", {}, _alone("patterns", GATES))
LINK_PLACES: Setting[tuple[str, ...]] = Setting(
    "links", "declared places of links", (), _alone("places", array(TEXT))
)
LINK_CHANGES = Setting(
    "link-changes", "accepted changes of linked files", {}, _alone("accepted", mapping(integer()))
)


@dataclass(frozen=True, slots=True)
class Checked:
    """The last check of a repository that ended.

    Attributes:
        objects: How deep it went: none, exist or checksum.
        problems: The number of missing and damaged parts.
    """

    at: datetime
    objects: str
    problems: int


CHECKED: Setting[Checked | None] = Setting("checked", "last check", None, Schema(Checked))
UNSOUND = Setting("unsound", "result of the last check", False, _alone("unsound", FLAG))
"""Whether trees were found incomplete, and no complete check since then found the rest sound."""


class Requirements:
    """The gates that the branches of one repository require."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rules(self) -> GateRules:
        """Return the gates by pattern, sorted by pattern."""
        return self._settings.get(REQUIRED_GATES)

    def change(self, change: Callable[[GateRules], GateRules]) -> None:
        """Replace the rules with ``change(rules)``. `change` must be repeatable."""

        def changed(rules: GateRules) -> GateRules:
            new = change(rules)
            judged = frozenset(new)
            # before the gates are stored, so that no operation misses one
            if not judged <= self._settings.get(PROTECTION).judged:
                self._settings.change(
                    PROTECTION, lambda now: Rules(now.forbidden, now.judged | judged)
                )
            return new

        self._settings.change(REQUIRED_GATES, changed)


class LinkPlaces:
    """The places outside its storage that a repository may link to, as canonical addresses."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def list(self) -> list[str]:
        """Return the places, sorted."""
        places = self._settings.get(LINK_PLACES)
        return sorted(places)

    def add(self, place: str) -> None:
        """Declare a place. Declaring it again is not an error."""
        self._settings.change(LINK_PLACES, lambda places: tuple(sorted({*places, place})))

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
        self._settings.change(LINK_PLACES, lambda places: tuple(sorted({*places} - {place})))

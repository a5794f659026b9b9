"""The value of several merge bases at a path: their values, merged recursively, without writing.

Only the values of paths that need it are merged, with their own common ancestors as bases. Bases
are merged in every order; if the results differ, the base has a value that equals no other. See
``docs/design/0014-several-merge-bases.md``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple

from graveler.committed.metarange import get
from graveler.committed.ranges.range_store import RangeStore
from graveler.values import value_identity


class Unresolved(Enum):
    """A placeholder for a missing value: it equals no value, not even itself."""

    CONFLICT = "conflict"


CONFLICT = Unresolved.CONFLICT

LEVELS = 16
"""The maximum number of levels of bases, including the merge's own. Beyond it, a path conflicts."""
MOST_BASES = 1_000
"""The maximum number of commits in whose trees one path is looked up."""
WIDEST = 8
"""The maximum number of bases with different values at a path that are merged in every order."""


class Base(NamedTuple):
    """A commit that merges start from."""

    id: str
    tree: str


@dataclass(frozen=True, slots=True)
class Bases:
    """The bases of a merge.

    Attributes:
        below: A function of some commits and of another commit, all by id. It returns the best
            common ancestors of a merge of the former and of the latter, always in the same order,
            or none. Comparisons ignore it, because it follows from the ids of the best ancestors.
    """

    best: tuple[Base, ...]
    below: Callable[[tuple[str, ...], str], Sequence[Base]] = field(compare=False)

    @classmethod
    def one(cls, tree: str) -> "Bases":
        """Return a single base with this tree."""
        return cls((Base("", tree),), lambda _commits, _other: ())

    @property
    def trees(self) -> tuple[str, ...]:
        """The trees of the best common ancestors, each once."""
        return tuple(dict.fromkeys(base.tree for base in self.best))


_Outcome = bytes | Literal[Unresolved.CONFLICT] | None
"""The content identity of a value, or None for no value."""


class BaseValues:
    """The values of the bases of one merge. The history that was read is kept."""

    def __init__(self, store: RangeStore, bases: Bases) -> None:
        self._store = store
        self._bases = bases
        self._below: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
        self._trees = {base.id: base.tree for base in bases.best}

    def merged(
        self, key: bytes, known: Sequence[bytes | None]
    ) -> bytes | Literal[Unresolved.CONFLICT] | None:
        """Return the merged value of the best bases at `key`."""
        identities = [value_identity(value) for value in known]
        if len(set(identities)) == 1:
            return known[0]
        path = _Path(self, key)
        for base, value in zip(self._bases.best, identities, strict=True):
            path.values[base.id] = value
        try:
            outcomes = path.outcomes(tuple(base.id for base in self._bases.best), 1)
        except _TooManyError:
            return CONFLICT
        outcome = next(iter(outcomes))
        if len(outcomes) > 1 or outcome is CONFLICT:
            return CONFLICT
        return known[identities.index(outcome)]

    def at(self, key: bytes) -> bytes | Literal[Unresolved.CONFLICT] | None:
        """Return the merged value of the best bases at `key`."""
        return self.merged(key, [get(self._store, base.tree, key) for base in self._bases.best])

    def look_up(self, commit: str, key: bytes) -> bytes | None:
        """Return the content identity of a base's value at `key`."""
        return value_identity(get(self._store, self._trees[commit], key))

    def below(self, commits: tuple[str, ...], other: str) -> tuple[str, ...]:
        """Return the best common ancestors of a merge of `commits` and of `other`."""
        asked = (commits, other)
        below = self._below.get(asked)
        if below is None:
            bases = self._bases.below(commits, other)
            self._trees.update((base.id, base.tree) for base in bases)
            below = self._below[asked] = tuple(base.id for base in bases)
        return below


class _TooManyError(Exception):
    """The lookup needs more commits than are allowed."""


class _Path:
    """The search for the value of the bases at one path."""

    def __init__(self, bases: BaseValues, key: bytes) -> None:
        self._bases = bases
        self._key = key
        self._known: dict[tuple[tuple[str, ...], int], frozenset[_Outcome]] = {}
        self.values: dict[str, bytes | None] = {}

    def outcomes(self, commits: tuple[str, ...], level: int) -> frozenset[_Outcome]:
        """Return the results of merging the commits in every order."""
        if not commits:
            return frozenset({None})
        if level > LEVELS:
            return frozenset({CONFLICT})
        values = [self._value(commit) for commit in commits]
        if len(set(values)) == 1:
            return frozenset(values[:1])
        if len(commits) > WIDEST:
            return frozenset({CONFLICT})
        known = self._known.get((commits, level))
        if known is None:
            known = self._known[commits, level] = self._merge(commits, values, level)
        return known

    def _merge(
        self, commits: tuple[str, ...], values: list[bytes | None], level: int
    ) -> frozenset[_Outcome]:
        outcomes: set[_Outcome] = set()
        # with two commits, it does not matter which one comes last
        for place in range(len(commits) if len(commits) > 2 else 1):
            others = commits[:place] + commits[place + 1 :]
            below = self.outcomes(self._bases.below(others, commits[place]), level + 1)
            merged = self.outcomes(others, level)
            outcomes.update(
                _three_way(base, one, values[place]) for base in below for one in merged
            )
        return frozenset(outcomes)

    def _value(self, commit: str) -> bytes | None:
        if commit not in self.values:
            if len(self.values) >= MOST_BASES:
                raise _TooManyError
            self.values[commit] = self._bases.look_up(commit, self._key)
        return self.values[commit]


def _three_way(base: _Outcome, one: _Outcome, other: _Outcome) -> _Outcome:
    if one is CONFLICT or other is CONFLICT:
        return CONFLICT
    if one == other or base == other:
        return one
    return other if base == one else CONFLICT

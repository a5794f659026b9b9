"""Strategies: how a merge settles paths that both sides changed.

A strategy is a word, a resolver, or a mapping of patterns to these: a path comes before patterns,
and of these the first that matches counts. It is called for each conflict, so that decisions do not
depend on where ranges end.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from graveler.base.arguments import check_entry
from graveler.base.globs import compiled, literal_start
from graveler.committed.bases import CONFLICT, Unresolved
from graveler.committed.merge import Resolve, Whole
from graveler.errors import GravelerError, InvalidInputError, RetryableError
from graveler.model import Conflict, Entry
from graveler.reads.stores import Stores
from graveler.reads.view import Ref, View, literal_in
from graveler.refs.expression import resolve
from graveler.repository.origins import refuse_origin
from graveler.repository.writes.borrowed import Row, holding, rows_of
from graveler.repository.writes.links import linked
from graveler.values import decode_entry, staged_value

Resolver = Callable[[Conflict], Entry | str | None]
"""Decides a conflict. It returns ``source-wins`` or ``dest-wins`` for one side, including its
deletion, ``delete`` for no file, an entry of the conflict or another entry with its path, or None
or ``conflict`` to leave the conflict. A lost race can call it again for the same conflict.

A table of Delta Lake is one conflict. Its path is that of the log, as in ``tables/a/_delta_log``,
and it has no entries. Only a side or None is a valid result."""

Strategy = str | Mapping[str, str | Resolver | None] | Resolver
"""``source-wins`` or ``dest-wins``, a resolver, or one of these for each pattern of paths."""

_SIDES = ("source-wins", "dest-wins")
_LEAVE = "conflict"
_DELETE = "delete"
_Value = bytes | Literal[Unresolved.CONFLICT] | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """A strategy in the form for a merge of trees.

    Attributes:
        word: The strategy for conflicts that `resolve` leaves. None leaves them.
    """

    word: str | None = None
    resolve: Resolve | None = None
    whole: Whole | None = None


def check_strategy(strategy: Strategy | None) -> None:
    """Raise InvalidInputError for an unknown strategy."""
    if isinstance(strategy, Mapping):
        for pattern, item in strategy.items():
            if not isinstance(pattern, str):
                raise InvalidInputError(f"strategy for {pattern!r}: patterns are text")
            compiled(pattern)
            if not callable(item) and item not in (*_SIDES, _LEAVE, None):
                raise InvalidInputError(
                    f"strategy {item!r} for {pattern!r}: give source-wins, dest-wins, conflict or a "
                    "resolver function"
                )
    elif not callable(strategy) and strategy not in (*_SIDES, None):
        raise InvalidInputError(
            f"strategy {strategy!r}: give source-wins, dest-wins, a resolver function, a mapping of "
            "patterns to these, or None"
        )


def literal_first(stores: Stores, strategy: Strategy | None, *sides: str) -> Strategy | None:
    """Return a strategy whose paths come before its patterns."""
    if not isinstance(strategy, Mapping):
        return strategy

    def views() -> Iterator[View]:
        return (Ref(stores, resolve(stores.refs, side)) for side in sides)

    rules = {each: literal_in(views, each) for each in strategy}
    paths = [each for each, rule in rules.items() if rule != each or literal_start(each) == each]
    files = [each for each in paths if not each.endswith("/")]
    return {rules[each]: strategy[each] for each in (*files, *rules)}


@contextmanager
def settling(
    stores: Stores, strategy: Strategy | None, *sides: str, keep: bool = True
) -> Iterator[Settlement]:
    """Yield a strategy for merges within a block. Bytes that its resolvers name are not collected.

    Args:
        keep: Whether the merges will land. Otherwise nothing is written.
    """
    check_strategy(strategy)
    strategy = literal_first(stores, strategy, *sides)

    def linking(keep: Callable[[list[Row]], None]) -> Callable[[Entry], bytes | None]:
        def value(entry: Entry) -> bytes | None:
            refuse_origin(stores, sides[-1], entry.origin)
            rows = rows_of(*linked(stores, [entry]))
            keep(rows)
            return staged_value(rows[0].value)

        return value

    if strategy is None or isinstance(strategy, str):
        yield Settlement(strategy)
    elif not keep:
        yield _Settler(strategy, linking(lambda _: None)).settlement
    else:
        with holding(stores) as hold:
            yield _Settler(strategy, linking(hold.keep)).settlement


class _Settler:
    """A strategy that is more than a word."""

    def __init__(self, strategy: Strategy, value: Callable[[Entry], bytes | None]) -> None:
        self._linked = value
        rules = strategy if isinstance(strategy, Mapping) else {"**": strategy}
        self._rules = [(compiled(pattern), item) for pattern, item in rules.items()]
        self.settlement = Settlement(resolve=self._resolve, whole=self._whole)

    def _resolve(
        self, key: bytes, base: _Value, source: bytes | None, dest: bytes | None
    ) -> _Value:
        conflict = conflict_of(key, base, source, dest)
        answer = self._asked(conflict)
        if isinstance(answer, Entry):
            return self._value(answer, conflict, base, source, dest)
        if answer in _SIDES:
            return source if answer == "source-wins" else dest
        return None if answer == _DELETE else CONFLICT

    def _whole(self, name: bytes) -> str | None:
        conflict = conflict_of(name, None, None, None)
        answer = self._asked(conflict)
        if isinstance(answer, Entry) or answer == _DELETE:
            raise InvalidInputError(
                f"the resolver returned {answer!r} for {conflict.path!r}, which stands for a whole "
                "table: return source-wins, dest-wins, or None to leave the conflict"
            )
        return answer if answer in _SIDES else None

    def _asked(self, conflict: Conflict) -> Entry | str | None:
        """Return the result of the first rule for the conflict's path."""
        item = next((item for rule, item in self._rules if rule.fullmatch(conflict.path)), None)
        return _answer(item, conflict) if callable(item) else item

    def _value(
        self,
        entry: Entry,
        conflict: Conflict,
        base: _Value,
        source: bytes | None,
        dest: bytes | None,
    ) -> _Value:
        """Return the value record of an entry that a resolver returned."""
        if entry == conflict.source:
            return source
        if entry == conflict.dest:
            return dest
        if entry.path != conflict.path:
            raise InvalidInputError(
                f"the resolver returned an entry of {entry.path!r} for the conflict at "
                f"{conflict.path!r}: give it that path, by dataclasses.replace(entry, path=…)"
            )
        check_entry(entry)
        value = self._linked(entry)
        return base if entry == conflict.base else value


def _answer(resolver: Resolver, conflict: Conflict) -> Entry | str | None:
    path = conflict.path
    try:
        answer = resolver(conflict)
    except RetryableError as error:
        raise type(error)(f"the resolver failed at {path!r}: {error}") from error
    except GravelerError as error:
        raise InvalidInputError(f"the resolver failed at {path!r}: {error}") from error
    except Exception as error:
        raise InvalidInputError(
            f"the resolver failed at {path!r}: {type(error).__name__}: {error}"
        ) from error
    if isinstance(answer, Entry) or answer in (*_SIDES, _DELETE, _LEAVE, None):
        return answer
    raise InvalidInputError(
        f"the resolver returned {answer!r} for {path!r}: return source-wins, dest-wins, delete, an "
        "Entry of the path, or None to leave the conflict"
    )


def conflict_of(
    key: bytes,
    base: _Value,
    source: bytes | None,
    dest: bytes | None,
    origins: tuple[str, str] = ("", ""),
) -> Conflict:
    """Return a conflict with the entries of its value records, from commits of both sides."""
    return Conflict(
        path=key.decode("utf-8", "backslashreplace"),
        base=_entry(key, base),
        source=_entry(key, source, origins[0]),
        dest=_entry(key, dest, origins[1]),
        bases_disagree=base is CONFLICT,
    )


def _entry(key: bytes, value: _Value, origin: str = "") -> Entry | None:
    if not isinstance(value, bytes):
        return None
    return replace(decode_entry(key, value), origin=origin)

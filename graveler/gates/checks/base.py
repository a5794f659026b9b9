"""Built-in checks: their definition, their parameters, and the files that they judge."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import wraps
from importlib import import_module
from inspect import BoundArguments, Parameter, Signature, signature
from math import isnan
from posixpath import basename
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ParamSpec, get_args, get_origin

from graveler.base.arguments import choice, duration
from graveler.errors import InvalidInputError
from graveler.frames.footers import TableFile
from graveler.gates.candidate import Candidate, Tree
from graveler.gates.gate import BUILT_IN, OPTIONS, Check, Gate
from graveler.gates.statistics import brought, counts
from graveler.model import Entry
from graveler.tables.layout import folder, names_of

if TYPE_CHECKING:
    from graveler.tables.rows import TableSource

_P = ParamSpec("_P")

FilesCheck = Callable[[Candidate, list[Entry]], str | Iterable[str] | None]
"""Returns what is wrong with the files (at least one): a text, or several problems; or None."""

_SHOWN = 5
_MOST = 2**63 - 1
_SCOPES = ("changes", "all")
_MISSING = ("refuse", "allow")
_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    date: "a date",
    Decimal: "a decimal",
    datetime: "a time",
    timedelta: "a length of time",
    NoneType: "null",
}


@dataclass(frozen=True)
class BuiltIn:
    """A built-in check, identified by its kind and its parameters."""

    kind: str
    parameters: Mapping[str, Any] = field(hash=False)
    check: Check = field(compare=False, repr=False)

    def __call__(self, candidate: Candidate) -> bool | str | None:
        """Return why the candidate is refused, or None."""
        return self.check(candidate)

    @property
    def built_in(self) -> str:
        """What identifies the check: the version of graveler, its kind and its parameters."""
        version = sys.modules[__name__.partition(".")[0]].__version__
        return f"graveler {version} {self.kind} {sorted(self.parameters.items())}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _check_of, (self.kind, dict(self.parameters))


@dataclass(frozen=True)
class Rule:
    """The definition of a check for given arguments."""

    check: Check
    about: str
    prefix: str = ""
    also: tuple[str, ...] = ()
    reads: str | tuple[str, ...] = "content"


def built_in(define: Callable[_P, Rule]) -> Callable[_P, Gate]:
    """Make a built-in check of a function that defines one.

    The check takes the parameters of the function, compares their types with the annotations, and
    applies the options, which are fields of the gate.
    """
    taken = _signature(define)

    @wraps(define)
    def make(*args: _P.args, **given: _P.kwargs) -> Gate:
        named = {name: value for name, value in given.items() if name in taken.parameters}
        options = {name: value for name, value in given.items() if name not in named}
        prefixed = "prefix" in taken.parameters and "prefix" not in named
        no_prefix = ("",) if prefixed and named.get("table") else ()
        return _gate(define, taken.bind(*no_prefix, *args, **named), options)

    shown: Any = make
    shown.__signature__ = signature(define).replace(return_annotation=Gate)  # for help()
    BUILT_IN[define.__name__] = make
    return make


def gate_of(kind: str, parameters: Mapping[str, Any]) -> Gate:
    """Return the gate of a built-in check with stored parameters."""
    if kind not in BUILT_IN:
        raise InvalidInputError(
            f"no built-in check {kind!r}: there are {', '.join(sorted(BUILT_IN))}; a check of your "
            "own is named package.module:name"
        )
    define = getattr(import_module(__name__.rpartition(".")[0]), kind).__wrapped__
    taken = _signature(define)
    given = {"prefix": "", **parameters} if "prefix" in taken.parameters else parameters
    if unknown := [name for name in given if name not in taken.parameters]:
        raise InvalidInputError(f"check {kind}: got an unexpected keyword argument {unknown[0]!r}")
    try:
        ordered = {name: given[name] for name in taken.parameters if name in given}
        return _gate(define, BoundArguments(taken, ordered), {})
    except TypeError as error:
        raise InvalidInputError(f"check {kind} with {dict(parameters)}: {error}") from error


def _check_of(kind: str, parameters: Mapping[str, Any]) -> Check:
    return gate_of(kind, parameters).check


def _signature(define: Callable[..., Rule]) -> Signature:
    whole = signature(define)
    named = [value for value in whole.parameters.values() if value.kind is not value.VAR_KEYWORD]
    return whole.replace(parameters=named)


def _gate(define: Callable[..., Rule], bound: BoundArguments, options: Mapping[str, Any]) -> Gate:
    kind = define.__name__
    if odd := [name for name in options if name not in OPTIONS]:
        raise InvalidInputError(
            f"check {kind}: {odd[0]!r}: there is no such option; a gate has {', '.join(OPTIONS)}"
        )
    bound.apply_defaults()
    try:
        for name, value in bound.arguments.items():
            bound.arguments[name] = _parameter(bound.signature.parameters[name], value)
        rule = define(*bound.args, **bound.kwargs)
    except InvalidInputError as error:
        raise InvalidInputError(f"check {kind}: {error}") from error
    given: dict[str, Any] = {
        "name": f"{kind} {rule.about}".rstrip(),
        "prefix": rule.prefix,
        "also": rule.also,
        "reads": rule.reads,
        **options,
    }
    return Gate(check=BuiltIn(kind, dict(bound.arguments), rule.check), **given)


def _parameter(parameter: Parameter, value: Any) -> Any:
    """Return an argument as settings store it."""
    name, wanted = parameter.name, parameter.annotation
    types = get_args(wanted) if get_origin(wanted) is UnionType else (wanted,)
    if parameter.kind is Parameter.VAR_POSITIONAL:
        items = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        if not all(isinstance(item, str) for item in items):
            raise InvalidInputError(f"{name} {items!r}: give a list of texts")
        return items
    if timedelta in types and isinstance(value, str):
        value = duration(value, name)
    if not any(_is_of(value, kind) for kind in types):
        words = " or ".join(_WORDS.get(kind, "types by name") for kind in types)
        raise InvalidInputError(f"{name} {value!r}: give {words}")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        if Decimal(repr(float(value))) != value:
            raise InvalidInputError(f"{name} {value!r}: give a decimal of at most 15 digits")
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def _is_of(value: Any, wanted: Any) -> bool:
    if wanted in {int, float}:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        number = number and not (isinstance(value, float) and isnan(value))
        return number and (wanted is float or value % 1 == 0)  # 1e6 is whole
    if isinstance(wanted, type):
        return isinstance(value, wanted)
    return isinstance(value, (Mapping, list, tuple))  # a mapping, or pairs as JSON has them


def of_files(
    check: FilesCheck,
    prefix: str,
    scope: str,
    missing: str,
    *,
    table: str = "",
    nothing: Callable[[Candidate], str | None] | None = None,
    reads: str | tuple[str, ...] = "",
    also: tuple[str, ...] = (),
    whole: Callable[[Candidate], bool] | None = None,
) -> Rule:
    """Return the rule of a check of the files below a prefix, or of a table of the catalog."""
    choice(scope, "scope", _SCOPES), choice(missing, "missing", _MISSING)
    prefix = place_of(prefix, table)

    def check_candidate(candidate: Candidate) -> str | None:
        every = whole is not None and whole(candidate)
        chosen = "all" if every else scope
        entries = list(
            table_files(candidate, table, chosen) if table else files_of(candidate, prefix, chosen)
        )
        candidate.report(files=len(entries))
        if entries:
            return listed(check(candidate, entries))
        if missing == "allow" or candidate.restores:
            return None
        return nothing(candidate) if nothing else nothing_below(candidate, prefix, scope)

    return Rule(
        check_candidate,
        " ".join((table or prefix, *also)),
        prefix,
        also,
        reads or ("changes" if scope == "changes" and not table else "content"),
    )


def place_of(prefix: str, table: str) -> str:
    """Return the prefix of what a check reads: the given one, or the folder of a table of the catalog."""
    names = names_of(table)
    if table and (prefix or names is None):
        raise InvalidInputError(
            f"table {table!r} and prefix {prefix!r}: give one of them; a table is named as 'db.flights'"
        )
    return folder(names) if names else prefix


def source_of(tree: Tree, table: str) -> "TableSource | None":
    """Return the rows of a table of the catalog; None if a tree has no such table."""
    return tree.table(table).in_catalog


def table_files(candidate: Candidate, table: str, scope: str) -> list[Entry]:
    """Return the data files of a table of the catalog: those that the target's table lacks, or all."""
    after = source_of(candidate, table)
    if after is None:
        return []
    tasks = after.tasks(source_of(candidate.before, table) if scope == "changes" else None)
    written = datetime.fromtimestamp(after.metadata.last_updated_ms / 1000, UTC)
    files = [(task.file.file_path, task.file.file_size_in_bytes, task) for task in tasks]
    return [
        TableFile(f"{table}/{basename(at)}", at, size, mtime=written, source=after, task=task)
        for at, size, task in files
    ]


def files_of(candidate: Candidate, prefix: str, scope: str) -> Iterator[Entry]:
    """Yield the files below a prefix: the added and replaced ones, or all."""
    changes = scope == "changes"
    entries = brought(candidate.changes(prefix)) if changes else candidate.entries(prefix)
    return (entry for entry in entries if counts(entry))


def nothing_below(candidate: Candidate, prefix: str, scope: str) -> str | None:
    """Return why a candidate without files to judge is refused, or None."""
    if scope == "changes" and candidate.has_below(prefix):
        return None  # the run does not change the existing files
    return (
        f"there is nothing below {prefix!r}: correct the prefix, or let that pass with "
        "missing='allow'"
    )


def listed(problems: str | Iterable[str] | None) -> str | None:
    """Return problems as one text with the first five in full; None if there are none."""
    every = [problems] if isinstance(problems, str) else list(problems or ())
    if not every:
        return None
    more = f"; and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return "; ".join(every[:_SHOWN]) + more


def check_bounds(least: Any, most: Any, *, counts: bool = False) -> None:
    """Refuse bounds that no value can satisfy."""
    given = f"at_least {least!r} and at_most {most!r}"
    if counts and any(not 0 <= bound <= _MOST for bound in (least, most) if bound is not None):
        raise InvalidInputError(f"{given}: give numbers from 0 to {_MOST}")
    try:
        wrong = least is not None and most is not None and least > most
    except TypeError:
        raise InvalidInputError(f"{given}: give two of one type") from None
    if wrong:
        raise InvalidInputError(f"{given}: nothing lies between them: swap them")


def check_some_bound(missing: str, **bounds: float | None) -> None:
    """Refuse counts that every set of files satisfies, even the empty one."""
    if missing == "allow" and not any(
        bound or (bound == 0 and name.endswith("at_most")) for name, bound in bounds.items()
    ):
        given = ", ".join(f"{name} {bound!r}" for name, bound in bounds.items())
        raise InvalidInputError(f"{given} and missing 'allow': nothing is refused: give a bound")


def check_share(name: str, share: float | None, most: float, *, below: bool = False) -> None:
    """Refuse a share that looks like a percentage, or that every file satisfies."""
    if share is None or 0 <= share < most or (share == most and not below):
        return
    percent = f", {share / 100:g} for {share:g} %" if share > most else ""
    limit = f"to below {most:g}" if below else f"to {most:g}"
    raise InvalidInputError(f"{name} {share!r}: give a share from 0 {limit}{percent}")


def in_utc(time: date) -> datetime:
    """Return a time in UTC; one without a zone is in UTC already, and a date is its midnight."""
    if not isinstance(time, datetime):
        return datetime(time.year, time.month, time.day, tzinfo=UTC)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)

"""The fingerprint of a check, by which a stored verdict is matched with the code that gave it.

A fingerprint covers everything that the answer of a callable depends on: its code and constants,
its closure, and the globals that it names, if these are plain data, functions of the same package,
or builtins that behave the same everywhere. A check that reaches anything else, such as instances
of classes or functions of a library, has no fingerprint, and its verdicts are not stored.
"""

import builtins
import dis
import logging
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, cast

from graveler.model import ChangeKind

_log = logging.getLogger(__name__)

_MOST: Final = 100_000
_MISSING: Final = object()
_ATOMS: Final = frozenset(
    {type(None), type(...), bool, int, float, complex, str, bytes, date, timedelta, ChangeKind}
)
_LOOKED_UP: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF")
_ATTRIBUTE: Final = ("LOAD_ATTR", "LOAD_METHOD")
_REACHING: Final = ("IMPORT_NAME", "IMPORT_STAR", "STORE_GLOBAL", "DELETE_GLOBAL")
_FRAMES: Final = ("f_", "gi_", "cr_", "ag_", "tb_")
_BY_TEXT: Final = frozenset({"format", "format_map"})  # "{0.__globals__}".format(f)
_PLAIN_DUNDERS: Final = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})
_BUILTINS: Final = (
    abs, all, any, bin, bool, bytes, chr, complex, dict, divmod, enumerate, filter, float, frozenset,
    hex, int, isinstance, issubclass, iter, len, list, map, max, min, next, oct, ord, pow, print,
    range, repr, reversed, round, set, slice, sorted, str, sum, tuple, type, zip, timedelta, ChangeKind,
    *(one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, Exception)),
    *(one for one in vars(math).values() if callable(one)),
)  # fmt: skip
_ALIKE: Final[Mapping[int, str]] = {
    id(one): f"{one.__module__}.{one.__qualname__}"
    for one in _BUILTINS
    if isinstance(one, (type, BuiltinFunctionType))  # and not a replacement of it
}
"""Objects that behave the same everywhere, by identity: a name may be bound to something else."""


class ByVersion(ABC):
    """A built-in check, whose code is identified by the version of graveler."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the check."""


class _NotSureError(Exception):
    """A check has no fingerprint; the message says why."""


def fingerprint(check: Callable[..., Any]) -> str | None:
    """Return a hash of everything that a callable's answer depends on, or None if there is none.

    The hash is equal in every process of one Python version.
    """
    try:
        follower = _Follower(_home(check), [0])
        follower.text("rule", sys.version)
        follower.follow(check)
    except (_NotSureError, RecursionError) as why:
        _log.debug("verdicts of %r are not stored: %s", check, why)
        return None
    return follower.digest.hexdigest()


def _home(check: Any) -> str:
    """Return the package of a check."""
    while type(check) is partial:
        check = check.func
    return _package(check) if type(check) is FunctionType else ""


def _package(function: FunctionType) -> str:
    return str(function.__globals__.get("__name__")).partition(".")[0]


class _Follower:
    """Feeds a hash with a value and everything it reaches: each object once, later by its number.

    Args:
        home: The package of the check.
        counted: Number of values so far, shared by nested followers.
    """

    def __init__(self, home: str, counted: list[int]) -> None:
        self.digest = sha256()
        self._home = home
        self._counted = counted
        # keeps the objects alive, so that no new object gets the same id
        self._met: dict[int, tuple[int, Any]] = {}

    def text(self, *texts: Any) -> None:
        """Feed texts, or values whose representation is complete."""
        for text in texts:
            raw = text if isinstance(text, bytes) else _written(text)
            self.digest.update(len(raw).to_bytes(8, "big") + raw)

    def follow(self, value: Any) -> None:
        """Feed a value."""
        self._counted[0] += 1
        if self._counted[0] > _MOST:
            raise _NotSureError(f"it reaches more than {_MOST:,} values")
        kind = type(value)
        if kind in _ATOMS:
            self.text(kind.__name__, value)
        elif (name := _ALIKE.get(id(value))) is not None:
            self.text("builtin", name)
        elif (known := self._met.get(id(value))) is not None:
            self.text("again", known[0])
        else:
            self._met[id(value)] = (len(self._met), value)
            self._object(value, kind)

    def _object(self, value: Any, kind: type) -> None:
        parts = _PARTS.get(kind)
        if parts is not None:
            self._all(kind.__name__, parts(value))
        elif kind in (set, frozenset):
            self._set(value)
        elif kind is FunctionType:
            self._function(value)
        elif isinstance(value, ByVersion):
            self._by_version(value)
        else:
            raise _NotSureError(f"{kind.__module__}.{kind.__qualname__} is not followed")

    def _all(self, tag: str, values: Iterable[Any]) -> None:
        given = list(values)
        self.text(tag, len(given))
        for value in given:
            self.follow(value)

    def _set(self, values: Any) -> None:
        """Feed a set; its order differs between processes, so the digests of its values are sorted."""
        digests = []
        for value in values:
            apart = _Follower(self._home, self._counted)
            apart.follow(value)
            digests.append(apart.digest.digest())
        self.text(type(values).__name__, len(digests), *sorted(digests))

    def _function(self, value: FunctionType) -> None:
        if _package(value) != self._home:
            raise _NotSureError(f"{value.__qualname__} is of another package")
        names = (value.__name__, value.__qualname__, value.__module__, value.__doc__)
        self._all("function", (*names, value.__defaults__, value.__kwdefaults__, vars(value)))
        self._all("closure", (_contents(cell) for cell in value.__closure__ or ()))
        for code in _codes(value.__code__):
            self._all("code", (*_shape(code), *_constants(code)))
            for chain in _names(code):
                self.text("name", *chain)
                self.follow(_found(value, chain))

    def _by_version(self, value: ByVersion) -> None:
        """Feed a built-in check: the version of graveler, the parameters and the code of the class."""
        kind = type(value)
        package = kind.__module__.partition(".")[0]
        if package != __name__.partition(".")[0]:
            raise _NotSureError(f"class {kind.__qualname__} is of another package")
        self.text("version", sys.modules[package].__version__, kind.__module__, kind.__qualname__)
        for base in kind.__mro__:
            for name, held in vars(base).items():
                if isinstance(held, FunctionType):  # a patched method changes the hash
                    self.text(name, held.__code__.co_code, held.__code__.co_names)
        self.follow(value.parameters())


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions and classes within it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _shape(code: CodeType) -> tuple[Any, ...]:
    return (
        code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames, code.co_cellvars,
        code.co_freevars, code.co_flags, code.co_argcount, code.co_posonlyargcount,
        code.co_kwonlyargcount,
    )  # fmt: skip


def _constants(code: CodeType) -> Iterator[Any]:
    return ("code" if isinstance(one, CodeType) else one for one in code.co_consts)


def _names(code: CodeType) -> Iterator[tuple[str, ...]]:
    """Yield the global names that code looks up, each with the attributes that follow directly.

    Raises:
        _NotSureError: The code imports, sets a global, or uses a name that may reach any object.
    """
    for name in code.co_names:
        dunder = name.startswith("__") and name not in _PLAIN_DUNDERS
        if dunder or name.startswith(_FRAMES) or name in _BY_TEXT:
            raise _NotSureError(f"{code.co_qualname} uses {name}")
    steps = list(dis.get_instructions(code))
    for number, step in enumerate(steps):
        if step.opname in _REACHING:
            raise _NotSureError(f"{code.co_qualname} imports, or sets globals ({step.argval})")
        if step.opname in _LOOKED_UP:
            chain = [step.argval]
            for following in steps[number + 1 :]:
                if following.opname not in _ATTRIBUTE:
                    break
                chain.append(following.argval)
            yield tuple(chain)


def _found(function: FunctionType, chain: tuple[str, ...]) -> Any:
    """Return the value of a global name, or of the attribute that is read from a module."""
    known: Mapping[str, Any] = cast(Any, function).__builtins__  # not in every typeshed
    found = function.__globals__.get(chain[0], known.get(chain[0], _MISSING))
    for attribute in chain[1:]:
        if type(found) is not ModuleType:
            break
        found = vars(found).get(attribute, _MISSING)
    if found is _MISSING:
        raise _NotSureError(f"{function.__qualname__} uses {'.'.join(chain)}, which is not there")
    return found


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return "no contents"


def _written(value: Any) -> bytes:
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "surrogatepass")


_PARTS: Final[Mapping[type, Callable[[Any], Iterable[Any]]]] = {
    tuple: lambda value: value,
    list: lambda value: value,
    dict: lambda value: (one for pair in value.items() for one in pair),
    partial: lambda value: (value.func, value.args, value.keywords, vars(value)),
    re.Pattern: lambda value: (value.pattern, value.flags),
}

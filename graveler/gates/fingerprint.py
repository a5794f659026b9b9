"""The fingerprint of a check: it matches a stored verdict with the code that gave it.

A fingerprint covers everything that the answer of a callable depends on: its code and constants,
its closure, and the globals that it names, if these are plain data, functions of the same package,
or builtins that behave the same everywhere. A check that reaches anything else, such as an instance
of a class or a function of a library, has no fingerprint, and its verdicts are not stored.
"""

import builtins
import dis
import logging
import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from graveler.model import ChangeKind

_log = logging.getLogger(__name__)

_MOST = 100_000
_MISSING = object()
_ATOMS = frozenset(
    {type(None), type(...), bool, int, float, complex, str, bytes, date, timedelta, ChangeKind}
)
_PARTS: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {
    tuple: tuple,
    list: tuple,
    dict: lambda value: tuple(value.items()),
    partial: lambda value: (value.func, value.args, value.keywords, vars(value)),
    re.Pattern: lambda value: (value.pattern, value.flags),
}
_BUILTINS = (
    abs, all, any, bin, bool, bytes, chr, complex, dict, divmod, enumerate, filter, float, frozenset,
    hex, int, isinstance, issubclass, iter, len, list, map, max, min, next, oct, ord, pow, print,
    range, repr, reversed, round, set, slice, sorted, str, sum, tuple, type, zip, timedelta, ChangeKind,
    *(value for value in vars(builtins).values() if isinstance(value, type) and issubclass(value, Exception)),
    *(value for value in vars(math).values() if callable(value)),
)  # fmt: skip
_ALIKE: Mapping[int, str] = {
    id(value): f"{value.__module__}.{value.__qualname__}"
    for value in _BUILTINS
    if isinstance(value, (type, BuiltinFunctionType))  # and not a replacement of it
}
"""Objects that behave the same everywhere, by identity: a name may be bound to something else."""

_CODE = (
    "co_code", "co_exceptiontable", "co_names", "co_varnames", "co_cellvars", "co_freevars",
    "co_flags", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount",
)  # fmt: skip
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_REACHING = frozenset({"IMPORT_NAME", "IMPORT_STAR", "STORE_GLOBAL", "DELETE_GLOBAL"})
_REACHING_NAME = re.compile(r"(__|f_|gi_|cr_|ag_|tb_).*|format|format_map")
"""Attributes that lead to any object: ``f.__globals__``, frames, ``"{0.__globals__}".format(f)``."""


class ByVersion(ABC):
    """A check of graveler itself, identified by the version of graveler and by `identity`."""

    @abstractmethod
    def identity(self) -> tuple[Any, ...]:
        """Return the values that distinguish the checks of one version."""


class _UnknownError(Exception):
    """A check has no fingerprint; the message gives the reason."""


def fingerprint(check: Any) -> str | None:
    """Return a hash of everything that a callable's answer depends on, or None if there is none.

    The hash is equal in every process of one Python version.
    """
    try:
        if isinstance(check, ByVersion):
            version = sys.modules[__name__.partition(".")[0]].__version__
            whole: Any = (version, check.identity())
        else:
            whole = _Description(check).of(check)
        return sha256(repr((sys.version, whole)).encode()).hexdigest()
    except (_UnknownError, RecursionError) as error:
        _log.debug("verdicts of %r are not stored: %s", check, error)
        return None


class _Description:
    """Describes a value and everything it reaches as nested tuples of plain values.

    An object that is reached again is described by its number.

    Args:
        check: The check; functions of its package are followed.
    """

    def __init__(self, check: Any) -> None:
        while type(check) is partial:
            check = check.func
        self._home = _package(check)
        self._count = 0
        # holds the objects, so that no new object gets the same id
        self._reached: dict[int, tuple[int, Any]] = {}

    def of(self, value: Any) -> tuple[Any, ...]:
        """Return the description of a value."""
        self._count += 1
        if self._count > _MOST:
            raise _UnknownError(f"it reaches more than {_MOST:,} values")
        kind = type(value)
        if kind in _ATOMS:
            return kind.__name__, repr(value)
        if id(value) in _ALIKE:
            return "builtin", _ALIKE[id(value)]
        if id(value) in self._reached:
            return "again", self._reached[id(value)][0]
        self._reached[id(value)] = (len(self._reached), value)
        if kind in _PARTS:
            return kind.__name__, *map(self.of, _PARTS[kind](value))
        if kind in (set, frozenset):
            return kind.__name__, *self._unordered(value)
        if kind is FunctionType:
            return self._function(value)
        raise _UnknownError(f"{kind.__module__}.{kind.__qualname__} is not followed")

    def _unordered(self, values: Any) -> list[str]:
        """Return the descriptions of a set's values, sorted: its order differs between processes."""
        before = self._reached
        texts = []
        for value in values:
            self._reached = {}  # a number must not depend on the order
            texts.append(repr(self.of(value)))
        self._reached = before
        return sorted(texts)

    def _function(self, function: FunctionType) -> tuple[Any, ...]:
        if _package(function) != self._home:
            raise _UnknownError(f"{function.__qualname__} is of another package")
        reached: list[Any] = [function.__defaults__, function.__kwdefaults__, vars(function)]
        try:
            reached += [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:
            raise _UnknownError(f"{function.__qualname__} closes over an unset name") from None
        shapes = []
        for code in _codes(function.__code__):
            shapes.append(tuple(getattr(code, name) for name in _CODE))
            reached += [value for value in code.co_consts if type(value) is not CodeType]
            reached += [_value(function, names) for names in _globals(code)]
        return "function", tuple(shapes), *map(self.of, reached)


def _package(function: Any) -> str:
    """Return the package of a function; "" for anything else."""
    names = function.__globals__ if type(function) is FunctionType else {}
    return str(names.get("__name__", "")).partition(".")[0]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions and classes within it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _globals(code: CodeType) -> Iterator[list[str]]:
    """Yield the global names that code looks up, each with the attributes that follow directly."""
    for name in code.co_names:
        if _REACHING_NAME.fullmatch(name):
            raise _UnknownError(f"{code.co_qualname} uses {name}")
    names: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname in _REACHING:
            raise _UnknownError(f"{code.co_qualname} imports, or sets globals ({step.argval})")
        if names and step.opname in _ATTRIBUTE:
            names.append(step.argval)
            continue
        if names:
            yield names
        names = [step.argval] if step.opname in _GLOBAL else []


def _value(function: FunctionType, names: list[str]) -> Any:
    """Return the value of a global name, or of the attribute that is read from a module."""
    value = function.__globals__.get(names[0], getattr(builtins, names[0], _MISSING))
    for attribute in names[1:]:
        if type(value) is not ModuleType:
            break
        value = vars(value).get(attribute, _MISSING)
    if value is _MISSING:
        raise _UnknownError(f"{function.__qualname__} uses {'.'.join(names)}, which is not there")
    return value

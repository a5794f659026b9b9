"""Telling whether a rule is still the one that gave a verdict.

A rule is a callable and all that it reaches: its code, what it closes over and is called with by
default, and what it names. Each time it is followed anew, for what it names may have changed.
What cannot be followed surely makes a rule that cannot be told, whose verdicts are not kept.
"""

import builtins
import importlib
import logging
from collections.abc import Callable, Iterable, Iterator
from copyreg import dispatch_table
from functools import cached_property, lru_cache, partial
from hashlib import sha256
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
    WrapperDescriptorType,
)
from typing import Any, Final

from graveler.gates.bytecode import bytecode
from graveler.gates.libraries import is_there, library

__all__ = ["fingerprint"]

_log = logging.getLogger(__name__)

_MOST: Final = 100_000
_PROTOCOL: Final = 4
_IS_HEAP_TYPE: Final = 1 << 9
_ATOMS: Final = frozenset(
    {NoneType, EllipsisType, NotImplementedType, bool, int, float, complex, str, bytes, bytearray}
)
_PICKLING: Final = (
    "__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__",
)  # fmt: skip
_BOOKKEEPING: Final = frozenset(
    {"__dict__", "__weakref__", "_abc_impl", "__firstlineno__", "__static_attributes__"}
)
_ANYTHING: Final[tuple[Any, ...]] = (
    open, input, eval, exec, compile, globals, __import__, importlib.import_module,
)  # fmt: skip
"""By these a rule reaches what its code does not name."""


class _NotSureError(Exception):
    """A rule cannot be followed: why."""


def fingerprint(check: Callable[..., Any]) -> str | None:
    """Return a hash of all that a callable's answers depend on, None where that cannot be told.

    Followed: code, closures, defaults, attributes, and by name the functions, classes and
    values of its module and of others (``rules.ALLOWED``); of objects their class and their
    state. Libraries count by name and version. Not sure, so None: what has its state in C and
    cannot be pickled (files, locks, connections, generators), objects whose class says itself how
    it is pickled, a module that is passed around or imported within a function, ``open``,
    ``eval`` and the like, and more than 100,000 values.

    The hash is the same in every process of one version of Python.
    """
    try:
        follower = _Follower(_homes(check), [0])
        follower.follow(check)
    except _NotSureError as why:
        _log.debug("verdicts of %r are not kept: %s", check, why)
        return None
    except Exception:  # noqa: BLE001 - what pickles a value may raise anything
        _log.debug("verdicts of %r are not kept", check, exc_info=True)
        return None
    return follower.digest.hexdigest()


def _homes(check: Any) -> frozenset[str]:
    """Return the packages that a rule is of, which are looked into wherever they come from."""
    while isinstance(check, (partial, MethodType)):
        check = check.func if isinstance(check, partial) else check.__func__
    names = [getattr(check, "__module__", None), type(check).__module__]
    if isinstance(check, FunctionType):
        names.append(check.__globals__.get("__name__"))
    return frozenset(name.partition(".")[0] for name in names if isinstance(name, str))


class _Follower:
    """Feeds a hash with a value and all that it reaches; each object once, then by its number.

    Args:
        homes: Packages that are no libraries.
        counted: How many values were met, shared.
    """

    def __init__(self, homes: frozenset[str], counted: list[int]) -> None:
        self.digest = sha256()
        self._homes = homes
        self._counted = counted
        # kept, so that no other object gets the id of one that was met
        self._met: dict[int, tuple[int, Any]] = {}

    def follow(self, value: Any) -> None:
        """Feed a value."""
        self._counted[0] += 1
        if self._counted[0] > _MOST:
            raise _NotSureError(f"it reaches more than {_MOST:,} values")
        kind = type(value)
        if kind in _ATOMS:
            self._text(kind.__name__, value)
        elif kind is tuple:
            self._all("tuple", value)
        elif isinstance(value, (set, frozenset)):
            self._set(value)
        elif (known := self._met.get(id(value))) is not None:
            self._text("again", known[0])
        else:
            self._met[id(value)] = (len(self._met), value)
            _FOLLOWED.get(kind, _FOLLOWED[object])(self, value)

    def _text(self, *texts: Any) -> None:
        for text in texts:
            raw = text if isinstance(text, bytes) else _written(text)
            self.digest.update(len(raw).to_bytes(8, "big") + raw)

    def _all(self, tag: str, values: Iterable[Any]) -> None:
        given = list(values)
        self._text(tag, len(given))
        for value in given:
            self.follow(value)

    def _set(self, values: Any) -> None:
        """Feed a set, whose order differs from process to process."""
        digests = []
        for value in values:
            apart = _Follower(self._homes, self._counted)
            apart.follow(value)
            digests.append(apart.digest.digest())
        self._text("set", len(digests), *sorted(digests))
        self.follow(type(values))
        self.follow(getattr(values, "__dict__", None))

    def _by_name(self, module: Any, name: str) -> bool:
        """Feed what is told by name, if it is of a library; return whether it is."""
        version = library(module, self._homes)
        if version is not None:
            self._text("library", version, module, name)
        return version is not None

    def function(self, value: FunctionType) -> None:
        """Feed a function."""
        # where it was compiled: its __module__ may be that of another one, which it wraps
        module = value.__globals__.get("__name__")
        name = value.__qualname__
        self._must_be_told(value)
        if is_there(module, name, value) and self._by_name(module, name):
            return
        code = bytecode(value.__code__)
        self._text("function", code.instructions)
        self._all("constants", code.constants)
        for one in code.imports:
            if not self._by_name(one, ""):
                raise _NotSureError(f"{name} imports {one} when it runs")
        self._all("defaults", (value.__defaults__, value.__kwdefaults__, vars(value)))
        self._all("closure", (_contents(cell) for cell in value.__closure__ or ()))
        for chain in code.names:
            self._text("name", len(chain), *chain)
            self._named(value, chain)

    def _named(self, function: FunctionType, chain: tuple[str, ...]) -> None:
        """Feed what a function finds under a global name: of a module, what it takes of it."""
        first, *attributes = chain
        found = function.__globals__.get(first, vars(builtins).get(first, _MISSING))
        for attribute in attributes:
            if not isinstance(found, ModuleType):
                break
            inner = vars(found).get(attribute, _MISSING)
            if inner is _MISSING:
                if self._by_name(found.__name__, attribute):
                    return
                raise _NotSureError(f"{function.__qualname__} uses {'.'.join(chain)}")
            found = inner
        if found is _MISSING:
            self._text("missing")
        else:
            self.follow(found)

    def method(self, value: MethodType) -> None:
        """Feed a method that is bound to an object."""
        self._all("method", (value.__func__, value.__self__))

    def builtin(self, value: BuiltinFunctionType) -> None:
        """Feed a function in C, or such a method that is bound to an object."""
        owner = value.__self__
        self._must_be_told(value)
        if owner is not None and not isinstance(owner, ModuleType):
            self._text("method", value.__name__)
            self.follow(owner)
        elif not self._by_name(value.__module__ or getattr(owner, "__name__", ""), value.__name__):
            raise _NotSureError(f"{value!r} is compiled")

    def descriptor(self, value: Any) -> None:
        """Feed what a class in C has under a name."""
        if library(value.__objclass__.__module__, self._homes) is None and not isinstance(
            value, MemberDescriptorType
        ):
            raise _NotSureError(f"{value!r} is compiled")
        self._text("descriptor", value.__name__)
        self.follow(value.__objclass__)

    def klass(self, value: type) -> None:
        """Feed a class."""
        module, name = value.__module__, value.__qualname__
        static = not value.__flags__ & _IS_HEAP_TYPE
        if (static or is_there(module, name, value)) and self._by_name(module, name):
            return
        if static:
            raise _NotSureError(f"{value!r} is compiled")
        held = sorted((key, one) for key, one in vars(value).items() if key not in _BOOKKEEPING)
        self._text("class", name, *(key for key, _ in held))
        self._all("of", (type(value), value.__bases__, *(one for _, one in held)))

    def module(self, value: ModuleType) -> None:
        """Feed a module of which nobody knows what is used of it."""
        if not self._by_name(value.__name__, ""):
            raise _NotSureError(f"module {value.__name__} is passed around")

    def code(self, value: CodeType) -> None:
        """Refuse code that is data: nobody knows where it will run."""
        raise _NotSureError(f"{value!r} is passed around")

    def other(self, value: Any) -> None:
        """Feed any other object: what a pickle of it would hold."""
        if isinstance(value, type):
            self.klass(value)
            return
        kind = type(value)
        for base in kind.__mro__:
            for name in _PICKLING:
                self._must_be_whole(kind, vars(base).get(name))
        reducer = dispatch_table.get(kind)
        reduced = value.__reduce_ex__(_PROTOCOL) if reducer is None else reducer(value)
        if isinstance(reduced, str):
            module = getattr(value, "__module__", None) or kind.__module__
            if not self._by_name(module, reduced):
                raise _NotSureError(f"{value!r} is told by its name alone")
            self.follow(kind)
            return
        made, given, state, items, pairs = (*tuple(reduced), None, None, None)[:5]
        self._all("object", (kind, made, given, state))
        self._all("items", items or ())
        self._all("pairs", pairs or ())
        if library(kind.__module__, self._homes) is None:
            self._all("attributes", _attributes(value))  # what its base does not pickle

    def _must_be_told(self, value: Any) -> None:
        if value in _ANYTHING:
            raise _NotSureError(f"{value.__name__} is used, which may reach anything")

    def _must_be_whole(self, kind: type, pickling: Any) -> None:
        if isinstance(pickling, FunctionType):
            module = pickling.__globals__.get("__name__")
            if library(module, self._homes) is None:
                raise _NotSureError(f"{kind.__qualname__} has {pickling.__name__} of its own")


_MISSING: Final = object()


def _written(value: Any) -> bytes:
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "surrogatepass")


def _attributes(value: Any) -> Iterator[Any]:
    yield getattr(value, "__dict__", None)
    for base in type(value).__mro__:
        for name, slot in sorted(vars(base).items()):
            if isinstance(slot, MemberDescriptorType) and name != "__weakref__":
                yield getattr(value, name, None)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return "no contents"


@lru_cache(maxsize=8)
def _cached() -> None:
    """Have a type of what ``functools.lru_cache`` makes."""


_FOLLOWED: Final[dict[type, Callable[[_Follower, Any], None]]] = {
    FunctionType: _Follower.function,
    MethodType: _Follower.method,
    BuiltinFunctionType: _Follower.builtin,
    ClassMethodDescriptorType: _Follower.descriptor,
    GetSetDescriptorType: _Follower.descriptor,
    MethodDescriptorType: _Follower.descriptor,
    WrapperDescriptorType: _Follower.descriptor,
    MemberDescriptorType: _Follower.descriptor,
    type: _Follower.klass,
    ModuleType: _Follower.module,
    CodeType: _Follower.code,
    list: lambda to, value: to._all("list", value),
    dict: lambda to, value: to._all("dict", (one for pair in value.items() for one in pair)),
    MappingProxyType: lambda to, value: to._all("mapping", (dict(value),)),
    staticmethod: lambda to, value: to._all("static", (value.__func__,)),
    classmethod: lambda to, value: to._all("class method", (value.__func__,)),
    property: lambda to, value: to._all("property", (value.fget, value.fset, value.fdel)),
    cached_property: lambda to, value: to._all("cached", (value.func, value.attrname)),
    type(_cached): lambda to, value: to._all("cached", (value.__wrapped__, vars(value))),
    object: _Follower.other,
}

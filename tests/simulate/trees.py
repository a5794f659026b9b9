"""Trees are built once: what the same inputs gave before is given again.

Building, merging and reading a tree are functions of immutable, content-addressed inputs,
and by far the slowest part of a schedule. So they are remembered, over all schedules and
scenarios, with the objects they read and made: where they are given again, the objects read
must be there for the process that asks (else the shipped function runs, and fails as it
does), and the objects made are put as it would have put them. What a function takes from an
iterator, staged writes say, is taken first and all of it: those are the steps of a commit.
A simulated process has therefore no range cache.
Where every call is a step, nothing is remembered.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from enum import Enum
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import graveler
from graveler.committed import RangeCache, RangeStore
from graveler.committed.form import Piece
from graveler.committed.table import TableKind
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ANYTHING, Body, BodyReader, Expected
from tests.simulate.schedules.ports import SimulatedObjects

_COMMITTED = "graveler.committed"
_CACHE_BYTES = 1 << 20
_PLAIN = (str, bytes, int, type(None), Enum)


class _Recorder(MemoryStore):
    """Lets objects through, and notes which."""

    def __init__(self, objects: SimulatedObjects) -> None:
        super().__init__("recorder")
        self._behind = objects
        self.read: dict[str, None] = {}
        self.made: dict[str, bytes] = {}

    def get(self, key: str, expected: Expected = ANYTHING) -> bytes:
        if key in self.made:
            return self.made[key]
        content = self._behind.get(key, expected)
        self.read[key] = None
        return content

    def put_if_absent(self, key: str, body: Body) -> bool:
        with BodyReader(body) as reader:
            self.made[key] = b"".join(reader.pieces())
        return True


class _Tables(RangeStore):
    """Reads every table from the objects, but takes it apart once."""

    apart: ClassVar[dict[tuple[bytes, bytes | None], list[Piece]]] = {}

    def _fetch(self, identifier: bytes, kind: TableKind, digest: bytes | None) -> list[Piece]:
        data = self.objects.get(self.key(identifier)), digest
        if data not in self.apart:
            self.apart[data] = super()._fetch(identifier, kind, digest)
        return self.apart[data]


class _Memory:
    """What one function gave, by its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._known: dict[Any, tuple[Any, tuple[str, ...], dict[str, bytes]]] = {}

    def call(self, store: RangeStore, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        objects = store.objects
        if not isinstance(objects, SimulatedObjects) or objects.all_steps:
            return self._function(store, *arguments, **named)
        arguments = tuple(tuple(a) if _is_stream(a) else a for a in arguments)
        named = {name: tuple(a) if _is_stream(a) else a for name, a in named.items()}
        key = (arguments, tuple(sorted(named.items())))
        if not _is_plain(key):
            return self._function(store, *arguments, **named)
        known = self._known.get(key)
        if known is not None and all(objects.find(name) is not None for name in known[1]):
            result, _, made = known
        else:
            recorder = _Recorder(objects)
            cold = _Tables(recorder, RangeCache(None, _CACHE_BYTES))
            result = self._function(cold, *arguments, **named)
            result = tuple(result) if _is_stream(result) else result
            made = recorder.made
            self._known[key] = (result, tuple(recorder.read), made)
        for name, content in made.items():
            objects.put_bytes(name, content)
        return result


def _is_stream(value: Any) -> bool:
    return isinstance(value, Iterator)


def _is_plain(value: Any) -> bool:
    """Return whether equal values stand for equal things permanently."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN) or (
        is_dataclass(value) and type(value).__hash__ is not object.__hash__
    )


def _takes_store(value: Any) -> bool:
    if not inspect.isfunction(value) or not value.__module__.startswith(_COMMITTED):
        return False
    parameters = list(inspect.signature(value).parameters.values())
    return bool(parameters) and parameters[0].annotation in {RangeStore, "RangeStore"}


def _remembering(function: Callable[..., Any]) -> Callable[..., Any]:
    memory = _Memory(function)
    streams = inspect.isgeneratorfunction(function) or "Iterator" in str(
        inspect.signature(function).return_annotation
    )

    @wraps(function)
    def remembered(store: RangeStore, *arguments: Any, **named: Any) -> Any:
        result = memory.call(store, arguments, named)
        return iter(result) if streams else result

    return remembered


def _users() -> Iterator[ModuleType]:
    """Yield the modules that use trees: all that make none."""
    for package in ("refs", "repository", "runs", "gc", "lake"):
        root = import_module(f"{graveler.__name__}.{package}")
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            yield import_module(found.name)


_WRAPPED: dict[Callable[..., Any], Callable[..., Any]] = {}


@contextmanager
def remembered_trees() -> Iterator[None]:
    """Let every module that uses trees remember them while the block runs."""
    replaced: list[tuple[ModuleType, str, Any]] = []
    for module in _users():
        for name, value in list(vars(module).items()):
            if _takes_store(value):
                wrapped = _WRAPPED.get(value)
                if wrapped is None:
                    wrapped = _WRAPPED[value] = _remembering(value)
                replaced.append((module, name, value))
                setattr(module, name, wrapped)
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)


def forget() -> None:
    """Forget all trees: what is remembered is of the functions as they were."""
    _WRAPPED.clear()

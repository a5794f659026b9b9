"""A cache for trees: the same inputs give the same result without a second computation.

Building, merging and reading a tree are functions of immutable, content-addressed inputs.
They are by far the slowest part of a schedule. The cache keeps their results across all
schedules and scenarios, together with the objects that they read and wrote.

When a result is reused, the objects that it read must exist for the calling process. If one
is missing, the shipped function runs and fails as usual. The objects that the result wrote
are put, as the function would put them. If a function takes an iterator, for example staged
writes, the cache reads the iterator completely first: these reads are the steps of a commit.

A simulated process therefore has no range cache. If every call is a step, the cache is off.
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
from graveler.committed.bases import Bases
from graveler.committed.cache.form import Piece
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import TableKind
from graveler.committed.ranges.range_store import RangeStore
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ANYTHING, Body, BodyReader, Expected
from tests.simulate.schedules.ports import SimulatedObjects

_COMMITTED = "graveler.committed"
_CACHE_BYTES = 1 << 20
_PLAIN = (str, bytes, int, type(None), Enum)


class _Recorder(MemoryStore):
    """Forwards reads of objects, and records what is read and written."""

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
    """Reads every table from the objects, but decodes it once."""

    apart: ClassVar[dict[tuple[bytes, bytes | None], list[Piece]]] = {}

    def _fetch(self, identifier: bytes, kind: TableKind, digest: bytes | None) -> list[Piece]:
        data = self.objects.get(self.key(identifier)), digest
        if data not in self.apart:
            self.apart[data] = super()._fetch(identifier, kind, digest)
        return self.apart[data]


class _Memory:
    """The results of one function, by its arguments."""

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
    """Return whether two equal values always mean the same thing.

    A merge from several bases looks for the bases of these, and its reads of refs are steps.
    """
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Bases):
        return len(value.best) == 1
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
    """Yield the modules that use trees and do not implement them."""
    for package in ("refs", "repository", "runs", "gc", "lake"):
        root = import_module(f"{graveler.__name__}.{package}")
        yield root
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            yield import_module(found.name)


_WRAPPED: dict[Callable[..., Any], Callable[..., Any]] = {}


@contextmanager
def remembered_trees() -> Iterator[None]:
    """Wrap the tree functions of every module that uses trees while the block runs."""
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
    """Clear the cache: its results are those of the functions before an edit."""
    _WRAPPED.clear()

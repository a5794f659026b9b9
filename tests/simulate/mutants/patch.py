"""Breaking the shipped code on purpose, one place at a time, and mending it again."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from types import FunctionType
from typing import Any

from tests.simulate.trees import forget


class OutdatedMutantError(Exception):
    """The shipped code is no longer what the mutant was made for: update the mutant."""


@dataclass(frozen=True)
class Edit:
    """One change of a function's text.

    Attributes:
        where: ``module:function`` or ``module:Class.method``, below ``graveler``.
        old: What is there, once.
        new: What comes in its place.
    """

    where: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A protocol that is wrong in one respect.

    Attributes:
        name: Says what is wrong.
        edits: Make it so.
        scenarios: Where it should show, the likeliest first.
        deep: It shows after seconds of schedules; only ``make simulate`` hunts it.
    """

    name: str
    edits: tuple[Edit, ...]
    scenarios: tuple[str, ...]
    deep: bool = False


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Let the shipped code be the mutant's while the block runs.

    The code object of each function is exchanged, so that every importer has the new one.

    Raises:
        OutdatedMutantError: An edit does not fit the code any more.
    """
    with ExitStack() as stack:
        places = dict.fromkeys(edit.where for edit in mutant.edits)
        for where in places:
            edits = [edit for edit in mutant.edits if edit.where == where]
            stack.enter_context(_edited(mutant.name, where, edits))
        forget()
        yield
    forget()


@contextmanager
def _edited(name: str, where: str, edits: Sequence[Edit]) -> Iterator[None]:
    function = _function(name, where)
    source = inspect.getsource(function)
    for edit in edits:
        if source.count(edit.old) != 1:
            raise OutdatedMutantError(
                f"mutant {name!r}: {where} has {source.count(edit.old)} times {edit.old!r}"
            )
        source = source.replace(edit.old, edit.new)
    there: dict[str, Any] = {}
    code = compile(dedent(source), f"<mutant {name}>", "exec")
    exec(code, function.__globals__, there)  # noqa: S102 - our own code, a little changed
    original = function.__code__
    function.__code__ = inspect.unwrap(there[function.__name__]).__code__
    try:
        yield
    finally:
        function.__code__ = original


def _function(name: str, where: str) -> FunctionType:
    module, _, path = where.partition(":")
    found: Any = import_module(f"graveler.{module}")
    for part in path.split("."):
        found = getattr(found, part, None)
    found = inspect.unwrap(found) if isinstance(found, Callable) else found  # type: ignore[arg-type]
    if not isinstance(found, FunctionType):
        raise OutdatedMutantError(f"mutant {name!r}: there is no function {where}")
    return found


def one_edit(
    name: str, where: str, old: str, new: str, *scenarios: str, deep: bool = False
) -> Mutant:
    """Return the mutant that one edit makes."""
    return Mutant(name, (Edit(where, old, new),), scenarios, deep)

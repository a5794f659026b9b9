"""Edit the shipped code on purpose, one place at a time, and restore it."""

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
    """An edit no longer matches the shipped code: update the mutant."""


@dataclass(frozen=True)
class Edit:
    """One change of a function's source.

    Attributes:
        where: ``module:function`` or ``module:Class.method``, below ``graveler``.
        old: The text to replace; it occurs once.
        new: The text that replaces it.
    """

    where: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A protocol with one error.

    Attributes:
        name: A description of the error.
        edits: The edits that introduce it.
        scenarios: The scenarios that should detect it, the likeliest first.
        deep: Whether its detection takes seconds; only ``make simulate`` hunts a deep mutant.
    """

    name: str
    edits: tuple[Edit, ...]
    scenarios: tuple[str, ...]
    deep: bool = False


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Replace the shipped code with the mutant's code while the block runs.

    The code object of each function is replaced, so that every importer uses the new code.

    Raises:
        OutdatedMutantError: An edit no longer matches the code.
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
    function.__code__ = _bare(there[function.__name__]).__code__
    try:
        yield
    finally:
        function.__code__ = original


def _function(name: str, where: str) -> FunctionType:
    module, _, path = where.partition(":")
    found: Any = import_module(f"graveler.{module}")
    for part in path.split("."):
        found = inspect.getattr_static(found, part, None)
    found = _bare(found)
    if not isinstance(found, FunctionType):
        raise OutdatedMutantError(f"mutant {name!r}: there is no function {where}")
    return found


def _bare(found: Any) -> Any:
    """Return the function inside a property, a method or a decorator."""
    found = getattr(found, "fget", getattr(found, "__func__", found))
    return inspect.unwrap(found) if isinstance(found, Callable) else found  # type: ignore[arg-type]


def one_edit(
    name: str, where: str, old: str, new: str, *scenarios: str, deep: bool = False
) -> Mutant:
    """Return the mutant that one edit makes."""
    return Mutant(name, (Edit(where, old, new),), scenarios, deep)

"""The pickling of a check for another process: by name, if that process can import it.

An importable function is sent by the name of its module; so are built-in checks, methods, and
instances of importable classes. A lambda, a nested function, and a function of ``__main__`` or of a
module that an orchestrator loaded from a file cannot be imported: they reach a child process only
by a fork.
"""

import io
import pickle
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from graveler.errors import InvalidInputError
from graveler.gates.gate import Gate

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]]
_MAIN: Final = "__main__"


def found(module: str, name: str) -> Any:
    """Return the object at a dotted name of a module; for a gate, its check."""
    __import__(module)
    value: Any = sys.modules[module]
    for part in name.split("."):
        value = getattr(value, part)
    return value.check if isinstance(value, Gate) else value


def importable(module: str) -> bool:
    """Return whether another process would import the same module under that name."""
    ours = sys.modules.get(module.partition(".")[0])
    if module == _MAIN or ours is None or module not in sys.modules:
        return False
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(ours.__name__, None)
        if spec is not None:
            there = getattr(ours, "__spec__", None)
            return there is not None and spec.origin == there.origin
    return False


def path_of(check: Any) -> str | None:
    """Return ``package.module:name`` if a check can be imported from there, else None."""
    module, name = getattr(check, "__module__", None), getattr(check, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or "<" in name:
        return None
    try:
        same = importable(module) and found(module, name) is check
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if same else None


class _ByName(pickle.Pickler):
    """Pickles functions by name, including those that their module holds as a gate."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            path = path_of(value)
            if path is None:
                raise pickle.PicklingError(f"{value!r} cannot be imported elsewhere")
            if value is not found:  # which is pickled like any function
                return found, tuple(path.split(":"))
        if isinstance(value, type) and not importable(value.__module__):
            raise pickle.PicklingError(f"{value!r} cannot be imported elsewhere")
        return NotImplemented


def pickled(value: Any) -> bytes | None:
    """Return the pickled `value` for a fresh process; None if only a fork can have it."""
    buffer = io.BytesIO()
    try:
        _ByName(buffer).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, InvalidInputError):
        return None
    return buffer.getvalue()

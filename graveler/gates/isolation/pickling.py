"""How a check gets to another process: by name where that process can import it.

A function that can be imported again travels by the name of its module, and so do built-in
checks, methods, and objects of such classes. A lambda, a function within a function, one of
``__main__`` or of a module that an orchestrator loaded from a file of its own cannot: those reach
a child only as a fork of this process.
"""

import io
import pickle
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from graveler.errors import InvalidInputError
from graveler.gates.gate import Gate

__all__ = ["found", "importable", "path_of", "pickled"]

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]]
_MAIN: Final = "__main__"


def found(module: str, name: str) -> Any:
    """Return what a module has under a dotted name; of a gate, its check."""
    __import__(module)
    value: Any = sys.modules[module]
    for part in name.split("."):
        value = getattr(value, part)
    return value.check if isinstance(value, Gate) else value


def importable(module: str) -> bool:
    """Return whether another process would find the very module that we have of that name."""
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
    """Return ``package.module:name`` if that is where a check can be imported from, else None."""
    module, name = getattr(check, "__module__", None), getattr(check, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or "<" in name:
        return None
    try:
        same = importable(module) and found(module, name) is check
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if same else None


class _ByName(pickle.Pickler):
    """Pickles functions by name, those too that their module has as a gate."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            path = path_of(value)
            if path is None:
                raise pickle.PicklingError(f"{value!r} cannot be imported elsewhere")
            if value is not found:  # which pickles as any function does
                return found, tuple(path.split(":"))
        if isinstance(value, type) and not importable(value.__module__):
            raise pickle.PicklingError(f"{value!r} cannot be imported elsewhere")
        return NotImplemented


def pickled(value: Any) -> bytes | None:
    """Return `value` as bytes for a fresh process, None where it can only be forked."""
    buffer = io.BytesIO()
    try:
        _ByName(buffer).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, InvalidInputError):
        return None
    return buffer.getvalue()

"""The pickling of a check for another process: by name, if that process can import it.

Importable functions, built-in checks, methods, and instances of importable classes are sent by the
name of their module. A lambda, a nested function, and a function of ``__main__`` or of a module
that an orchestrator loaded from a file cannot be imported. They reach a child process only by a
fork.
"""

import io
import pickle
import sys
from collections.abc import Callable
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

from graveler.errors import InvalidInputError
from graveler.gates.gate import Gate

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]]
_MAIN = "__main__"


def resolve(path: str) -> Any:
    """Return the object at ``package.module:name``; for a gate, its check."""
    value = resolve_name(path)
    return value.check if isinstance(value, Gate) else value


def importable(module: str) -> bool:
    """Return whether another process would import the same module under that name."""
    package = sys.modules.get(module.partition(".")[0])
    if module == _MAIN or package is None or module not in sys.modules:
        return False
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(package.__name__, None)
        if spec is not None:
            loaded = getattr(package, "__spec__", None)
            return loaded is not None and spec.origin == loaded.origin
    return False


def path_of(check: Any) -> str | None:
    """Return ``package.module:name`` if another process can import a check from it, else None."""
    module, name = getattr(check, "__module__", None), getattr(check, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or "<" in name:
        return None
    path = f"{module}:{name}"
    try:
        return path if importable(module) and resolve(path) is check else None
    except (ImportError, AttributeError):
        return None


class _ByName(pickle.Pickler):
    """Pickles functions by name, including those that their module holds as a gate."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            path = path_of(value)
            if path is None:
                raise pickle.PicklingError(f"{value!r} cannot be imported elsewhere")
            if value is not resolve:  # `resolve` is pickled like any function
                return resolve, (path,)
        if isinstance(value, type) and not importable(value.__module__):
            raise pickle.PicklingError(f"{value!r} cannot be imported elsewhere")
        return NotImplemented


def pickled(value: Any) -> bytes | None:
    """Return the pickled `value` for a fresh process; None if only a fork can receive it."""
    buffer = io.BytesIO()
    try:
        _ByName(buffer).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, InvalidInputError):
        return None
    return buffer.getvalue()

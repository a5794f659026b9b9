"""Telling whether a function is still the one that gave a verdict."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any, Final

__all__ = ["fingerprint"]

_PLAIN: Final = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))

_Update = Callable[[bytes], None]


def fingerprint(check: Any) -> str:
    """Return a hash of a callable's code and of all the code and constants it reaches by name.

    Followed: closures, defaults, arguments of a ``functools.partial``, and module-level
    functions and plain constants that the code names. Not followed: methods of objects and
    what other modules hold; change a gate's name to have it judged anew after such a change.
    """
    digest = sha256()
    _feed(digest.update, check, set())
    return digest.hexdigest()


def _text(update: _Update, value: Any) -> None:
    update(repr(value).encode("utf-8", "surrogatepass") + b"\0")


def _feed(update: _Update, value: Any, seen: set[int]) -> None:
    if isinstance(value, partial):
        for part in (value.func, *value.args, *sorted(value.keywords.items())):
            _feed(update, part, seen)
    elif isinstance(value, FunctionType):
        # functions of one code differ by what they close over
        if id(value) in seen:
            return
        seen.add(id(value))
        _feed_code(update, value.__code__)
        _text(update, (value.__defaults__, value.__kwdefaults__))
        for cell in value.__closure__ or ():
            _feed(update, cell.cell_contents, seen)
        for name in _names(value.__code__):
            used = value.__globals__.get(name)
            if isinstance(used, (FunctionType, partial, *_PLAIN)):
                _text(update, name)
                _feed(update, used, seen)
    else:
        _text(update, value)


def _names(code: CodeType) -> list[str]:
    inner = [
        name for const in code.co_consts if isinstance(const, CodeType) for name in _names(const)
    ]
    return sorted({*code.co_names, *inner})


def _feed_code(update: _Update, code: CodeType) -> None:
    update(code.co_code)
    _text(update, code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed_code(update, constant)
        else:
            _text(update, constant)

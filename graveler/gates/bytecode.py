"""What compiled code does, and which names it looks up elsewhere."""

import dis
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, Final

__all__ = ["Bytecode", "bytecode"]

_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


@dataclass(frozen=True, slots=True)
class Bytecode:
    """A code object, those of functions and classes within it included.

    Attributes:
        instructions: All that is executed, but the constants; the same in every process.
        constants: In order.
        names: Global names that are looked up, each with the attributes that follow at once:
            ``("rules", "ALLOWED")`` for ``rules.ALLOWED``. Sorted.
        imports: Modules that are imported when it runs; with leading dots where relative.
    """

    instructions: bytes
    constants: tuple[Any, ...]
    names: tuple[tuple[str, ...], ...]
    imports: tuple[str, ...]


@lru_cache(maxsize=4096)  # of what cannot change: a function may get other code, code stays
def bytecode(code: CodeType) -> Bytecode:
    """Return what a code object does."""
    parts: list[bytes] = []
    constants: list[Any] = []
    names: set[tuple[str, ...]] = set()
    imports: set[str] = set()
    waiting = [code]
    while waiting:
        here = waiting.pop()
        inner = [isinstance(constant, CodeType) for constant in here.co_consts]
        shape = (
            here.co_names,
            here.co_argcount,
            here.co_posonlyargcount,
            here.co_kwonlyargcount,
            here.co_varnames,
            here.co_cellvars,
            here.co_freevars,
            here.co_flags,
            inner,
        )
        for part in (here.co_code, here.co_exceptiontable, repr(shape).encode()):
            parts += (len(part).to_bytes(8, "big"), part)
        constants += [one for one in here.co_consts if not isinstance(one, CodeType)]
        waiting += [one for one in here.co_consts if isinstance(one, CodeType)]
        _look_up(here, names, imports)
    return Bytecode(b"".join(parts), tuple(constants), tuple(sorted(names)), tuple(sorted(imports)))


def _look_up(code: CodeType, names: set[tuple[str, ...]], imports: set[str]) -> None:
    steps = list(dis.get_instructions(code))
    for number, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level = steps[number - 2].argval if number > 1 else 0
            imports.add("." * (level if isinstance(level, int) else 1) + step.argval)
        elif step.opname in _GLOBAL:
            chain = [step.argval]
            for following in steps[number + 1 :]:
                if following.opname not in _ATTRIBUTE:
                    break
                chain.append(following.argval)
            names.add(tuple(chain))

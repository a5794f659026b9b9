"""Which modules required gates may come from: the process says so, never the key-value store.

What branches require lies in the key-value store, as the name of code that is imported and
called. A writer to that store must not choose what runs here. Built-in checks are always
allowed.
"""

from collections.abc import Collection
from types import ModuleType
from typing import Any, Final

from graveler.errors import InvalidInputError

__all__ = ["check_home", "check_module"]

_OURS: Final = "graveler.gates"


def _is_within(module: str, allowed: Collection[str]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in allowed)


def check_module(module: str, allowed: Collection[str]) -> None:
    """Refuse a module that is not allowed; called before it is imported.

    Raises:
        InvalidInputError: It is not, with the line that would allow it.
    """
    if not _is_within(module, allowed):
        known = ", ".join(sorted(allowed)) or "none"
        raise InvalidInputError(
            f"this process takes required gates from no module {module!r} (allowed: {known}): to "
            f'allow it, add modules = ["{module}"] to [gates] of graveler.toml, or {module} to the '
            "variable GRAVELER_GATE_MODULES"
        )


def check_home(path: str, found: Any, allowed: Collection[str]) -> None:
    """Refuse what an allowed module has only imported: ``flights.checks:os.system``.

    Raises:
        InvalidInputError: It is a module, or made in a module that is not allowed.
    """
    home = getattr(found, "__module__", "")
    if isinstance(found, ModuleType) or not (
        isinstance(home, str) and _is_within(home, (*allowed, _OURS))
    ):
        raise InvalidInputError(
            f"gate {path!r} is not made in an allowed module, only imported there: name the module "
            "that makes it"
        )

"""The modules that required gates may come from.

The settings in the key-value store name code that this process imports and calls. A writer to that
store must not choose which code runs here, so the configuration of the process lists the modules
that are allowed. Built-in checks are always allowed.
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
    """Refuse a module that is not allowed, before it is imported.

    Raises:
        InvalidInputError: The module is not allowed; the message has the setting that allows it.
    """
    if not _is_within(module, allowed):
        known = ", ".join(sorted(allowed)) or "none"
        raise InvalidInputError(
            f"this process takes required gates from no module {module!r} (allowed: {known}): to "
            f'allow it, add modules = ["{module}"] to [gates] of graveler.toml, or {module} to the '
            "variable GRAVELER_GATE_MODULES"
        )


def check_home(path: str, found: Any, allowed: Collection[str]) -> None:
    """Refuse an object that an allowed module only imports, such as ``flights.checks:os.system``.

    Raises:
        InvalidInputError: The object is a module, or is defined in a module that is not allowed.
    """
    home = getattr(found, "__module__", "")
    if isinstance(found, ModuleType) or not (
        isinstance(home, str) and _is_within(home, (*allowed, _OURS))
    ):
        raise InvalidInputError(
            f"gate {path!r} is not made in an allowed module, only imported there: name the module "
            "that makes it"
        )

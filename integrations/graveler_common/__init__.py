"""Code that graveler's integrations with orchestrators share; it imports none of them."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]], *, needs: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: Its ``__name__``.
        homes: Its public names by their module below the package.
        needs: Name of the orchestrator's package, and of graveler's extra that installs it.
    """
    modules = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(modules[name]), name)
        except ModuleNotFoundError as error:
            if needs and (error.name or "").partition(".")[0] == needs:
                # imported here, so that a process that only describes the packages loads no engine
                from graveler.errors import MissingDependencyError  # noqa: PLC0415

                raise MissingDependencyError(
                    f"{package}.{name} needs {error.name}: pip install 'graveler[{needs}]'"
                ) from error
            raise
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(modules), sorted(modules)

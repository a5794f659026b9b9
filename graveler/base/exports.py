"""Names that a package exports lazily: they are loaded on first use."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_EXPORT = re.compile(r"^    from (\S+) import (?:\(\s+)?(\w+) as \2\b", re.MULTILINE)


def lazy_names(
    package: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its public names are those that its source imports for type checkers, each by itself:
    ``from graveler.model import Entry as Entry`` below ``if TYPE_CHECKING:``. A name must not be that
    of another module of the package, because an import of that module would replace it.
    """
    module = sys.modules[package]
    # every loader of a file, also that of pytest, can read it
    source = module.__loader__.get_data(module.__file__).decode()  # type: ignore[union-attr]
    homes = {name: home for home, name in _EXPORT.findall(source)}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = _loaded(package, homes[name], name)
        setattr(module, name, value)
        return value

    names = sorted(homes)
    return load, names.copy, names


def _loaded(package: str, home: str, name: str) -> Any:
    missing = object()
    found = missing if home == package else getattr(import_module(home), name, missing)
    return import_module(f"{home}.{name}") if found is missing else found

"""Names that a package exports lazily: they are loaded on first use."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Iterable[str]], *, modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    A name must not be that of another module of the package, because an import of that module would
    replace it.

    Args:
        package: The ``__name__`` of the package.
        homes: Its public names, by the module that defines them.
        modules: Modules that are attributes of the package, named by their last part.
    """
    places = {name: home for home, names in homes.items() for name in names}
    known = {module.rpartition(".")[2]: module for module in modules}

    def load(name: str) -> Any:
        if name in known:
            value: Any = import_module(known[name])
        elif name in places:
            value = getattr(import_module(places[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(places.keys() | known.keys())
    return load, names.copy, names

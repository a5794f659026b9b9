"""Libraries: code that counts by its name and version, and is not looked into."""

import importlib.util
import os
import re
import site
import sys
import sysconfig
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final

__all__ = ["is_there", "library"]

_PYTHON: Final = f"{sys.implementation.name} {sys.version.split()[0]}"


def library(module: Any, homes: frozenset[str]) -> str | None:
    """Return name and version of the library that a module is of, None where it is of none.

    Libraries are Python, graveler, and what was installed from an index. A package that was
    installed from a folder, a file or a repository is none: it may change and keep its version.

    Args:
        module: The module's name.
        homes: Packages that are no libraries, wherever they come from.
    """
    if not isinstance(module, str):
        return None
    top = module.partition(".")[0]
    loaded = getattr(sys.modules.get(top), "__dict__", {}).get("__version__")
    if top == "graveler":
        return f"{top} {loaded}"
    if top in sys.stdlib_module_names and _is_python(top):
        return _PYTHON
    found = None if top in homes else _installed(top)
    if found is None or (isinstance(loaded, str) and loaded not in found.values()):
        return None  # where it was upgraded since, nobody knows what is loaded
    return ", ".join(f"{name} {version}" for name, version in found.items())


def is_there(module: Any, name: str, value: Any) -> bool:
    """Return whether a loaded module has this very value under a dotted name."""
    there: Any = sys.modules.get(str(module))
    for part in name.split("."):
        there = getattr(there, part, None)
    return there is value


@lru_cache(maxsize=1024)
def _installed(top: str) -> dict[str, str] | None:
    """Return versions by name of what was installed from an index to be imported under a name."""
    if not _is_below(top, _site()):
        return None
    try:
        found = [metadata.distribution(top)]
    except metadata.PackageNotFoundError:  # PyYAML is imported as yaml
        recorded = re.compile(rf"^{re.escape(top)}[/.]", re.MULTILINE)
        found = [
            one
            for one in metadata.distributions()
            if recorded.search(one.read_text("RECORD") or "")
        ]
    if not (found and all(map(_is_from_index, found))):
        return None
    return {one.name: one.version for one in found}


def _is_from_index(distribution: metadata.Distribution) -> bool:
    # https://packaging.python.org/en/latest/specifications/direct-url/
    recorded = distribution.read_text("RECORD") is not None
    return recorded and distribution.read_text("direct_url.json") is None


@lru_cache(maxsize=1024)
def _is_python(top: str) -> bool:
    """Return whether a module is Python's own, not a namesake in a project."""
    if top in sys.builtin_module_names or getattr(_spec(top), "origin", "") == "frozen":
        return True
    paths = sysconfig.get_paths()
    own = _is_below(top, (paths["stdlib"], paths["platstdlib"]))
    return own and not _is_below(top, _site())


def _is_below(top: str, folders: Sequence[str]) -> bool:
    spec = _spec(top)
    places = [spec.origin] if spec and spec.origin else getattr(spec, _FOLDERS, None) or ()
    real = [Path(os.path.realpath(folder)) for folder in folders]
    return bool(places) and all(
        any(Path(os.path.realpath(place)).is_relative_to(folder) for folder in real)
        for place in places
    )


_FOLDERS: Final = "submodule_search_locations"


def _spec(top: str) -> ModuleSpec | None:
    if top in sys.modules:
        return getattr(sys.modules[top], "__spec__", None)
    return importlib.util.find_spec(top)


@lru_cache(maxsize=1)
def _site() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    places = (*site.getsitepackages(), site.getusersitepackages())
    return paths["purelib"], paths["platlib"], *places

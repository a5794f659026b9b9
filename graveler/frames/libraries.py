"""The libraries of frames, by the names of their packages and the types of their frames."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.frames.library import FrameLibrary

SPARK = "spark"

PACKAGES: Mapping[str, tuple[str, str]] = {
    "pandas": ("graveler.frames.drivers.pandas", "PandasLibrary"),
    "polars": ("graveler.frames.drivers.polars", "PolarsLibrary"),
    "pyarrow": ("graveler.frames.drivers.arrow", "ArrowLibrary"),
    "duckdb": ("graveler.frames.drivers.duckdb", "DuckdbLibrary"),
    "pyspark": ("graveler.frames.spark.library", "SparkLibrary"),
}
"""The module and the class of the library of each package. Only the first use of a library loads it."""

NAMES = (SPARK, "pandas", "polars", "pyarrow", "duckdb")
"""The names of the libraries."""


def library_of(kind: type) -> FrameLibrary | None:
    """Return the library of a frame type; None if it is not a frame."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0].removeprefix("_")  # DuckDB before 2.0
        if package in PACKAGES and (library := _load(package)).handles(kind):
            return library
    return None


def library_named(name: str) -> FrameLibrary:
    """Return the library of one of `NAMES`."""
    if name not in NAMES:
        raise InvalidInputError(f"no library of frames is named {name!r}: {', '.join(NAMES)} are")
    return _load("pyspark" if name == SPARK else name)


def full_name(kind: Any) -> str:
    """Return the name of a type with its module."""
    name = getattr(kind, "__qualname__", str(kind))
    module = getattr(kind, "__module__", "builtins")
    return name if module == "builtins" else f"{module}.{name}"


@cache
def _load(package: str) -> FrameLibrary:
    module, name = PACKAGES[package]
    try:
        library: FrameLibrary = getattr(import_module(module), name)()
    except ModuleNotFoundError as error:
        missing = (error.name or package).partition(".")[0]
        raise MissingDependencyError(
            f"frames of {package} need the package {missing}: `pip install {missing}`, or name "
            f"another library, as in as_='pandas', of {', '.join(NAMES)}"
        ) from error
    return library

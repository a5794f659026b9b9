"""Code that graveler's integrations with orchestrators share; it imports none of them."""

from collections.abc import Callable
from typing import Any

from graveler.base import exports


def lazy_names(
    package: str, needs: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the result of `exports.lazy_names`, with an error that names a missing extra.

    Args:
        package: The ``__name__`` of the package.
        needs: Name of the orchestrator's package, and of graveler's extra that installs it.
    """
    known, names, everything = exports.lazy_names(package)

    def load(name: str) -> Any:
        try:
            return known(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != needs:
                raise
            # imported here, so that a process that only describes the packages loads no engine
            from graveler.errors import MissingDependencyError

            raise MissingDependencyError(
                f"{package}.{name} needs {error.name}: pip install 'graveler[{needs}]'"
            ) from error

    return load, names, everything

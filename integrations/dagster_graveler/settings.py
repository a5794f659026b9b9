"""The check of a resource's settings when it is made: unknown and invalid settings are refused."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg
from pydantic import ConfigDict

from graveler.errors import InvalidInputError

NO_INPUT = ConfigDict(hide_input_in_errors=True)
"""Pydantic's errors would show all settings, passwords too."""

Checks = Mapping[str, Callable[[Any, str], object]]
"""For each setting, a function of its value and name that may raise InvalidInputError."""


def check_settings(kind: type[Any], given: Any, checks: Checks) -> Any:
    """Return the given settings.

    The run checks settings in a ``dg.EnvVar``, because it makes the resource again.

    Raises:
        InvalidInputError: One is unknown, or its check refuses it.
    """
    known = kind.model_fields
    if unknown := sorted(given.keys() - known.keys()):
        raise InvalidInputError(
            f"{', '.join(unknown)}: no such setting of {kind.__name__}: it has {', '.join(known)}"
        )
    for name in checks.keys() & given.keys():
        if not isinstance(given[name], dg.EnvVar | Mapping):
            checks[name](given[name], name)
    return given

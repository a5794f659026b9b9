"""The request for a page: its parameters, the time, and what its reader may see."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, urlencode

from graveler.base import arguments as args
from graveler.errors import InvalidInputError, PermissionDeniedError

_LONGEST = 4096


def address(repository: str = "", page: str = "", /, **parameters: object) -> str:
    """Return the address of a page; parameters that are "" or None are left out.

    Args:
        repository: The repository; "" for the page of the lake.
        page: Name of the page; "" for the page of the repository.
    """
    path = "/".join(quote(part, safe="") for part in (repository, page) if part)
    given = {name: str(each) for name, each in parameters.items() if each not in ("", None)}
    return f"/{path}" + (f"?{urlencode(given)}" if given else "")


def _everything(_repository: str) -> None:
    """Let a reader see every repository."""


@dataclass(frozen=True)
class Query:
    """The request for a page.

    Attributes:
        parameters: The parameters of the address.
        now: The time of the request.
        repository: Name of the repository; "" on the page of the lake.
        page: Name of the page; "" for the page of the repository.
        check: Raises PermissionDeniedError unless the reader may read a repository.
    """

    parameters: Mapping[str, str]
    now: datetime
    repository: str = ""
    page: str = ""
    check: Callable[[str], None] = field(default=_everything, compare=False)

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter; "" counts as not given.

        Raises:
            InvalidInputError: It has more than 4,096 characters.
        """
        value = self.parameters.get(name, "")
        if len(value) > _LONGEST:
            raise InvalidInputError(f"{name}: {len(value):,} characters: give at most {_LONGEST:,}")
        return value or default

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return a parameter that is one of `choices`; the first one if it is not given."""
        value = self.text(name, choices[0])
        if value not in choices:
            raise InvalidInputError(f"{name}={value!r}: give one of {', '.join(choices)}")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """Return a parameter that is a whole number from 0 to `most`."""
        value = self.text(name)
        if not value:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) < 20 and int(value) <= most):
            raise InvalidInputError(f"{name}={value!r}: give a whole number from 0 to {most:,}")
        return int(value)

    def moment(self, name: str) -> datetime | None:
        """Return a parameter that is a time in ISO 8601, UTC if it names no zone; None without one."""
        value = self.text(name)
        return args.moment(value, name) if value else None

    def link(self, page: str = "", /, **parameters: object) -> str:
        """Return the address of a page of the same repository; see `address`."""
        return address(self.repository, page, **parameters)

    def again(self, **changes: object) -> str:
        """Return the address of this page with other values of some parameters; "" removes one."""
        return address(self.repository, self.page, **{**self.parameters, **changes})

    def may_read(self, repository: str) -> bool:
        """Return whether the reader may read a repository."""
        try:
            self.check(repository)
        except PermissionDeniedError:
            return False
        return True

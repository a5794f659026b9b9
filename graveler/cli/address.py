"""``REF:PATH``: how the command line names a file of a tree."""

import re
from typing import Final, NamedTuple

from graveler.cli.failure import UsageError

__all__ = ["Address"]

_PARTS: Final = re.compile(r"([^:{]*@\{[^{}]*\}[^:]*|[^:]*):?(.*)", re.DOTALL)


class Address(NamedTuple):
    """A place in a tree.

    Attributes:
        ref: Branch, tag, commit or ref expression; "" for the default branch.
        path: Path or start of paths; "" for the whole tree.
    """

    ref: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Split at the first colon that is not in the braces of a time; a path may have many."""
        return cls(*_PARTS.findall(text)[0])

    @classmethod
    def of_file(cls, text: str) -> "Address":
        """Return an address that has a path.

        Raises:
            UsageError: It has none.
        """
        address = cls.parse(text)
        if not address.path:
            raise UsageError(f"{text!r} names no path: give REF:PATH, as in main:input/a.csv")
        return address

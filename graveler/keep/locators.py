"""Locators: the names of blocks, with hints.

Reading is lenient, as today's keepstore reads: a hint may be anything. Writing is strict, because
other parsers refuse more.
"""

import re
from dataclasses import dataclass, replace
from hashlib import md5
from typing import Self

from graveler.errors import InvalidInputError

BLOCK_BYTES = 64 << 20
"""The largest block."""

_DIGEST = re.compile(r"[0-9a-f]{32}")
_HINT = re.compile(r"[A-Z][A-Za-z0-9@_-]*")
_NUMBER = re.compile(r"[0-9]{1,19}")
_SIGNATURE = re.compile(r"A([0-9a-f]{40})@([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Locator:
    """The name of a block.

    Attributes:
        digest: The MD5 of the block, 32 lower-case hexadecimal digits.
        size: Its size in bytes; None if the text has none.
        hints: The hints in order, without ``+``: a letter, and what it says.
    """

    digest: str
    size: int | None
    hints: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the locator of a text.

        Raises:
            InvalidInputError: The text is not a digest, a size, which may be missing, and hints.
        """
        digest, *fields = text.split("+")
        if not _DIGEST.fullmatch(digest):
            raise _invalid(text, "it does not begin with 32 lower-case hexadecimal digits")
        size = int(fields.pop(0)) if fields and _NUMBER.fullmatch(fields[0]) else None
        if any(not field or field[0].isdecimal() for field in fields):
            raise _invalid(text, "after the size come hints, each a '+', a letter and its content")
        return cls(digest, size, tuple(fields))

    @classmethod
    def of(cls, content: bytes | bytearray | memoryview) -> Self:
        """Return the locator of a block's content."""
        return cls(md5(content, usedforsecurity=False).hexdigest(), len(content))

    @property
    def bare(self) -> str:
        """The text without hints, as a manifest without signatures has it."""
        return str(replace(self, hints=()))

    @property
    def is_remote(self) -> bool:
        """Whether a hint names another cluster."""
        return any(hint[0] == "R" for hint in self.hints)

    @property
    def signature(self) -> tuple[str, int] | None:
        """The signature, 40 hexadecimal digits, and when it expires, in seconds since 1970.

        None if there is not exactly one well-formed signature.
        """
        found = [hint for hint in self.hints if hint[0] == "A"]
        match = _SIGNATURE.fullmatch(found[0]) if len(found) == 1 else None
        return None if match is None else (match[1], int(match[2], 16))

    def signed(self, signature: str, expiry: int) -> Self:
        """Return the locator with this signature, behind all other hints, and no other one."""
        others = tuple(hint for hint in self.hints if hint[0] != "A")
        return replace(self, hints=(*others, f"A{signature}@{expiry:08x}"))

    def __str__(self) -> str:
        if self.size is None:
            raise _invalid(self.digest, "it has no size")
        for hint in self.hints:
            if not _HINT.fullmatch(hint):
                raise _invalid(f"{self.digest}+{hint}", "the hint is not of A-Z, a-z, 0-9, @, _, -")
        return "+".join((self.digest, str(self.size), *self.hints))


EMPTY = Locator("d41d8cd98f00b204e9800998ecf8427e", 0)
"""The block without bytes. Every server has it."""


def _invalid(text: str, fault: str) -> InvalidInputError:
    return InvalidInputError(f"{text[:200]!r} is not the locator of a block: {fault}")

"""``--meta NAME=VALUE``: pairs on the command line."""

from collections.abc import Iterable
from typing import Annotated

import typer

from graveler.cli.failure import UsageError

__all__ = ["MetaOption", "read_pairs"]

MetaOption = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="NAME=VALUE", help="A pair to keep with it; repeat for more."),
]


def read_pairs(texts: Iterable[str] | None) -> dict[str, str]:
    """Return the pairs.

    Raises:
        UsageError: One has no name or no ``=``.
    """
    pairs = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not (name and separator):
            raise UsageError(f"--meta {text!r}: give NAME=VALUE")
        pairs[name] = value
    return pairs

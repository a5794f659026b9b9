"""Options of verbs that list what may be long."""

from typing import Annotated

import typer

__all__ = ["LimitOption"]

LimitOption = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=0, help="At most so many.")
]

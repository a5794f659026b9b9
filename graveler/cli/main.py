"""The entry point of the command line, with all verbs."""

import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from graveler.cli.session import Options
from graveler.cli.verb import app as _app
from graveler.cli.verb import sign
from graveler.errors import printable

_VERBS = (
    "lakes refs copying files history programs runs gates ingest dumps fsck splitting maintenance "
    "serving.gateway serving.users serving.keep demo"
)
"""The modules of the verbs, in the order of the help."""

for _name in _VERBS.split():
    import_module(f"graveler.cli.verbs.{_name}")


def _version(wanted: bool) -> None:
    if wanted:
        from graveler import __version__

        typer.echo(f"graveler {__version__}")
        raise typer.Exit


def _before_verb(
    context: typer.Context,
    *,
    version: Annotated[
        bool, "Print the version.", {"callback": _version, "is_eager": True}
    ] = False,
    **shared: Any,
) -> None:
    context.obj = Options(**shared)


sign(_before_verb, _before_verb)
app = _app
app.callback()(_before_verb)


class _LogFormat(logging.Formatter):
    """Shows the control characters of a message, and those of the lines of a trace."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of `logging`
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - of `logging`
        return "\n".join(map(printable, super().formatException(ei).splitlines()))


def main() -> None:
    """Run the command line. Output that the caller has closed is discarded."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))
    log = logging.StreamHandler()
    log.setFormatter(_LogFormat())
    logging.basicConfig(handlers=[log])
    app(prog_name="graveler")

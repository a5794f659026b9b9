"""The entry point of the command line, with all verbs."""

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graveler.cli.session import Options
from graveler.cli.verb import DebugOption, JsonOption, LakeOption, RepoOption
from graveler.cli.verbs import (
    changes,
    copying,
    demo,
    dump,
    files,
    fsck,
    gates,
    gateway,
    gc,
    history,
    ingest,
    lakefs,
    lakes,
    maintain,
    pack,
    refs,
    runs,
    splitting,
    undo,
    why,
)
from graveler.errors import printable


class _Commands(TyperGroup):
    """The commands. Older versions of typer show an unknown argument as it is."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):
                error.message = printable(message)  # type: ignore[attr-defined] # of click
            raise


app = typer.Typer(
    name="graveler",
    cls=_Commands,
    help="Git for a data lake: every run on its own branch, main moves in one atomic step.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from graveler import __version__

        typer.echo(f"graveler {__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    context: typer.Context,
    *,
    lake: LakeOption = "",
    repo: RepoOption = "",
    as_json: JsonOption = False,
    debug: DebugOption = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    context.obj = Options(lake=lake, repo=repo, as_json=as_json, debug=debug)


for _group in (
    lakes,
    refs,
    copying,
    files,
    history,
    changes,
    undo,
    runs,
    why,
    gates,
    ingest,
    dump,
    lakefs,
    fsck,
    gc,
    splitting,
    pack,
    maintain,
    gateway,
    demo,
):
    _group.add_to(app)


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

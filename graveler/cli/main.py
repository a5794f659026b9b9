"""The entry point of the command line, with all verbs."""

import gc
import logging
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from graveler.cli.arguments import bash_words
from graveler.cli.session import Options
from graveler.cli.verb import app, sign
from graveler.config import environment, set_environment
from graveler.display import printable

_GARBAGE = 50_000  # new objects
_COUNTING = frozenset({"duckdb", "numpy"})
"""Packages that complain, or come with others that do, if objects are left when the process ends."""
_VERBS = {
    "lakes": "init repo links",
    "refs": "branch tag",
    "copying": "cp mv import",
    "files": "ls stat get put rm",
    "history": "commit merge revert cherry-pick reflog undo",
    "looking.status": "status",
    "looking.log": "log",
    "looking.changes": "show diff",
    "looking.folders": "tree du",
    "looking.contents": "cat head",
    "programs": "run",
    "runs": "run why",
    "gates": "gates",
    "ingest": "ingest",
    "iceberg": "iceberg",
    "dumps": "refs import-lakefs",
    "fsck": "fsck",
    "splitting": "splitting",
    "maintenance": "gc pack stats packing maintain",
    "serving.pages": "ui",
    "serving.gateway": "gateway",
    "serving.agents": "mcp",
    "serving.users": "user group policy token",
    "serving.keep": "keep",
    "serving.collections": "keep",
    "demo": "demo",
}
"""The modules of the verbs, and the first words of their verbs, in the order of the help."""


def load(words: Iterable[str] = ()) -> typer.Typer:
    """Return the commands: those of the verbs among `words`, or all if there are none.

    A call of one verb imports neither the others nor what they need.
    """
    given = set(words)
    wanted = [name for name, verbs in _VERBS.items() if not given.isdisjoint(verbs.split())]
    for name in wanted or _VERBS:
        import_module(f"graveler.cli.verbs.{name}")
    return app


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
app.callback()(_before_verb)


class _LogFormat(logging.Formatter):
    """Shows the control characters of a message, and those of the lines of a trace."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - of `logging`
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - of `logging`
        return "\n".join(map(printable, super().formatException(ei).splitlines()))


def main() -> None:
    """Run the command line. Output that the caller has closed is discarded."""
    # Searches for garbage take a quarter of the time of a verb: while modules are imported, and when
    # the process ends.
    gc.set_threshold(_GARBAGE)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))
    log = logging.StreamHandler()
    log.setFormatter(_LogFormat())
    logging.basicConfig(handlers=[log])
    words = sys.argv[1:]
    if environment("_GRAVELER_COMPLETE"):
        words = environment("_TYPER_COMPLETE_ARGS").split()[1:]
        if completed := environment("COMP_WORDS"):
            joined = bash_words(completed, int(environment("COMP_CWORD")))
            set_environment("COMP_WORDS", " ".join(joined))
            set_environment("COMP_CWORD", str(len(joined) - 1))
            words = joined[1:]
    helped = words[:1] in ([], ["-h"], ["--help"])
    try:
        load(() if helped else words)(prog_name="graveler")
    finally:
        if _COUNTING.isdisjoint(sys.modules):
            gc.freeze()

"""``graveler import-lakefs``: the history of a lakeFS repository."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from graveler.cli.failure import UsageError
from graveler.cli.session import Session
from graveler.cli.verb import verb


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    verb(app, "import-lakefs")(_import)


def _import(
    session: Session,
    source: Annotated[
        str, typer.Argument(help="The storage namespace: s3://bucket/prefix, or a folder.")
    ],
    repository: Annotated[
        str, typer.Argument(metavar="REPO", help="The repository; made if it is missing.")
    ],
    *,
    refs: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            exists=True,
            help="File with the output of `lakectl refs-dump`; else its dump in the namespace.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLACE", help="A place that files may be linked from; repeat for more."
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Rename a branch or tag; OLD= leaves it out."),
    ] = None,
    default_branch: Annotated[
        str, typer.Option(metavar="NAME", help="Default branch of a new repository.")
    ] = "",
    storage: Annotated[
        str, typer.Option(metavar="URI", help="Root of a new repository's objects.")
    ] = "",
    ignore_etags: Annotated[
        bool,
        typer.Option(
            "--ignore-etags",
            help="Do not use ETags as checksums: the namespace was copied, or is encrypted with KMS.",
        ),
    ] = False,
    skip_odd_paths: Annotated[
        bool,
        typer.Option(
            "--skip-odd-paths", help="Leave out paths with a part that is empty, '.' or '..'."
        ),
    ] = False,
    expire_missing: Annotated[
        bool,
        typer.Option("--expire-missing", help="Declare commits expired if their trees lack files."),
    ] = False,
) -> None:
    """Import the commits, branches and tags of a lakeFS repository; its files are not copied.

    May be repeated: only new data is read.
    """
    with session.progress("import") as progress:
        done = session.lake.import_lakefs(
            source,
            repository,
            refs=refs,
            allow=allow or (),
            rename=dict(map(_renaming, rename or ())),
            default_branch=default_branch,
            storage=storage or None,
            etags=not ignore_etags,
            skip_odd_paths=skip_odd_paths,
            expire_missing=expire_missing,
            progress=progress,
        )
    lines = [
        f"imported {done.commits} commits ({done.new_commits} new), {done.branches} branches and "
        f"{done.tags} tags into {done.repository}: {done.objects} entries in {done.ranges} new ranges"
    ]
    if done.skipped:
        lines.append(f"left out {done.skipped} entries because of their paths")
    if done.expired:
        lines.append(f"{done.expired} commits are expired: files of their trees are missing")
    session.out.show(asdict(done), *lines)


def _renaming(text: str) -> tuple[str, str]:
    old, separator, new = text.partition("=")
    if not separator:
        raise UsageError(f"--rename {text!r}: give OLD=NEW")
    return old, new

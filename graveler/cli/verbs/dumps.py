"""Histories in one piece: ``graveler refs`` and ``graveler import-lakefs``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.failure import UsageError
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import environment

if TYPE_CHECKING:
    from graveler.refs.dump import Contents


@verb("refs dump")
def _dump(session: Session, file: Annotated[Path, {"dir_okay": False}]) -> None:
    """Write branches, tags, protection and all commits they reach to a file.

    The file lacks staged writes, runs and the log of moves. Objects stay where they are.

    Args:
        file: The file; replaced if it exists.
    """
    contents = session.repository.dump_refs(file)
    shape = _shape(session.repository.name, contents)
    session.out.show(shape, f"dumped {_counts(shape)} to {file}")


@verb("refs restore")
def _restore(
    session: Session,
    file: Annotated[Path, {"dir_okay": False, "exists": True}],
    *,
    storage: str = "",
    take_over: bool = False,
    missing: int | None = None,
) -> None:
    """Restore a dump into the repository that it names; a missing repository is made.

    Existing refs stay. Every id is recomputed before anything is written.

    Args:
        file: A dump.
        storage (URI): Root of the objects; else the one in the dump.
        take_over: Take over the storage of the lake that its marker names; it must no longer
            exist.
        missing (N): Accept N commits whose trees are incomplete; they expire.
    """
    from graveler.refs.dump import read_dump

    named = session.options.repo or environment("GRAVELER_REPO")
    repository = session.lake.restore_repository(
        file, name=named or None, storage=storage or None, take_over=take_over, missing=missing
    )
    contents = read_dump(file)
    expired = repository.stores.refs.expired
    gone = {name for name, record in expired.list() if record.gone}
    branches = [name for name, (head, _) in contents.branches.items() if head in gone]
    tags = [name for name, head in contents.tags.items() if head in gone]
    shape = _shape(repository.name, contents)
    shape["branches"] -= len(branches)
    shape["tags"] -= len(tags)
    shape["left_out"] = {"branches": branches, "tags": tags}
    lines = [f"restored {_counts(shape)} into {repository.name}"]
    if branches or tags:
        names = [*(f"branch {name!r}" for name in branches), *(f"tag {name!r}" for name in tags)]
        lines.append(f"left out, because parts of their trees are missing: {', '.join(names)}")
    session.out.show(shape, *lines)


def _shape(name: str, contents: "Contents") -> dict[str, Any]:
    return {
        "repository": name,
        "commits": len(contents.generations),
        "branches": len(contents.branches),
        "tags": len(contents.tags),
    }


def _counts(shape: dict[str, Any]) -> str:
    return f"{shape['commits']} commits, {shape['branches']} branches and {shape['tags']} tags"


@verb("import-lakefs")
def _import(
    session: Session,
    source: str,
    repository: str,
    *,
    refs: Annotated[Path | None, {"dir_okay": False, "exists": True}] = None,
    allow: list[str] | None = None,
    rename: list[str] | None = None,
    default_branch: str = "",
    storage: str = "",
    ignore_etags: bool = False,
    skip_odd_paths: bool = False,
    expire_missing: bool = False,
) -> None:
    """Import the commits, branches and tags of a lakeFS repository; its files are not copied.

    May be repeated: only new data is read.

    Args:
        source: The storage namespace: s3://bucket/prefix, or a folder.
        repository (REPO): The repository; made if it is missing.
        refs: File with the output of `lakectl refs-dump`; else its dump in the namespace.
        allow (PLACE): A place that files may be linked from; repeat for more.
        rename (OLD=NEW): Rename a branch or tag; OLD= leaves it out.
        default_branch (NAME): Default branch of a new repository.
        storage (URI): Root of a new repository's objects.
        ignore_etags: Do not use ETags as checksums: the namespace was copied, or is encrypted
            with KMS.
        skip_odd_paths: Leave out paths with a part that is empty, '.' or '..'.
        expire_missing: Declare commits expired if their trees lack files.
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

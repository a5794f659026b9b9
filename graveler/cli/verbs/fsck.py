"""``graveler fsck``: check that everything the lake needs is present and sound."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from graveler.cli.arguments import read_rate
from graveler.cli.failure import ERROR, UsageError
from graveler.cli.output import Output
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import environment
from graveler.display import size_text
from graveler.errors import KVOutdatedError

if TYPE_CHECKING:
    from graveler.fsck.check import FsckReport, Problem
    from graveler.lake import Repository


_SHOWN = 5


@verb("fsck")
def _fsck(
    session: Session,
    *,
    checksums: bool = False,
    no_objects: bool = False,
    resume: bool = False,
    rate: str = "",
    expire_missing: bool = False,
    missing: int | None = None,
) -> None:
    """Find missing and damaged objects; exit with 1 if there are any.

    It checks all repositories of the lake, or the one of --repo. Nothing is repaired.

    Args:
        checksums: Read every object and compare its checksum.
        no_objects: Check metadata only.
        resume: With --checksums: continue where the last check stopped.
        rate (RATE): With --checksums: limit the reading rate, as 50MB/s.
        expire_missing: First record commits whose trees are incomplete as expired, or whole
            again.
        missing (N): With --expire-missing: accept N; else 5 % and no head.
    """
    if checksums and no_objects:
        raise UsageError("--checksums and --no-objects: give one of them")
    if (resume or rate) and not checksums:
        raise UsageError("--resume and --rate need --checksums: give it too")
    bytes_per_second = read_rate("--rate", rate) if rate else None
    shapes = []
    outdated = _outdated(session)
    for repository in _repositories(session):
        if expire_missing:
            repository.expire_missing(missing=missing)
        with session.progress(repository.name) as progress:
            report = repository.fsck(
                objects="none" if no_objects else "checksum" if checksums else "exist",
                progress=progress,
                rate=bytes_per_second,
                resume=resume,
            )
        shapes.append({"repository": repository.name, **asdict(report)})
        _show_report(session.out, repository.name, report)
    sound = not outdated and not any(shape["problems"] for shape in shapes)
    session.out.show({"sound": sound, "outdated": outdated, "repositories": shapes})
    if not sound:
        raise typer.Exit(ERROR)


def _outdated(session: Session) -> list[str]:
    """Return the problems of a key-value store that is older than the object store's witness."""
    messages = []
    checks = [
        session.lake.check_kv,
        *(repository.check_kv for repository in _repositories(session)),
    ]
    for check in checks:
        try:
            check()
        except KVOutdatedError as error:
            messages.append(str(error))
            session.out.tell(session.out.style(f"outdated: {error!s}", "red"))
    return messages


def _repositories(session: Session) -> "list[Repository]":
    if session.options.repo or environment("GRAVELER_REPO"):
        return [session.repository]
    return [session.lake.repository(name) for name in session.lake.repositories()]


def _show_report(out: Output, name: str, report: "FsckReport") -> None:
    for problem in report.problems:
        out.tell(*_lines(out, problem))
    counted = ("refs", "commits", "metaranges", "ranges", "objects")
    looked = ", ".join(f"{getattr(report, what)} {what}" for what in counted)
    looked += f", {report.expired} expired" if report.expired else ""
    read = f" ({size_text(report.hashed)} read)" if report.hashed else ""
    read += f", {report.resumed} of them found sound before" if report.resumed else ""
    count = len(report.problems)
    verdict = (
        out.style("sound", "green")
        if report.sound
        else out.style(f"{count} {'problem' if count == 1 else 'problems'}", "red")
    )
    out.tell(f"{name}: {verdict}; {looked}{read}")


def _lines(out: Output, problem: "Problem") -> Iterator[str]:
    what = out.style(f"{problem.kind} {problem.id}", "red")
    yield f"{what}: {problem.message}"
    for title, names in (("needed by", problem.refs), ("paths", problem.paths)):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            yield f"  {title}  {', '.join(names[:_SHOWN])}{more}"

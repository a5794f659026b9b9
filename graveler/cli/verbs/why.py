"""``graveler why``: the commit, the run, the step, the gates and the inputs behind a path."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.session import Session
from graveler.cli.shapes import shape_of
from graveler.cli.verb import verb
from graveler.errors import InvalidInputError, ObjectNotFoundError, RefNotFoundError

if TYPE_CHECKING:
    from graveler.lake import Repository
    from graveler.runs.provenance import Why
    from graveler.runs.state import Publish


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    verb(app, "why")(_why)


def _why(
    session: Session,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH[:REF]", help="A path, as in output/05:00/a or output/05:00/a:v1."
        ),
    ],
) -> None:
    """Show the origin of a path: commit, run, step, gates and inputs."""
    why, ref = _find(session.repository, path)
    session.out.show(_shape(why, ref), *_lines(why, ref))


def _find(repository: "Repository", text: str) -> tuple["Why", str]:
    """Return the provenance of the path, and its ref.

    A path may have colons. The whole text is first tried as a path. Then the part after the last
    colon, or before the first one, is tried as a ref.
    """
    default = repository.stores.default_branch
    path, _, ref = text.rpartition(":")
    first, _, rest = text.partition(":")
    missing: ObjectNotFoundError | None = None
    for candidate, at in ((text, default), (path, ref), (rest, first)):
        if not (candidate and at):
            continue
        try:
            return repository.why(candidate, at), at
        except ObjectNotFoundError as error:
            missing = missing or error
        except (RefNotFoundError, InvalidInputError):
            continue
    raise missing or ObjectNotFoundError(f"nothing at {text!r} in {default!r}")


def _shape(why: "Why", ref: str) -> dict[str, Any]:
    return {
        "path": why.path,
        "ref": ref,
        "entry": shape_of(why.entry),
        "commit": shape_of(why.commit),
        "made": shape_of(why.made),
        "key": why.key or None,
        "attempt": why.attempt or None,
        "step": why.step or None,
        "try": why.try_number or None,
        "gates": list(why.gates),
        "verdicts": shape_of(why.verdicts),
        "inputs": shape_of(why.inputs),
        "origin": shape_of(why.origin),
        "run": shape_of(why.run),
        "publish": shape_of(why.publish),
    }


def _lines(why: "Why", ref: str) -> Iterator[str]:
    for name, value in _fields(why, ref):
        yield f"{name:9}  {value}"


def _now(why: "Why") -> str:
    """Return the fate of the attempt, and the state of the run's latest attempt."""
    if why.run is None:
        return "its record is gone"
    publish, state = why.publish, why.run.state
    fate = "" if publish is None or state == "ROLLED_BACK" else _fate(publish)
    if why.run.attempt == why.attempt:
        return f"now {state}{fate}"
    word = "" if publish is None else f"PUBLISHED{fate}; "
    return f"{word}attempt {why.run.attempt} is {state} now"


def _fate(publish: "Publish") -> str:
    """Return the fate of a publish on its target; "" while it stands."""
    if publish.lost:
        return f", {publish.into} has lost it"
    return f", rolled back by {publish.rollback[:12]}" if publish.rollback else ""


def _fields(why: "Why", ref: str) -> Iterator[tuple[str, str]]:
    kind = "  (folder)" if why.is_folder else "  (deleted)" if why.entry is None else ""
    yield "path", f"{ref}:{why.path}{kind}"
    title = next(iter(why.commit.message.splitlines()), "")
    yield "commit", f"{why.commit.id[:12]}  {title}"
    by = f"{why.commit.committer}, " if why.commit.committer else ""
    yield "at" if not by else "by", f"{by}{why.commit.created:%Y-%m-%d %H:%M:%S} UTC"
    if why.made.id != why.commit.id:
        yield "made in", why.made.id[:12]
    if why.key:
        yield "run", f"{why.key}, attempt {why.attempt} ({_now(why)})"
    if why.step:
        yield "step", f"{why.step}, try {why.try_number}"
    if why.origin is not None:
        yield from why.origin.metadata().items()
    verdicts = {verdict.gate: verdict for verdict in why.verdicts}
    for gate in why.gates:
        verdict = verdicts.get(gate)
        passed = verdict is None or verdict.passed
        yield "gate", gate + (": passed" if passed or verdict is None else f": {verdict.reason}")
    for read in why.inputs:
        yield "read", f"{read.commit[:12]}:{read.prefix}"
    if why.is_folder:
        yield "earlier", f"graveler log {ref} {why.path} --first-parent"

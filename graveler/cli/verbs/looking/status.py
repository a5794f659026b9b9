"""``graveler status``: a branch, what is staged on it, and what may come next."""

from collections import deque
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.output import field_lines
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.cli.verbs.looking.changes import Totals, by_text, change_line, staged_shape
from graveler.display import title
from graveler.lake.shapes import shape_of
from graveler.refs.history import outside
from graveler.runs.records import RunRecords

if TYPE_CHECKING:
    from graveler.lake import Repository, RunRecord
    from graveler.model import Commit

_Field = tuple[str, str]


@verb("status")
def _status(session: Session, branch: str = "", *, limit: Annotated[int, {"min": 0}] = 10) -> None:
    """Show a branch: its head, its staged changes, its runs, its gates, and what may come next.

    Args:
        branch: The branch; else the default branch.
        limit (-n N): Show the first N staged changes and runs.
    """
    repository, at = session.repository, session.branch(branch)
    head, totals = at.head, Totals()
    changes = totals.counted(at.uncommitted())
    staged = list(islice(changes, limit))
    deque(changes, maxlen=0)
    live = RunRecords(repository.stores).live()
    runs = [run for run in live if at.name in (run.into, run.branch)]
    gates = _matching(repository.gates.settings(), at.name)
    shape = {
        "branch": at.name,
        "head": shape_of(head),
        **_distance(repository, head.id),
        "staged": {**totals.shape, "files": [*map(staged_shape, staged)]},
        "runs": shape_of(runs),
        "gates": [gate.encode() for gate in gates],
        "protected_against": sorted(_matching(repository.protection.list(), at.name)),
    }
    commands = dict(_next(shape, totals, runs))
    fields = [
        *_own_fields(session, head, shape),
        ("staged", totals.text() if totals.files else "nothing"),
        *(("", change_line(session.out, change) + by_text(change)) for change in staged),
        *_more(totals.files - len(staged), f"diff {at.name}"),
        *_run_fields(session, runs[:limit]),
        *_more(len(runs) - limit, "run list --live"),
        ("gates", ", ".join(gate.options.get("name") or gate.check for gate in gates)),
        ("rules", ", ".join(f"no {action}" for action in shape["protected_against"])),
        *(
            ("" if number else "next", f"{command}  {session.out.style(f'({does})', dim=True)}")
            for number, (command, does) in enumerate(commands.items())
        ),
    ]
    lines = field_lines([(name, text) for name, text in fields if text], 6)
    session.out.show({**shape, "next": list(commands)}, *lines)


def _distance(repository: "Repository", head: str) -> dict[str, Any]:
    """Return how many commits a head is ahead of the default branch, and behind it."""
    default, commits = repository.stores.default_branch, repository.stores.refs.commits
    sides = (head, repository.commit(default).id)
    ahead, behind = (sum(1 for _ in outside(commits, *pair)) for pair in (sides, sides[::-1]))
    return {"default": default, "ahead": ahead, "behind": behind}


def _matching(rules: Mapping[str, tuple[Any, ...]], branch: str) -> list[Any]:
    return [one for pattern, them in rules.items() if fnmatchcase(branch, pattern) for one in them]


def _next(
    shape: Mapping[str, Any], totals: Totals, runs: "list[RunRecord]"
) -> Iterator[tuple[str, str]]:
    """Yield the commands that may come next, each with what it does."""
    name, default = shape["branch"], shape["default"]
    if totals.files and "commit" not in shape["protected_against"]:
        yield f"graveler commit {name} -m MESSAGE", "commits what is staged; --mine: only yours"
    if totals.files:
        yield f"graveler diff {name}", "lists all of it"
    elif shape["ahead"]:
        yield f"graveler merge {name} {default} --dry-run", "shows what it would bring, and gates"
    if shape["behind"]:
        yield f"graveler merge {default} {name}", f"brings what is new on {default}"
    for run in runs:
        if run.state == "PARKED":
            yield f"graveler run show '{run.key}'", "shows why the run was parked"
            return


def _own_fields(session: Session, head: "Commit", shape: Mapping[str, Any]) -> Iterator[_Field]:
    out, name, default = session.out, shape["branch"], shape["default"]
    apart = f", {shape['ahead']:,} ahead of {default}, {shape['behind']:,} behind"
    yield "branch", f"{out.style(name, bold=True)}{apart * (name != default)}"
    when = out.time(head.created, session.now)
    by = head.committer or "(unknown)"
    yield "head", f"{out.style(head.id[:12], 'yellow')}  {when}  {by}  {title(head.message)}"


def _more(count: int, command: str) -> Iterator[_Field]:
    if count > 0:
        yield "", f"… {count:,} more: graveler {command}"


def _run_fields(session: Session, runs: "list[RunRecord]") -> Iterator[_Field]:
    for run in runs:
        state = session.out.style(run.state.lower(), "yellow")
        reason = f": {run.reason}" if run.reason else ""
        yield "run", f"{state}  {session.out.time(run.updated, session.now)}  {run.key}{reason}"

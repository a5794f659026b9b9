"""``graveler diff`` and ``show``: changes of paths, and their totals."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from heapq import merge
from typing import Annotated, Any

from graveler.base.globs import matches
from graveler.base.names import path_key
from graveler.cli.arguments import Address, RefArgument
from graveler.cli.failure import UsageError
from graveler.cli.output import SIGNS, Output, counted, field_lines
from graveler.cli.selection import LinesOption, Listing, folder_of, is_pattern
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.cli.verbs.looking.tables import TableChange, change_at, described, folded
from graveler.display import size_text
from graveler.errors import ExpiredError
from graveler.lake import Branch, Repository
from graveler.lake.shapes import moment, shape_of
from graveler.model import Change, ChangeKind
from graveler.reads.changes import range_reuse
from graveler.reads.view import View

_All = Annotated[bool, "(--all): List the files of Iceberg's tables, too."]
_Fold = Callable[[Iterable[Change]], Iterator[Change | TableChange]]


@verb("diff")
def _diff(
    session: Session,
    left: str,
    right: str = "",
    prefix: str = "",
    *,
    stat: bool = False,
    folders: bool = False,
    name_only: bool = False,
    rows: str = "",
    everything: _All = False,
    limit: LinesOption = None,
) -> None:
    """List the differences from LEFT to RIGHT, or the changes that a commit would make.

    A table of Iceberg is one line: its snapshots, and its rows and files by their summaries.

    Args:
        left: A ref; or a branch alone, for its staged changes; or both refs, as main..dev.
        right: The ref to compare it with.
        prefix: Only paths with this prefix, or that match this pattern.
        stat: Only totals: files and bytes by kind.
        folders: Totals of each folder.
        name_only: Only the paths.
        rows (KEY[,KEY]): The rows of tables that were added, removed or changed; these columns
            identify a row.
    """
    if sum(map(bool, (stat, folders, name_only, rows))) > 1:
        raise UsageError("--stat, --folders, --name-only, --rows: give one of them")
    source, dots, other = left.partition("..")
    if dots and other.startswith("."):
        raise UsageError(
            f"`graveler merge {other[1:]} {source} --dry-run` shows what a merge would bring"
        )
    if dots and not right:
        left, right = source, other
    repository, out = session.repository, session.out
    if rows:
        from graveler.cli.verbs.looking.rows import show_rows

        views = _sides(repository, left, right)
        show_rows(out, views, _changes(repository, left, right, prefix), rows.split(","), limit)
        return
    changes = _changes(repository, left, right, prefix)
    if stat:
        totals = Totals(changes)
        out.show(totals.shape, *totals.lines())
    elif folders:
        _show_folders(out, changes, limit)
    else:
        plain = name_only or everything
        fold = iter if plain else _folding(_sides(repository, left, right), prefix)
        _show_changes(out, changes, limit, fold, name_only=name_only, staged=not right)


def _sides(repository: Repository, left: str, right: str) -> list[View]:
    return [repository.view(side) for side in ((left, right) if right else (f"{left}@", left))]


def _folding(views: list[View], prefix: str) -> _Fold:
    """Return what makes one change of those of a table, unless only some of its files are wanted."""
    pattern = is_pattern(prefix, *views)
    wanted = partial(matches, prefix) if pattern else lambda path: path.startswith(prefix)
    return partial(folded, views=views, wanted=wanted)


def _changes(repository: Repository, left: str, right: str, prefix: str) -> Iterable[Change]:
    if not right:
        return repository.branch(left).uncommitted()
    if is_pattern(prefix, repository.view(left), repository.view(right)):
        found = _between(repository, left, right, folder_of(prefix))
        return (change for change in found if matches(prefix, change.path))
    return _between(repository, left, right, prefix)


def _between(repository: Repository, left: str, right: str, prefix: str) -> Iterator[Change]:
    """Yield the differences of two refs; a branch includes its staged changes."""
    views = [repository.view(side) for side in (left, right)]
    staged = {
        change.path
        for view in views
        if isinstance(view, Branch)
        for change in view.uncommitted()
        if change.path.startswith(prefix)
    }
    committed = repository.diff(left, right, prefix=prefix)
    own = [change for path in staged if (change := change_at(views, path)) is not None]
    return merge(
        (change for change in committed if change.path not in staged),
        sorted(own, key=_key),
        key=_key,
    )


def _key(change: Change) -> bytes:
    return path_key(change.path)


def _show_changes(
    out: Output,
    changes: Iterable[Change],
    limit: int | None,
    fold: _Fold,
    *,
    name_only: bool = False,
    staged: bool = False,
) -> None:
    listing, totals = Listing(out, limit), Totals()
    for change in fold(totals.counted(changes)):
        if not listing.takes():
            continue
        if isinstance(change, TableChange):
            out.show(*described(out, change))
        elif name_only:
            out.show({"path": change.path}, change.path)
        else:
            shape = (staged_shape if staged else shape_of)(change) if out.as_json else {}
            out.show(shape, change_line(out, change) + (by_text(change) if staged else ""))
    listing.end(totals.text())


def staged_shape(change: Change) -> dict[str, Any]:
    """Return a staged change as JSON, with who staged it, and when."""
    return {**shape_of(change), "author": change.author or None, "at": moment(change.at)}


def by_text(change: Change) -> str:
    """Return who staged a change, and when."""
    when = f" at {change.at:%Y-%m-%d %H:%M}" if change.at else ""
    return f"  by {change.author or '(unknown)'}{when}"


def change_line(out: Output, change: Change) -> str:
    """Return a change as a line: its sign, its path and the sizes."""
    sign, color = SIGNS[change.kind]
    sizes = [size_text(side.size) for side in (change.before, change.after) if side is not None]
    return f"{out.style(f'{sign} {change.path}', color)}  {' → '.join(sizes)}"


class Totals:
    """The numbers of changed files and their bytes before and after, by kind."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._kinds = {kind: {"files": 0, "before": 0, "after": 0} for kind in ChangeKind}
        deque(self.counted(changes), maxlen=0)

    def counted(self, changes: Iterable[Change]) -> Iterator[Change]:
        """Yield changes, and count them."""
        for change in changes:
            self.add(change)
            yield change

    def add(self, change: Change) -> None:
        """Count a change."""
        kind = self._kinds[change.kind]
        kind["files"] += 1
        kind["before"] += change.before.size if change.before else 0
        kind["after"] += change.after.size if change.after else 0

    @property
    def files(self) -> int:
        """The number of changed files."""
        return sum(each["files"] for each in self._kinds.values())

    @property
    def shape(self) -> dict[str, dict[str, int]]:
        """The totals as JSON."""
        return {str(kind): each for kind, each in self._kinds.items()}

    def lines(self) -> list[str]:
        """Return a line for each kind, and one for all."""
        lines = []
        for kind, each in self._kinds.items():
            sizes = (size_text(each[side]) for side in ("before", "after") if each[side])
            if each["files"]:
                lines.append(f"{kind:8}  {counted(each['files'], 'file'):>12}  {' → '.join(sizes)}")
        return [*lines, self.text()]

    def text(self) -> str:
        """Return all in one line."""
        if not self.files:
            return "no changes"
        more = sum(each["after"] - each["before"] for each in self._kinds.values())
        named = [f"{each['files']:,} {kind}" for kind, each in self._kinds.items() if each["files"]]
        size = f"{'-' if more < 0 else '+'}{size_text(abs(more))}"
        return f"{counted(self.files, 'file')}: {', '.join(named)}; {size}"


def _show_folders(out: Output, changes: Iterable[Change], limit: int | None) -> None:
    total, listing = Totals(), Listing(out, limit)
    folders: dict[str, Totals] = {}
    for change in total.counted(changes):
        folders.setdefault(change.path[: change.path.rfind("/") + 1], Totals()).add(change)
    for path, totals in folders.items():
        if listing.takes():
            line = f"{out.style(path or '/', 'blue')}  {totals.text()}"
            out.show({"path": path, **totals.shape}, line)
    listing.end()
    out.tell(total.text())


@verb("show")
def _show(
    session: Session,
    ref: RefArgument = "",
    *,
    stat: bool = False,
    everything: _All = False,
    limit: LinesOption = None,
) -> None:
    """Show a commit: its changes, and the ranges it wrote or reused.

    Both are relative to the first parent. Neither is known if the commit or that parent has
    expired.

    Args:
        stat: Only the totals of the changes.
    """
    if Address.parse(ref).path:
        raise UsageError(f"show names a commit: `graveler cat {ref}` writes a file")
    repository, out = session.repository, session.out
    commit = repository.commit(ref or session.default_branch)
    first = commit.parents[:1]
    changes: list[Change] | None = []
    fold: _Fold = iter
    try:
        if first:
            changes = list(repository.diff(first[0], commit.id))
            fold = (
                iter if everything else _folding([*map(repository.view, [*first, commit.id])], "")
            )
        written, reused = range_reuse(repository.stores, replace(commit, parents=first))
        ranges: dict[str, int] | None = {"written": written, "reused": reused}
        text = f"{written} written, {reused} reused"
    except ExpiredError as error:
        changes, ranges, text = None, None, str(error).partition(";")[0]
    fields = [
        ("parents", " ".join(parent[:12] for parent in commit.parents) or "(none)"),
        ("created", f"{commit.created:%Y-%m-%d %H:%M:%S} UTC"),
        ("committer", commit.committer or "(unknown)"),
        ("tree", commit.metarange[:12]),
        ("ranges", text),
        *sorted(commit.metadata.items()),
    ]
    totals = Totals(changes or ())
    more = {"stat": totals.shape} if stat else {"changes": shape_of(changes)}
    out.show(
        {**shape_of(commit), "ranges": ranges, **more},
        out.style(f"commit {commit.id}", "yellow"),
        *field_lines(fields),
        "",
        *(f"    {line}" for line in commit.message.splitlines()),
        *([""] if changes else []),
        *(totals.lines() if stat and changes else ()),
    )
    if not stat and not out.as_json:
        _show_changes(out, changes or (), limit, fold)

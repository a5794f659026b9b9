"""``graveler log``: the commits of a ref, as lines or beside a graph."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from graveler.cli.arguments import LimitOption, MetaOption, RefArgument, read_pairs
from graveler.cli.failure import UsageError
from graveler.cli.output import Output
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.display import title
from graveler.lake import Repository
from graveler.lake.shapes import shape_of
from graveler.model import Commit

_ON_A_TERMINAL = 1_000


@verb("log")
def _log(
    session: Session,
    ref: RefArgument = "",
    path: str = "",
    *,
    limit: LimitOption = None,
    graph: bool = False,
    oneline: bool = False,
    first_parent: bool = False,
    prefix: str = "",
    meta: MetaOption = None,
    run: str = "",
    author: str = "",
    since: str = "",
    until: str = "",
) -> None:
    """List commits, the newest first. A terminal gets at most 1,000, with the age of each.

    Args:
        path: Only commits that changed this path, or, if it ends with '/', any path below it.
        graph: Draw lines from each commit to its parents.
        oneline: Write the message first, then the author and the time.
        first_parent: Follow first parents only: merges, not the commits in them.
        prefix (TEXT): Only commits that changed paths with this prefix.
        meta (NAME=VALUE): Only commits with this pair; repeat.
        run (KEY): Only commits that this run made or published.
        author (NAME): Only commits by this committer.
        since (TIME): Only commits at this time, ISO 8601, or later.
        until (TIME): Only commits before this time.
    """
    if graph and any((path, prefix, meta, run, author, since, until)):
        raise UsageError("--graph: draws all commits of a ref: leave out what selects some of them")
    if path.endswith("/") and not prefix:
        path, prefix = "", path
    repository, out = session.repository, session.out
    history = repository.log(
        ref or session.default_branch,
        limit=limit,
        first_parent=first_parent,
        path=path,
        prefix=prefix,
        metadata=read_pairs(meta),
        run=run,
        committer=author,
        since=since or None,
        until=until or None,
    )
    lines = CommitLines(repository, out, oneline=oneline)
    drawing = Graph(first_parent=first_parent)
    most = _ON_A_TERMINAL if out.terminal and limit is None else None
    for commit in islice(history, most):
        stem, edges = drawing.add(commit) if graph else ("", ())
        out.show({**shape_of(commit), **lines.more(commit)}, stem + lines.of(commit), *edges)
    if most and next(history, None):
        out.line("… and older commits: -n N lists more")


class CommitLines:
    """Lines of commits, with the refs that name them."""

    def __init__(self, repository: Repository, out: Output, *, oneline: bool = False) -> None:
        self._out = out
        self._now: datetime = repository.stores.clock.now()
        self._oneline = oneline
        self._names: dict[str, list[str]] = {}
        for record in repository.branches():
            self._names.setdefault(record.commit_id, []).append(record.name)
        for tag, commit_id in repository.tags.list().items():
            self._names.setdefault(commit_id, []).append(f"tag {tag}")
        expired = repository.stores.refs.expired.list()
        self._expired = {name for name, record in expired if record.gone}

    def more(self, commit: Commit) -> dict[str, object]:
        """Return what the JSON of a log adds to that of a commit."""
        return {"refs": self._names.get(commit.id, []), "expired": commit.id in self._expired}

    def of(self, commit: Commit) -> str:
        """Return the line of a commit."""
        style, time = self._out.style, self._out.time(commit.created, self._now)
        names = ", ".join(self._names.get(commit.id, ()))
        shown = f"  {style(f'({names})', 'green')}" if names else ""
        gone = f"  {style('expired', dim=True)}" if commit.id in self._expired else ""
        start = f"{style(commit.id[:12], 'yellow')}  "
        author = commit.committer or "(unknown)"
        if self._oneline:
            return f"{start}{title(commit.message)}{shown}{gone}  {style(f'{author}, {time}', dim=True)}"
        by = f"{time:14}  {author:10}" if self._out.terminal else time
        return f"{start}{by}  {title(commit.message)}{shown}{gone}"


class Graph:
    """Draws the lines from commits to their parents, as git does.

    A column is the line to one commit, which comes later; its id is kept.
    """

    def __init__(self, *, first_parent: bool = False) -> None:
        self._columns: list[str] = []
        self._parents = slice(1 if first_parent else None)

    def add(self, commit: Commit) -> tuple[str, Sequence[str]]:
        """Return what is left of a commit's line, and the lines below it."""
        columns, parents = self._columns, commit.parents[self._parents]
        if commit.id not in columns:
            columns.append(commit.id)
        at = columns.index(commit.id)
        stem = "".join("* " if column == at else "| " for column in range(len(columns)))
        columns[at : at + 1] = parents[:1]
        edges = [] if parents else self._shifted("| " * at, at)
        for number, parent in enumerate(parents[1:], at + 1):
            columns.insert(number, parent)
            right = len(columns) - number - 1
            edges.append("| " * (number - 1) + "|\\" + " \\" * right)
        return stem, [edge.rstrip() for edge in (*edges, *self._joined())]

    def _joined(self) -> Iterator[str]:
        """Join columns that lead to one commit."""
        columns, at = self._columns, 0
        while at < len(columns):
            first = columns.index(columns[at])
            if first == at:
                at += 1
                continue
            del columns[at]
            between = at - first - 1
            yield from self._shifted("| " * first + "|_" * between + "|/", at)
            if between:
                yield "| " * first + "|/" + "| " * (len(columns) - first - 1)

    def _shifted(self, start: str, at: int) -> list[str]:
        """Return a line on which the columns from one on move to the left, if anything is on it."""
        right = len(self._columns) - at
        return [start + " /" * right] if right or "/" in start else []

"""The history of a repository: a graph, the commits that a filter lets through, and one commit."""

from collections import defaultdict

from markupsafe import Markup

from graveler.errors import NotFoundError
from graveler.gates.verdicts import Judgement
from graveler.lake import Repository
from graveler.model import Change, Commit
from graveler.pages.page import Page, limited
from graveler.pages.query import Query

_COMMITS, _MOST_COMMITS = 50, 500
_CHANGES = 100
_BRANCHES = 500


def history(repository: Repository, query: Query) -> Page:
    """Return the history of all branches and unfinished runs, or of one ref, or what filters select."""
    at, limit = query.text("at"), query.number("limit", _COMMITS, _MOST_COMMITS)
    filters = {name: query.text(name) for name in ("path", "author", "run")}
    since, until = query.moment("since"), query.moment("until")
    default = repository.stores.default_branch
    values = {
        "at": at,
        "limit": limit,
        "next_limit": min(2 * limit, _MOST_COMMITS) if limit < _MOST_COMMITS else 0,
        "filters": {**filters, "since": query.text("since"), "until": query.text("until")},
        "default": default,
    }
    if not any([*filters.values(), since, until]):
        drawn = repository.graph(
            at or None, limit=limit, link=lambda commit: query.link("commit", at=commit)
        )
        count = drawn.count("<circle")
        more = {"graph": Markup(drawn), "count": count, "more": count == limit, "commits": []}  # noqa: S704 - display escapes it
        return Page("history", "History", values | more)
    path = filters["path"]
    below = path.endswith("/")
    commits, left_out = limited(
        repository.log(
            at or default,
            path="" if below else path,
            prefix=path if below else "",
            committer=filters["author"],
            run=filters["run"],
            since=since,
            until=until,
        ),
        limit,
    )
    more = {"graph": None, "count": len(commits), "more": left_out, "commits": commits}
    return Page("history", "History", values | more | {"names": _names(repository)})


def _names(repository: Repository) -> dict[str, list[str]]:
    """Return the branches and tags that are at a commit, by its id."""
    names = defaultdict[str, list[str]](list)
    for record in repository.branches(limit=_BRANCHES):
        names[record.commit_id].append(record.name)
    for tag, commit_id in repository.tags.list().items():
        names[commit_id].append(f"tag {tag}")
    return names


def commit(repository: Repository, query: Query) -> Page:
    """Return a commit: its message and metadata, its verdicts, and the files that it changed."""
    found = repository.commit(query.text("at", repository.stores.default_branch))
    changes, more = _changes(repository, found)
    values = {
        "commit": found,
        "names": _names(repository).get(found.id, []),
        "judgement": _judgement(repository, found),
        "changes": changes,
        "more": more,
    }
    return Page("commit", found.message.partition("\n")[0] or "(no message)", values)


def _changes(repository: Repository, commit: Commit) -> tuple[list[Change] | None, bool]:
    """Return the first changes against the first parent; None if a tree is collected."""
    if not commit.parents:
        return [], False
    try:
        return limited(repository.diff(commit.parents[0], commit), _CHANGES)
    except NotFoundError:
        return None, False


def _judgement(repository: Repository, commit: Commit) -> Judgement | None:
    try:
        return repository.gates.judgement(commit)
    except NotFoundError:
        return None

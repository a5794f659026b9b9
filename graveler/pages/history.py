"""The history of a repository: a graph, the commits that a filter lets through, and one commit."""

from graveler.lake import Repository
from graveler.pages.page import Page
from graveler.pages.query import Query


def history(repository: Repository, query: Query) -> Page:
    """Return the history."""
    return Page("history", "History", {})


def commit(repository: Repository, query: Query) -> Page:
    """Return a commit."""
    at = query.text("at", repository.stores.default_branch)
    return Page("commit", "Commit", {"commit": repository.commit(at)})

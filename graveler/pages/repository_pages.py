"""The page of a repository, and the search for a path, a commit or a run."""

from graveler.lake import Repository
from graveler.pages.page import Page
from graveler.pages.query import Query


def repository(repository: Repository, query: Query) -> Page:
    """Return the page of a repository."""
    return Page("repository", repository.name, {})


def search(repository: Repository, query: Query) -> Page:
    """Return what a text names: a path, a commit or a run."""
    return Page("search", "Search", {"q": query.text("q")})

"""The site: the table of pages, and the answer to every path."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module

from graveler.base.clock import Clock, SystemClock
from graveler.base.read_only import only_looking
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    RepositoryNotFoundError,
)
from graveler.lake import Lake, Repository
from graveler.pages.page import Page
from graveler.pages.query import Query

_KEPT = 8
_TITLES = {
    400: "The address cannot be read",
    401: "A token is needed",
    403: "You may not see this",
    404: "There is nothing here",
    405: "This page is only read",
    503: "The lake cannot be read now",
}


@dataclass(frozen=True, slots=True)
class Route:
    """A page of a repository: the function ``module.function(repository, query)`` makes it.

    Attributes:
        module: Name of its module in `graveler.pages`.
        function: Name of the function.
        label: Its name in the navigation; "" if it is reached by links only.
        parameters: The parameters that it reads.
    """

    module: str
    function: str
    label: str = ""
    parameters: tuple[str, ...] = ()


ROUTES: dict[str, Route] = {
    "": Route("repository_pages", "repository", "Overview"),
    "history": Route(
        "history", "history", "History", ("at", "path", "author", "run", "since", "until", "limit")
    ),
    "commit": Route("history", "commit", "", ("at",)),
    "files": Route("trees.files", "files", "Files", ("at", "path", "after", "move", "when")),
    "file": Route("trees.tables", "file", "", ("at", "path", "move", "when")),
    "compare": Route(
        "trees.comparison",
        "compare",
        "Compare",
        ("left", "right", "left_move", "left_when", "right_move", "right_when", "path", "key"),
    ),
    "runs": Route(
        "pipelines.runs",
        "runs",
        "Runs",
        ("month", "folder", "state", "into", "text", "hour", "after"),
    ),
    "run": Route("pipelines.runs", "run", "", ("key",)),
    "gates": Route("pipelines.gates", "gates", "Gates", ("gate", "into", "only")),
    "ingestion": Route("pipelines.ingestion", "ingestion", "Ingestion"),
    "storage": Route("storage", "storage", "Storage"),
    "search": Route("repository_pages", "search", "", ("q",)),
}
"""The pages of a repository by their names in addresses, in the order of the navigation.

A module is imported when its page is asked for.
"""


class Site:
    """The pages of one lake. Threads may share it."""

    def __init__(self, lake: Lake, *, clock: Clock | None = None) -> None:
        self._lake = lake
        self._repositories: dict[str, Repository] = {}
        self._clock = clock or SystemClock()

    def answer(
        self,
        path: str,
        parameters: Mapping[str, str],
        check: Callable[[str], None] | None = None,
    ) -> Page:
        """Return the page at a path; errors are pages too.

        Args:
            path: The decoded path of the address: ``/``, ``/REPOSITORY`` or ``/REPOSITORY/PAGE``.
            parameters: The parameters of the address.
            check: Raises PermissionDeniedError unless the reader may read a repository; None: they
                may read all.
        """
        repository, _, page = path.strip("/").partition("/")
        query = Query(parameters, self._clock.now(), repository, page)
        if check is not None:
            query = replace(query, check=check)
        try:
            with only_looking():
                made = self._page(query)
        except GravelerError as error:
            made = failure(error)
            if isinstance(error, RepositoryNotFoundError | PermissionDeniedError):
                query = replace(query, repository="")  # there is nothing to lead to
        return replace(made, query=query)

    def about(self, page: Page) -> Page:
        """Return a page that belongs to no path, such as the answer to a client without a token."""
        return replace(page, query=Query({}, self._clock.now()))

    def _page(self, query: Query) -> Page:
        from graveler.pages.lake_pages import lake

        if not query.repository:
            return lake(self._lake, query)
        query.check(query.repository)
        if query.repository not in self._lake:
            raise RepositoryNotFoundError(f"no repository {query.repository!r} in this lake")
        route = ROUTES.get(query.page)
        if route is None:
            raise NotFoundError(f"no page {query.page!r}; the navigation has the pages")
        page = getattr(import_module(f"graveler.pages.{route.module}"), route.function)
        made = page(self._repository(query.repository), query)
        if not isinstance(made, Page):
            raise TypeError(f"{route.module}.{route.function} returned {made!r}, not a Page")
        return made

    def _repository(self, name: str) -> Repository:
        """Return a repository; the one of the last page, which remembers the commits it has read."""
        opened = self._lake.repository(name)
        kept = self._repositories.get(name)
        if kept is None or kept.stores.uid != opened.stores.uid or kept.storage != opened.storage:
            if len(self._repositories) >= _KEPT:
                self._repositories = {}
            kept = self._repositories[name] = opened
        return kept


def failure(error: Exception, status: int = 0) -> Page:
    """Return the page of an error.

    Args:
        status: Its HTTP status; 0: by the kind of the error.
    """
    if not status:
        kinds = {NotFoundError: 404, InvalidInputError: 400, PermissionDeniedError: 403}
        status = next((code for kind, code in kinds.items() if isinstance(error, kind)), 503)
    title = _TITLES.get(status, "The page failed")
    return Page("error", title, {"message": str(error), "status": status}, status)

"""Where a page looks: a ref, a path, and the ways from there."""

import re
import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from graveler.base.names import path_key
from graveler.display import printable
from graveler.errors import InvalidInputError
from graveler.lake import Repository
from graveler.model import PATH_BYTES, BranchRecord, Change, Commit, Prefix
from graveler.pages.page import Page
from graveler.pages.query import Query
from graveler.reads.changes import last_changes
from graveler.reads.versions import uncommitted_in
from graveler.refs.moves import number_of_moves
from graveler.refs.reflog import RefMove
from graveler.tables.views import Ref

NAMES = 1_000
"""A missing path is compared with so many names of its folder."""
MOVES = 20
"""So many moves of a branch are listed."""
FARTHEST = 9_999_999
"""The most moves that an expression can go back."""
LOOKS = 300
"""A page compares so many times a path of two commits to find its last changes."""
COMMITS = 500
"""A page looks for last changes in so many commits."""
_NEAR = 5
_COMPARED = 60
_OF_BRANCH = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)(?:@\{([^{}]*)\}|@)?")


class Place(NamedTuple):
    """A path at a commit.

    Attributes:
        ref: The tree of the commit.
        at: The expression of the commit.
        path: The path; a folder has a slash at its end, and the whole tree is "".
    """

    ref: Ref
    at: str
    path: str

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The folders above the path, each with its name."""
        cuts = [at + 1 for at, letter in enumerate(self.path[:-1]) if letter == "/"]
        folders = [self.path[:cut] for cut in cuts]
        return [(folder[:-1].rpartition("/")[2], folder) for folder in folders]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.removesuffix("/").rpartition("/")[2]

    @property
    def address(self) -> str:
        """The place as the command line takes it."""
        return shell_word(f"{self.at}:{self.path}")

    @property
    def words(self) -> str:
        """The ref and the path as two words of the command line."""
        return f"{shell_word(self.at)} {shell_word(self.path)}".removesuffix(" ''")


def shell_word(text: str) -> str:
    """Return a text as one word of a shell, without control characters."""
    if text.isprintable():
        return shlex.quote(text)
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printable(plain)}'"


def expression_of(repository: Repository, query: Query, name: str = "at", default: str = "") -> str:
    """Return the ref of a request: a parameter, or where its branch was by ``move`` or ``when``.

    Of the parameter ``left``, these are ``left_move`` and ``left_when``.
    """
    start = "" if name == "at" else f"{name}_"
    given = query.text(name, default or repository.stores.default_branch)
    moment = query.moment(f"{start}when")
    move = query.text(f"{start}move") and query.number(f"{start}move", 0, FARTHEST)
    if moment is None and move == "":
        return given
    branch = _OF_BRANCH.fullmatch(given)
    if branch is None:
        raise InvalidInputError(f"{name}={given!r}: only a branch has a time: name one")
    return f"{branch[1]}@{{{move if moment is None else moment.isoformat()}}}"


def place_of(repository: Repository, query: Query, *, folder: bool) -> Place:
    """Return the place of a request."""
    at, path = expression_of(repository, query), query.text("path")
    if folder and path and not path.endswith("/"):
        path += "/"
    return Place(repository.ref(at), at, path)


class Moves(NamedTuple):
    """The moves of a branch around one of them.

    Attributes:
        position: Number of moves since then.
        last: The position of the first move.
    """

    branch: str
    position: int
    last: int
    shown: list[RefMove]


def _branch_of(repository: Repository, at: str) -> tuple[BranchRecord | None, str]:
    """Return the branch of an expression, or None, and what is in its braces, or ""."""
    given = _OF_BRANCH.fullmatch(at)
    if given is None:
        return None, ""
    try:
        record = repository.stores.refs.branches.find(given[1])
    except InvalidInputError:  # a commit id is no name
        return None, ""
    return record, given[2] or ""


def moves_of(repository: Repository, place: Place) -> Moves | None:
    """Return the moves of the branch of a place; None if its expression is of no branch."""
    record, then = _branch_of(repository, place.at)
    if record is None:
        return None
    position = int(then) if then.isdecimal() else 0
    if then and not then.isdecimal():
        latest = repository.moves(record.name, limit=NAMES)
        here = (line.position for line in latest if line.after == place.ref.commit.id)
        position = next(here, 0)
    first = max(position - MOVES // 2, 0)
    lines = islice(repository.moves(record.name, limit=first + MOVES), first, None)
    return Moves(record.name, position, number_of_moves(record) - 1, list(lines))


def staged_at(repository: Repository, place: Place) -> Iterator[Change]:
    """Yield what is staged below a place that is the head of a branch."""
    record, _ = _branch_of(repository, place.at)
    if record is not None and record.name == place.at:
        prefix = path_key(place.path) if place.path else b""
        yield from uncommitted_in(repository.stores, record, prefix)


def commits_of(place: Place, paths: list[str]) -> dict[str, Commit]:
    """Return the last commit that changed each file or folder, of those that are near enough."""
    keys = sorted(map(path_key, paths))
    stores, start = place.ref.repository, place.ref.commit
    found = last_changes(stores, start, keys, folders=True, looks=LOOKS, far=COMMITS)
    return {key.decode(): commit for key, commit in found.items()}


def is_folder(ref: Ref, path: str) -> bool:
    """Return whether a path without a slash at its end is a folder."""
    return len(path.encode()) < PATH_BYTES and ref.has_below(f"{path}/")


def nothing_at(place: Place, query: Query) -> Page:
    """Return the page of a path that a commit does not have, with the names that are near."""
    path = place.path.removesuffix("/")
    folder = path[: path.rfind("/") + 1]
    while folder and not place.ref.has_below(folder):
        folder = folder[: folder[:-1].rfind("/") + 1]
    rest = path[len(folder) :].partition("/")[0]
    items = islice(place.ref.list(folder, delimiter="/"), NAMES)
    names = {item.path[len(folder) :].removesuffix("/")[:_COMPARED]: item for item in items}
    near = [names[name] for name in get_close_matches(rest[:_COMPARED], names, _NEAR, 0.5)]
    other = place.ref.exists(path), is_folder(place.ref, path)
    values = {
        "place": place,
        "path": path,
        "there": Place(place.ref, place.at, folder),
        "near": [(item.path, isinstance(item, Prefix)) for item in near],
        "is_file": other[0],
        "is_folder": other[1],
        "removed": None if any(other) else commits_of(place, [path]).get(path),
    }
    return Page("missing", "There is nothing at this path", values, 404)

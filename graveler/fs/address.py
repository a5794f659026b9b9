"""Addresses of the filesystem, ``repository/ref/path``, and the errors that name them."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from graveler.base.arguments import PathText, prefix_text
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    CorruptionError,
    FencedError,
    GravelerError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    ProtectedBranchError,
    RetryableError,
    RunStateError,
)
from graveler.reads.view import View
from graveler.repository.branch import Branch, fence_of
from graveler.runs.run import Run

PROTOCOL = "grav"


class Address(NamedTuple):
    """A place in a lake. Missing parts at the end are ""."""

    repository: str
    ref: str
    path: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Split a path without protocol at its first two slashes."""
        repository, _, rest = text.strip("/").partition("/")
        ref, _, path = rest.partition("/")
        return cls(repository, ref, path)

    @property
    def text(self) -> str:
        """The path as text."""
        return "/".join(part for part in self if part)

    @property
    def place(self) -> str:
        """The repository and the ref."""
        return f"{self.repository}/{self.ref}"

    @property
    def tree(self) -> str:
        """The prefix of all paths of the tree: repository and ref, with a slash at the end."""
        return f"{self.place}/"

    @property
    def folder(self) -> str:
        """The prefix, within the tree, of the paths below this path."""
        return f"{self.path}/" if self.path else ""


def url(view: View, path: PathText = "") -> str:
    """Return the address of `path` in a branch, a run, a step or a ref.

    The address of a ref is that of its commit. It shows the same tree even if the branch moves.

    Raises:
        InvalidInputError: The view is a gate's candidate, and the gate does not declare
            ``reads="anything"``, because an address shows the whole tree.
    """
    if not isinstance(view, View):
        raise InvalidInputError(f"view={view!r}: give a branch, a run, a step or a ref")
    path = prefix_text(path, "path")
    return f"{PROTOCOL}://{Address(view.repository.name, view.expression, path).text}"


def storage_options(view: View) -> dict[str, Any]:
    """Return the storage options of the address, as plain data that can be sent elsewhere.

    The options of a run or a step let their holder write to it until a newer attempt is opened.
    """
    stores = view.repository
    options: dict[str, Any] = {"lake": stores.location}
    if isinstance(view, Run):
        options["run"] = view.handle.to_json()
    elif isinstance(view, Branch) and fence_of(view):
        options["fences"] = {f"{stores.name}/{view.name}": fence_of(view)}
    return options


class InvalidPathError(OSError, ValueError):
    """The address is not valid in a lake. Fix the address."""


_ERRORS: tuple[tuple[type[GravelerError], type[OSError], int], ...] = (
    (NotFoundError, FileNotFoundError, errno.ENOENT),
    (AlreadyExistsError, FileExistsError, errno.EEXIST),
    (ProtectedBranchError, PermissionError, errno.EACCES),
    (FencedError, PermissionError, errno.EPERM),
    (RunStateError, PermissionError, errno.EPERM),
    (InvalidInputError, InvalidPathError, errno.EINVAL),
    (BackendUnavailableError, ConnectionError, errno.EHOSTUNREACH),
    (RetryableError, BlockingIOError, errno.EAGAIN),
    (OutcomeUnknownError, OSError, errno.EIO),
    (CorruptionError, OSError, errno.EIO),
)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise a graveler error of the block as an OSError about `path`, caused by that error."""
    try:
        yield
    except GravelerError as error:
        if isinstance(error, OSError):
            raise
        for ours, theirs, number in _ERRORS:
            if isinstance(error, ours):
                raise theirs(number, str(error), path) from error
        raise

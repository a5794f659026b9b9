"""The public interface for a simulated process; every operation is recorded in the history."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn
from unittest.mock import patch

from graveler.errors import GravelerError, NoChangesError, ObjectNotFoundError
from graveler.lake.repository import Repository
from graveler.model import Entry
from graveler.publishing.landing import CommitSpec
from graveler.refs.branches import decode_branch
from graveler.repository.branch import Branch
from graveler.repository.commits import selective
from graveler.testing.faults import ProcessDied
from graveler.testing.world import link_unseen
from graveler.values import TOMBSTONE, stage_entry
from tests.simulate.history import Operation
from tests.simulate.scenarios.shared import Call
from tests.simulate.schedules.processes import Process

_OPERATIONS = 128

Writes = Mapping[str, str | None]


class Client:
    """The operations of one process; each method is one operation.

    Writes are links to files that no process reads. The value of a path is the address of its
    entry.

    Attributes:
        told: Whether the last operation returned without an error.
    """

    def __init__(self, process: Process, repository: Repository) -> None:
        self.process = process
        self.repository = repository
        self.told = True
        self._number = 0

    def put(self, path: str, value: str, branch: str = "main") -> None:
        """Stage a value."""
        operation = self._operation("put", branch, writes={path: value})

        def stage() -> None:
            link_unseen(_branch(self.repository, branch), [Entry(path, f"data/{value}", 1)])

        self._do(operation, stage)

    def upload(self, path: str, value: str, branch: str = "main") -> None:
        """Store bytes and stage their entry; the entry's metadata holds the value."""
        operation = self._operation("put", branch, writes={path: value})

        def store() -> None:
            _branch(self.repository, branch).put(path, b"", metadata={"value": value})

        self._do(operation, store)

    def borrow(self, entry: Entry, branch: str = "main") -> None:
        """Stage an entry that was read elsewhere."""
        writes = {entry.path: value_of(entry)}
        operation = self._operation("put", branch, writes=writes)
        self._do(operation, lambda: _branch(self.repository, branch).link_many([entry]))

    def delete(self, path: str, branch: str = "main") -> None:
        """Stage a deletion."""
        operation = self._operation("delete", branch, writes={path: None})
        self._do(operation, lambda: _branch(self.repository, branch).delete(path))

    def read(self, path: str, branch: str = "main") -> Any:
        """Read one path; return None if it does not exist."""

        def look() -> str | None:
            try:
                return value_of(_branch(self.repository, branch).stat(path))
            except ObjectNotFoundError:
                return None

        return self._do(self._operation("read", branch, path=path), look)

    def list(self, branch: str = "main") -> Any:
        """List everything."""
        return self._do(
            self._operation("list", branch),
            lambda: contents(_branch(self.repository, branch).entries()),
        )

    def list_ref(self, expression: str) -> Any:
        """List the contents of a commit or tag."""
        return self._do(
            self._operation("list_ref", expression),
            lambda: contents(self.repository.ref(expression).entries()),
        )

    def commit(self, branch: str = "main", *, allow_empty: bool = False) -> Any:
        """Commit what is staged; return the commit's id."""
        operation = self._operation("commit", branch, empty=allow_empty)
        key = b"branch/" + branch.encode()
        self.process.seen.pop(key, None)

        def make() -> str:
            try:
                made = _branch(self.repository, branch).commit(
                    operation.message, committer="simulated", allow_empty=allow_empty
                )
            except NoChangesError:
                raw = self.process.seen.get(key)
                operation.head = "" if raw is None else decode_branch(raw).commit_id
                raise
            return made.id

        return self._do(operation, make)

    def copy(
        self,
        source: str,
        path: str,
        to: str,
        branch: str = "main",
        *,
        replace: bool = False,
        writes: Writes,
    ) -> None:
        """Copy a path of a ref to another path; `writes` holds the values that the branch gets."""
        operation = self._operation("copy", branch, writes=dict(writes))
        self._do(
            operation,
            lambda: _branch(self.repository, branch).copy(source, path, to, replace=replace),
        )

    def move(self, path: str, to: str, branch: str = "main") -> None:
        """Move files; the resulting values depend on the contents at that time."""
        operation = self._operation("move", branch)
        self._do(operation, lambda: _branch(self.repository, branch).move(path, to))

    def import_(self, source: str, prefix: str, branch: str = "main", *, writes: Writes) -> None:
        """Replace a folder with the files of an inventory."""
        operation = self._operation("import", branch, writes=dict(writes))
        self._do(
            operation,
            lambda: _branch(self.repository, branch).import_(source, prefix, replace=True),
        )

    def commit_paths(self, paths: Sequence[str], branch: str = "main") -> Any:
        """Commit what is staged at some paths; return the commit's id."""
        operation = self._operation("commit_paths", branch, paths=tuple(paths))

        def make() -> str:
            return (
                _branch(self.repository, branch)
                .commit(operation.message, committer="simulated", paths=paths)
                .id
            )

        return self._do(operation, make)

    def commit_changes(self, branch: str = "main", *, writes: Writes) -> Any:
        """Commit these values, and no staged write."""
        operation = self._operation("revert", branch, writes=dict(writes))
        spec = CommitSpec(operation.message, committer="simulated")
        forms = {
            path.encode(): stage_entry(path.encode(), Entry(path, f"data/{value}", 1))
            if value
            else TOMBSTONE
            for path, value in writes.items()
        }
        stores = self.repository.stores
        return self._do(
            operation,
            lambda: selective.commit_changes(stores, branch, spec, fence="", writes=forms).id,
        )

    def seal(self, branch: str = "main") -> None:
        """Seal as a committer does that dies before it stores its commit."""
        stores = self.repository.stores

        def die_at_the_commit(*_: object, **__: object) -> NoReturn:
            raise ProcessDied("while committing")

        with patch.object(stores.refs.commits, "add", die_at_the_commit):
            try:
                _branch(self.repository, branch).commit("dies", committer="simulated")
            except ProcessDied:
                return
        raise AssertionError("the committer did not come to its commit")

    def merge(
        self, source: str, into: str = "main", *, writes: Mapping[str, str | None] | None = None
    ) -> Any:
        """Merge; `writes` holds the values that `into` gets."""
        operation = self._operation("merge", into, writes=dict(writes or {}))

        def make() -> str:
            return self.repository.merge(
                source, into, message=operation.message, committer="simulated"
            ).commit.id

        return self._do(operation, make)

    def reset(self, branch: str = "main", *, paths: Sequence[str] | None = None) -> None:
        """Drop the staged writes, all that there are: `paths` match every path."""
        operation = self._operation("reset", branch)
        self._do(operation, lambda: _branch(self.repository, branch).reset(paths=paths))

    def revert(self, commit: str, branch: str = "main", *, writes: Writes) -> Any:
        """Revert a commit; `writes` holds the values that the branch gets."""
        operation = self._operation("revert", branch, writes=dict(writes))

        def make() -> str:
            return self.repository.revert(
                commit, branch, message=operation.message, committer="simulated"
            ).id

        return self._do(operation, make)

    def cherry_pick(self, commit: str, branch: str = "main", *, writes: Writes) -> Any:
        """Apply a commit again; `writes` holds the values that the branch gets."""
        operation = self._operation("revert", branch, writes=dict(writes))

        def make() -> str:
            return self.repository.cherry_pick(
                commit, branch, message=operation.message, committer="simulated"
            ).id

        return self._do(operation, make)

    def pack(self, branch: str = "main") -> Any:
        """Split the ranges of a branch's head again; no path gets another value."""
        operation = self._operation("revert", branch, writes={})

        def make() -> str:
            packed = self.repository.pack(
                branch, everything=True, message=operation.message, committer="simulated"
            )
            if packed.commit is None:
                raise NoChangesError(f"{branch} is packed")
            return packed.commit.id

        return self._do(operation, make)

    def hard_reset(self, to: str, branch: str = "main", *, contents: Mapping[str, str]) -> None:
        """Move the branch to a commit; `contents` holds the values that it then has."""
        operation = self._operation("hard_reset", branch, writes=dict(contents))
        self._do(operation, lambda: _branch(self.repository, branch).reset(to))

    def create_branch(
        self, name: str, source: str = "main", *, contents: Mapping[str, str] | None = None
    ) -> None:
        """Create a branch; `contents` holds the values that it then has."""
        operation = self._operation("create", name, writes=dict(contents or {}))

        def create() -> None:
            self.repository.create_branch(name, source)

        self._do(operation, create)

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        operation = self._operation("drop", name)
        self._do(operation, lambda: self.repository.delete_branch(name))

    def tag(self, name: str, ref: str = "main") -> Any:
        """Tag a commit; return its id."""
        operation = self._operation("tag", name)
        return self._do(operation, lambda: self.repository.tags.create(name, ref).id)

    def other(
        self,
        kind: str,
        work: Callable[[Repository, str], Any],
        branch: str = "main",
        *,
        writes: Mapping[str, str | None] | None = None,
    ) -> Any:
        """Run another operation of the public interface; `work` gets the commit message."""
        operation = self._operation(kind, branch, writes=dict(writes or {}))
        return self._do(operation, lambda: work(self.repository, operation.message))

    def _operation(self, kind: str, branch: str, **fields: Any) -> Operation:
        number = self.process.index * _OPERATIONS + self._number
        self._number += 1
        assert self._number <= _OPERATIONS
        message = f"{self.process.name}.{self._number}"
        return Operation(1 << number, self.process.name, kind, branch, message=message, **fields)

    def _do(self, operation: Operation, work: Callable[[], Any]) -> Any:
        process = self.process
        process.current = operation
        if process.scheduled:
            process.begins = operation
        else:
            process.history.begin(operation)
        try:
            operation.result = work()
        except GravelerError as error:
            operation.error = error
        if process.late or process.begins is not None:
            process.call(Call("pause"))
        if process.scheduled:
            process.ended = operation
        process.history.end(operation)
        self.told = operation.error is None
        return operation.result


def _branch(repository: Repository, name: str) -> Branch:
    """Return the branch without a check that it exists: the check is not part of the history."""
    return Branch(repository.stores, name)


def value_of(entry: Entry) -> str:
    """Return the value that a client gave the entry."""
    return entry.metadata.get("value") or entry.address.removeprefix("data/")


def contents(entries: Any) -> dict[str, str]:
    """Return the values by path."""
    return {entry.path: value_of(entry) for entry in entries}

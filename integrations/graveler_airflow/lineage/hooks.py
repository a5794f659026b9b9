"""Hook lineage: the reads and writes of a task through `GravelerHook` or ``grav://`` paths.

Airflow collects it as assets for tasks of any operator. OpenLineage turns them into datasets.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import Any, Final, Self, TypeVar

from airflow.sdk.lineage import NoOpCollector, get_hook_lineage_collector

from graveler.arguments import BranchLike, PathText, RefLike, branch_text
from graveler.errors import GravelerError
from graveler.lake import Branch, MergeResult, Ref, Repository
from graveler.model import Commit
from graveler.reads import Stores
from graveler.reads.changes import diff_commits
from graveler.reads.listing import Scan
from graveler_airflow.lineage.naming import folder_of, without_partitions

_MOST_FILES: Final = 20_000
_T = TypeVar("_T")


class HookLineage:
    """Reports reads and writes to Airflow's collector.

    Args:
        context: The hook or the filesystem.
        conn_id: The connection of the lake.
    """

    def __init__(self, context: Any, conn_id: str) -> None:
        self._context = context
        self._conn_id = conn_id

    @property
    def is_on(self) -> bool:
        """Whether a plugin, such as that of OpenLineage, uses hook lineage."""
        return not isinstance(get_hook_lineage_collector(), NoOpCollector)

    def read(self, repo: str, ref: str, path: str, commit: str) -> None:
        """Note that a file, or the files below a prefix, were read from a commit."""
        get_hook_lineage_collector().add_input_asset(
            self._context, **self._asset(repo, ref, path, commit)
        )

    def wrote(self, repo: str, ref: str, path: str, commit: str = "") -> None:
        """Note that a file was written; `commit` is "" if it is staged."""
        get_hook_lineage_collector().add_output_asset(
            self._context, **self._asset(repo, ref, path, commit)
        )

    def committed(self, stores: Stores, branch: str, commit: Commit) -> None:
        """Note a commit on a branch, with the folders that it has changed."""
        if not self.is_on or not commit.parents:
            return
        with suppress(GravelerError):  # the commit exists, so the task must not fail
            before = stores.refs.commits.get(commit.parents[0])
            changes = islice(diff_commits(stores, before, commit), _MOST_FILES)
            folders = {without_partitions(folder_of(change.path)) for change in changes}
            for folder in sorted(folders):
                self.wrote(stores.name, branch, folder, commit.id)

    def _asset(self, repo: str, ref: str, path: str, commit: str) -> dict[str, Any]:
        return {
            "scheme": "grav",
            "asset_kwargs": {
                "repo": repo,
                "ref": ref,
                "prefix": without_partitions(folder_of(path)),
                "conn_id": self._conn_id,
            },
            "asset_extra": {"commit": commit} if commit else None,
        }


class LineageRepository(Repository):
    """A repository whose reads and commits are noted as hook lineage."""

    _lineage: HookLineage

    @classmethod
    def of(cls, repository: Repository, lineage: HookLineage) -> Self:
        """Return the repository as one whose reads and commits are noted."""
        return _bound(cls, repository, lineage)

    def branch(self, name: str | BranchLike) -> Branch:
        """Return a branch to read and write."""
        return _bound(_LineageBranch, super().branch(name), self._lineage)

    def create_branch(self, *args: Any, **options: Any) -> Branch:
        """Make a branch."""
        return _bound(_LineageBranch, super().create_branch(*args, **options), self._lineage)

    def ref(self, expression: str | Commit | RefLike) -> Ref:
        """Return the read-only view of a commit."""
        return _bound(_LineageRef, super().ref(expression), self._lineage)

    def merge(self, source: Any, into: str | BranchLike, **options: Any) -> Any:
        """Merge one ref into a branch."""
        result = super().merge(source, into, **options)
        if isinstance(result, MergeResult) and not result.already:
            self._lineage.committed(self.stores, branch_text(into, "into"), result.commit)
        return result

    def revert(self, commit: Any, on: str | BranchLike = "main", **options: Any) -> Commit:
        """Revert a commit on a branch."""
        made = super().revert(commit, on, **options)
        self._lineage.committed(self.stores, branch_text(on, "on"), made)
        return made


class _LineageRef(Ref):
    _lineage: HookLineage

    def _find_value(self, key: bytes) -> bytes | None:
        self._lineage.read(self.repository.name, self.name, key.decode(), self.commit.id)
        return super()._find_value(key)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        self._lineage.read(self.repository.name, self.name, _below(prefix), self.commit.id)
        return super()._snapshot(start, prefix)


class _LineageBranch(Branch):
    _lineage: HookLineage

    def _find_value(self, key: bytes) -> bytes | None:
        self._note_read(key.decode())
        return super()._find_value(key)

    def _find_rows(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        for key in keys:
            self._note_read(key.decode())
        return super()._find_rows(keys)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        self._note_read(_below(prefix))
        return super()._snapshot(start, prefix)

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
        paths: Iterable[PathText] | None = None,
    ) -> Commit:
        """Commit the staged writes and return the commit."""
        commit = super().commit(
            message, metadata=metadata, committer=committer, allow_empty=allow_empty, paths=paths
        )
        self._lineage.committed(self.repository, self.name, commit)
        return commit

    def _note_read(self, path: str) -> None:
        if self._lineage.is_on:
            self._lineage.read(self.repository.name, self.name, path, self.head.id)


def _below(prefix: bytes) -> str:
    """Return the folder of a prefix of paths."""
    folder, slash, _ = prefix.decode().rpartition("/")
    return folder + slash


def _bound(kind: type[_T], plain: Any, lineage: HookLineage) -> _T:
    """Return an object as an instance of a class that notes its use."""
    noted = kind.__new__(kind)
    vars(noted).update(vars(plain), _lineage=lineage)
    return noted

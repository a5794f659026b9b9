"""Hook lineage: the reads and writes of a task through `GravelerHook` or ``grav://`` paths.

Airflow collects it as assets for tasks of any operator. OpenLineage turns them into datasets.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Self

from airflow.sdk.lineage import NoOpCollector, get_hook_lineage_collector

from graveler.base.arguments import BranchLike, RefLike
from graveler.base.names import is_of_run
from graveler.errors import GravelerError
from graveler.lake import Branch, Ref, Repository
from graveler.model import Commit
from graveler.reads.changes import diff_commits
from graveler.reads.stores import Stores
from graveler.reads.view import Observed, observed, read_from
from graveler.runs.attempt import ObservedBranch, ObservedRef
from graveler.runs.record import decode_inputs
from graveler_airflow.lineage.naming import folder_of, without_partitions

_MOST_FILES = 20_000


class HookLineage:
    """Reports reads and writes to Airflow's collector."""

    def __init__(self, context: Any, conn_id: str) -> None:
        self._context = context
        self._conn_id = conn_id
        self._seen: set[tuple[str, str, str, str]] = set()

    @property
    def is_on(self) -> bool:
        """Whether a plugin, such as that of OpenLineage, uses hook lineage."""
        return not isinstance(get_hook_lineage_collector(), NoOpCollector)

    def observe(self, view: Observed, places: Iterable[str], files: bool, at: str) -> None:
        """Note what a view reads; files by their folders, as prefixes."""
        del files
        if self.is_on:
            self.read(view.repository.name, view.name, places, at or read_from(view))

    def read(self, repo: str, ref: str, paths: Iterable[str], commit: str) -> None:
        """Note that files, or the files below prefixes, were read from a commit."""
        for folder in {without_partitions(folder_of(path)) for path in paths}:
            if (seen := (repo, ref, folder, commit)) not in self._seen:
                self._seen.add(seen)
                self._add("add_input_asset", repo, ref, folder, commit)

    def wrote(self, repo: str, ref: str, path: str, commit: str = "") -> None:
        """Note that a file was written; `commit` is "" if it is staged."""
        self._add("add_output_asset", repo, ref, without_partitions(folder_of(path)), commit)

    def committed(self, stores: Stores, branch: str, commit: Commit) -> None:
        """Note a commit on a branch: the folders that it has changed, and the inputs of its run."""
        if not self.is_on or is_of_run(branch):
            return
        with suppress(GravelerError):  # the commit exists, so the task must not fail
            before = stores.refs.commits.get(commit.parents[0])
            changes = islice(diff_commits(stores, before, commit), _MOST_FILES)
            folders = {without_partitions(folder_of(change.path)) for change in changes}
            for folder in sorted(folders):
                self.wrote(stores.name, branch, f"{folder}/", commit.id)
            for read in decode_inputs(commit.metadata.get("graveler.inputs", "[]")):
                self.read(stores.name, branch, [read.prefix], read.commit)

    def _add(self, call: str, repo: str, ref: str, folder: str, commit: str) -> None:
        getattr(get_hook_lineage_collector(), call)(
            self._context,
            scheme="grav",
            asset_kwargs={"repo": repo, "ref": ref, "prefix": folder, "conn_id": self._conn_id},
            asset_extra={"commit": commit} if commit else None,
        )


class LineageRepository(Repository):
    """A repository whose reads and commits are noted as hook lineage."""

    _lineage: HookLineage

    @classmethod
    def of(cls, repository: Repository, lineage: HookLineage) -> Self:
        """Return the repository as one whose reads and commits are noted."""
        noted = cls.__new__(cls)
        vars(noted).update(vars(repository), _lineage=lineage)
        noted.stores = replace(repository.stores, observer=lineage.committed)
        vars(noted).pop("runs", None)
        return noted

    def branch(self, name: str | BranchLike) -> Branch:
        """Return a branch to read and write."""
        return observed(ObservedBranch, super().branch(name), self._lineage.observe)

    def create_branch(self, *args: Any, **options: Any) -> Branch:
        """Make a branch."""
        branch = super().create_branch(*args, **options)
        return observed(ObservedBranch, branch, self._lineage.observe)

    def ref(self, expression: str | Commit | RefLike) -> Ref:
        """Return the read-only view of a commit."""
        return observed(ObservedRef, super().ref(expression), self._lineage.observe)

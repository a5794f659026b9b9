"""The mapping from paths of a filesystem to trees of a lake."""

import errno
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

from fsspec import AbstractFileSystem
from fsspec.spec import make_instance
from fsspec.utils import stringify_path

from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.fs.address import PROTOCOL, Address, translated
from graveler.fs.file import GravelerFile
from graveler.fs.transaction import CommitTransaction, OverlayView, check_none_open
from graveler.lake import Lake, Repository, Run
from graveler.lake.shared import lake_at, location_of
from graveler.model import Entry
from graveler.reads.listing import Scan
from graveler.reads.view import View
from graveler.repository.branch import Branch
from graveler.runs.record import RunHandle
from graveler.runs.steps.environment import OpenStep, StepEnvironment
from graveler.trust import check_same_lake


class Batch(threading.local):
    """The state that a call on many files shares with its inner calls.

    It is per thread, because pyarrow uses one instance in many threads.
    """

    seen: dict[str, Entry | None] | None = None
    links: dict[str, list[Entry]] | None = None
    moved: list[tuple[str, str]] | None = None
    tree: str = ""
    scan: Scan | None = None


class TreeFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The shared parts of reading and writing: the lake, the branch, the permissions."""

    protocol: ClassVar[str] = PROTOCOL
    transaction_type = CommitTransaction

    def __init__(
        self,
        lake: str | os.PathLike[str] = "",
        *,
        run: RunHandle | str | None = None,
        fences: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        handle = RunHandle.from_json(run) if isinstance(run, str) else run
        self._named = lake or (handle.location if handle is not None else "")
        self._check_lake()
        self._handle = handle
        self._fences = dict(fences or {})
        self._lake: Lake | None = None
        self._repositories: dict[str, Repository] = {}
        self._run: Run | None = None
        self._step: OpenStep | None = None
        self._given: StepEnvironment | None = None
        self._batch = Batch()
        self._finishing: list[GravelerFile] | None = None

    @cached_property
    def location(self) -> str:
        """The location of the lake."""
        with translated(str(self._named)):
            return location_of(self._named)

    def _check_lake(self) -> None:
        _ = self.location

    def _open_lake(self) -> Lake:
        return lake_at(self.location)

    def __reduce__(self) -> tuple[Any, ...]:
        options = {**self.storage_options, "lake": self.location}
        return make_instance, (type(self), (), options)

    def _identity(self) -> tuple[Any, ...]:
        return self.location, self._handle, tuple(sorted(self._fences.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return (type(self).__qualname__, *self._identity())

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(item) for item in path]
        text = stringify_path(path)
        return text.removeprefix(f"{PROTOCOL}://").strip("/")

    @property
    def fsid(self) -> str:
        """The name of the lake among all filesystems."""
        return f"{PROTOCOL}+{self.location}"

    def start_transaction(self) -> CommitTransaction:
        """Begin a transaction that `end_transaction` commits. Prefer ``with fs.transaction:``."""
        check_none_open(self)
        begun: CommitTransaction = super().start_transaction()
        return begun

    def _repository(self, name: str) -> Repository:
        lake = self._open_lake()
        if lake is not self._lake:  # a fork or close_lakes changes it
            self._lake, self._repositories, self._run, self._step = lake, {}, None, None
        repository = self._repositories.get(name)
        if repository is None:
            repository = self._repositories[name] = lake.repository(name)
        return repository

    def _branch(self, address: Address) -> Branch:
        repository = self._repository(address.repository)
        place, handle = address.place, self._handle
        if handle is not None and place == f"{handle.repository}/{handle.branch}":
            if self._run is None:  # shared, because it keeps its inputs and its lease
                self._run = repository.runs.attach(handle)
            return self._run
        step = self._open_step(repository)
        if step is not None and address.ref == step.name:
            step.check()
            return step
        if place in self._fences:
            return Branch(repository.stores, address.ref, fence=self._fences[place])
        return repository.branch(address.ref)

    def _open_step(self, repository: Repository) -> OpenStep | None:
        """Return the open step that the environment names, if it belongs to the repository."""
        given = StepEnvironment.of()
        if given.repository != repository.name or not given.branch:
            return None
        check_same_lake(self.location, given.location)
        if self._step is None or self._given != given:  # shared, because it keeps its inputs
            self._step, self._given = repository.runs.open_step(given), given
        return self._step

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Record the reads of the open step in the block as inputs of its run."""
        try:
            yield
        finally:
            if self._step is not None:  # at once: a forked worker can end at any time
                self._step.record_reads()

    def _view(self, address: Address) -> View:
        pending: dict[str, OverlayView] = self.transaction._pending if self._intrans else {}
        overlay = pending.get(address.place)
        if overlay is not None:
            return overlay
        repository = self._repository(address.repository)
        step = self._open_step(repository)
        try:
            branch = self._branch(address)
        except (RefNotFoundError, InvalidInputError):
            return repository.ref(address.ref) if step is None else step.view(address.ref)
        return branch if step is None else step.source(branch)

    def _target(self, address: Address) -> Branch | OverlayView:
        """Return the branch to write to, or its view in a transaction."""
        if not address.path:
            raise IsADirectoryError(errno.EISDIR, "no path to write to", address.text)
        try:
            branch = self._branch(address)
        except (RefNotFoundError, InvalidInputError):
            self._repository(address.repository).ref(address.ref)
            raise OSError(
                errno.EROFS, "only branches can be written, and this is another ref", address.text
            ) from None
        if not self._intrans:
            return branch
        pending: dict[str, OverlayView] = self.transaction._pending
        return pending.setdefault(address.place, OverlayView(branch))

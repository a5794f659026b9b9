"""Uploading a local folder to a branch: only differences, and a second call continues."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import BinaryIO, NamedTuple, Self, cast

from graveler.base.background import batches
from graveler.base.names import check_path
from graveler.base.parallel import Bounds, in_order
from graveler.committed.claims import claims_of
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import GravelerError, InvalidInputError, RetryableError
from graveler.model import Entry, Transfer
from graveler.objects.store import file_state
from graveler.objects.verified import new_hash
from graveler.reads.files import open_unverified
from graveler.reads.listing import Scan, first_key
from graveler.reads.local.downloads import MOST_FAULTS, failure
from graveler.reads.local.folders import (
    Links,
    LocalFile,
    OwnFiles,
    Pattern,
    lake_files,
    missing_from,
    walk,
)
from graveler.reads.read_ahead import Find, entries_at
from graveler.reads.stores import Stores
from graveler.repository.writes.staged import StagedWrites, stored
from graveler.repository.writes.uploads import Chunks, Terms, cost_of

_LOOK_UP = 1_000
_WINDOW = 1_000
_SHOWN = 100
_TRIES = 3
_HASHED_BYTES = 1 << 20
_AGAIN = "upload again to go on, what is there is skipped"


class SourceError(Exception):
    """A local file cannot be read."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class SourceFile:
    """A local file in the version that was opened."""

    def __init__(self, path: Path, over: Event) -> None:
        self._path = path
        self._over = over

    def __enter__(self) -> Self:
        try:
            # does not wait if a pipe has replaced the file
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise SourceError(error) from error
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self._before = os.fstat(descriptor)
        self.size = self._before.st_size
        if not stat.S_ISREG(self._before.st_mode):
            self._file.close()
            raise SourceError(OSError(0, "it is no longer a file", str(self._path)))
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return the next bytes. If the file grows, return one byte more than its first size."""
        if self._over.is_set():
            raise SourceError(InterruptedError())
        try:
            return self._file.read(min(size, self.size + 1 - self._file.tell())) or b""
        except OSError as error:
            raise SourceError(error) from error

    def rewind(self) -> None:
        """Go to the start."""
        self._file.seek(0)

    def checksum(self, algorithm: str) -> str:
        """Return the checksum of the content, or "" if the algorithm is unknown."""
        digest = new_hash(algorithm)
        if digest is None:
            return ""
        while piece := self.read(_HASHED_BYTES):
            digest.update(piece)
        return f"{algorithm}:{digest.hexdigest()}"

    def is_as_it_was(self, taken: int) -> bool:
        """Return whether `taken` is the size of the file, and the file is unchanged."""
        same = file_state(self._before) == file_state(os.fstat(self._file.fileno()))
        return same and taken == self.size


@dataclass(frozen=True, slots=True)
class Destination:
    """The branch, and the entries that it has.

    Attributes:
        writes: Returns the object that stages writes. A run renews its lease with each call.
    """

    stores: Stores
    writes: Callable[[], StagedWrites]
    find: Find
    snapshot: Callable[[bytes], AbstractContextManager[Scan]]
    start: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of an upload.

    Attributes:
        own: The lake's own files, to which no link may lead.
    """

    root: Path
    links: Links
    exclude: Pattern
    own: OwnFiles | None = None

    def files(self, fault: Callable[[str, str], object]) -> Iterator[LocalFile]:
        """Yield the files, in byte order of their names."""
        return walk(self.root, self.links, self.exclude, fault, own=self.own)

    def checked(self, start: str) -> int:
        """Return the number of files."""
        if not self.root.is_dir():
            kind = InvalidInputError if self.root.exists() else RetryableError
            raise kind(f"no folder {str(self.root)!r}")
        faults: list[str] = []
        files = 0
        for file in self.files(lambda name, reason: faults.append(f"{name!r}: {reason}")):
            files += 1
            try:
                check_path(start + file.name)
            except InvalidInputError as error:
                faults.append(f"{file.name!r}: {error}")
        if faults:
            shown = "; ".join(faults[:_SHOWN])
            more = f"; and {len(faults) - _SHOWN:,} more" if len(faults) > _SHOWN else ""
            raise InvalidInputError(
                f"{str(self.root)!r} cannot be uploaded, and nothing was: {shown}{more}; rename "
                "them, or leave them out (exclude=…)"
            )
        return files


class _Job(NamedTuple):
    path: str
    file: Path
    known: Entry | None


class _Sent(NamedTuple):
    """The result for a file: an entry to stage, a fault, or the entry that exists already."""

    path: str
    entry: Entry | None = None
    fault: Exception | None = None
    known: Entry | None = None


def upload(
    destination: Destination,
    origin: Origin,
    terms: Terms,
    *,
    delete: bool,
) -> Transfer:
    """Store the files of a folder whose content the branch does not have, and stage their entries."""
    stores = destination.stores
    chunks = Chunks(stores, destination.writes, replace=terms.replace)
    own = lake_files(stores)
    own.check_apart(origin.root, origin.exclude)
    origin = replace(origin, own=own)
    files = origin.checked(destination.start)
    sender = _Sender(destination, terms)
    skipped = 0
    known: list[Entry] = []
    writes = destination.writes()
    head = stores.refs.branches.get(writes.name).commit_id
    claims = writes.fence or claims_of(stores.refs.commits.get(head)) != EMPTY_METARANGE
    faults: list[tuple[str, Exception]] = []

    def noted(name: str, reason: str) -> None:
        faults.append((destination.start + name, InvalidInputError(reason)))

    jobs = sender.jobs(origin.files(noted))
    bounds: Bounds[_Job] = Bounds(
        terms.threads, _WINDOW, cost=lambda job: cost_of(job.file), over=sender.over
    )
    with chunks.staging(_AGAIN):
        for number, sent in enumerate(in_order(sender.send, jobs, bounds), 1):
            if sent.fault is not None:
                faults.append((sent.path, sent.fault))
            elif sent.entry is not None:
                chunks.add(sent.entry)
            else:
                skipped += 1
                if claims and sent.known is not None:
                    known.append(sent.known)
            terms.progress("upload", number, max(files, number))
            if len(faults) >= MOST_FAULTS:
                break
            if len(known) >= _LOOK_UP:
                destination.writes().stage(known)
                known = []
        if known:  # a run claims what it uploads, even if it is there
            destination.writes().stage(known)
    if faults:
        rest = f"{chunks.staged:,} others are staged, {skipped:,} were there: {_AGAIN}"
        raise failure(faults, rest)
    deleted = _delete_others(destination, origin) if delete else 0
    return Transfer(chunks.staged, chunks.bytes, skipped=skipped, deleted=deleted)


class _Sender:
    """Stores files that the branch does not have."""

    def __init__(self, destination: Destination, terms: Terms) -> None:
        self.over = Event()
        self._to = destination
        self._terms = terms

    def jobs(self, files: Iterator[LocalFile]) -> Iterator[_Job]:
        """Yield the files with the entries of the branch at their paths."""
        for group in batches(files, _LOOK_UP):
            paths = [self._to.start + file.name for file in group]
            known: Sequence[Entry | None] = [None] * len(group)
            if not self._terms.replace:
                known = entries_at(self._to.find, paths)
            yield from (
                _Job(path, file.path, entry)
                for path, file, entry in zip(paths, group, known, strict=True)
            )

    def send(self, job: _Job) -> _Sent:
        """Store a file, unless the branch has it."""
        try:
            return self._sent(job)
        except SourceError as error:
            return _Sent(job.path, fault=error.reason)
        except GravelerError as error:
            raise error.saying(f"{job.path!r}: {error}") from error

    def _sent(self, job: _Job) -> _Sent:
        terms = self._terms
        for _ in range(_TRIES):
            with SourceFile(job.file, self.over) as source:
                if job.known is not None and self._is_there(job.known, source):
                    return _Sent(job.path, known=job.known)
                source.rewind()
                body = cast("BinaryIO", source)
                entry = stored(
                    self._to.stores, job.path, body, terms.content_type, dict(terms.metadata)
                )
                if source.is_as_it_was(entry.size):
                    return _Sent(job.path, entry)
        reason = (
            f"{job.file} was written while it was read, {_TRIES} times; a file without a size, as below "
            "/proc, is put alone"
        )
        return _Sent(job.path, fault=InvalidInputError(reason))

    def _is_there(self, known: Entry, source: SourceFile) -> bool:
        terms = self._terms
        if known.size != source.size:
            return False
        if terms.content_type not in {"", known.content_type}:
            return False
        if terms.given and terms.metadata != dict(known.metadata):
            return False
        if known.computed:
            return source.checksum(known.checksum.partition(":")[0]) == known.checksum
        # an imported file has no checksum, or one of others: to read it costs no more than to store it again
        with suppress(GravelerError), open_unverified(self._to.stores, known) as there:
            pieces = iter(partial(there.read, _HASHED_BYTES), b"")
            return all(piece == source.read(len(piece)) for piece in pieces)
        return False


def _delete_others(destination: Destination, origin: Origin) -> int:
    """Stage the deletion of the files that only the branch has. Return their number."""
    start = first_key(destination.start)

    def unreadable(name: str, reason: str) -> None:
        raise InvalidInputError(
            f"{name!r}: {reason}; all files are staged, and what the branch has besides was not "
            "deleted: upload again"
        )

    def others(scan: Scan) -> Iterator[str]:
        names = ((key[len(start) :], key.decode()) for key, _ in scan(start))
        kept = (item for item in names if not origin.exclude.leaves_out(item[0].decode()))
        local = (os.fsencode(file.name) for file in origin.files(unreadable))
        return missing_from(kept, local)

    with destination.snapshot(start) as scan:
        return destination.writes().delete(others(scan))

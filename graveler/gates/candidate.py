"""The candidate: a read-only view of the tree that the target would get."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, BinaryIO, Self, cast

from graveler.base.arguments import PathText, path_text, prefix_text
from graveler.base.names import hour_folder, path_key, read_hour
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    ObjectNotFoundError,
)
from graveler.frames.footers import Footer
from graveler.gates.declaration import (
    ANYTHING,
    CONTENT,
    EVERYTHING,
    HISTORY,
    Declared,
    Guarded,
    input_of,
)
from graveler.gates.source import AFTER, BEFORE, Difference, Earlier, Source
from graveler.gates.statistics import STATISTICS, Past, Statistics, brought, statistics
from graveler.model import Change, Commit, Entry
from graveler.reads.changes import change_of
from graveler.reads.listing import Scan
from graveler.reads.partitions import is_hidden
from graveler.reads.stores import Stores
from graveler.tables.views import ReadableTables

_PRESENT = (AFTER, BEFORE)
_RESTORING = frozenset({"revert", "undo"})
"""Actions that undo changes: removing files is their purpose."""

_PLACING = frozenset({"reset", "create"})
"""Actions that move a branch to any commit: an undo if that commit is in the branch's history."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a gate judges.

    Attributes:
        key: The run's key; "" if no run publishes, as in a merge.
        attempt: The attempt that publishes; 0 if no run does.
        metadata: The run's metadata.
    """

    key: str
    attempt: int
    metadata: Mapping[str, str] = field(default_factory=dict)

    def hour_prefix(self, root: str) -> str:
        """Return ``<root>/YYYY/MM/DD/hh:mm/``, the folder of the hour in the metadata ``hour``.

        Raises:
            InvalidInputError: The metadata has no hour.
        """
        hour = read_hour(self.metadata.get("hour", ""))
        if hour is None:
            raise InvalidInputError(
                f"run {self.key!r} has no hour: open it with metadata={{'hour': "
                "'2013-01-01T05:00Z'}, as Airflow and Dagster do for partitions of time"
            )
        return f"{root.rstrip('/')}/{hour_folder(hour)}/"


NO_RUN = RunContext("", 0)


class Tree(ReadableTables):
    """A tree as a gate sees it: the files below the prefixes that the gate declares.

    Args:
        source: The source of the tree.
        tree: Its name in the source.
        declared: The inputs that the gate declares.
    """

    def __init__(self, source: Source, tree: str, declared: Declared) -> None:
        self._source = source
        self._tree = tree
        self._declared = declared
        self._changing: set[bytes] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    @property
    def name(self) -> str:
        """A description of the tree."""
        return f"the {self._tree}"

    @property
    def expression(self) -> str:
        """Refused: no ref names the tree, so other programs cannot read it by address."""
        raise InvalidInputError(
            f"{self.name} has no address that other programs can read: read it by get, open or "
            "read, or hand over `uri(entry)` of its files"
        )

    @property
    def repository(self) -> Stores:  # type: ignore[override]  # what other views have, a gate declares
        """The repository's ports and settings, for a gate that ``reads="anything"``."""
        self._declared.check(ANYTHING, "the repository itself")
        return self._source.stores

    def _find_value(self, key: bytes) -> bytes | None:
        self._check_path(key)
        return self._source.find(self._tree, key)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        del start
        self._check_whole(prefix.decode())
        return nullcontext(Scan(lambda at: self.rows(at, prefix), origin=self._origin))

    def rows(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value record) from `start` on below `prefix`."""
        self._check_whole(prefix.decode())
        return self._source.scan(self._tree, start, prefix)

    def get(self, path: PathText | Entry) -> bytes:
        """Return the bytes of the file at `path`, which may be given as an entry."""
        return self._source.get(self._tree, self._checked(path))

    def open(self, path: PathText | Entry) -> BinaryIO:
        """Return a readable, seekable stream of the file at `path`; the caller closes it."""
        return self._source.open(self._tree, self._checked(path))

    def _threads(self, given: int | None) -> int:
        """Return 1: the gate's own thread reads."""
        del given
        return 1

    def read_range(self, path: PathText | Entry, start: int, length: int) -> bytes:
        """Return at most `length` bytes of the file at `path`, from `start` on."""
        return self._source.read(self._tree, self._checked(path), start, length)

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of an entry's file, for other programs."""
        return self._source.uri(entry.address)

    def differences(self, prefix: bytes) -> Iterator[Difference]:
        """Yield the keys below `prefix` that the tree changes, with both value records."""
        self._declared.check_prefix(prefix.decode())
        if self._tree != AFTER:
            self._declared.check(HISTORY)
        return self._source.changes(self._tree, prefix)

    def changes(self, prefix: str = "") -> Iterator[Change]:
        """Yield what publishing would change on the target, below `prefix`.

        For an earlier commit of the target, these are the changes of that commit. A gate that
        declares ``history`` may read them.
        """
        return self._changes(self.differences(path_key(prefix) if prefix else b""))

    def _changes(self, differences: Iterator[Difference]) -> Iterator[Change]:
        for key, before, after in differences:
            self._changing.add(key)
            yield change_of(key, before, after, (self._origin, self._origin))

    def _checked(self, path: PathText | Entry) -> str:
        """Return the path of a file that the gate may read; the tree knows its address."""
        path = path.path if isinstance(path, Entry) else path_text(path, "path")
        self._check_path(path_key(path))
        return path

    def _check_whole(self, prefix: str) -> None:
        self._declared.check_prefix(prefix)
        if self._tree in _PRESENT:
            self._declared.check(CONTENT, "files that do not change")
        else:
            self._declared.check(HISTORY)

    def _check_path(self, key: bytes) -> None:
        self._declared.check_prefix(key.decode())
        if self._tree not in _PRESENT:
            self._declared.check(HISTORY)
        elif not (self._declared.has(CONTENT) or key in self._changing):
            # keys are sorted: what begins with the key comes after the key itself
            first = next(self._source.changes(AFTER, key), None)
            if first is None or first[0] != key:
                self._declared.check(CONTENT, f"{key.decode()!r}, which does not change")


class Candidate(Tree):
    """The tree that would be published, with its change set.

    It is read-only. A gate reads the files below its prefixes and the other inputs that it
    declares; its verdict is stored under the hash of these. Any other read raises
    InvalidInputError, whose message names what to declare.

    Attributes:
        into: The name of the branch that would move.
        action: The operation that would move it: ``publish``, ``merge``, ``commit``, ``revert``, …
        facts: The values that the gate reported.
        seen: Statistics that were computed, stored for later candidates, by commit ("" for the
            candidate) and prefix.
    """

    def __init__(
        self,
        repository: Stores | Source,
        commit: Commit,
        *,
        target: Commit,
        into: str,
        run: RunContext = NO_RUN,
        action: str = "publish",
    ) -> None:
        source: Any = repository
        if isinstance(repository, Stores):
            source = Source(repository, commit, target)
        super().__init__(source, AFTER, EVERYTHING)
        self.into = into
        self.action = action
        self.facts: dict[str, Any] = {}
        self.seen: dict[tuple[str, str], Statistics] = {}
        self._records: Mapping[str, Any] = {"commit": commit, "target": target, "run": run}
        self._footers: dict[tuple[str, str], Footer] = {}

    @property
    def name(self) -> str:
        """A description of the tree; equal for all candidates: messages are not a declared input."""
        return f"the candidate for {self.into!r}"

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The messages of the reads that were refused because the gate does not declare them."""
        return tuple(self._declared.refused)

    @property
    def commit(self) -> Commit:
        """The commit that would be published; the gate may read the fields that it declares."""
        return cast(Commit, self._guarded("commit"))

    @property
    def commit_id(self) -> str:
        """Id of the commit, for a gate that declares ``commit``."""
        return self.commit.id

    @property
    def expression(self) -> str:
        """Id of the commit, as an address for a gate that ``reads="anything"``."""
        self._declared.check(ANYTHING, "the candidate by its address")
        return self.commit.id

    @property
    def target(self) -> Commit:
        """The head of the branch that would move, for a gate that declares ``target``."""
        return cast(Commit, self._guarded("target"))

    @property
    def run(self) -> RunContext:
        """The run that publishes: key and metadata need ``run`` declared, attempt ``attempt``."""
        return cast(RunContext, self._guarded("run"))

    @property
    def before(self) -> Tree:
        """The present target."""
        return self.tree(BEFORE)

    @property
    def restores(self) -> bool:
        """Whether the action undoes changes of the branch."""
        if self.action in _PLACING:
            return self._source.goes_back()
        return self.action in _RESTORING

    def has_below(self, prefix: PathText) -> bool:
        """Return whether any path starts with `prefix`; a gate of ``changes`` may ask for its own prefixes."""
        prefix = prefix_text(prefix, "prefix")
        if prefix not in self._declared.prefixes:
            self._check_whole(prefix)
        return self._source.has_below(prefix)

    def now(self) -> datetime:
        """Return the time, for a gate that ``reads="anything"``."""
        self._declared.check(ANYTHING, "the time")
        return self._source.now()

    def stats(self, prefix: str = "") -> Statistics:
        """Return statistics of all files below `prefix`, from the footers of Parquet files.

        Raises:
            CorruptionError: A file is not what its name says.
        """
        return statistics(self, self.entries(prefix), self._footers)

    def added(self, prefix: PathText = "") -> Iterator[Entry]:
        """Yield the files below `prefix` that publishing would add; the target lacks their paths."""
        return (entry for entry, before in self._sides(prefix) if entry and not before)

    def changed(self, prefix: PathText = "") -> Iterator[Entry]:
        """Yield the files below `prefix` that publishing would replace, as they would be.

        A file that is written again with equal content does not change. ``before.stat(path)`` is the
        entry that would be replaced.
        """
        return (entry for entry, before in self._sides(prefix) if entry and before)

    def changed_files(self, prefix: PathText = "") -> list[Entry]:
        """Return the files below `prefix` that publishing would add or replace, as they would be."""
        return [entry for entry, _ in self._sides(prefix) if entry]

    def new_rows(self, prefix: PathText, as_: type | str | None = None, **terms: Any) -> Any:
        """Return the rows of the files that publishing would add or replace, as a frame.

        ::

            new = candidate.new_rows("output/flights/", pandas.DataFrame)

        Args:
            prefix: The table: a folder, or a file.
            as_: The type of the frame, as for `read`.
            terms: The other arguments of `read`.

        Raises:
            ObjectNotFoundError: There are no such files. `changed_files` lists them.
        """
        path = prefix_text(prefix, "prefix")
        folder = f"{path.rstrip('/')}/" if path else ""
        new = self.changed_files(path if self._declared.covers(path) else folder)
        files = [(entry.path.rpartition("/")[2], entry) for entry in new if entry.path == path] or [
            (name, entry)
            for entry in new
            if entry.path.startswith(folder)
            and not is_hidden(name := entry.path.removeprefix(folder))
        ]
        if not files:
            raise ObjectNotFoundError(
                f"no file below {path!r} is new: let the gate pass first, as in "
                f"`if not any(candidate.changed_files({path!r})): return`"
            )
        from graveler.frames import reader

        return reader.read(self, path, as_, files=files, **terms)

    def removed(self, prefix: PathText = "") -> Iterator[Entry]:
        """Yield the files below `prefix` that publishing would delete, as the target has them.

        ``before.get(entry)`` reads one.
        """
        return (before for entry, before in self._sides(prefix) if before and not entry)

    def _sides(self, prefix: PathText) -> Iterator[tuple[Entry | None, Entry | None]]:
        """Yield the entries after and before each change."""
        changes = self.changes(prefix_text(prefix, "prefix"))
        return ((change.after, change.before) for change in changes)

    def new_stats(self, prefix: str = "") -> Statistics:
        """Return statistics of the files below `prefix` that publishing would add or replace."""
        stats = statistics(self, brought(self.changes(prefix)), self._footers)
        self.seen["", prefix] = stats
        return stats

    def history(
        self, prefix: str = "", limit: int = 20, *, same_time: datetime | None = None
    ) -> list[Past]:
        """Return statistics of the files that earlier commits on the branch wrote below `prefix`.

        Statistics are stored when they are first computed, and outlive the data. For commits
        without stored statistics the footers are read now. The gate must declare ``history``.

        Args:
            limit: Return at most this many of the latest 1,000 commits, the latest first. Commits
                that wrote no file below the prefix, or were reverted since, are left out.
            same_time: Only commits whose ``hour`` in the metadata has the time of day of this one.
        """
        past: list[Past] = []
        for earlier in self.earlier(prefix) if limit > 0 else ():
            hour = read_hour(earlier.hour)
            if same_time and (hour is None or hour.time() != same_time.time()):
                continue
            stats = (
                self._learn(earlier.commit, prefix)
                if earlier.stats is None
                else STATISTICS.read(earlier.stats, "statistics")
            )
            if stats is not None and stats.files:
                past.append(Past(earlier.commit, earlier.created, earlier.run, stats))
            if len(past) >= limit:
                break
        return past

    def earlier(self, prefix: str) -> Iterator[Earlier]:
        """Yield the earlier commits that may have touched a prefix, the latest first."""
        self._declared.check(HISTORY)
        self._declared.check_prefix(prefix)
        return self._source.past(prefix)

    def tree(self, name: str) -> Tree:
        """Return the tree of that name in the source."""
        return self if name == AFTER else Tree(self._source, name, self._declared)

    def visible_fields(self) -> dict[str, dict[str, Any]]:
        """Return the fields of commit, target and run that the gate may read."""
        return {
            name: {
                field.name: getattr(record, field.name)
                for field in fields(record)
                if self._declared.has(input_of(name, field.name))
            }
            for name, record in self._records.items()
        }

    def _learn(self, commit: str, prefix: str) -> Statistics | None:
        """Return the statistics of a commit's changes; None if its data is deleted or damaged."""
        tree = self.tree(commit)
        with suppress(NotFoundError, CorruptionError):
            stats = statistics(tree, brought(tree.changes(prefix)), {})
            self.seen[commit, prefix] = stats
            return stats
        return None

    def of(self, gate: str, prefixes: Iterable[str], reads: tuple[str, ...]) -> Self:
        """Return the candidate as one gate sees it, with nothing reported yet."""
        other = copy(self)
        other._declared = Declared(gate, tuple(prefixes), reads)
        other.facts, other.seen, other._changing = {}, {}, set()
        return other

    def report(self, **facts: Any) -> None:
        """Store numbers or short texts with the verdict."""
        self.facts.update(facts)

    def _guarded(self, name: str) -> Any:
        record = self._records[name]
        return record if self._declared.anything else Guarded(name, record, self._declared)

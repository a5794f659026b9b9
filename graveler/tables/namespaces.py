"""The tables and namespaces of a ref: what a catalog does, whichever way it is asked.

Each change is planned on the head of the branch and lands as one commit of given changes, which expects
the records that the plan has read. If another one has replaced them, the plan is made again. Nothing is
ever staged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import AssertCreate, TableRequirement, TableUpdate

from graveler.base.retries import backoff
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import (
    InvalidInputError,
    NoChangesError,
    ObjectNotFoundError,
    PreconditionFailedError,
    ReadOnlyError,
)
from graveler.model import Entry, Prefix
from graveler.reads.view import Ref, View
from graveler.tables import metadata as rules
from graveler.tables.files import StoreFiles, TableEntries, attached
from graveler.tables.layout import (
    NAMESPACE,
    NAMESPACES,
    POINTER,
    POINTER_TYPE,
    POINTERS,
    Identifier,
    Namespace,
    Pointer,
    folder,
    name_of,
    shown,
)

_ATTEMPTS = 8


class Loaded(NamedTuple):
    """A table as a ref shows it.

    Attributes:
        location: Where its metadata is; "" for a table that was not committed yet.
    """

    metadata: TableMetadata
    location: str


class TableCommit(NamedTuple):
    """What a client wants to commit to one table."""

    table: Identifier
    requirements: Sequence[TableRequirement]
    updates: Sequence[TableUpdate]


@dataclass(slots=True)
class Plan:
    """The changes of a commit, and the entries that it expects."""

    message: str
    entries: list[Entry] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    expected: dict[str, Entry | None] = field(default_factory=dict)
    loaded: list[Loaded] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Found:
    """A table at the head: its record, and the entry of the record."""

    entry: Entry
    pointer: Pointer


class Tables:
    """The catalog of a branch, which can be changed, or of a commit.

    Identifiers are tuples of names. The errors are those of PyIceberg's catalogs and of graveler.

    Args:
        view: A branch, also that of a run or a step, or the ref of a commit.
    """

    def __init__(self, view: View) -> None:
        self._view: Any = view  # a branch, of a room above
        self._stores = view.repository
        self._files = StoreFiles(self._stores)

    @property
    def name(self) -> str:
        """The catalog as clients name it: ``REPOSITORY@REF``."""
        return f"{self._stores.name}@{self._view.name}"

    def namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """Return the namespaces directly below one, or the outermost ones."""
        head = self._head()
        if parent:
            self._namespace(head, parent)
        return self._below(head, parent, NAMESPACE)

    def properties(self, namespace: Identifier) -> Mapping[str, str]:
        """Return the properties of a namespace."""
        return self._namespace(self._head(), namespace)[1].properties

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Make a namespace, and those above it that do not exist."""

        def plan(head: Ref) -> Plan:
            made = Plan(f"create namespace {shown(namespace)}")
            for depth in range(1, len(namespace) + 1):
                place, whole = folder(namespace[:depth]), depth == len(namespace)
                there, table = head.stat_many([place + NAMESPACE, place + POINTER])
                if table is not None or (there is not None and whole):
                    what = "table" if table else "namespace"
                    raise NamespaceAlreadyExistsError(
                        f"{what.capitalize()} already exists: {shown(namespace[:depth])}"
                    )
                made.expected |= {place + NAMESPACE: there, place + POINTER: None}
                if there is None:
                    record = Namespace(dict(properties) if whole else {})
                    made.entries.append(self._record(place + NAMESPACE, NAMESPACES.encode(record)))
            return made

        if not namespace:
            raise InvalidInputError("a namespace has one name at least")
        self._land(plan)

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace that has no tables and no other files."""

        def plan(head: Ref) -> Plan:
            entry, _ = self._namespace(head, namespace)
            place = folder(namespace)
            if any(each.path != entry.path for each in head.list(place, delimiter="/")):
                raise NamespaceNotEmptyError(f"Namespace is not empty: {shown(namespace)}")
            return Plan(
                f"drop namespace {shown(namespace)}",
                deleted=[entry.path],
                expected={entry.path: entry, place: None},
            )

        self._land(plan)

    def update_properties(
        self, namespace: Identifier, removals: Iterable[str], updates: Mapping[str, str]
    ) -> PropertiesUpdateSummary:
        """Change the properties of a namespace."""
        gone, summary = {*removals}, PropertiesUpdateSummary([], [], [])
        if both := sorted(gone & updates.keys()):
            raise InvalidInputError(f"properties {both}: either remove or update them")

        def plan(head: Ref) -> Plan:
            nonlocal summary
            entry, record = self._namespace(head, namespace)
            had = record.properties
            summary = PropertiesUpdateSummary(
                removed=sorted(gone & had.keys()),
                updated=sorted(updates),
                missing=sorted(gone - had.keys()),
            )
            kept = {name: value for name, value in had.items() if name not in gone}
            new = self._record(entry.path, NAMESPACES.encode(Namespace({**kept, **updates})))
            return Plan(
                f"properties of namespace {shown(namespace)}", [new], expected={entry.path: entry}
            )

        self._land(plan)
        return summary

    def tables(self, namespace: Identifier) -> list[Identifier]:
        """Return the tables of a namespace."""
        head = self._head()
        self._namespace(head, namespace)
        return self._below(head, namespace, POINTER)

    def exists(self, table: Identifier) -> bool:
        """Return whether a table exists; its metadata is not read."""
        return self._head().exists(folder(table) + POINTER)

    def load(self, table: Identifier) -> Loaded:
        """Return a table. A run notes that it reads the table."""
        self._view._note([folder(table)])
        return self._loaded(self._table(self._head(), table).pointer)

    def create(
        self,
        table: Identifier,
        schema: Schema,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] | None = None,
        *,
        staged: bool = False,
    ) -> Loaded:
        """Make a table without rows.

        Args:
            staged: Only return it: the client commits it, with its first rows.
        """
        wanted = dict(properties or {})
        rules.check_format(wanted.get(rules.FORMAT, "2"))
        rules.check_properties(wanted, whole=False)
        uuid = UUID(hex=self._stores.ids.unique())
        try:
            made = new_table_metadata(
                schema=schema,
                partition_spec=spec,
                sort_order=order,
                location=self._location(uuid),
                properties={**wanted, **rules.DEFENDED},
                table_uuid=uuid,
            )
        except (ValueError, LookupError, TypeError) as error:
            raise InvalidInputError(f"table {shown(table)}: {error}") from error

        def plan(head: Ref) -> Plan:
            expected = self._vacant(head, table)
            entries, loaded = self._written(head, table, made)
            return Plan(f"create {shown(table)}", entries, [], expected, [loaded])

        if staged:
            self._vacant(self._head(), table)
            return Loaded(made, "")
        return self._land(plan).loaded[0]

    def register(self, table: Identifier, location: str, *, overwrite: bool = False) -> Loaded:
        """Make a table of metadata that exists. Its files are linked where they are.

        Args:
            location: Where the metadata is. It and the files are below places to which the repository
                may link, or are files of tables in its own storage.
            overwrite: Replace a table of this name.
        """
        found = self._files.metadata(location)
        rules.check_format(found.format_version)
        pointer = Pointer(str(found.table_uuid), self._files.address(location))

        def plan(head: Ref) -> Plan:
            place = folder(table)
            if overwrite and (there := self._find(head, table)) is not None:
                made = self._without(head, table, there)
            else:
                made = Plan("", expected=self._vacant(head, table))
            files = TableEntries(
                self._stores, EMPTY_METARANGE, place, self._files, self._files.start
            )
            entries = files.missing({location: None, **attached(found)})
            added = [*entries.values(), *files.added(found.snapshots)]
            made.message, made.loaded = f"register {shown(table)}", [self._loaded(pointer)]
            made.entries = [
                *added,
                self._record(place + POINTER, POINTERS.encode(pointer), POINTER_TYPE),
            ]
            kept = {each.path for each in made.entries}
            made.deleted = [path for path in made.deleted if path not in kept]
            return made

        return self._land(plan).loaded[0]

    def commit(self, changes: Sequence[TableCommit]) -> list[Loaded]:
        """Commit changes of one or several tables: all of them, or none.

        Raises:
            CommitFailedException: A requirement is not met. Nothing was changed.
        """
        if len({change.table for change in changes}) < len(changes) or not changes:
            raise InvalidInputError("give one change for each table")
        named = ", ".join(
            f"{rules.operation(each.updates)} {shown(each.table)}" for each in changes
        )

        def plan(head: Ref) -> Plan:
            made = Plan(named)
            for change in changes:
                self._change(head, change, made)
            return made

        return self._land(plan).loaded

    def rename(self, table: Identifier, to: Identifier) -> None:
        """Give a table another name, also in another namespace."""

        def plan(head: Ref) -> Plan:
            there = self._table(head, table)
            before, after = folder(table), folder(to)
            made = Plan(f"rename {shown(table)} to {shown(to)}", expected=self._vacant(head, to))
            made.expected[there.entry.path] = there.entry
            for entry in head.entries(before):
                made.deleted.append(entry.path)
                path = after + entry.path.removeprefix(before)
                made.entries.append(replace(entry, path=path, origin=""))
            return made

        self._land(plan)

    def drop(self, table: Identifier) -> None:
        """Remove a table from the branch. Its files stay as long as another commit has them."""

        def plan(head: Ref) -> Plan:
            return self._without(head, table, self._table(head, table))

        self._land(plan)

    def _head(self) -> Ref:
        """Return the committed tree; what is staged does not count."""
        view = self._view
        return view if isinstance(view, Ref) else Ref(self._stores, view.head, name=view.name)

    def _land(self, plan: Callable[[Ref], Plan]) -> Plan:
        """Commit a plan, which is made again if the branch has moved in what it expects."""
        branch, failed = self._view, ""
        if isinstance(branch, Ref):
            raise ReadOnlyError(f"{self.name} is a commit, which never changes: name a branch")
        for attempt in range(_ATTEMPTS):
            try:
                made = plan(self._head())
                if made.entries or made.deleted:
                    with suppress(NoChangesError):
                        branch.commit_changes(
                            made.entries,
                            deleted=made.deleted,
                            expected=made.expected,
                            message=made.message,
                        )
            except PreconditionFailedError as error:
                failed = str(error)
                backoff(self._stores.clock, self._stores.ids, attempt)
            except ObjectNotFoundError as error:
                raise InvalidInputError(f"a file of the table is missing: {error}") from error
            else:
                return made
        raise CommitFailedException(failed)

    def _record(self, path: str, content: bytes, kind: str = "application/json") -> Entry:
        """Store a record, and return its entry."""
        made: Entry = self._view.store(path, content, content_type=kind)
        return made

    def _find(self, head: Ref, table: Identifier) -> _Found | None:
        entry = next(iter(head.stat_many([folder(table) + POINTER])))
        return None if entry is None else _Found(entry, POINTERS.decode(head.get(entry)))

    def _table(self, head: Ref, table: Identifier) -> _Found:
        found = self._find(head, table)
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {shown(table)}")
        return found

    def _namespace(self, head: Ref, namespace: Identifier) -> tuple[Entry, Namespace]:
        entry = next(iter(head.stat_many([folder(namespace) + NAMESPACE])))
        if entry is None:
            raise NoSuchNamespaceError(f"Namespace does not exist: {shown(namespace)}")
        return entry, NAMESPACES.decode(head.get(entry))

    def _below(self, head: Ref, above: Identifier, record: str) -> list[Identifier]:
        """Return the names directly below a namespace that have such a record."""
        start = folder(above)
        found = head.list(start, delimiter="/")
        folders = [each.path for each in found if isinstance(each, Prefix)]
        entries = head.stat_many([each + record for each in folders])
        return [
            (*above, name_of(place.removeprefix(start).rstrip("/")))
            for place, entry in zip(folders, entries, strict=True)
            if entry is not None
        ]

    def _vacant(self, head: Ref, table: Identifier) -> dict[str, Entry | None]:
        """Return what a commit expects that makes a table: its namespace, and nothing in its place."""
        if len(table) < 2:
            raise InvalidInputError(f"table {shown(table)!r}: give a namespace and a name")
        namespace, _ = self._namespace(head, table[:-1])
        place = folder(table)
        there, other = head.stat_many([place + POINTER, place + NAMESPACE])
        if there is not None or other is not None:
            what = "Table" if there else "Namespace"
            raise TableAlreadyExistsError(f"{what} already exists: {shown(table)}")
        return {namespace.path: namespace, place: None}

    def _without(self, head: Ref, table: Identifier, found: _Found) -> Plan:
        paths = [entry.path for entry in head.entries(folder(table))]
        expected: dict[str, Entry | None] = {found.entry.path: found.entry}
        return Plan(f"drop {shown(table)}", deleted=paths, expected=expected)

    def _key(self, uuid: UUID) -> str:
        """Return the folder of a table's new files on this ref, as a key of the storage."""
        view = self._view
        if isinstance(view, Ref):
            owner = view.commit.id
        else:
            owner = self._stores.refs.branches.get(view.name).born
        return self._files.key(owner, uuid)

    def _location(self, uuid: UUID) -> str:
        return self._stores.uri(self._key(uuid))

    def _loaded(self, pointer: Pointer) -> Loaded:
        found, location = self._files.table(pointer)
        return Loaded(rules.presented(found, self._location(found.table_uuid)), location)

    def _change(self, head: Ref, change: TableCommit, plan: Plan) -> None:
        """Add the change of a table to a plan."""
        there = self._find(head, change.table)
        if there is None:
            if not any(isinstance(each, AssertCreate) for each in change.requirements):
                raise NoSuchTableError(f"Table does not exist: {shown(change.table)}")
            self._begin(head, change, plan)
            return
        base = self._loaded(there.pointer)
        rules.check_requirements(base.metadata, change.requirements)
        rules.check_location(base.metadata.location, change.updates)
        updates = rules.signed(change.updates, self._signature())
        metadata = rules.updated(base.metadata, base.location, updates)
        if metadata == base.metadata:
            plan.loaded.append(base)
            return
        entries, loaded = self._written(head, change.table, metadata, base.metadata)
        files = TableEntries(
            self._stores, head.commit.metarange, folder(change.table), self._files, ""
        )
        plan.deleted += map(files.path, self._files.dropped(base.metadata, metadata))
        plan.entries += entries
        plan.expected[there.entry.path] = there.entry
        plan.loaded.append(loaded)

    def _begin(self, head: Ref, change: TableCommit, plan: Plan) -> None:
        """Add a new table to a plan."""
        plan.expected |= self._vacant(head, change.table)
        rules.check_requirements(None, change.requirements)
        uuid = rules.assigned(change.updates) or UUID(hex=self._stores.ids.unique())
        location = self._location(uuid)
        rules.check_location(location, change.updates)
        updates = rules.signed(change.updates, self._signature())
        made = rules.updated(None, location, updates).model_copy(update={"table_uuid": uuid})
        metadata = rules.presented(made, location)
        entries, loaded = self._written(head, change.table, metadata)
        plan.entries += entries
        plan.loaded.append(loaded)

    def _signature(self) -> Mapping[str, str]:
        """Return what the snapshots of a run have in their summaries."""
        view = self._view
        marks = {} if isinstance(view, Ref) else view._marks()
        return {rules.RUN: marks[rules.RUN], rules.WRITER: view.name} if rules.RUN in marks else {}

    def _written(
        self,
        head: Ref,
        table: Identifier,
        metadata: TableMetadata,
        base: TableMetadata | None = None,
    ) -> tuple[list[Entry], Loaded]:
        """Write metadata, and return the entries that the table gets by it."""
        place, key = folder(table), self._key(metadata.table_uuid)
        tree = head.commit.metarange
        files = TableEntries(self._stores, tree, place, self._files, f"{key}/")
        entries, pointer = files.written(metadata, base)
        record = self._record(place + POINTER, POINTERS.encode(pointer), POINTER_TYPE)
        return [*entries, record], Loaded(metadata, self._stores.uri(pointer.metadata))

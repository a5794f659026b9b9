"""The tables and namespaces of a ref: what a catalog does, whichever way it is asked."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pyiceberg.exceptions import (
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import AssertCreate, TableUpdate

from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import (
    InvalidInputError,
)
from graveler.model import Entry
from graveler.reads.view import Ref, View
from graveler.tables import metadata as rules
from graveler.tables.files import StoreFiles, TableEntries, attached
from graveler.tables.landing import Loaded, Namespaces, Plan, TableCommit
from graveler.tables.layout import (
    NAMESPACE,
    POINTER,
    POINTER_TYPE,
    POINTERS,
    Identifier,
    Pointer,
    folder,
    shown,
)


@dataclass(frozen=True, slots=True)
class _Found:
    """A table at the head: its record, and the entry of the record."""

    entry: Entry
    pointer: Pointer


class Tables(Namespaces):
    """The catalog of a branch, which can be changed, or of a commit.

    Identifiers are tuples of names. The errors are those of PyIceberg's catalogs and of graveler.

    Args:
        view: A branch, also that of a run or a step, or the ref of a commit.
        committer: The committer of changes; "" for the user of the process.
    """

    def __init__(self, view: View, *, committer: str = "") -> None:
        super().__init__(view, committer=committer)
        self._files = StoreFiles(self._stores)

    def tables(self, namespace: Identifier) -> list[Identifier]:
        """Return the tables of a namespace."""
        head = self._head()
        self._namespace(head, namespace)
        return self._below(head, namespace, POINTER)

    def every(self, above: Identifier = ()) -> list[Identifier]:
        """Return all tables of a namespace and of those below it, or of the ref."""
        found = [each for space in self.namespaces(above) for each in self.every(space)]
        return [*(self.tables(above) if above else ()), *found]

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
        rules.check_properties(wanted)
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
        return self.register_all({table: location}, overwrite=overwrite)[0]

    def register_all(
        self,
        tables: Mapping[Identifier, str],
        *,
        overwrite: bool = False,
        namespaces: bool = False,
    ) -> list[Loaded]:
        """Make tables of metadata that exists: all of them, or none.

        Args:
            tables: Where the metadata of each table is.
            overwrite: Replace tables of these names.
            namespaces: Make the namespaces that do not exist.
        """

        def plan(head: Ref) -> Plan:
            made = Plan(f"register {', '.join(map(shown, tables))}")
            for namespace in {table[:-1] for table in tables} if namespaces else ():
                self._add_namespace(head, namespace, {}, made)
            for table, location in tables.items():
                self._register(head, table, location, made, overwrite=overwrite)
            return made

        return self._land(plan).loaded

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

    def revise(
        self,
        tables: Sequence[Identifier],
        updates: Callable[[Identifier, TableMetadata], Sequence[TableUpdate]],
        message: str,
    ) -> list[Loaded]:
        """Commit updates of tables, of all or none, that are found from their metadata at the head."""

        def plan(head: Ref) -> Plan:
            made = Plan(message)
            for table in tables:
                base = self._loaded(self._table(head, table).pointer)
                self._change(head, TableCommit(table, (), updates(table, base.metadata)), made)
            return made

        return self._land(plan).loaded

    def rename(self, table: Identifier, to: Identifier) -> None:
        """Give a table another name, also in another namespace."""

        def plan(head: Ref) -> Plan:
            there = self._table(head, table)
            before, after = folder(table), folder(to)
            made = Plan(f"rename {shown(table)} to {shown(to)}", expected=self._vacant(head, to))
            made.expected[there.entry.path] = there.entry
            for entry in self._entries(head, table):
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

    def _find(self, head: Ref, table: Identifier) -> _Found | None:
        entry = next(iter(head.stat_many([folder(table) + POINTER])))
        return None if entry is None else _Found(entry, POINTERS.decode(head.get(entry)))

    def _table(self, head: Ref, table: Identifier) -> _Found:
        found = self._find(head, table)
        if found is None:
            raise NoSuchTableError(f"Table does not exist: {shown(table)}")
        return found

    def _vacant(
        self, head: Ref, table: Identifier, planned: Collection[str] = ()
    ) -> dict[str, Entry | None]:
        """Return what a commit expects that makes a table: its namespace, and nothing in its place.

        Args:
            planned: The records that the commit makes.
        """
        if len(table) < 2:
            raise InvalidInputError(f"table {shown(table)!r}: give a namespace and a name")
        place = folder(table)
        expected: dict[str, Entry | None] = {place: None}
        if (path := folder(table[:-1]) + NAMESPACE) not in planned:
            expected[path], _ = self._namespace(head, table[:-1])
        there, other = head.stat_many([place + POINTER, place + NAMESPACE])
        if there is not None or other is not None:
            what = "Table" if there else "Namespace"
            raise TableAlreadyExistsError(f"{what} already exists: {shown(table)}")
        return expected

    def _register(
        self, head: Ref, table: Identifier, location: str, plan: Plan, *, overwrite: bool
    ) -> None:
        """Add a table of metadata that exists to a plan."""
        found = self._files.metadata(location)
        rules.check_format(found.format_version)
        address, place = self._files.address(location), folder(table)
        files = TableEntries(self._stores, EMPTY_METARANGE, place, self._files, self._files.start)
        linked = files.missing({location: None, **attached(found)})
        pointer = POINTERS.encode(Pointer(str(found.table_uuid), address))
        entries = [
            *linked.values(),
            *files.added(found.snapshots),
            self._record(place + POINTER, pointer, POINTER_TYPE),
        ]
        there = self._find(head, table) if overwrite else None
        if there is None:
            plan.expected |= self._vacant(head, table, {each.path for each in plan.entries})
        else:
            before = self._without(head, table, there)
            plan.expected |= before.expected
            kept = {each.path for each in entries}
            plan.deleted += [path for path in before.deleted if path not in kept]
        plan.entries += entries
        shown_as = rules.presented(found, self._location(found.table_uuid))
        plan.loaded.append(Loaded(shown_as, self._stores.uri(address)))

    def _without(self, head: Ref, table: Identifier, found: _Found) -> Plan:
        paths = [entry.path for entry in self._entries(head, table)]
        expected: dict[str, Entry | None] = {found.entry.path: found.entry}
        return Plan(f"drop {shown(table)}", deleted=paths, expected=expected)

    def _entries(self, head: Ref, table: Identifier) -> list[Entry]:
        """Return the entries of a table, without those of a namespace that a merge has put into its folder."""
        place, ends = folder(table), (f"/{POINTER}", f"/{NAMESPACE}")
        found = [each for each in head.entries(place) if each.path != place + NAMESPACE]
        inner = {each.path.rpartition("/")[0] + "/" for each in found if each.path.endswith(ends)}
        return [each for each in found if not each.path.startswith(tuple(inner - {place}))]

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

"""PyIceberg's catalog of a ref in this process; no server is needed."""

from typing import Any, Self

from pyiceberg.catalog import Catalog, PropertiesUpdateSummary
from pyiceberg.exceptions import CommitStateUnknownException, NoSuchNamespaceError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, StagedTable, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.view import View

from graveler.errors import OutcomeUnknownError
from graveler.reads import view as trees
from graveler.tables import metadata as rules
from graveler.tables.landing import Loaded, TableCommit
from graveler.tables.namespaces import Tables


class TreeCatalog(Catalog):
    """The catalog of a branch, a tag or a commit. The errors are those of PyIceberg and of graveler."""

    _tables: Tables

    @classmethod
    def of(cls, view: trees.View, name: str = "graveler", **properties: str) -> Self:
        """Return the catalog of a branch, also that of a run or a step, or of a ref.

        Args:
            properties: Those for PyIceberg's readers and writers of files.
        """
        made = cls.__new__(cls)
        Catalog.__init__(made, name, **properties)
        made._tables = Tables(view)
        return made

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Create a table. graveler issues its location, whatever is asked for."""
        del location
        loaded = self._create(identifier, schema, partition_spec, sort_order, properties)
        return Table(**self._parts(identifier, loaded))

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Any,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Return a transaction that creates a table with its first rows."""
        del location
        loaded = self._create(
            identifier, schema, partition_spec, sort_order, properties, staged=True
        )
        return CreateTableTransaction(StagedTable(**self._parts(identifier, loaded)))

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table."""
        loaded = self._tables.load(self.identifier_to_tuple(identifier))
        return Table(**self._parts(identifier, loaded))

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Return whether a table exists."""
        return self._tables.exists(self.identifier_to_tuple(identifier))

    def register_table(
        self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False
    ) -> Table:
        """Register a table by its metadata. Its files are linked where they are."""
        table = self.identifier_to_tuple(identifier)
        loaded = self._tables.register(table, metadata_location, overwrite=overwrite)
        return Table(**self._parts(identifier, loaded))

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drop a table from the branch."""
        self._tables.drop(self.identifier_to_tuple(identifier))

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop a table: garbage collection frees the files that no other commit has."""
        self.drop_table(identifier)

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        """Rename a table."""
        self._tables.rename(
            self.identifier_to_tuple(from_identifier), self.identifier_to_tuple(to_identifier)
        )
        return self.load_table(to_identifier)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Commit updates to a table."""
        try:
            (done,) = self._tables.commit([TableCommit(table.name(), requirements, updates)])
        except OutcomeUnknownError as error:
            raise CommitStateUnknownException(str(error)) from error
        location = {"metadata-location": done.location}
        return CommitTableResponse(metadata=done.metadata, **location)

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        """Create a namespace, and those above it that do not exist."""
        self._tables.create_namespace(self.identifier_to_tuple(namespace), properties)

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Drop an empty namespace."""
        self._tables.drop_namespace(self.identifier_to_tuple(namespace))

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Return whether a namespace exists."""
        try:
            self.load_namespace_properties(namespace)
        except NoSuchNamespaceError:
            return False
        return True

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Return the tables of a namespace."""
        return self._tables.tables(self.identifier_to_tuple(namespace))

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Return the namespaces directly below one, or the outermost ones."""
        return self._tables.namespaces(self.identifier_to_tuple(namespace) if namespace else ())

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Return the properties of a namespace."""
        return dict(self._tables.properties(self.identifier_to_tuple(namespace)))

    def update_namespace_properties(
        self,
        namespace: str | Identifier,
        removals: set[str] | None = None,
        updates: Properties = EMPTY_DICT,
    ) -> PropertiesUpdateSummary:
        """Change the properties of a namespace."""
        return self._tables.update_properties(
            self.identifier_to_tuple(namespace), removals or (), updates
        )

    def supports_server_side_planning(self) -> bool:
        """Return False: clients plan their scans."""
        return False

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Return no views: they are not offered."""
        self.load_namespace_properties(namespace)
        return []

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Return False: views are not offered."""
        del identifier
        return False

    def _no_views(self, identifier: str | Identifier, *_: Any, **__: Any) -> View:
        # PyIceberg's own error for a catalog without views
        # as PyIceberg's own catalogs without views do
        raise NotImplementedError(f"{identifier}: views are not offered")

    load_view = register_view = create_view = _no_views
    drop_view = _no_views  # type: ignore[assignment]  # it would return nothing

    def _create(
        self,
        identifier: str | Identifier,
        schema: Any,
        spec: PartitionSpec,
        order: SortOrder,
        properties: Properties,
        *,
        staged: bool = False,
    ) -> Loaded:
        version = properties.get(rules.FORMAT, "2")
        rules.check_format(version)
        plain = schema if isinstance(schema, Schema) else self._convert_schema_if_needed(schema, 2)
        table = self.identifier_to_tuple(identifier)
        return self._tables.create(table, plain, spec, order, properties, staged=staged)

    def _parts(self, identifier: str | Identifier, loaded: Loaded) -> dict[str, Any]:
        """Return the arguments of PyIceberg's object of a table."""
        metadata = loaded.metadata
        return {
            "identifier": self.identifier_to_tuple(identifier),
            "metadata": metadata,
            "metadata_location": loaded.location,
            "io": self._load_file_io(dict(metadata.properties), metadata.location),
            "catalog": self,
        }

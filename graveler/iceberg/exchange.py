"""Exchange with other catalogs: their tables are registered, and tables of a ref exported, without a copy.

graveler deletes no file outside the folders that it issued, so a registered table stays as it is in the
catalog from which it comes.
"""

from collections.abc import Mapping
from uuid import UUID

from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.serializers import ToOutputFile

from graveler.errors import InvalidInputError, PermissionDeniedError
from graveler.reads.view import Ref
from graveler.repository.branch import Branch
from graveler.tables.layout import Identifier, shown
from graveler.tables.metadata import DEFENDED
from graveler.tables.namespaces import Tables

_NAME = "default"  # PyIceberg's own


def connect(named: str, properties: Mapping[str, str]) -> Catalog:
    """Return a catalog by its name in PyIceberg's configuration, or by its URI.

    Args:
        named: ``prod``, or ``https://…`` of a REST catalog, or ``sqlite:///…`` or ``postgresql://…`` of an SQL
            catalog with the name ``default``.
        properties: More properties of it, such as ``warehouse`` and ``token``.
    """
    given = {"uri": named, **properties} if "://" in named else dict(properties)
    try:
        return load_catalog(_NAME if "://" in named else named, **given)
    except ValueError as error:
        raise InvalidInputError(
            f"catalog {named!r}: give its URI, or its name in PyIceberg's configuration: {error}"
        ) from error


def register(
    branch: Branch, catalog: Catalog, name: Identifier, *, overwrite: bool = False
) -> list[Identifier]:
    """Register a table of another catalog, or all of a namespace, in one commit.

    Namespaces that the branch lacks are made. The files of the tables are linked where they are.

    Args:
        name: The table, or the namespace with all below it.
        overwrite: Replace tables of these names.

    Raises:
        NoSuchTableError: The catalog has no such table.
        PermissionDeniedError: Files are in no place that the repository may link to.
        TableAlreadyExistsError: The branch has a table or a namespace of this name.
    """
    found = _named(catalog, name)
    if not found:
        raise NoSuchTableError(f"catalog {catalog.name} has no table at or below {shown(name)}")
    loaded = {table: catalog.load_table(table) for table in found}
    locations = {table: each.metadata_location for table, each in loaded.items()}
    try:
        Tables(branch).register_all(locations, overwrite=overwrite, namespaces=True)
    except PermissionDeniedError as error:
        places = ", ".join(each.location() for each in loaded.values())
        raise error.saying(f"{error}; the tables are below {places}") from error
    return found


def _named(catalog: Catalog, name: Identifier) -> list[Identifier]:
    """Return a table, or all tables of a namespace and of those below it."""
    if len(name) > 1 and catalog.table_exists(name):
        return [name]
    spaces = catalog.list_namespaces(name)  # of PyIceberg's SQL catalog also those of `name2`
    below = [space for space in spaces if space[:-1] == name]
    return [
        *catalog.list_tables(name),
        *(each for space in below for each in _named(catalog, space)),
    ]


def export(view: Branch | Ref, catalog: Catalog, name: Identifier = ()) -> dict[Identifier, str]:
    """Register tables of a ref in another catalog, which is then their catalog.

    Each gets new metadata there, at the location that the catalog gives a new table, without the
    properties that keep engines from deleting files, and without the log of earlier metadata. Its
    snapshots and files are the same, so a tag on the commit keeps them as long as the catalog needs them.

    Args:
        name: The table, or the namespace with all below it; all tables by default.

    Returns:
        Where the new metadata of each table is.

    Raises:
        TableAlreadyExistsError: The catalog has such a table. Nothing was exported.
    """
    tables, ids = Tables(view), view.repository.ids
    found = [name] if len(name) > 1 and tables.exists(name) else tables.every(name)
    for table in found:
        if catalog.table_exists(table):
            raise TableAlreadyExistsError(
                f"catalog {catalog.name} has a table {shown(table)} already: drop it there, and export again"
            )
    return {
        table: _exported(tables, table, catalog, str(UUID(hex=ids.unique()))) for table in found
    }


def _exported(tables: Tables, table: Identifier, catalog: Catalog, unique: str) -> str:
    for depth in range(1, len(table)):
        catalog.create_namespace_if_not_exists(table[:depth])
    metadata = tables.load(table).metadata
    # staged, for its location and files alone; PyIceberg's own catalogs stage no name of three parts
    own = isinstance(catalog, MetastoreCatalog)
    place = (shown(table[:-1]), table[-1]) if own else table
    goal = catalog.create_table_transaction(place, metadata.schema())._table
    properties = {key: value for key, value in metadata.properties.items() if key not in DEFENDED}
    new = {"location": goal.location(), "properties": properties, "metadata_log": []}
    location = f"{goal.location()}/metadata/00000-{unique}.metadata.json"
    ToOutputFile.table_metadata(metadata.model_copy(update=new), goal.io.new_output(location))
    catalog.register_table(table, location)
    return location

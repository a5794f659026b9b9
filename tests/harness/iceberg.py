"""Tables of Iceberg in tests: rows, catalogs, and what a table has."""

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT
from pyiceberg.types import LongType, NestedField, StringType

from graveler.errors import GravelerError
from graveler.iceberg import GravelerCatalog

TOKEN = "grav-of-the-tests"
SCHEMA = Schema(
    NestedField(1, "hour", StringType(), required=False),
    NestedField(2, "delay", LongType(), required=False),
)
REFUSED = (BadRequestError, ForbiddenError, GravelerError)
"""How the two ways in refuse a request that makes no sense, or is not allowed."""


def rows(*delays, hour="05"):
    return pa.table({"hour": [hour] * len(delays), "delay": list(delays)})


def delays(catalog, table="db.flights"):
    """Return the delays that a table has, sorted."""
    return sorted(catalog.load_table(table).scan().to_arrow()["delay"].to_pylist())


def rest_catalog(server, warehouse, token=TOKEN, **more):
    uri = server.iceberg
    return load_catalog(
        "rest",
        **{
            "type": "rest",
            "uri": uri,
            "warehouse": warehouse,
            "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
            "token": token,
            **more,
        },
    )


def own_catalog(lake, warehouse):
    """Return the catalog in this process, as PyIceberg finds it by its class."""
    return load_catalog(
        "own",
        **{
            "py-catalog-impl": "graveler.iceberg.GravelerCatalog",
            "lake": lake.location,
            "warehouse": warehouse,
        },
    )


def with_table(catalog, *delays, table="db.flights", **properties):
    """Return a new table with these rows."""
    catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
    made = catalog.create_table(table, SCHEMA, properties=properties)
    if delays:
        made.append(rows(*delays))
    return made


class _Compaction(_OverwriteFiles):
    def _summary(self, snapshot_properties=EMPTY_DICT):
        made = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **made.additional_properties)


def compact(table):
    """Write all rows of a table into one file, as engines do; PyIceberg has only the parts for it."""
    old, found = [task.file for task in table.scan().plan_files()], table.scan().to_arrow()
    with table.transaction() as transaction:
        new = _dataframe_to_data_files(transaction.table_metadata, found, table.io)
        with _Compaction(Operation.OVERWRITE, transaction, table.io) as rewrite:
            for file in old:
                rewrite.delete_data_file(file)
            for file in new:
                rewrite.append_data_file(file)


def catalog_of(branch, **properties):
    return GravelerCatalog.of(branch, **properties)


def named_files(table):
    """Return the locations of all files that the metadata of a table names, as PyIceberg reads it."""
    found = {table.metadata_location}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io)
            found |= {entry.data_file.file_path for entry in entries}
    return found | {each.metadata_file for each in table.metadata.metadata_log}


def entry_files(repo, ref="main", table="db/flights/"):
    """Return the URIs of the files of a table's entries, without its record."""
    view = repo.ref(ref)
    entries = [entry for entry in view.entries(table) if not entry.path.endswith("/_table.json")]
    return {view.uri(entry) for entry in entries}


def token_of(lake, user, *rules, **terms):
    """Return a token of a new user who has these rules."""
    lake.iam.create_user(user)
    if rules:
        lake.iam.put_policy(user, rules)
        lake.iam.attach(user, user=user)
    return lake.iam.create_token(user, **terms)[0]

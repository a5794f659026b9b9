"""Iceberg's REST protocol for the tables of one ref: requests and answers as JSON, and errors.

The server speaks HTTP, and knows who asks; here is what the paths below ``/v1/{prefix}/`` mean.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError
from pyiceberg.catalog.rest import CreateTableRequest, RegisterTableRequest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from graveler.base.local_files import make_folders
from graveler.errors import (
    GateFailedError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ProtectedBranchError,
    RetryableError,
    StateError,
    StorageFullError,
)
from graveler.tables.landing import Loaded, TableCommit
from graveler.tables.layout import Identifier, folder
from graveler.tables.metadata import as_json
from graveler.tables.namespaces import Tables

_SEPARATOR = "\x1f"
_FAILED = 500
_LOCAL = "file://"
_M = TypeVar("_M", bound=BaseModel)

STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (NoSuchNamespaceError, 404, "NoSuchNamespaceException"),
    (NoSuchTableError, 404, "NoSuchTableException"),
    (TableAlreadyExistsError, 409, "AlreadyExistsException"),
    (NamespaceAlreadyExistsError, 409, "AlreadyExistsException"),
    (NamespaceNotEmptyError, 409, "NamespaceNotEmptyException"),
    (CommitFailedException, 409, "CommitFailedException"),
    (NotFoundError, 404, "NotFoundException"),
    (InvalidInputError, 400, "BadRequestException"),
    (PermissionDeniedError, 403, "ForbiddenException"),
    (ProtectedBranchError, 403, "ForbiddenException"),
    (GateFailedError, 403, "ForbiddenException"),
    (StateError, 403, "ForbiddenException"),
    (RetryableError, 503, "ServiceUnavailableException"),
    (StorageFullError, 507, "ServiceFailureException"),
    (OutcomeUnknownError, _FAILED, "CommitStateUnknownException"),
)
"""Errors with their status, which decides what a client does, and their type in Iceberg. 409 lets it
read again and repeat, 503 repeat, and after 500 it keeps the files that it has written."""


class RequestError(Exception):
    """A request that is refused with a certain status."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class Rights(Protocol):
    """What the client may do with the ref."""

    def check(self, action: str, folder: str, /, *, everywhere: bool = False) -> None:
        """Raise PermissionDeniedError unless the client may read or write all of a folder.

        Args:
            everywhere: On every ref of the repository.
        """

    def sees(self, folder: str, /) -> bool:
        """Return whether the client may know of a folder."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request.

    Attributes:
        namespace: The namespace in the path, if there is one.
        name: The name of the table in the path, or "".
        body: The JSON document that was sent, or {}.
    """

    tables: Tables
    rights: Rights
    namespace: Identifier
    name: str
    query: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def table(self) -> Identifier:
        """The table in the path."""
        return (*self.namespace, self.name)

    def parsed(self, model: type[_M], **given: Any) -> _M:
        """Return the body as a document of a kind; `given` are fields that it may lack."""
        try:
            return model.model_validate({**given, **self.body})
        except (ValidationError, ValueError, TypeError) as error:
            raise InvalidInputError(f"the request cannot be read: {error}") from error

    def read(self, identifier: Identifier) -> None:
        """Refuse a client that may not read a table or a namespace."""
        self.rights.check("read", folder(identifier))

    def write(self, identifier: Identifier) -> None:
        """Refuse a client that may not write a table or a namespace."""
        self.rights.check("write", folder(identifier))

    def known(self, identifiers: Sequence[Identifier]) -> list[Identifier]:
        """Return the identifiers of which the client may know."""
        return [each for each in identifiers if self.rights.sees(folder(each))]


Handler = Callable[[Call], str | None]
"""Answers a call with a JSON text, or None for an answer without content."""


def _list_namespaces(call: Call) -> str:
    parent = call.query.get("parent", "")
    above = _split(parent) if parent else ()
    return json.dumps({"namespaces": call.known(call.tables.namespaces(above))})


def _create_namespace(call: Call) -> str:
    namespace, properties = _names(call.body, "namespace"), _texts(call.body, "properties")
    call.write(namespace)
    call.tables.create_namespace(namespace, properties)
    return json.dumps({"namespace": namespace, "properties": properties})


def _load_namespace(call: Call) -> str:
    call.read(call.namespace)
    properties = dict(call.tables.properties(call.namespace))
    return json.dumps({"namespace": call.namespace, "properties": properties})


def _has_namespace(call: Call) -> None:
    _load_namespace(call)


def _drop_namespace(call: Call) -> None:
    call.write(call.namespace)
    call.tables.drop_namespace(call.namespace)


def _update_namespace(call: Call) -> str:
    call.write(call.namespace)
    updates = _texts(call.body, "updates")
    removals = call.body.get("removals") or []
    removals = _names({"removals": removals}, "removals") if removals else ()
    if both := sorted({*removals} & updates.keys()):
        raise RequestError(
            422, "UnprocessableEntityException", f"properties {both}: remove or update them"
        )
    done = call.tables.update_properties(call.namespace, removals, updates)
    return json.dumps({"removed": done.removed, "updated": done.updated, "missing": done.missing})


def _list_tables(call: Call) -> str:
    known = call.known(call.tables.tables(call.namespace))
    return json.dumps(
        {"identifiers": [{"namespace": each[:-1], "name": each[-1]} for each in known]}
    )


def _create_table(call: Call) -> str:
    lacking = {"location": None, "partition-spec": None, "write-order": None}
    asked = call.parsed(CreateTableRequest, **lacking)
    table = (*call.namespace, asked.name)
    call.write(table)
    return _answer(
        call.tables.create(
            table,
            asked.table_schema,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            asked.write_order or UNSORTED_SORT_ORDER,
            asked.properties,
            staged=asked.stage_create,
        )
    )


def _register_table(call: Call) -> str:
    asked = call.parsed(RegisterTableRequest, overwrite=False)
    table = (*call.namespace, asked.name)
    call.write(table)
    call.rights.check("read", "", everywhere=True)  # metadata may name the files of any table
    return _answer(call.tables.register(table, asked.metadata_location, overwrite=asked.overwrite))


def _load_table(call: Call) -> str:
    call.read(call.table)
    loaded = call.tables.load(call.table)
    local = loaded.metadata.location.removeprefix(_LOCAL)
    if call.tables.writable and local != loaded.metadata.location:
        with suppress(OSError):  # DuckDB makes no folder for its metadata, which others do
            make_folders(Path(local) / "metadata")
    return _answer(loaded, only_refs=call.query.get("snapshots", "") == "refs")


def _has_table(call: Call) -> None:
    call.read(call.table)
    if not call.tables.exists(call.table):
        raise NoSuchTableError(f"Table does not exist: {'.'.join(call.table)}")


def _commit_table(call: Call) -> str:
    call.write(call.table)
    return _answer(call.tables.commit([_change(call.table, call.body)])[0], config=False)


def _drop_table(call: Call) -> None:
    call.write(call.table)
    call.tables.drop(call.table)


def _report_metrics(call: Call) -> None:
    call.read(call.table)


def _rename_table(call: Call) -> None:
    source, to = (_identifier(call.body.get(each)) for each in ("source", "destination"))
    call.write(source)
    call.read(source)
    call.write(to)
    call.tables.rename(source, to)


def _commit_tables(call: Call) -> None:
    given = call.body.get("table-changes")
    if not isinstance(given, list):
        raise InvalidInputError("table-changes: give a list of changes")
    changes = []
    for each in given:
        table = _identifier(each.get("identifier") if isinstance(each, dict) else None)
        call.write(table)
        changes.append(_change(table, each))
    call.tables.commit(changes)


def _no_view(call: Call) -> None:
    raise RequestError(404, "NoSuchViewException", f"View does not exist: {'.'.join(call.table)}")


_NAMESPACE = "namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
OFFERED: Mapping[tuple[str, str], Handler] = {
    ("GET", "namespaces"): _list_namespaces,
    ("POST", "namespaces"): _create_namespace,
    ("GET", _NAMESPACE): _load_namespace,
    ("HEAD", _NAMESPACE): _has_namespace,
    ("DELETE", _NAMESPACE): _drop_namespace,
    ("POST", f"{_NAMESPACE}/properties"): _update_namespace,
    ("GET", f"{_NAMESPACE}/tables"): _list_tables,
    ("POST", f"{_NAMESPACE}/tables"): _create_table,
    ("POST", f"{_NAMESPACE}/register"): _register_table,
    ("GET", _TABLE): _load_table,
    ("HEAD", _TABLE): _has_table,
    ("POST", _TABLE): _commit_table,
    ("DELETE", _TABLE): _drop_table,
    ("POST", f"{_TABLE}/metrics"): _report_metrics,
    ("POST", "tables/rename"): _rename_table,
    ("POST", "transactions/commit"): _commit_tables,
}
"""The requests by method and path below ``/v1/{prefix}/``."""

_VIEW = f"{_NAMESPACE}/views/{{view}}"
_ROUTES = {**OFFERED, ("GET", _VIEW): _no_view, ("HEAD", _VIEW): _no_view}
_KINDS = {"tables": "{table}", "views": "{view}"}


def config(prefix: str) -> dict[str, Any]:
    """Return the answer to ``/v1/config``: what a client must know and can ask for."""
    return {
        "defaults": {},
        "overrides": {"prefix": prefix, "token-refresh-enabled": "false"},
        "endpoints": [f"{method} /v1/{{prefix}}/{path}" for method, path in OFFERED],
    }


def answer(
    method: str,
    parts: Sequence[str],
    tables: Tables,
    rights: Rights,
    query: Mapping[str, str],
    body: bytes,
) -> str | None:
    """Carry out a request.

    Args:
        parts: The parts of the path behind the prefix, as they were sent.
        body: What was sent, or nothing.

    Returns:
        The document of the answer, or None if it has none.
    """
    named = list(parts)
    namespace: Identifier = ()
    name = ""
    if len(parts) > 1 and parts[0] == "namespaces":
        named[1], namespace = "{namespace}", _split(unquote(parts[1], errors="strict"))
    if len(parts) > 3 and parts[2] in _KINDS:
        named[3], name = _KINDS[parts[2]], unquote(parts[3], errors="strict")
    handler = _ROUTES.get((method, "/".join(named)))
    if handler is None:
        raise RequestError(
            501,
            "UnsupportedOperationException",
            f"{method} {'/'.join(named)} is not offered; /v1/config lists what is",
        )
    return handler(Call(tables, rights, namespace, name, query, _document(body)))


def status_of(error: Exception) -> tuple[int, str]:
    """Return the status of an error and its type in Iceberg."""
    if isinstance(error, RequestError):
        return error.status, error.kind
    known = (each[1:] for each in STATUSES if isinstance(error, each[0]))
    return next(known, (_FAILED, "ServiceFailureException"))


def _split(text: str) -> Identifier:
    return tuple(text.split(_SEPARATOR))


def _document(body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    try:
        document = json.loads(body)
    except ValueError as error:
        raise InvalidInputError(f"the request is no JSON document: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInputError("the request is no JSON object")
    return document


def _names(document: Any, field: str) -> Identifier:
    """Return a field that is a list of texts."""
    found = document.get(field) if isinstance(document, dict) else None
    if not (isinstance(found, list) and found and all(isinstance(each, str) for each in found)):
        raise InvalidInputError(f"{field}: give a list of texts")
    return tuple(found)


def _texts(document: Mapping[str, Any], field: str) -> dict[str, str]:
    """Return a field that is an object whose values are texts."""
    found = document.get(field) or {}
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise InvalidInputError(f"{field}: give an object of texts")
    return found


def _identifier(document: Any) -> Identifier:
    name = document.get("name") if isinstance(document, dict) else None
    if not isinstance(name, str):
        raise InvalidInputError("give a table as {'namespace': […], 'name': …}")
    return (*_names(document, "namespace"), name)


def _change(table: Identifier, body: Mapping[str, Any]) -> TableCommit:
    identifier = {"namespace": list(table[:-1]), "name": table[-1]}
    try:
        asked = CommitTableRequest.model_validate({**body, "identifier": identifier})
    except (ValidationError, ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(f"the request cannot be read: {error}") from error
    return TableCommit(table, asked.requirements, asked.updates)


def _answer(loaded: Loaded, *, only_refs: bool = False, config: bool = True) -> str:
    """Return a table as an answer; its metadata is JSON already."""
    head = f'"metadata-location":{json.dumps(loaded.location)},' if loaded.location else ""
    tail = ',"config":{}' if config else ""
    return f'{{{head}"metadata":{as_json(loaded.metadata, only_refs=only_refs)}{tail}}}'

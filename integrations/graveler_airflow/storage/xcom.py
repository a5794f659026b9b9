"""The XCom backend that stores large values as files of a branch, each in its own commit."""

import json
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from types import SimpleNamespace
from typing import Any, TypeGuard
from urllib.parse import quote

from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.configuration import conf
from airflow.sdk.execution_time.comms import XComResult
from fsspec.compression import compr
from fsspec.utils import compressions, infer_compression

from graveler.errors import InvalidInputError, NoChangesError, NotFoundError, ProtectedBranchError
from graveler.fs.address import PROTOCOL, Address
from graveler.lake import Repository
from graveler_airflow.failures import final_failures
from graveler_airflow.hook import GravelerHook
from graveler_common.lakes import shared_lake

_SECTION = "common.io"
_PATH = "xcom_objectstorage_path"
_ADDRESS = "graveler.xcom"
_BRANCH = "graveler.branch"


class GravelerXComBackend(BaseXCom):
    """Stores large XComs as files of a branch of a lake.

    It is enabled by ``[core] xcom_backend``, and has the settings of Airflow's
    ``XComObjectStorageBackend`` in the section ``[common.io]``:

    - ``xcom_objectstorage_path``: ``grav://connection@repository/branch/folder``. The branch must
      exist, accept commits, and have no other use.
    - ``xcom_objectstorage_threshold``: The size in bytes from which values are files; 0 for all
      values; -1, the default, for none.
    - ``xcom_objectstorage_compression``: ``gzip``, or another compression of fsspec.

    Each value is one commit that names its task. Airflow's database has the address of the file in
    that commit, so later changes of the branch do not change the value.
    """

    @staticmethod
    def serialize_value(
        value: Any,
        *,
        key: str | None = None,
        task_id: str | None = None,
        dag_id: str | None = None,
        run_id: str | None = None,
        map_index: int | None = None,
    ) -> Any:
        """Return the value for Airflow's database: the value itself, or the address of its file."""
        plain = BaseXCom.serialize_value(value)
        body = json.dumps(plain).encode()
        threshold = conf.getint(_SECTION, "xcom_objectstorage_threshold", fallback=-1)
        if not 0 <= threshold <= len(body):
            return plain
        names = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id}
        if map_index is not None and map_index >= 0:
            names["map_index"] = str(map_index)
        names["xcom_key"] = key
        with final_failures():
            return _store(body, {name: text or "-" for name, text in names.items()})

    @staticmethod
    def deserialize_value(result: Any) -> Any:
        """Return the value, from its file if the database holds an address."""
        if not _is_address(result.value):
            return BaseXCom.deserialize_value(result)
        with final_failures():
            conn_id, address = _split(result.value[_ADDRESS])
            file = _repository(conn_id, address).ref(address.ref).get(address.path)
        with compr[infer_compression(address.path)](BytesIO(file), mode="rb") as plain:
            return BaseXCom.deserialize_value(SimpleNamespace(value=json.load(plain)))

    @classmethod
    def purge(cls, xcom: XComResult, *args: Any) -> None:
        """Delete the file of a value that Airflow deletes; the history of the branch keeps it."""
        del args
        if not _is_address(xcom.value):
            return
        conn_id, address = _split(xcom.value[_ADDRESS])
        # without the branch or the file there is nothing to delete
        with final_failures(), suppress(NotFoundError, NoChangesError):
            branch = _repository(conn_id, address).branch(xcom.value[_BRANCH])
            branch.commit_changes(deleted=[address.path], message=f"delete {address.path}")


def _is_address(value: object) -> TypeGuard[Mapping[str, str]]:
    return isinstance(value, Mapping) and _ADDRESS in value


def _store(body: bytes, names: Mapping[str, str]) -> dict[str, str]:
    place = conf.get_mandatory_value(_SECTION, _PATH)
    conn_id, folder = _split(place)
    compression = conf.get(_SECTION, "xcom_objectstorage_compression", fallback="")
    content, suffix = _compressed(body, compression)
    path = folder.folder + "/".join(quote(name, safe=":+=@, ") for name in names.values())
    path = f"{path}.json{suffix}"
    try:
        commit = _commit(_repository(conn_id, folder), folder.ref, path, content, names)
    except (NotFoundError, ProtectedBranchError) as error:
        raise InvalidInputError(f"[{_SECTION}] {_PATH} = {place!r}: {error}") from error
    return {
        _ADDRESS: f"{PROTOCOL}://{conn_id}@{Address(folder.repository, commit, path).text}",
        _BRANCH: folder.ref,
    }


def _commit(
    repository: Repository, ref: str, path: str, body: bytes, names: Mapping[str, str]
) -> str:
    branch = repository.branch(ref)
    try:
        commit = branch.commit_changes(
            [branch.store(path, body)],
            message=f"XCom {names['xcom_key']} of {names['dag_id']}.{names['task_id']}",
            metadata={f"airflow.{name}": text for name, text in names.items()},
        )
    except NoChangesError:  # an earlier try of the task has returned the same value
        commit = repository.ref(f"{ref}@").commit
    return commit.id


def _split(address: str) -> tuple[str, Address]:
    scheme, _, place = address.partition("://")
    authority, _, path = place.partition("/")
    conn_id, _, repository = authority.rpartition("@")
    parsed = Address.parse(f"{repository}/{path}")
    if scheme != PROTOCOL or not parsed.ref:
        raise InvalidInputError(
            f"[{_SECTION}] {_PATH} = {address!r}: give grav://connection@repository/branch/folder, "
            "the branch that values are committed to"
        )
    return conn_id or GravelerHook.default_conn_name, parsed


def _repository(conn_id: str, address: Address) -> Repository:
    return shared_lake(GravelerHook(conn_id).location).repository(address.repository)


def _compressed(body: bytes, compression: str) -> tuple[bytes, str]:
    """Return the compressed bytes, and the end of the names of such files."""
    if not compression:
        return body, ""
    suffixes = {name: f".{suffix}" for suffix, name in compressions.items()}
    if compression not in suffixes:
        raise InvalidInputError(
            f"[{_SECTION}] xcom_objectstorage_compression = {compression!r}: give one of "
            f"{sorted(suffixes)}; others need their package"
        )
    buffer = _Buffer()
    with compr[compression](buffer, mode="wb") as file:
        file.write(body)
    return buffer.getvalue(), suffixes[compression]


class _Buffer(BytesIO):
    """A buffer that can be read after a compressor, such as that of zstd, has closed it."""

    def close(self) -> None:
        """Stay open."""

"""The filesystem of ``ObjectStoragePath``; its reads and writes are noted as hook lineage."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from graveler.errors import GravelerError
from graveler.fs import GravelerFileSystem
from graveler.fs.address import Address
from graveler.lake import Lake
from graveler.model import Entry
from graveler.objects.store import Body
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.hooks import HookLineage
from graveler_common.lakes import shared_lake

schemes = ["grav"]
"""The schemes for which Airflow's ``ObjectStoragePath`` calls `get_fs`."""

_STAGING_BACKEND = "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend"
_COMMITTING_BACKEND = "graveler_airflow.storage.xcom.GravelerXComBackend"


def get_fs(
    conn_id: str | None, storage_options: Mapping[str, Any] | None = None
) -> "ConnectionFileSystem":
    """Return the filesystem of a connection's lake; Airflow calls this function.

    The filesystem looks up the connection when it is first used, because ``ObjectStoragePath`` ignores
    errors of this function and would work without a connection.
    """
    conn_id = conn_id or GravelerHook.default_conn_name
    return ConnectionFileSystem(conn_id=conn_id, **(storage_options or {}))


class ConnectionFileSystem(GravelerFileSystem):
    """The filesystem of a connection's lake."""

    def __init__(self, *args: Any, conn_id: str, **options: Any) -> None:
        self._conn_id = conn_id
        super().__init__(*args, **options)
        self._lineage = HookLineage(self, conn_id)

    @cached_property
    def location(self) -> str:
        """The location of the lake."""
        if self._named:
            return str(super().location)
        with self._broken_connection():
            return GravelerHook(self._conn_id).location

    def _check_lake(self) -> None:
        """Do nothing: the connection is looked up at the first use."""

    def _open_lake(self) -> Lake:
        with self._broken_connection():
            return shared_lake(self.location)

    @contextmanager
    def _broken_connection(self) -> Iterator[None]:
        """Raise errors of the block as ConnectionError, so that none means "no such file"."""
        try:
            yield
        except GravelerError as error:
            what = f"connection {self._conn_id!r}"
            message = str(error) if what in str(error) else f"{what}: {error}"
            raise ConnectionError(errno.EHOSTUNREACH, message) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain filesystem, because workers of Dask or Spark may not have Airflow."""
        options = {name: value for name, value in self.storage_options.items() if name != "conn_id"}
        options["lake"] = self.location
        plain: tuple[Any, ...] = GravelerFileSystem(*self.storage_args, **options).__reduce__()
        return plain

    def _open(self, path: str, mode: str = "rb", *args: Any, **options: Any) -> Any:
        if "r" not in mode:
            self._check_is_no_xcom(path)
        file = super()._open(path, mode, *args, **options)
        if "r" in mode:
            self._note_read(path)
        return file

    def _check_is_no_xcom(self, path: str) -> None:
        """Refuse values of the XCom backend that stages them and never commits."""
        if self._intrans or conf.get("core", "xcom_backend", fallback="") != _STAGING_BACKEND:
            return
        folder = conf.get("common.io", "xcom_objectstorage_path", fallback="").rstrip("/")
        place = folder.removeprefix("grav://").rpartition("@")[2]
        if place and self._strip_protocol(path).startswith(f"{place}/"):
            raise AirflowFailException(
                f"{_STAGING_BACKEND} would stage its values below {folder} and never commit them: "
                f"set [core] xcom_backend to {_COMMITTING_BACKEND}, which commits each value"
            )

    def cat_file(self, path: str, *args: Any, **options: Any) -> bytes:
        """Return the bytes of a file."""
        content = super().cat_file(path, *args, **options)
        self._note_read(path)
        return content

    def get_file(self, rpath: str, lpath: Any, *args: Any, **options: Any) -> None:
        """Copy a file to a local file."""
        super().get_file(rpath, lpath, *args, **options)
        self._note_read(rpath)

    def write_stream(self, path: str, body: Body) -> Entry:
        """Store bytes and stage their entry."""
        entry = super().write_stream(path, body)
        address = Address.parse(self._strip_protocol(path))
        self._lineage.wrote(address.repository, address.ref, address.path)
        return entry

    def _note_read(self, path: str) -> None:
        if not self._lineage.is_on:
            return
        address = Address.parse(self._strip_protocol(path))
        with suppress(GravelerError):
            commit = self._repository(address.repository).ref(address.ref).commit
            self._lineage.read(address.repository, address.ref, [address.path], commit.id)

"""``ObjectStoragePath("grav://repository/ref/path")``: files of a lake as paths of Airflow.

``grav://connection@repository/ref/path`` uses another connection than the default.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from graveler_airflow.hook import GravelerHook

if TYPE_CHECKING:
    from graveler.fs import GravelerFileSystem


schemes: Final = ["grav"]


def get_fs(
    conn_id: str | None, storage_options: Mapping[str, Any] | None = None
) -> "GravelerFileSystem":
    """Return the filesystem of a connection's lake; Airflow calls it.

    Args:
        conn_id: The connection; the default one if not given.
        storage_options: Options of the filesystem; ``lake`` in it replaces the connection.
    """
    from graveler.fs import GravelerFileSystem  # noqa: PLC0415 - fsspec, only where it is used

    options = dict(storage_options or {})
    if not options.get("lake"):
        options["lake"] = GravelerHook(conn_id or GravelerHook.default_conn_name).location
    return GravelerFileSystem(**options)

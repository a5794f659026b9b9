"""Addresses of a lake in Airflow: assets and hours for schedules, and files as paths.

``grav://repository/ref/prefix`` is an asset, and ``ObjectStoragePath("grav://repository/ref/path")``
a file. ``grav://connection@repository/…`` uses another connection than the default.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow.sdk import Asset, AssetAlias, AssetWatcher, CronPartitionTimetable, ObjectStoragePath

from graveler.base.names import check_branch, check_repository
from graveler.errors import InvalidInputError
from graveler_airflow.dag.context import PARTITION_KEY
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.naming import dataset_name, namespace

if TYPE_CHECKING:
    from openlineage.client.event_v2 import Dataset

_BY_PARTITION = "by=partition"
_PLAIN = "/:=,+@-_.~"


def graveler_asset(
    name: str,
    repo: str,
    ref: str = "main",
    prefix: str = "",
    *,
    watch: bool = True,
    poll_interval: float = 30.0,
    graveler_conn_id: str = GravelerHook.default_conn_name,
) -> Asset:
    """Return the asset of the files of a branch below a prefix, to schedule DAGs on.

    With `watch`, every commit that changes them is an event of the asset, whichever program made it;
    see `GravelerCommitTrigger`. Without it, events come from the tasks that have it as an outlet.

    Args:
        name: The asset's name.
        repo: The repository.
        ref: A branch.
        prefix: Only files below it; all files if not given.
        watch: Watch the branch from the triggerer.
        poll_interval: Seconds between two polls.
        graveler_conn_id: The connection of the lake.

    Raises:
        InvalidInputError: The repository or branch has an invalid name.
    """
    watchers = []
    if watch:
        from graveler_airflow.triggers import GravelerCommitTrigger

        trigger = GravelerCommitTrigger(
            repo,
            ref,
            prefix=prefix,
            asset=name,
            poll_interval=poll_interval,
            graveler_conn_id=graveler_conn_id,
        )
        watchers.append(AssetWatcher(name=f"{name} commits", trigger=trigger))
    return Asset(
        name=name, uri=_uri(repo, ref, prefix, conn_id=graveler_conn_id), watchers=watchers
    )


def graveler_partitions(
    name: str,
    repo: str,
    ref: str = "main",
    prefix: str = "",
    *,
    graveler_conn_id: str = GravelerHook.default_conn_name,
) -> Asset:
    """Return the same files as an asset of partitions: a DAG can have one run for each hour.

    Make it an outlet of `GravelerPartitionsOperator`, and schedule on
    ``PartitionedAssetTimetable(assets=…)``. It is a separate asset because the events of a
    watcher have no partition.

    Args:
        name: The asset's name.
        repo: The repository.
        ref: A branch.
        prefix: Only files below it; all files if not given.
        graveler_conn_id: The connection of the lake.

    Raises:
        InvalidInputError: The repository or branch has an invalid name.
    """
    uri = _uri(repo, ref, prefix, conn_id=graveler_conn_id)
    return Asset(name=name, uri=f"{uri}?{_BY_PARTITION}")


def listed_assets(asset: Any, what: str) -> list[Asset | AssetAlias]:
    """Return one asset or several as a list."""
    if asset is None:
        return []
    if isinstance(asset, (set, frozenset)):
        asset = sorted(asset, key=repr)  # in one order in every process
    several = list(asset) if isinstance(asset, (list, tuple)) else [asset]
    for each in several:
        if not isinstance(each, (Asset, AssetAlias)):
            raise InvalidInputError(
                f"{what} {each!r}: give an Asset or an AssetAlias, or a list of them: a reference or a "
                "condition has no events"
            )
    return several


def is_partitioned(asset: Asset) -> bool:
    """Return whether `graveler_partitions` made an asset."""
    return urlsplit(asset.uri).query == _BY_PARTITION


def create_asset(
    *,
    repo: str,
    ref: str = "main",
    prefix: str = "",
    conn_id: str = GravelerHook.default_conn_name,
    extra: dict[str, Any] | None = None,
) -> Asset:
    """Return an asset for Airflow's record of the reads and writes of a hook."""
    return Asset(uri=_uri(repo, ref, prefix, conn_id=conn_id), extra=extra)


def _uri(repo: str, ref: str, prefix: str, *, conn_id: str = GravelerHook.default_conn_name) -> str:
    path = quote(prefix.strip("/"), safe=_PLAIN)
    return f"{namespace(conn_id, check_repository(repo))}/{check_branch(ref)}/{path}".rstrip("/")


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the canonical form of a ``grav://`` address; Airflow calls this when it parses a DAG."""
    conn, _, repo = uri.netloc.rpartition("@")
    ref, _, prefix = uri.path.lstrip("/").partition("/")
    try:
        check_repository(repo)
        check_branch(ref)
    except InvalidInputError as error:
        raise ValueError(f"{uri.geturl()}: give grav://repository/ref/prefix: {error}") from error
    if uri.query not in ("", _BY_PARTITION):
        raise ValueError(f"{uri.geturl()}: the only query is ?{_BY_PARTITION}")
    if conn == GravelerHook.default_conn_name:
        conn = ""
    return uri._replace(
        netloc=f"{conn}@{repo}" if conn else repo,
        path=f"/{ref}/{prefix.strip('/')}".rstrip("/"),
    )


def convert_asset_to_openlineage(asset: Asset, lineage_context: object) -> "Dataset | None":
    """Return the OpenLineage dataset of an asset, with the commit that hook lineage names.

    The result is None for a file that ``ObjectStoragePath`` reports, because its filesystem reports
    the folder and the commit.
    """
    if isinstance(lineage_context, ObjectStoragePath):
        return None
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import dataset_version_dataset

    parts = urlsplit(asset.uri)
    ref, _, folder = unquote(parts.path).lstrip("/").partition("/")
    commit = asset.extra.get("commit")
    version = dataset_version_dataset.DatasetVersionDatasetFacet(str(commit))
    return Dataset(
        namespace=f"grav://{parts.netloc}",
        name=dataset_name(ref, folder),
        facets={"version": version} if commit else {},
    )


def hourly() -> CronPartitionTimetable:
    """Return a schedule with one run for each hour, for the hour that has just ended.

    The run of 16:00 has the partition ``2026-11-20T15:00``, and its tasks have the ``hour`` 15:00.
    With a cron string alone the run would be for 16:00, because Airflow 3 gives it no interval. A
    key with ``/`` in it breaks backfills.
    """
    return CronPartitionTimetable(
        "0 * * * *", timezone="UTC", run_offset=-1, key_format=PARTITION_KEY
    )

"""What Dagster's event log shows of each partition, compared with what main has."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from graveler.lake import Repository
from tests.real.chaos.judging import publishes, standing_runs

_ASSETS = {
    **dict.fromkeys(("ingest", "left", "right", "curate"), "hours"),
    **dict.fromkeys(("split_left", "split_balance"), "split"),
    "digest": "digest",
}
"""The assets, with the names of their pipelines."""

_MOST = 10_000


def compare(instance: dg.DagsterInstance, repository: Repository) -> list[str]:
    """Return a line for each partition of which the event log shows something else than main has.

    A partition whose newest event is an observation of a publish is on main, with that commit. A
    materialization without a newer observation is not on main.
    """
    standing = standing_runs(repository)
    heads = {key: commits[-1] for key, commits in publishes(repository).items() if key in standing}
    wrong = []
    for asset in _ASSETS:
        shown = _newest(instance, dg.AssetKey(asset))
        for partition, (is_published, run, attempt, commit) in sorted(shown.items()):
            head = heads.get(run)
            has = int(head.metadata["graveler.attempt"]) if head else 0
            main = f"{head.id} of attempt {has}" if head else "nothing"
            if is_published and (head is None or head.id != commit):
                what = f"shows commit {commit}"
            elif not is_published and has >= attempt:
                what = f"shows attempt {attempt} as not published"
            else:
                continue
            wrong.append(f"{asset} {partition}: Dagster {what} of {run!r}, main has {main}")
        for key, hour in standing.items():
            partition = f"{hour:%Y-%m-%dT%H:%M}"
            if _makes(key, asset) and partition not in shown:
                wrong.append(f"{asset} {partition}: Dagster shows nothing, main has {key!r}")
    return wrong


def _makes(key: str, asset: str) -> bool:
    return f" {_ASSETS[asset]}_job " in key


def _newest(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> dict[str, tuple[bool, str, int, str]]:
    """Return by partition whether it shows as published, the run, the attempt and the commit."""
    newest: dict[str, tuple[int, tuple[bool, str, int, str]]] = {}
    for number, partition, metadata in _events(instance, key):
        commit = metadata.get("graveler/published_as", "")
        shown = (bool(commit), metadata["graveler/run"], metadata["graveler/attempt"], commit)
        if number > newest.get(partition, (0,))[0]:
            newest[partition] = (number, shown)
    return {partition: shown for partition, (_, shown) in newest.items()}


def _events(
    instance: dg.DagsterInstance, key: dg.AssetKey
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for record in instance.fetch_observations(key, limit=_MOST).records:
        event = record.asset_observation
        if event is not None and "graveler/published_as" in event.metadata:
            yield record.storage_id, record.partition_key or "", _values(event.metadata)
    for record in instance.fetch_materializations(key, limit=_MOST).records:
        made = record.asset_materialization
        if made is not None and "graveler/run" in made.metadata:
            yield record.storage_id, record.partition_key or "", _values(made.metadata)


def _values(metadata: Any) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}

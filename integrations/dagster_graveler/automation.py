"""Automation conditions that wait until a dependency is published, not only materialized."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import dagster as dg

from dagster_graveler.context import assets_of_run
from dagster_graveler.materializations import PUBLISHED

_PAGE = 1000
_OF_DEPS = frozenset({"AnyDepsCondition", "AllDepsCondition"})
_Condition = dg.AutomationCondition[dg.AssetKey]
_Context = dg.AutomationContext[dg.AssetKey]
_Result = dg.AutomationResult[dg.AssetKey]


class PublishedCondition(_Condition):
    """True for partitions that were published since the last evaluation, by runs without the target."""

    def evaluate(self, context: _Context) -> _Result:
        """Return the partitions."""
        previous, newest = context.previous_max_storage_id, context.max_storage_id
        if context.previous_evaluation_time is None or newest is None:
            return dg.AutomationResult(context, context.get_empty_subset())
        instance = context.asset_graph_view.instance
        window = dg.AssetRecordsFilter(
            context.key, after_storage_id=previous, before_storage_id=newest + 1
        )
        partitions = set()
        for record in _observations(instance, window):
            run = instance.get_run_by_id(record.run_id)
            made = () if run is None else assets_of_run(instance, run)
            observed = record.asset_observation
            if observed and PUBLISHED in observed.metadata and context.root_context.key not in made:
                partitions.add(record.partition_key or "")
        definition, view = context.partitions_def, context.asset_graph_view
        if definition is None:
            found = context.candidate_subset if partitions else context.get_empty_subset()
        else:
            subset = view.get_subset_from_partition_keys(context.key, definition, partitions)
            found = context.candidate_subset.compute_intersection(subset)
        return dg.AutomationResult(context, found)


def _observations(
    instance: dg.DagsterInstance, window: dg.AssetRecordsFilter
) -> Iterator[dg.EventLogRecord]:
    cursor, is_more = None, True
    while is_more:
        page = instance.fetch_observations(window, limit=_PAGE, cursor=cursor)
        cursor, is_more = page.cursor, page.has_more
        yield from page.records


def graveler_eager() -> dg.AutomationCondition[Any]:
    """Return the condition of an asset that is made when its dependencies are published.

    It is ``dg.AutomationCondition.eager()`` with one difference: dependencies that graveler publishes
    count as updated when they are published, not when a run has materialized them on its branch.
    Each publish requests the asset once. Dagster evaluates it on the code server;
    `graveler_definitions` adds the sensor for that, and gives assets the kind ``graveler``, which
    says that graveler publishes them. Assets without this kind count as updated when they are
    materialized.
    """
    condition: Any = dg.AutomationCondition
    ours = dg.AssetSelection.kind("graveler")
    updated = (
        condition.any_deps_match(condition.newly_updated()).ignore(ours)
        | condition.any_deps_match(PublishedCondition()).allow(ours)
        | condition.any_deps_match(condition.will_be_requested())
    )
    eager: dg.AutomationCondition[Any] = (
        condition.in_latest_time_window()
        & updated.since_last_handled()
        & ~condition.any_deps_missing()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("graveler_eager")
    return eager


def automation_sensors(
    name: str, assets: Iterable[dg.AssetsDefinition], publish: dg.AssetKey
) -> list[dg.SensorDefinition]:
    """Return the sensor that evaluates conditions of this module; none if no asset has one."""
    specs = [spec for asset in assets for spec in asset.specs]
    if not any(
        isinstance(part, PublishedCondition)
        for spec in specs
        for part in _parts(spec.automation_condition)
    ):
        return []
    target = dg.AssetSelection.assets(publish, *(spec.key for spec in specs))
    return [dg.AutomationConditionSensorDefinition(name, target=target, use_user_code_server=True)]


def warn_of_followers(pipelines: Mapping[str, Iterable[dg.AssetsDefinition]]) -> None:
    """Warn of conditions of Dagster that follow the assets of another pipeline."""
    made = {
        name: {key for asset in assets for key in asset.keys} for name, assets in pipelines.items()
    }
    for asset in chain.from_iterable(pipelines.values()):
        for spec in asset.specs:
            parts = [type(part).__name__ for part in _parts(spec.automation_condition)]
            if PublishedCondition.__name__ in parts or not _OF_DEPS.intersection(parts):
                continue
            for name, theirs in made.items():
                if spec.key not in theirs and not theirs.isdisjoint(asset.asset_deps[spec.key]):
                    warnings.warn(
                        f"asset {spec.key.to_user_string()} follows the materializations of pipeline "
                        f"{name!r}, which are not yet published: give it `graveler_eager()`",
                        stacklevel=3,
                    )


def _parts(condition: Any) -> Iterator[Any]:
    if condition is not None:
        yield condition
        for child in condition.children:
            yield from _parts(child)

"""Automation conditions that wait until a dependency is published, not only materialized."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import dagster as dg

from dagster_graveler.materializations import PUBLISHED

_MOST: Final = 1000
_Condition = dg.AutomationCondition[dg.AssetKey]
_Context = dg.AutomationContext[dg.AssetKey]
_Result = dg.AutomationResult[dg.AssetKey]


class PublishedCondition(_Condition):
    """True for partitions that were published since the last evaluation, by runs without the target."""

    def evaluate(self, context: _Context) -> _Result:
        """Return the partitions."""
        previous, newest = context.previous_max_storage_id, context.max_storage_id
        if previous is None or newest is None:
            return dg.AutomationResult(context, context.get_empty_subset())
        instance = context.asset_graph_view.instance
        window = dg.AssetRecordsFilter(
            context.key, after_storage_id=previous, before_storage_id=newest + 1
        )
        partitions = set()
        for record in instance.fetch_observations(window, limit=_MOST).records:
            run = instance.get_run_by_id(record.run_id)
            made = (run and run.asset_selection) or ()
            observed = record.asset_observation
            if observed and PUBLISHED in observed.metadata and context.root_context.key not in made:
                partitions.add(record.partition_key or "")
        return _of(context, partitions)


class UnpublishedCondition(_Condition):
    """True for partitions that were materialized after they were last published."""

    def evaluate(self, context: _Context) -> _Result:
        """Return the partitions."""
        made = _latest(context, dg.DagsterEventType.ASSET_MATERIALIZATION)
        published = _latest(context, dg.DagsterEventType.ASSET_OBSERVATION)
        return _of(context, {key for key, at in made.items() if at > published.get(key, 0)})


def graveler_eager() -> dg.AutomationCondition[Any]:
    """Return the condition of an asset that is made when its dependencies are published.

    It is ``dg.AutomationCondition.eager()`` with one difference: dependencies that graveler publishes
    count as updated when they are published, not when a run has materialized them on its branch.
    Each publish requests the asset once. Dagster evaluates it on the code server;
    `graveler_definitions` adds the sensor for that.
    """
    condition: Any = dg.AutomationCondition
    ours = dg.AssetSelection.kind("graveler")
    requested = condition.will_be_requested()
    updated = (
        condition.any_deps_match(condition.newly_updated()).ignore(ours)
        | condition.any_deps_match(PublishedCondition()).allow(ours)
        | condition.any_deps_match(requested)
    )
    unpublished = condition.any_deps_match(UnpublishedCondition() & ~requested).allow(ours)
    eager: dg.AutomationCondition[Any] = (
        condition.in_latest_time_window()
        & updated.since_last_handled()
        & ~condition.any_deps_missing()
        & ~unpublished
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("graveler_eager")
    return eager


def automation_sensors(
    name: str, assets: Iterable[dg.AssetsDefinition], publish: dg.AssetKey
) -> list[dg.SensorDefinition]:
    """Return the sensor that evaluates conditions of this module; none if no asset has one."""
    specs = [spec for asset in assets for spec in asset.specs]
    if not any(_has(spec.automation_condition, PublishedCondition) for spec in specs):
        return []
    target = dg.AssetSelection.assets(publish, *(spec.key for spec in specs))
    return [dg.AutomationConditionSensorDefinition(name, target=target, use_user_code_server=True)]


def _has(condition: Any, kind: type[Any]) -> bool:
    return condition is not None and (
        isinstance(condition, kind) or any(_has(child, kind) for child in condition.children)
    )


def _latest(context: _Context, kind: dg.DagsterEventType) -> Mapping[str, int]:
    """Return the id of the latest event of each partition of the candidates."""
    instance = context.asset_graph_view.instance
    if context.partitions_def is not None:
        keys = set(context.candidate_subset.expensively_compute_partition_keys())
        return instance.get_latest_storage_id_by_partition(context.key, kind, keys) if keys else {}
    is_made = kind is dg.DagsterEventType.ASSET_MATERIALIZATION
    fetch = instance.fetch_materializations if is_made else instance.fetch_observations
    records = fetch(context.key, limit=1).records
    return {"": records[0].storage_id} if records else {}


def _of(context: _Context, partitions: set[str]) -> _Result:
    """Return the candidates among these partitions; "" stands for an asset without partitions."""
    definition, view = context.partitions_def, context.asset_graph_view
    if definition is None:
        found = context.candidate_subset if partitions else context.get_empty_subset()
    else:
        subset = view.get_subset_from_partition_keys(context.key, definition, partitions)
        found = context.candidate_subset.compute_intersection(subset)
    return dg.AutomationResult(context, found)

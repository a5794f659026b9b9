"""All definitions of a pipeline of assets with graveler runs, in one call."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._utils.warnings import disable_dagster_warnings

from dagster_graveler.automation import automation_sensors, warn_of_followers
from dagster_graveler.catalog import asset_folders, catalogued, on_target
from dagster_graveler.context import declare_pipeline
from dagster_graveler.gates import concerned, graveler_gates
from dagster_graveler.io_managers.base import GravelerIOManager
from dagster_graveler.lifecycle import (
    build_lifecycle_hook,
    build_lifecycle_sensors,
    build_reaper_sensor,
)
from dagster_graveler.publish import PUBLISH_POOL, WITH_DEPS, build_publish_asset
from dagster_graveler.resource import GravelerResource
from dagster_graveler.rollback import build_rollback_job
from graveler.base.arguments import each, instance, optional, text
from graveler.errors import InvalidInputError
from graveler.gates.gate import Check, Gate, as_gates

# the managers and pipelines of each resource; the manager keeps it, and so its id
_managers: dict[int, GravelerIOManager] = {}
_pipelines = defaultdict[int, dict[str, list[dg.AssetsDefinition]]](dict)
_MANAGERS = (dg.IOManagerDefinition, dg.ConfigurableIOManagerFactory)


@disable_dagster_warnings()  # of beta and preview APIs, which are used here
def graveler_definitions(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    graveler: GravelerResource,
    *,
    gates: Gate | Check | Iterable[Gate | Check] = (),
    asset_checks: Iterable[dg.AssetChecksDefinition] = (),
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    io_manager: dg.IOManagerDefinition | dg.ConfigurableIOManager | None = None,
    resources: Mapping[str, object] | None = None,
    publish_adhoc: bool = False,
    pool: str | None = PUBLISH_POOL,
    automation_condition: dg.AutomationCondition | None = WITH_DEPS,  # type: ignore[type-arg]
    name: str = "graveler",
) -> dg.Definitions:
    """Return definitions that publish each run of the assets completely or not at all.

    They have the assets; ``<name>_publish``, the asset that publishes; ``<name>_job``, the job of
    all of them, with a schedule if partitions are times; the gates as blocking checks that wait for
    every asset; the sensors that park failed and silent runs; and ``<name>_rollback``, the job that
    rolls back a published run.

    Args:
        assets: The assets that a run makes. An ``AssetSpec`` becomes an asset that others make and
            that is not published.
        graveler: The repository; also the resource ``graveler`` of the assets.
        gates: Checks of the tree that main would get, one or several; publishing judges them,
            whatever the result of the asset checks is.
        asset_checks: More checks; a blocking one stops publishing.
        partitions_def: The partitions of the assets; by default those that they have.
        io_manager: The IO manager of the assets; a ``GravelerIOManager`` if not given.
        resources: More resources.
        publish_adhoc: Whether to publish assets that were selected by hand, with the same gates;
            otherwise their run is parked.
        pool: Dagster's pool of the publishing asset.
        automation_condition: When Dagster requests the publishing asset; by default in every run
            that it requests for any of the assets.
        name: The prefix of all names.

    Raises:
        InvalidInputError: There is no asset that a run makes, or two assets have files in one folder,
            or their partitions or backfill policies differ, so that they cannot be in one run.
    """
    text(name, "name")
    if not _is_at_launch(graveler):
        instance(graveler, "graveler", GravelerResource, "a GravelerResource")
    if not _is_at_launch(io_manager):
        optional(instance, io_manager, "io_manager", kind=_MANAGERS, expected="an IO manager")
    assets = list(each(assets, "assets", (dg.AssetsDefinition, dg.AssetSpec), "assets"))
    made = [
        asset for asset in assets if isinstance(asset, dg.AssetsDefinition) and asset.is_executable
    ]
    if not made:
        raise InvalidInputError(
            f"graveler_definitions {name!r}: give at least one asset that a run makes"
        )
    partitions_def = _common_partitions(made, partitions_def)
    if partitions_def is not None and not publish_adhoc:
        _check_conditions(made, f"{name}_publish")
    manager = io_manager or _default_manager(graveler)
    if isinstance(manager, GravelerIOManager):
        manager.check_folders(_kept(made))
    _default_manager(graveler)
    _pipelines[id(graveler)][name] = made
    warn_of_followers(_pipelines[id(graveler)])
    keys = {key for asset in made for key in asset.keys}
    return dg.Definitions.merge(
        dg.Definitions(
            assets=catalogued(assets, {"io_manager": manager, **(resources or {})}),
            asset_checks=list(asset_checks),
        ),
        dg.Definitions(
            sensors=automation_sensors(f"{name}_automation", made, dg.AssetKey(f"{name}_publish"))
        ),
        surround(
            keys,
            graveler,
            gates=gates,
            partitions_def=partitions_def,
            backfill_policy=_common_policy(made),
            io_manager=manager,
            resources=resources,
            publish_adhoc=publish_adhoc,
            pool=pool,
            automation_condition=automation_condition,
            name=name,
        ),
    )


def _is_at_launch(given: object) -> bool:
    """Return whether a resource gets its settings from the configuration of a run."""
    kind = getattr(given, "resource_cls", None)
    return isinstance(kind, type) and issubclass(kind, (GravelerResource, GravelerIOManager))


def _default_manager(graveler: GravelerResource) -> GravelerIOManager:
    """Return the IO manager of a resource: one, because a code location has one of a key."""
    if id(graveler) not in _managers:
        _managers[id(graveler)] = GravelerIOManager(graveler=graveler)
    return _managers[id(graveler)]


def _kept(
    assets: Iterable[dg.AssetsDefinition],
) -> dict[dg.AssetKey, dg.PartitionsDefinition[str] | None]:
    """Return the partitions of the assets whose values the IO manager stores."""
    return {
        key: asset.specs_by_key[key].partitions_def
        for asset in assets
        for name, key in asset.keys_by_output_name.items()
        if asset.get_io_manager_key_for_asset_key(key) == "io_manager"
        and not asset.node_def.output_def_named(name).dagster_type.is_nothing
    }


def surround(
    keys: Iterable[dg.AssetKey],
    graveler: GravelerResource,
    *,
    gates: Gate | Check | Iterable[Gate | Check] = (),
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    io_manager: dg.IOManagerDefinition | dg.ConfigurableIOManager | None = None,
    resources: Mapping[str, object] | None = None,
    publish_adhoc: bool = False,
    name: str = "graveler",
    **publishing: Any,
) -> dg.Definitions:
    """Return the definitions around assets that are defined elsewhere.

    Args:
        keys: The assets.
        graveler: The repository.
        gates: Checks of the tree that main would get, one or several.
        partitions_def: The partitions of the assets.
        io_manager: The IO manager of the assets.
        resources: More resources.
        publish_adhoc: Whether to publish assets that were selected by hand.
        name: The prefix of all names.
        publishing: More arguments of `build_publish_asset`.
    """
    gates, keys = as_gates((gates,) if callable(gates) else gates), set(keys)
    manager = io_manager or _default_manager(graveler)
    by_asset = concerned(gates, asset_folders(keys, manager, partitions_def))
    checks = [
        graveler_gates(
            judged,
            asset=asset,
            partitions_def=partitions_def,
            name=f"{name}_gates_{asset.to_python_identifier()}",
        )
        for asset, judged in by_asset.items()
        if asset is not None
    ]
    publish = build_publish_asset(
        f"{name}_publish",
        keys,
        gates=gates,
        checks=by_asset.get(None, ()),
        partitions_def=partitions_def,
        **publishing,
    )
    whole = {*keys, *publish.keys}
    declare_pipeline(f"{name}_job", whole)
    job = dg.define_asset_job(
        f"{name}_job",
        selection=dg.AssetSelection.assets(*whole),
        hooks={build_lifecycle_hook(f"{name}_park_at_end")},
    )
    timed = isinstance(partitions_def, dg.TimeWindowPartitionsDefinition)
    return dg.Definitions(
        assets=[on_target(publish, graveler)],
        asset_checks=checks,
        jobs=[job, build_rollback_job(f"{name}_rollback", publish=publish.key)],
        schedules=[dg.build_schedule_from_partitioned_job(job)] if timed else [],
        sensors=[
            *build_lifecycle_sensors(name, publish_adhoc=publish_adhoc, gates=gates, assets=whole),
            build_reaper_sensor(f"{name}_reaper"),
        ],
        resources={
            "graveler": graveler,
            "io_manager": manager,
            **(resources or {}),
        },
    )


def _common_partitions(
    assets: Iterable[dg.AssetsDefinition], given: dg.PartitionsDefinition[str] | None
) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of the run that makes all the assets; None if there are none."""
    common = given
    for asset in assets:
        for spec in asset.specs:
            if spec.partitions_def is None:
                continue
            common = common or spec.partitions_def
            if spec.partitions_def != common:
                raise InvalidInputError(
                    f"asset {spec.key.to_user_string()} has other partitions than the run that makes "
                    f"it: {spec.partitions_def}, not {common}: give it a graveler_definitions of its "
                    "own, whose job a commit sensor starts"
                )
    return common


def _check_conditions(assets: Iterable[dg.AssetsDefinition], publish: str) -> None:
    """Refuse assets that Dagster would request in runs for no partition, which publish nothing."""
    for asset in assets:
        for spec in asset.specs:
            if spec.partitions_def is None and spec.automation_condition is not None:
                raise InvalidInputError(
                    f"asset {spec.key.to_user_string()} has an automation condition and no "
                    f"partitions, and {publish} has: Dagster would request it without {publish}: give "
                    "it a graveler_definitions of its own, or publish_adhoc=True"
                )


def _common_policy(assets: Sequence[dg.AssetsDefinition]) -> dg.BackfillPolicy | None:
    """Return the common policy of the assets, which must be in one run with the publishing asset."""
    policies = {asset.backfill_policy for asset in assets}
    if len(policies) > 1:
        raise InvalidInputError(
            f"the assets have different backfill policies, {sorted(map(str, policies))}: a backfill "
            "would put them into different runs; give all of them the same"
        )
    return policies.pop()

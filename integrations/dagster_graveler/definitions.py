"""A whole pipeline of assets around a graveler run, in one call."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Final

import dagster as dg

from dagster_graveler.gates import graveler_gates
from dagster_graveler.io_managers.base import GravelerIOManager
from dagster_graveler.lifecycle import build_lifecycle_sensors, build_reaper_sensor
from dagster_graveler.publish import PUBLISH_POOL, WITH_DEPS, build_publish_asset
from dagster_graveler.resource import GravelerResource
from dagster_graveler.rollback import build_rollback_job
from graveler.errors import InvalidInputError
from graveler.gates.gate import Check, Gate

_MOST_KINDS: Final = 3

_filters: Final = Lock()


def graveler_definitions(  # noqa: PLR0913 - all but the first two have a default
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
    """Return definitions that publish each run of the assets as a whole, or not at all.

    Beside the assets they hold ``<name>_publish``, the asset that publishes; ``<name>_job``, the
    job of all of them, with a schedule if partitions are times; the gates as blocking checks
    that wait for every asset; the sensors that park failed and silent runs; and
    ``<name>_rollback``, the job that rolls a published run back.

    Args:
        assets: The assets that a run makes. An ``AssetSpec`` is defined beside them as an asset
            that others make, and is not published.
        graveler: The repository; also the resource ``graveler`` of the assets.
        gates: Checks on what main would become, one or several; publishing judges them, whatever
            the result of the asset checks.
        asset_checks: More checks; a blocking one stops publishing.
        partitions_def: The partitions of the assets.
        io_manager: The IO manager of the assets; a ``GravelerIOManager`` if not given.
        resources: More resources.
        publish_adhoc: Publish assets that were selected by hand, behind the same gates; otherwise
            their run is parked.
        pool: Dagster's pool of the publishing asset.
        automation_condition: When Dagster requests the publishing asset; by default in every run
            that it requests for any of the assets.
        name: The prefix of all names.

    Raises:
        InvalidInputError: There is no asset that a run makes.
    """
    made = [
        asset for asset in assets if isinstance(asset, dg.AssetsDefinition) and asset.is_executable
    ]
    if not made:
        raise InvalidInputError(
            f"graveler_definitions {name!r}: give at least one asset that a run makes"
        )
    keys = {key for asset in made for key in asset.keys}
    upstream = {
        dep
        for asset in made
        for key, deps in asset.asset_deps.items()
        for dep in deps
        if dep != key  # an asset may need its own earlier partition
    }
    return dg.Definitions.merge(
        dg.Definitions(
            assets=_with_origin(assets),
            asset_checks=list(asset_checks),
        ),
        surround(
            keys,
            graveler,
            last=keys - upstream,
            gates=gates,
            partitions_def=partitions_def,
            backfill_policy=_common_policy(made),
            io_manager=io_manager,
            resources=resources,
            publish_adhoc=publish_adhoc,
            pool=pool,
            automation_condition=automation_condition,
            name=name,
        ),
    )


def surround(  # noqa: PLR0913 - all but the first two have a default
    keys: Iterable[dg.AssetKey],
    graveler: GravelerResource,
    *,
    last: Iterable[dg.AssetKey],
    gates: Gate | Check | Iterable[Gate | Check] = (),
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    backfill_policy: dg.BackfillPolicy | None = None,
    io_manager: dg.IOManagerDefinition | dg.ConfigurableIOManager | None = None,
    resources: Mapping[str, object] | None = None,
    publish_adhoc: bool = False,
    pool: str | None = PUBLISH_POOL,
    automation_condition: dg.AutomationCondition | None = WITH_DEPS,  # type: ignore[type-arg]
    name: str = "graveler",
) -> dg.Definitions:
    """Return the definitions around assets that are defined elsewhere.

    Args:
        keys: The assets.
        graveler: The repository.
        last: The assets that no other waits for.
        gates: Checks on what main would become, one or several.
        partitions_def: The partitions of the assets.
        backfill_policy: The backfill policy of the assets.
        io_manager: The IO manager of the assets.
        resources: More resources.
        publish_adhoc: Publish assets that were selected by hand.
        pool: Dagster's pool of the publishing asset.
        automation_condition: When Dagster requests the publishing asset; by default in every run
            that it requests for any of the assets.
        name: The prefix of all names.
    """
    gates, keys = (gates,) if callable(gates) else tuple(gates), set(keys)
    leaf, *others = sorted(last, key=dg.AssetKey.to_user_string)
    checks = []
    if gates:
        checks.append(
            graveler_gates(
                gates, asset=leaf, partitions_def=partitions_def, deps=others, name=f"{name}_gates"
            )
        )
    publish = build_publish_asset(
        f"{name}_publish",
        keys,
        gates=gates,
        partitions_def=partitions_def,
        backfill_policy=backfill_policy,
        pool=pool,
        automation_condition=automation_condition,
    )
    job = dg.define_asset_job(
        f"{name}_job",
        selection=dg.AssetSelection.assets(*keys, *publish.keys),
    )
    timed = isinstance(partitions_def, dg.TimeWindowPartitionsDefinition)
    return dg.Definitions(
        assets=[publish],
        asset_checks=checks,
        jobs=[job, build_rollback_job(f"{name}_rollback", publish=publish.key)],
        schedules=[dg.build_schedule_from_partitioned_job(job)] if timed else [],
        sensors=[
            *build_lifecycle_sensors(
                name, publish_adhoc=publish_adhoc, gates=gates, assets={*keys, publish.key}
            ),
            build_reaper_sensor(f"{name}_reaper"),
        ],
        resources={
            "graveler": graveler,
            "io_manager": io_manager or GravelerIOManager(graveler=graveler),
            **(resources or {}),
        },
    )


def _with_origin(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the assets with their kind, and with references to their code."""
    referring: list[dg.AssetsDefinition | dg.AssetSpec] = []
    with _filters, warnings.catch_warnings():  # threads share the filters
        # Dagster marks references to code as beta
        warnings.simplefilter("ignore", dg.BetaWarning)
        for asset in assets:
            try:
                referring += dg.with_source_code_references([asset])  # type: ignore[arg-type] # of its kind
            except (OSError, TypeError):  # code without a file, as in a notebook
                referring.append(asset)
    return dg.map_asset_specs(_of_graveler, referring)


def _of_graveler(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return the spec with graveler among its kinds, of which Dagster allows three."""
    if len(spec.kinds) >= _MOST_KINDS:
        return spec
    return spec.replace_attributes(kinds={*spec.kinds, "graveler"})


def _common_policy(assets: Sequence[dg.AssetsDefinition]) -> dg.BackfillPolicy | None:
    """Return the policy of all the assets, which must be in one run with the publishing."""
    policies = {asset.backfill_policy for asset in assets}
    if len(policies) > 1:
        raise InvalidInputError(
            f"the assets have different backfill policies, {sorted(map(str, policies))}: a backfill "
            "would put them into different runs; give all of them the same"
        )
    return policies.pop()

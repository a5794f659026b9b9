"""A whole pipeline of assets around a graveler run, in one call."""

from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from dagster_graveler.gates import graveler_gates
from dagster_graveler.publish import build_publish_asset
from dagster_graveler.resource import GravelerResource
from dagster_graveler.sensors import build_park_sensors
from dagster_graveler.spark_io_manager import GravelerSparkIOManager
from graveler.errors import InvalidInputError
from graveler.gates import Gate
from graveler.gates.gate import Check

__all__ = ["graveler_definitions"]


def graveler_definitions(  # noqa: PLR0913 - all but the first two have a default
    assets: Sequence[dg.AssetsDefinition],
    graveler: GravelerResource,
    *,
    gates: Iterable[Gate | Check] = (),
    asset_checks: Iterable[dg.AssetChecksDefinition] = (),
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    io_manager: dg.IOManagerDefinition | dg.ConfigurableIOManager | None = None,
    resources: Mapping[str, object] | None = None,
    name: str = "graveler",
) -> dg.Definitions:
    """Return definitions by which each run of the assets is published as one, or not at all.

    Beside the assets they hold ``<name>_publish``, the asset that publishes; ``<name>_job``, the
    job of all of them; a schedule for it where partitions are times; the gates as blocking checks
    that wait for every asset; and the sensors that set failed runs aside.

    Args:
        assets: What a run makes.
        graveler: The repository; also the resource ``graveler`` of the assets.
        gates: What must hold of main before it moves; publishing asks them, whatever the checks
            said.
        asset_checks: More checks; a blocking one stops publishing.
        partitions_def: That of the assets.
        io_manager: Keeps what assets return; a ``GravelerSparkIOManager`` where not given.
        resources: More resources.
        name: What the names start with.

    Raises:
        InvalidInputError: No assets.
    """
    if not assets:
        raise InvalidInputError(f"graveler_definitions {name!r}: give at least one asset")
    gates = tuple(gates)
    keys = {key for asset in assets for key in asset.keys}
    upstream = {dep for asset in assets for deps in asset.asset_deps.values() for dep in deps}
    leaf, *others = sorted(keys - upstream, key=dg.AssetKey.to_user_string)
    checks = list(asset_checks)
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
    )
    job = dg.define_asset_job(
        f"{name}_job",
        selection=dg.AssetSelection.assets(*keys, *publish.keys),
    )
    timed = isinstance(partitions_def, dg.TimeWindowPartitionsDefinition)
    return dg.Definitions(
        assets=[*assets, publish],
        asset_checks=checks,
        jobs=[job],
        schedules=[dg.build_schedule_from_partitioned_job(job)] if timed else [],
        sensors=build_park_sensors(name),
        resources={
            "graveler": graveler,
            "io_manager": io_manager or GravelerSparkIOManager(graveler=graveler),
            **(resources or {}),
        },
    )

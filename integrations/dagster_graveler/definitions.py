"""All definitions of a pipeline of assets with graveler runs, in one call."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import dagster as dg
from dagster._utils.warnings import disable_dagster_warnings

from dagster_graveler.automation import automation_sensors, warn_of_followers
from dagster_graveler.context import declare_pipeline
from dagster_graveler.gates import concerned, graveler_gates
from dagster_graveler.io_managers.base import GravelerIOManager
from dagster_graveler.jobs import build_rollback_job
from dagster_graveler.publish import PUBLISH_POOL, WITH_DEPS, build_publish_asset
from dagster_graveler.resource import GravelerResource
from dagster_graveler.sensors.lifecycle import (
    build_lifecycle_hook,
    build_lifecycle_sensors,
    build_reaper_sensor,
)
from graveler.base.arguments import each, instance, optional, text
from graveler.errors import InvalidInputError
from graveler.frames.libraries import PACKAGES
from graveler.gates.gate import Check, Gate, as_gates

# the manager and the pipelines of each resource; the manager keeps it, and so its id
_shared: dict[int, tuple[GravelerIOManager, dict[str, list[dg.AssetsDefinition]]]] = {}
_MANAGERS = (dg.IOManagerDefinition, dg.ConfigurableIOManagerFactory)
_MOST_KINDS = 3


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
        publish_adhoc: Whether to publish assets that were selected by hand, with the same gates;
            otherwise their run is parked.
        pool: Dagster's pool of the publishing asset.
        automation_condition: When Dagster requests the publishing asset; by default in every run
            that it requests for any of the assets.

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
    publish = f"{name}_publish"
    partitions_def = _common_partitions(made, partitions_def, "" if publish_adhoc else publish)
    # a code location has one IO manager of a key
    own, pipelines = _shared.setdefault(id(graveler), (GravelerIOManager(graveler=graveler), {}))
    manager = io_manager or own
    given = {"graveler": graveler, "io_manager": manager, **(resources or {})}
    if isinstance(manager, GravelerIOManager):
        manager.check_folders(
            {spec.key: spec.partitions_def for spec, at, _ in _stored(made) if at == "io_manager"}
        )
    pipelines[name] = made
    warn_of_followers(pipelines)
    return dg.Definitions.merge(
        dg.Definitions(
            assets=_catalogued(assets, made, given),
            asset_checks=list(asset_checks),
            sensors=automation_sensors(f"{name}_automation", made, dg.AssetKey(publish)),
        ),
        surround(
            {key for asset in made for key in asset.keys},
            given,
            name=name,
            gates=gates,
            partitions_def=partitions_def,
            publish_adhoc=publish_adhoc,
            backfill_policy=_common_policy(made),
            pool=pool,
            automation_condition=automation_condition,
        ),
    )


def _is_at_launch(given: object) -> bool:
    """Return whether a resource gets its settings from the configuration of a run."""
    kind = getattr(given, "resource_cls", None)
    return isinstance(kind, type) and issubclass(kind, (GravelerResource, GravelerIOManager))


def surround(
    keys: Iterable[dg.AssetKey],
    resources: Mapping[str, Any],
    *,
    name: str = "graveler",
    gates: Gate | Check | Iterable[Gate | Check] = (),
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    publish_adhoc: bool = False,
    **publishing: Any,
) -> dg.Definitions:
    """Return the definitions around assets that are defined elsewhere."""
    gates, keys = as_gates((gates,) if callable(gates) else gates), set(keys)
    graveler, manager = resources["graveler"], resources["io_manager"]
    folders = {}
    if isinstance(manager, GravelerIOManager) and _are_known(manager.prefix, manager.layout):
        partitioned = partitions_def is not None
        folders = {key: manager.asset_folder(key, partitioned=partitioned) for key in keys}
    by_asset = concerned(gates, folders)
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
    if isinstance(graveler, GravelerResource) and _are_known(graveler.repository, graveler.into):
        uri = graveler.uri(graveler.into)
        publish = publish.map_asset_specs(
            lambda spec: spec.merge_attributes(metadata={"dagster/uri": uri})
        )
    whole = {*keys, *publish.keys}
    declare_pipeline(f"{name}_job", whole)
    job = dg.define_asset_job(
        f"{name}_job",
        selection=dg.AssetSelection.assets(*whole),
        hooks={build_lifecycle_hook(f"{name}_park_at_end")},
    )
    timed = isinstance(partitions_def, dg.TimeWindowPartitionsDefinition)
    return dg.Definitions.merge(
        dg.Definitions(
            assets=[publish],
            asset_checks=checks,
            jobs=[job],
            schedules=[dg.build_schedule_from_partitioned_job(job)] if timed else [],
        ),
        watched(name, resources, publish_adhoc, gates, assets=whole, publish=publish.key),
    )


def watched(
    name: str,
    resources: Mapping[str, Any],
    publish_adhoc: bool,
    gates: Iterable[Gate | Check],
    *,
    assets: Iterable[dg.AssetKey] | None = None,
    publish: dg.AssetKey | None = None,
) -> dg.Definitions:
    """Return the resources, the sensors that end runs, and the job that rolls a run back."""
    ends = build_lifecycle_sensors(name, publish_adhoc=publish_adhoc, gates=gates, assets=assets)
    return dg.Definitions(
        jobs=[build_rollback_job(f"{name}_rollback", publish=publish)],
        sensors=[*ends, build_reaper_sensor(f"{name}_reaper")],
        resources=resources,
    )


def _stored(
    assets: Iterable[dg.AssetsDefinition],
) -> Iterator[tuple[dg.AssetSpec, str, dg.DagsterType]]:
    """Yield the assets that an IO manager stores, each with its key and the type of the values."""
    for asset in assets:
        for name, key in asset.keys_by_output_name.items():
            kind = asset.node_def.output_def_named(name).dagster_type
            if not kind.is_nothing:
                yield asset.specs_by_key[key], asset.get_io_manager_key_for_asset_key(key), kind


def _catalogued(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec],
    made: Iterable[dg.AssetsDefinition],
    resources: Mapping[str, object],
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """Return assets with references to their code; those that a run makes with kinds and tables."""
    kinds = {key: ["graveler"] for asset in made for key in asset.keys}
    tables: dict[dg.AssetKey, Mapping[str, str]] = {}
    for spec, at, kind in _stored(made):
        manager = resources.get(at)
        if isinstance(manager, GravelerIOManager):
            libraries = _libraries(kind.typing_type)
            kinds[spec.key] += libraries
            tables[spec.key] = _table(manager, spec, is_frame=bool(libraries))

    def described(spec: dg.AssetSpec) -> dg.AssetSpec:
        if spec.key not in kinds:
            return spec
        more = [kind for kind in kinds[spec.key] if kind not in spec.kinds]
        return spec.replace_attributes(
            metadata={**tables.get(spec.key, {}), **spec.metadata},
            kinds={*spec.kinds, *more[: max(_MOST_KINDS - len(spec.kinds), 0)]},
        )

    referring: list[dg.AssetsDefinition | dg.AssetSpec] = []
    for asset in assets:
        try:
            referring += dg.with_source_code_references([asset])  # type: ignore[arg-type] # of its kind
        except (OSError, TypeError):  # code without a file, as in a notebook
            referring.append(asset)
    return dg.map_asset_specs(described, referring)


def _libraries(annotation: Any) -> Sequence[str]:
    """Return the library of an annotated frame, or of a mapping of frames by partition."""
    kinds = (annotation, *get_args(annotation))
    modules = (getattr(kind, "__module__", "").partition(".")[0] for kind in kinds)
    return sorted({module for module in modules if module in PACKAGES})


def _table(manager: GravelerIOManager, spec: dg.AssetSpec, *, is_frame: bool) -> Mapping[str, str]:
    graveler: object = manager.graveler
    if not isinstance(graveler, GravelerResource):
        return {}  # it is configured at launch
    if not _are_known(graveler.repository, graveler.into, manager.prefix, manager.layout):
        return {}
    folder = manager.asset_folder(spec.key, partitioned=spec.partitions_def is not None)
    name = {"dagster/table_name": manager.table_name(spec.key)} if is_frame else {}
    return {"dagster/uri": graveler.uri(graveler.into, folder), **name}


def _are_known(*settings: str) -> bool:
    """Return whether settings are independent of a run's environment variables."""
    return not any(isinstance(setting, dg.EnvVar) for setting in settings)


def _common_partitions(
    assets: Iterable[dg.AssetsDefinition], given: dg.PartitionsDefinition[str] | None, publish: str
) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of the run that makes all the assets; None if there are none."""
    specs = [spec for asset in assets for spec in asset.specs]
    common = given or next((spec.partitions_def for spec in specs if spec.partitions_def), None)
    for spec in specs:
        key = spec.key.to_user_string()
        if spec.partitions_def not in (None, common):
            raise InvalidInputError(
                f"asset {key} has other partitions than the run that makes it: "
                f"{spec.partitions_def}, not {common}: give it a graveler_definitions of its own, "
                "whose job a commit sensor starts"
            )
        lonely = spec.partitions_def is None and spec.automation_condition is not None
        if publish and common and lonely:
            raise InvalidInputError(
                f"asset {key} has an automation condition and no partitions, and {publish} has: "
                f"Dagster would request it without {publish}: give it a graveler_definitions of "
                "its own, or publish_adhoc=True"
            )
    return common


def _common_policy(assets: Sequence[dg.AssetsDefinition]) -> dg.BackfillPolicy | None:
    policies = {asset.backfill_policy for asset in assets}
    if len(policies) > 1:
        raise InvalidInputError(
            f"the assets have different backfill policies, {sorted(map(str, policies))}: a backfill "
            "would put them into different runs; give all of them the same"
        )
    return policies.pop()

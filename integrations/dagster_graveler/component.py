"""A repository, and the assets that are published to it, as a component for ``dg``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import dagster as dg
from dagster.components.resolved.core_models import (
    DailyPartitionsDefinitionModel,
    HourlyPartitionsDefinitionModel,
    StaticPartitionsDefinitionModel,
    TimeWindowPartitionsDefinitionModel,
    WeeklyPartitionsDefinitionModel,
    resolve_partitions_def,
)
from pydantic import BaseModel, Field

from dagster_graveler.definitions import surround
from dagster_graveler.io_managers.base import GravelerIOManager
from dagster_graveler.lifecycle import build_lifecycle_sensors, build_reaper_sensor
from dagster_graveler.publish import PUBLISH_POOL, WITH_DEPS
from dagster_graveler.resource import GravelerResource, GravelerS3
from dagster_graveler.rollback import build_rollback_job
from dagster_graveler.sensors.branches import deployment_branch
from graveler.errors import InvalidInputError

_SHORTEST = 2

_Partitions = Annotated[
    dg.PartitionsDefinition[str] | None,
    dg.Resolver(
        resolve_partitions_def,
        model_field_type=HourlyPartitionsDefinitionModel
        | DailyPartitionsDefinitionModel
        | WeeklyPartitionsDefinitionModel
        | TimeWindowPartitionsDefinitionModel
        | StaticPartitionsDefinitionModel,
    ),
]


class _ScaffoldParams(BaseModel):
    lake: str = Field("lake", description="The lake's folder, or a graveler.toml.")
    repository: str = Field("", description="The repository; by default named as the folder.")


class GravelerScaffolder(dg.Scaffolder[_ScaffoldParams]):
    """Writes a ``defs.yaml`` with the attributes that have no default."""

    @classmethod
    def get_scaffold_params(cls) -> type[_ScaffoldParams]:
        """Return the parameters of ``dg scaffold``."""
        return _ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[_ScaffoldParams]) -> None:
        """Write the component's file."""
        params = request.params
        folder = re.sub(r"[^a-z0-9]+", "-", request.target_path.name.lower()).strip("-")
        repository = params.repository or (folder if len(folder) > _SHORTEST else f"{folder}-lake")
        dg.scaffold_component(request, {"lake": params.lake, "repository": repository})


_MODELS = {**GravelerResource.model_fields, **GravelerIOManager.model_fields}
_OWN = ("graveler", "lake", "repository", "s3", "password")
_Settings: Any = make_dataclass(  # each setting of the resource and the IO manager is an attribute
    "_Settings",
    [
        (
            name,
            given.annotation,
            field(default_factory=partial(given.get_default, call_default_factory=True)),
        )
        for name, given in _MODELS.items()
        if name not in _OWN
    ],
)


@dg.scaffold_with(GravelerScaffolder)
@dataclass(kw_only=True)
class GravelerComponent(_Settings, dg.Component, dg.Resolvable):  # type: ignore[misc] # made above
    """A repository of a lake: its resource, an IO manager, and the publishing of assets to it.

    Attributes:
        lake: The lake's folder, a ``graveler.toml``, or the URI of a key-value store without a
            password.
        user: The user of the database.
        password: Its password, as ``{env: LAKE_PASSWORD}``: Dagster shows the name only.
        storage: The object store of new repositories: ``s3://bucket/prefix``.
        s3: Settings of S3, as in `GravelerS3`; keys as ``{env: NAME}``.
        cache: Folder for the cache.
        no_progress_seconds: Seconds after which a call on a store without progress ends.
        repository: The name of the repository.
        into: The branch that runs publish to; ``"{{ deployment_branch() }}"`` for branch deployments.
        ui: The address of Dagster's web server; commits then link to their runs.
        commit_url: The address of a commit's page, with ``{repository}`` and ``{commit}``.
        name: The prefix of all names.
        prefix: The beginning of all paths.
        layout: An asset's folder, with ``{asset}`` and ``{partition}``.
        load_as: The type for an argument without annotation, if the written type is not known.
        pickle: Whether values of other types are stored by Python's pickle.
        mode: ``overwrite``, ``append`` or ``error``.
        file_format: Spark's name of the format of Spark frames.
        partition_by: Columns of Spark frames that become ``key=value`` folders.
        options: Spark's options of the format.
        assets: Keys of the assets that a run publishes together. Without assets, the component has
            the resource and the sensors that end unpublished runs.
        partitions: The partitions of the assets.
        single_run: Whether a backfill is one run and one commit; the assets must have that policy.
        gates: Checks of the tree that main would get, as ``package.module:NAME``: one gate or several.
        asset_checks: More checks of the assets, named in the same way.
        resources: More resources: their keys, and ``package.module:NAME`` of each.
        pool: Dagster's pool of the publishing asset; null for none.
        automation_condition: When Dagster requests the publishing asset, as
            ``"{{ dg.AutomationCondition.eager() }}"``; by default in every run that it requests for
            any of the assets.
        publish_adhoc: Whether to publish assets that were selected by hand.
        on_failure: ``park`` keeps the commits of a failed run, ``drop`` does not.
        lease_seconds: How long a run may be silent before it counts as dead.
        ttl_days: How long a parked run is kept.
    """

    lake: str
    repository: str
    password: str | Mapping[str, str] = ""
    s3: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    name: str = "graveler"
    assets: Sequence[dg.ResolvedAssetKey] = ()
    partitions: _Partitions = None
    single_run: bool = False
    gates: Sequence[str] = ()
    asset_checks: Sequence[str] = ()
    resources: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = PUBLISH_POOL
    automation_condition: dg.Injected[dg.AutomationCondition] | None = None  # type: ignore[type-arg]
    publish_adhoc: bool = False

    @classmethod
    def get_additional_scope(cls) -> Mapping[str, Any]:
        """Return the functions that the YAML may call: ``deployment_branch``."""
        return {**super().get_additional_scope(), "deployment_branch": deployment_branch}

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions."""
        settings = {name: getattr(self, name) for name in _MODELS if name not in _OWN}
        graveler = GravelerResource(
            lake=self.lake,
            repository=self.repository,
            **{name: settings[name] for name in GravelerResource.model_fields if name in settings},
            password=_variable("password", self.password),
            s3=GravelerS3(**{key: _variable(key, value) for key, value in self.s3.items()}),
        )
        manager = GravelerIOManager(
            graveler=graveler,
            **{name: settings[name] for name in GravelerIOManager.model_fields if name in settings},
        )
        manager.check_folders(dict.fromkeys(self.assets, self.partitions))
        gates = [gate for name in self.gates for gate in _load_all("gate", name)]
        checks = [check for name in self.asset_checks for check in _load_all("check", name)]
        resources = {key: _load("resource", name) for key, name in self.resources.items()}
        if self.assets:
            pipeline = surround(
                self.assets,
                graveler,
                gates=gates,
                partitions_def=self.partitions,
                backfill_policy=dg.BackfillPolicy.single_run() if self.single_run else None,
                io_manager=manager,
                resources=resources,
                publish_adhoc=self.publish_adhoc,
                pool=self.pool,
                automation_condition=self.automation_condition or WITH_DEPS,
                name=self.name,
            )
            return dg.Definitions.merge(pipeline, dg.Definitions(asset_checks=checks))
        return dg.Definitions(
            asset_checks=checks,
            jobs=[build_rollback_job(f"{self.name}_rollback")],
            sensors=[
                *build_lifecycle_sensors(self.name, publish_adhoc=self.publish_adhoc, gates=gates),
                build_reaper_sensor(f"{self.name}_reaper"),
            ],
            resources={"graveler": graveler, "io_manager": manager, **resources},
        )


def _variable(name: str, value: str | Mapping[str, str]) -> str:
    """Return a value, or the environment variable that holds it."""
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"env"}:
        raise InvalidInputError(f"{name}: write the value, or {{env: NAME}}")
    return dg.EnvVar(value["env"])


def _load(what: str, name: str) -> Any:
    """Return the object at ``package.module:NAME``."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InvalidInputError(f"{what} {name!r}: name it as `package.module:NAME`")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"{what} {name!r} cannot be loaded: {error}") from error


def _load_all(what: str, name: str) -> Sequence[Any]:
    """Return the object or the several objects at ``package.module:NAME``."""
    value = _load(what, name)
    return list(value) if isinstance(value, list | tuple) else [value]

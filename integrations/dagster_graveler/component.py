"""A repository, and the assets that are published to it, as a component for ``dg``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Annotated, Any

import dagster as dg
from dagster.components.resolved.core_models import SharedAssetKwargs
from pydantic import BaseModel, Field

from dagster_graveler.definitions import surround, watched
from dagster_graveler.io_managers.base import GravelerIOManager
from dagster_graveler.publish import PUBLISH_POOL, WITH_DEPS
from dagster_graveler.resource import GravelerResource
from dagster_graveler.sensors.branches import deployment_branch
from dagster_graveler.settings import GravelerS3
from graveler.errors import InvalidInputError

_SHORTEST = 2


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


_OWN = ("graveler", "lake", "repository", "s3", "password")


def _attribute(name: str, setting: Any) -> tuple[str, Any, Any]:
    described = dg.Resolver.default(description=setting.description)
    default = partial(setting.get_default, call_default_factory=True)
    return name, Annotated[setting.annotation, described], field(default_factory=default)


_Settings: Any = make_dataclass(  # each setting of the resource and the IO manager is an attribute
    "_Settings",
    [
        ("partitions", SharedAssetKwargs.__annotations__["partitions_def"], field(default=None)),
        *(
            _attribute(name, setting)
            for kind in (GravelerResource, GravelerIOManager)
            for name, setting in kind.model_fields.items()
            if name not in _OWN
        ),
    ],
)


@dg.scaffold_with(GravelerScaffolder)
@dataclass(kw_only=True)
class GravelerComponent(_Settings, dg.Component, dg.Resolvable):  # type: ignore[misc] # made above
    """A repository of a lake: its resource, an IO manager, and the publishing of assets to it.

    Every setting of `GravelerResource` and `GravelerIOManager` is an attribute, too.

    Attributes:
        lake: The lake's folder, a ``graveler.toml``, or the URI of a key-value store without a
            password.
        repository: The name of the repository.
        password: The password of the key-value store, as ``{env: LAKE_PASSWORD}``: Dagster shows the
            name only.
        s3: Settings of S3, as in `GravelerS3`; keys as ``{env: NAME}``.
        name: The prefix of all names.
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
    """

    lake: str
    repository: str
    password: str | Mapping[str, str] = ""
    s3: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    name: str = "graveler"
    assets: Sequence[dg.ResolvedAssetKey] = ()
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
        graveler = GravelerResource(
            lake=self.lake,
            repository=self.repository,
            password=_variable("password", self.password),
            s3=GravelerS3(**{key: _variable(key, value) for key, value in self.s3.items()}),
            **self._settings_of(GravelerResource),
        )
        manager = GravelerIOManager(graveler=graveler, **self._settings_of(GravelerIOManager))
        manager.check_folders(dict.fromkeys(self.assets, self.partitions))
        gates = [gate for name in self.gates for gate in _load_all("gate", name)]
        checks = [check for name in self.asset_checks for check in _load_all("check", name)]
        more = {key: _load("resource", name) for key, name in self.resources.items()}
        resources = {"graveler": graveler, "io_manager": manager, **more}
        if self.assets:
            defs = surround(
                self.assets,
                resources,
                name=self.name,
                gates=gates,
                partitions_def=self.partitions,
                publish_adhoc=self.publish_adhoc,
                backfill_policy=dg.BackfillPolicy.single_run() if self.single_run else None,
                pool=self.pool,
                automation_condition=self.automation_condition or WITH_DEPS,
            )
        else:
            defs = watched(self.name, resources, self.publish_adhoc, gates)
        return dg.Definitions.merge(defs, dg.Definitions(asset_checks=checks))

    def _settings_of(self, kind: type[BaseModel]) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in kind.model_fields if name not in _OWN}


def _variable(name: str, value: str | Mapping[str, str]) -> str:
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"env"}:
        raise InvalidInputError(f"{name}: write the value, or {{env: NAME}}")
    return dg.EnvVar(value["env"])


def _load(what: str, name: str) -> Any:
    if ":" not in name:
        raise InvalidInputError(f"{what} {name!r}: name it as `package.module:NAME`")
    try:
        return resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"{what} {name!r} cannot be loaded: {error}") from error


def _load_all(what: str, name: str) -> Sequence[Any]:
    value = _load(what, name)
    return list(value) if isinstance(value, list | tuple) else [value]

"""Metadata for Dagster's catalog: kinds, references to code, and addresses of files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard, get_args

import dagster as dg
from dagster._utils.warnings import disable_dagster_warnings

from dagster_graveler.io_managers.base import GravelerIOManager
from dagster_graveler.resource import GravelerResource
from graveler.frames.libraries import PACKAGES

_MOST_KINDS = 3
_Assets = Sequence[dg.AssetsDefinition | dg.AssetSpec]


def catalogued(assets: _Assets, resources: Mapping[str, object]) -> _Assets:
    """Return assets with their kinds, references to their code, and their tables on the target.

    Values of an asset's own definition are kept.

    Args:
        assets: Definitions and specs.
        resources: The resources by key; their IO managers determine the addresses of files.
    """
    shown = dict(_tables(assets, resources))
    made = {key for asset in assets if _is_made(asset) for key in asset.keys}

    def described(spec: dg.AssetSpec) -> dg.AssetSpec:
        if spec.key not in made:
            return spec
        metadata, kinds = shown.get(spec.key, ({}, ()))
        return spec.replace_attributes(
            metadata={**metadata, **spec.metadata}, kinds=_kinds(spec.kinds, ("graveler", *kinds))
        )

    return dg.map_asset_specs(described, _with_code(assets))


def on_target(publish: dg.AssetsDefinition, graveler: GravelerResource) -> dg.AssetsDefinition:
    """Return a publishing asset with the address of its target."""
    if not _are_known(graveler):
        return publish
    uri = target_uri(graveler)
    return publish.map_asset_specs(
        lambda spec: spec.merge_attributes(metadata={"dagster/uri": uri})
    )


def asset_folders(
    keys: Iterable[dg.AssetKey],
    manager: object,
    partitions_def: dg.PartitionsDefinition[str] | None,
) -> Mapping[dg.AssetKey, str]:
    """Return the folder of each asset that a `GravelerIOManager` with known settings stores."""
    if not isinstance(manager, GravelerIOManager):
        return {}
    if any(isinstance(setting, dg.EnvVar) for setting in (manager.prefix, manager.layout)):
        return {}
    partitioned = partitions_def is not None
    return {key: manager.asset_folder(key, partitioned=partitioned) for key in keys}


def target_uri(graveler: GravelerResource, folder: str = "") -> str:
    """Return the address of a folder on the target."""
    return f"grav://{graveler.repository}/{graveler.into}/{folder}"


def _tables(
    assets: _Assets, resources: Mapping[str, object]
) -> Iterator[tuple[dg.AssetKey, tuple[Mapping[str, Any], Sequence[str]]]]:
    """Yield the metadata and the kinds of each asset that a `GravelerIOManager` stores."""
    for asset in assets:
        if not _is_made(asset):
            continue
        for name, key in asset.keys_by_output_name.items():
            manager = resources.get(asset.get_io_manager_key_for_asset_key(key))
            kind = asset.node_def.output_def_named(name).dagster_type
            if not isinstance(manager, GravelerIOManager) or kind.is_nothing:
                continue
            kinds = _libraries(kind.typing_type)
            yield key, (_table(manager, asset.specs_by_key[key], is_frame=bool(kinds)), kinds)


def _is_made(asset: dg.AssetsDefinition | dg.AssetSpec) -> TypeGuard[dg.AssetsDefinition]:
    """Return whether a run makes the asset."""
    return isinstance(asset, dg.AssetsDefinition) and asset.is_executable


def _libraries(annotation: Any) -> Sequence[str]:
    """Return the library of an annotated frame, or of a mapping of frames by partition."""
    kinds = (annotation, *get_args(annotation))
    modules = (getattr(kind, "__module__", "").partition(".")[0] for kind in kinds)
    return sorted({module for module in modules if module in PACKAGES})


def _table(manager: GravelerIOManager, spec: dg.AssetSpec, *, is_frame: bool) -> Mapping[str, Any]:
    graveler = manager.graveler
    if not _are_known(graveler, manager):
        return {}
    folder = manager.asset_folder(spec.key, partitioned=spec.partitions_def is not None)
    name = {"dagster/table_name": manager.table_name(spec.key)} if is_frame else {}
    return {"dagster/uri": target_uri(graveler, folder), **name}


def _are_known(graveler: object, manager: GravelerIOManager | None = None) -> bool:
    """Return whether the addresses are independent of a run's environment variables."""
    if not isinstance(graveler, GravelerResource):
        return False  # it is configured at launch
    settings = [graveler.repository, graveler.into]
    if manager is not None:
        settings += [manager.prefix, manager.layout]
    return not any(isinstance(setting, dg.EnvVar) for setting in settings)


def _with_code(assets: _Assets) -> _Assets:
    """Return assets with references to their code."""
    referring: list[dg.AssetsDefinition | dg.AssetSpec] = []
    with disable_dagster_warnings():
        for asset in assets:
            try:
                referring += dg.with_source_code_references([asset])  # type: ignore[arg-type] # of its kind
            except (OSError, TypeError):  # code without a file, as in a notebook
                referring.append(asset)
    return referring


def _kinds(own: Iterable[str], more: Sequence[str]) -> set[str]:
    """Return kinds with more added, up to the number that Dagster allows."""
    kinds = set(own)
    for kind in more:
        if len(kinds) < _MOST_KINDS:
            kinds.add(kind)
    return kinds

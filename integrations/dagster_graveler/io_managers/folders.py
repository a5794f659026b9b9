"""The folders of assets; no two assets share a folder."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import dagster as dg

from dagster_graveler.context import partition_folder
from graveler.base.names import check_path
from graveler.errors import InvalidInputError

Names = frozenset[str] | None
"""The names that one level of a folder's path can have; None for any."""

# no key or partition key has a slash in a level
_HOUR = tuple(frozenset((f"/{level}",)) for level in ("year", "month", "day", "time"))
_ASSET = "\0asset"
_PARTITION = "\0partition"


def check_prefix(value: str, name: str) -> None:
    """Refuse a prefix of paths that is no folder."""
    if value and not value.endswith("/"):
        raise InvalidInputError(
            f"{name}={value!r} is the beginning of all paths, as {f'{value}flights/'!r}: give "
            f"{f'{value}/'!r}"
        )
    check_path(f"{value}file")


def check_layout(value: str, name: str) -> None:
    """Refuse a layout with other fields, or that changes keys, which can then meet."""
    plain = value.replace("{asset}", "").replace("{partition}", "")
    if "{" in plain or "}" in plain:
        raise InvalidInputError(
            f"{name}={value!r} has other fields, or changes keys, which can then meet: use {{asset}} "
            "and {partition} as they are"
        )
    partition = "partition" if "{partition}" in value else ""
    check_path(f"{asset_folder(value, 'asset', partition)}{name}")


def asset_folder(layout: str, asset: str, partition: str = "") -> str:
    """Return the folder of an asset or a partition of it; it ends with a slash."""
    if partition and "{partition}" not in layout:
        raise InvalidInputError(
            f"layout {layout!r} has no {{partition}}, and the asset has partitions, which "
            "would overwrite each other"
        )
    path = layout.format(asset=asset, partition=partition)
    return "".join(f"{level}/" for level in path.split("/") if level)


def common_folder(layout: str, asset: str, *, partitioned: bool) -> str:
    """Return the folder of an asset, or the folder of all its partitions."""
    folder = asset_folder(layout, asset, _PARTITION if partitioned else "")
    before = folder.partition(_PARTITION)[0]
    return before[: before.rfind("/") + 1]


def check_folders(
    layout: str, assets: Mapping[dg.AssetKey, dg.PartitionsDefinition[str] | None]
) -> None:
    """Refuse assets that would overwrite each other's files."""
    levels = {key: _levels(layout, key, definition) for key, definition in assets.items()}
    for (key, own), (other, theirs) in combinations(levels.items(), 2):
        if len(own) == len(theirs) and all(map(_meet, own, theirs)):
            raise InvalidInputError(
                f"assets {key.to_user_string()} and {other.to_user_string()} would keep files in "
                f"one folder by the layout {layout!r}, and replace each other's: give one of them "
                "another key, another partition key, or an IO manager with another prefix"
            )


def _levels(
    layout: str, key: dg.AssetKey, definition: dg.PartitionsDefinition[str] | None
) -> Sequence[Names]:
    """Return the names of each level of an asset's folders."""
    levels: list[Names] = []
    for level in asset_folder(layout, _ASSET, _PARTITION if definition else "").split("/")[:-1]:
        if level == _ASSET:
            check_path("/".join(key.path))
            levels += [frozenset((name,)) for name in key.path]
        elif level == _PARTITION and definition is not None:
            levels += _partition_levels(definition)
        elif _ASSET in level or _PARTITION in level:
            levels.append(None)
        else:
            levels.append(frozenset((level,)))
    return levels


def _partition_levels(definition: dg.PartitionsDefinition[str]) -> Sequence[Names]:
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return _HOUR
    if isinstance(definition, dg.MultiPartitionsDefinition):
        dimensions = (dimension.partitions_def for dimension in definition.partitions_defs)
        return [names for dimension in dimensions for names in _partition_levels(dimension)]
    if isinstance(definition, dg.StaticPartitionsDefinition):
        keys = definition.get_partition_keys()
        return [frozenset(partition_folder(definition, key)[:-1] for key in keys)]
    return [None]


def _meet(left: Names, right: Names) -> bool:
    return left is None or right is None or bool(left & right)

"""Three-way rules for the metadata of a table: schemas, specs, sort orders, properties, refs, statistics."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType

from graveler.tables.merging.conflicts import Refusal, pick

Sides = tuple[TableMetadata, TableMetadata, TableMetadata]
"""The base, the source and the destination."""


def merged_schemas(sides: Sides) -> tuple[dict[str, Any], dict[int | None, int]]:
    """Return the fields of the metadata that are about schemas, and what the source's ids become."""
    source, dest = sides[1:]
    _check_new_columns(sides)
    schemas = list(dest.schemas)
    ids: dict[int | None, int] = {}
    for one in source.schemas:
        ids[one.schema_id] = _numbered(schemas, one)
    current = _merged_schema(*(side.schema() for side in sides))
    return {
        "current_schema_id": _numbered(schemas, current),
        "schemas": schemas,
        "last_column_id": max(source.last_column_id, dest.last_column_id),
    }, ids


def _numbered(schemas: list[Schema], schema: Schema) -> int:
    """Return the id of an equal schema among some, after adding it if there is none."""
    known = next((one for one in schemas if one == schema), None)
    if known is None:
        number = max(one.schema_id for one in schemas) + 1
        known = schema.model_copy(update={"schema_id": number})
        schemas.append(known)
    return int(known.schema_id)


def _check_new_columns(sides: Sides) -> None:
    """Refuse if both sides gave the same new id to different columns: files name columns by id."""
    base, source, dest = sides
    last = min(source.last_column_id, dest.last_column_id)
    ours, theirs = (_first_fields(side.schemas) for side in (source, dest))
    for number in range(base.last_column_id + 1, last + 1):
        if ours.get(number) != theirs.get(number):
            raise Refusal(
                f"column {number}",
                f"both sides added a column with this id: {ours.get(number)} and {theirs.get(number)}",
            )


def _first_fields(schemas: Iterable[Schema]) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    for schema in sorted(schemas, key=lambda one: one.schema_id):
        for number, field in index_by_id(schema).items():
            fields.setdefault(number, field)
    return fields


def _merged_schema(base: Schema, source: Schema, dest: Schema) -> Schema:
    """Merge the columns one by one, each with all that is nested in it."""
    if source in (base, dest):
        return dest
    if dest == base:
        return source
    columns = [{field.field_id: field for field in side.fields} for side in (base, source, dest)]
    merged = {
        number: pick(f"column {number}", *(side.get(number) for side in columns))
        for number in columns[2] | columns[1]
    }
    fields = [field for field in merged.values() if field is not None]
    before, ours, theirs = (
        [number for number in side if all(number in other for other in columns)] for side in columns
    )
    order = pick("order of columns", before, ours, theirs)
    if order != theirs:  # new columns of the destination are last
        fields.sort(key=lambda field: [*columns[1], *columns[2]].index(field.field_id))
    names = [field.name for field in fields]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refusal("schema", f"the sides named different columns {sorted(twice)}")
    known = (sorted(side.identifier_field_ids) for side in (base, source, dest))
    return Schema(*fields, identifier_field_ids=pick("identifier columns", *known))


def merged_layout(sides: Sides) -> dict[str, Any]:
    """Return the fields of the metadata that are about partition specs and sort orders."""
    source, dest = sides[1:]
    return {
        "partition_specs": _union(
            source.partition_specs, dest.partition_specs, lambda one: one.spec_id, "partition spec"
        ),
        "default_spec_id": pick("default spec", *(side.default_spec_id for side in sides)),
        "last_partition_id": max(side.last_partition_id or 0 for side in (source, dest)),
        "sort_orders": _union(
            source.sort_orders, dest.sort_orders, lambda one: one.order_id, "sort order"
        ),
        "default_sort_order_id": pick("default order", *(x.default_sort_order_id for x in sides)),
    }


def _union(
    source: Iterable[Any], dest: Iterable[Any], key: Callable[[Any], int], what: str
) -> list[Any]:
    kept = {key(one): one for one in dest}
    for one in source:
        other = kept.setdefault(key(one), one)
        if other != one:
            raise Refusal(
                f"{what} {key(one)}", f"both sides added it: {one.fields}, {other.fields}"
            )
    return list(kept.values())


def merged_properties(sides: Sides) -> dict[str, str]:
    """Return the properties, each picked by itself."""
    return _picked([side.properties for side in sides], "property")


def merged_refs(sides: Sides, head: int | None) -> dict[str, SnapshotRef]:
    """Return the refs, each picked by itself; ``main`` is at `head`, and its settings are picked."""
    # where main is has been merged before, so only its settings are compared
    level = [
        {
            name: ref.model_copy(update={"snapshot_id": 0}) if name == MAIN_BRANCH else ref
            for name, ref in side.refs.items()
        }
        for side in sides
    ]
    refs: dict[str, SnapshotRef] = _picked(level, "ref")
    main = refs.pop(MAIN_BRANCH, None) or SnapshotRef.model_validate(
        {"snapshot-id": 0, "type": SnapshotRefType.BRANCH}
    )
    if head is not None:
        refs[MAIN_BRANCH] = main.model_copy(update={"snapshot_id": head})
    return refs


def withdrawn(before: TableMetadata, after: TableMetadata, now: TableMetadata) -> TableMetadata:
    """Return metadata without what a step has changed in it; what others changed again stays, and columns do.

    Args:
        before: The metadata before the step.
        after: The metadata as the step left it.
        now: The metadata with the work of others.
    """
    update: dict[str, Any] = {}
    for name in ("properties", "refs"):
        old, left, there = (getattr(side, name) for side in (before, after, now))
        own = {key for key in old | left if old.get(key) != left.get(key) == there.get(key)}
        picked = {key: (old if key in own else there).get(key) for key in there | old}
        update[name] = {key: value for key, value in picked.items() if value is not None}
    known = {one.snapshot_id for one in now.snapshots}
    update["refs"] = {k: ref for k, ref in update["refs"].items() if ref.snapshot_id in known}
    for name in ("default_spec_id", "default_sort_order_id"):
        if getattr(now, name) == getattr(after, name):
            update[name] = getattr(before, name)
    return now.model_copy(update=update)


def _picked(sides: list[dict[str, Any]], what: str) -> dict[str, Any]:
    names = sides[2] | sides[1]
    found = {name: pick(f"{what} {name}", *(side.get(name) for side in sides)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def merged_statistics(
    sides: Sides, known: Collection[int], rebased: Collection[int]
) -> dict[str, Any]:
    """Return the statistics of known snapshots, the destination's if both changed.

    Those of the source do not fit what its rebased snapshots have become.
    """
    merged = {}
    for field in ("statistics", "partition_statistics"):
        base, source, dest = (
            {one.snapshot_id: one for one in getattr(side, field)} for side in sides
        )
        source.update((number, base.get(number)) for number in rebased)
        newest = (_newer(base, source, dest, number) for number in dest | source)
        merged[field] = [one for one in newest if one is not None and one.snapshot_id in known]
    return merged


def _newer(
    base: Mapping[int, Any], source: Mapping[int, Any], dest: Mapping[int, Any], number: int
) -> Any:
    ours, theirs = source.get(number), dest.get(number)
    return ours if theirs == base.get(number) else theirs

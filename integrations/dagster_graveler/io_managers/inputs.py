"""Inputs: the type that an argument asks for, and the view from which each partition is read."""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonpath
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import dagster as dg

from dagster_graveler.context import BACKFILL, is_in_run, run_metadata, run_partitions
from dagster_graveler.materializations import (
    UNPUBLISHED,
    find_run,
    made_by,
    newest,
    part_text,
    refusal,
    unpublished,
)
from dagster_graveler.resource import GravelerResource
from graveler.lake import Ref, Run

MISSING = "allow_missing_partitions"
"""Name in the metadata of an input of several partitions, some of which may be missing."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The annotation of an argument."""

    kind: Any
    is_optional: bool
    is_mapping: bool
    may_be_none: bool


def annotation_of(context: dg.InputContext) -> Annotation:
    """Return the annotation of an input."""
    whole = _alternatives(context.dagster_type.typing_type)
    mapping = None
    if context.has_asset_key and context.has_asset_partitions:
        mapping = next((kind for kind in whole if (get_origin(kind) or kind) is dict), None)
    values = whole if mapping is None else _alternatives((*get_args(mapping), Any, Any)[1])
    kinds = [kind for kind in values if kind is not NoneType]
    kind = get_origin(kinds[0]) or kinds[0] if len(kinds) == 1 else Any
    # an op gets the values of several outputs as a list
    of_op = kind is list and not context.has_asset_key
    return Annotation(
        kind=Any if of_op or kind is object or not isinstance(kind, type) else kind,
        is_optional=NoneType in values,
        is_mapping=mapping is not None,
        may_be_none=NoneType in whole,
    )


def _alternatives(annotated: Any) -> Sequence[Any]:
    return get_args(annotated) if get_origin(annotated) in (Union, UnionType) else (annotated,)


def input_views(
    graveler: GravelerResource, context: dg.InputContext, partitions: Collection[str]
) -> Mapping[str, Run | Ref]:
    """Return the view to read each partition of an input from.

    The run's branch has what the run wrote. For an asset of another run, the state of that run
    decides, not the time: main is read if it is over. Outside a run main is read.
    """
    if not is_in_run(context):
        return dict.fromkeys(partitions, graveler.at())
    view, repository = graveler.view(context), graveler.repo()
    if not context.has_asset_key:
        return dict.fromkeys(partitions, view)

    def at(commit: str) -> Run | Ref:
        if not isinstance(view, Run):
            return repository.ref(commit)
        return view if view.record.base == commit else view.view(commit)

    step, asset = context.step_context, context.asset_key
    made = newest(step.instance, asset, partitions)
    waiting = unpublished(repository, made.values())
    main = at(graveler.at().commit.id)
    backfill = run_metadata(context).get(BACKFILL)
    own: Collection[str] = ()
    if isinstance(view, Run) and asset.to_user_string() in made_by(repository, view):
        own = ("", *run_partitions(step))
    views: dict[str, Run | Ref] = {}
    for partition in partitions:
        one = made.get(partition)
        record = None if one is None else waiting.get(one)
        if one is None or one.run == graveler.run_key(context) or partition in own:
            views[partition] = view
        elif record is None:
            views[partition] = main
        elif context.definition_metadata.get(UNPUBLISHED) or (
            backfill and record.metadata.get(BACKFILL) == backfill
        ):
            views[partition] = at(one.commit or repository.commit(record.branch).id)
        else:
            raise refusal(part_text(asset, partition), record)
    return views


def check_none(
    graveler: GravelerResource,
    context: dg.InputContext,
    partition: str,
    *,
    optional: bool = True,
) -> None:
    """Refuse to read None for a partition that was never made, or any value that was lost."""
    if not is_in_run(context) or not context.has_asset_key:
        return
    instance, key, repository = context.step_context.instance, context.asset_key, graveler.repo()
    one = newest(instance, key, [partition]).get(partition)
    if one is None:
        shown = dg.AssetRecordsFilter(key, asset_partitions=[partition] if partition else None)
        if not optional or instance.fetch_materializations(shown, limit=1).records:
            return
        why = "it was never made"
    else:
        record = find_run(repository, one.run)
        if one.run == graveler.run_key(context) or (
            record and (record.live or next(repository.runs.on_targets([record])).published)
        ):
            return
        why = f"{one.run!r}, which made it, is not published"
    hint = (
        f". None for input {context.name!r} would say that it was made, and is empty: materialize it "
        f"first, or give the input the metadata {MISSING!r}, which makes it None"
    )
    raise dg.Failure(
        f"{part_text(key, partition)} has no files: {why}"
        f"{hint if optional else ': materialize it first'}",
        allow_retries=False,
    )


def present(views: Mapping[str, Run | Ref], folders: Mapping[str, str]) -> Mapping[str, str]:
    """Return the folders that have a file, by one listing of each view; none contains another."""
    found = set()
    for view in {id(view): view for view in views.values()}.values():
        ordered = sorted(folder for key, folder in folders.items() if views[key] is view)
        root = commonpath(ordered)
        for entry in view.entries(f"{root}/" if root else ""):
            folder = ordered[max(bisect_right(ordered, entry.path) - 1, 0)]
            if entry.path.startswith(folder):
                found.add(folder)
    return {key: folder for key, folder in folders.items() if folder in found}

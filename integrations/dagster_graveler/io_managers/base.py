"""Assets as folders of the lake: written in a step of the run, read from the run's branch."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self, get_args, get_origin

import dagster as dg

from dagster_graveler.context import output_name, partition_folder
from dagster_graveler.resource import GravelerResource
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.lake import Branch, Ref, Run, Step

_FILE: Final = "data"
_SHOWN: Final = 20
_MISSING: Final = "allow_missing_partitions"
_COLUMN: Final = "partition_expr"


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows of a partition: those whose column holds its key, or a time in its window.

    Attributes:
        key: The partition key.
        start: The start of its window of time; None for partitions that are not times.
        end: The end of the window, which belongs to the next one.
    """

    key: str
    start: datetime | None = None
    end: datetime | None = None

    @classmethod
    def of(cls, definition: dg.PartitionsDefinition[str], key: str) -> Self:
        """Return the rows of a partition key."""
        if isinstance(definition, dg.TimeWindowPartitionsDefinition):
            window = definition.time_window_for_partition_key(key)
            return cls(key, window.start, window.end)
        if isinstance(definition, dg.MultiPartitionsDefinition):
            raise InvalidInputError(
                "a frame is split by one column, and the partitions have several dimensions: "
                "return a mapping by partition key"
            )
        return cls(key)

    def window(self, column: str) -> tuple[datetime, datetime]:
        """Return the window of time, or raise InvalidInputError if the partition is not a time."""
        if self.start is None or self.end is None:
            raise InvalidInputError(
                f"column {column!r} holds times, and partition {self.key!r} is not a time"
            )
        return self.start, self.end


def refuse_other_rows(column: str, count: int | None = None) -> None:
    """Raise InvalidInputError: rows belong to none of the run's partitions."""
    rows = "rows" if count is None else f"{count} rows"
    raise InvalidInputError(
        f"{rows} belong to none of the partitions of this run by their column {column!r}: "
        "filter them out, or run their partitions too"
    )


class BaseGravelerIOManager(dg.ConfigurableIOManager):
    """Determines the folder of an asset, the step that writes it and the commit it is read from.

    Subclasses define the files of a value: ``write``, ``read`` and optionally ``combine``,
    ``split`` and ``describe``.

    Attributes:
        graveler: The repository.
        prefix: The beginning of all paths.
        layout: An asset's folder below the prefix, with ``{asset}`` (its key, joined by slashes)
            and ``{partition}`` (``2013/01/01/05:00``, UTC, for a time; else the key).
    """

    graveler: dg.ResourceDependency[GravelerResource]
    prefix: str = ""
    layout: str = "{asset}/{partition}"

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Write `obj` in a step of the run; a retry replaces the work of the earlier try.

        In a run for several partitions `obj` is a mapping by partition key, or a frame, if the
        manager keeps frames and the asset's metadata name a column in ``partition_expr``. None
        writes nothing, and undoes what an earlier run of the same key wrote for the output.
        """
        if obj is None:  # the asset wrote its files itself, or there are none
            self.graveler.undo(context)
            return
        values = self._by_folder(context, obj)
        with self.graveler.step(context) as step:
            for folder, value in values.items():
                self.write(step, folder, value, context)
            written = Branch(step.repository, step.name)  # this listing is no input of the run
            paths = [entry.path for folder in values for entry in written.entries(folder)]
        run = self.graveler.run(context)
        commit = step.result or run.head
        context.add_output_metadata(
            {
                "graveler/branch": run.branch,
                "graveler/commit": commit.id,
                "graveler/paths": dg.MetadataValue.json(paths[:_SHOWN]),
                "graveler/files": len(paths),
                **(self.describe(obj) if len(values) == 1 else {}),
            }
        )

    def load_input(self, context: dg.InputContext) -> Any:
        """Read from the run's branch; outside a run, from the present commit of the target."""
        view = self.graveler.view(context) if _is_in_run(context) else self.graveler.at()
        folders = self._input_folders(context)
        if not isinstance(folders, Mapping):
            return self.read(view, folders, context)
        values = {}
        for key, folder in folders.items():
            try:
                values[key] = self.read(view, folder, context)
            except ObjectNotFoundError:
                if not (context.definition_metadata or {}).get(_MISSING):
                    raise
        if get_origin(context.dagster_type.typing_type) is dict:
            return values
        return self.combine(values) if len(folders) != 1 or not values else values.popitem()[1]

    @abstractmethod
    def write(self, step: Step, folder: str, obj: object, context: dg.OutputContext) -> None:
        """Write a value below `folder`."""

    @abstractmethod
    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the value below `folder`."""

    def combine(self, values: Mapping[str, Any]) -> Any:
        """Return the value of an input of several partitions: a dictionary by partition key."""
        return dict(values)

    def split(
        self, obj: object, column: str, rows: Mapping[str, PartitionRows]
    ) -> Mapping[str, Any]:
        """Return the parts of a value, by partition key.

        Args:
            obj: What the asset returned for all partitions.
            column: The column that holds the partition of a row.
            rows: The rows of each partition.
        """
        raise InvalidInputError(
            f"{type(obj).__name__} cannot be split by column {column!r}: return a mapping by "
            "partition key"
        )

    def describe(self, obj: object) -> Mapping[str, Any]:
        """Return more metadata of a value for Dagster."""
        return {}

    def _by_folder(self, context: dg.OutputContext, obj: object) -> Mapping[str, Any]:
        if not context.has_asset_key:
            return {self._folder([context.step_key, output_name(context)]): obj}
        parts = context.asset_key.path
        if not context.has_asset_partitions:
            return {self._folder(parts): obj}
        definition = context.asset_partitions_def
        keys = list(context.asset_partition_keys)
        column = (context.definition_metadata or {}).get(_COLUMN)
        if len(keys) == 1 and not isinstance(obj, Mapping):
            values: Mapping[str, Any] = {keys[0]: obj}
            if column is not None and _has_rows(definition, obj):
                self.split(
                    obj, column, {keys[0]: PartitionRows.of(definition, keys[0])}
                )  # raises if rows do not belong
        elif isinstance(obj, Mapping) or column is None:
            values = _mapped(context.asset_key, obj, keys)
        else:
            values = self.split(
                obj, column, {key: PartitionRows.of(definition, key) for key in keys}
            )
        return {
            self._folder(parts, partition_folder(definition, key)): value
            for key, value in values.items()
        }

    def _input_folders(self, context: dg.InputContext) -> str | Mapping[str, str]:
        """Return the folder of an input, or the folders of its partitions by key."""
        if not context.has_asset_key:
            upstream = context.upstream_output
            if upstream is None:
                raise InvalidInputError(f"input {context.name!r} comes from no asset and no op")
            return self._folder([upstream.step_key, output_name(upstream)])
        parts = context.asset_key.path
        if not context.has_asset_partitions:
            return self._folder(parts)
        definition = context.asset_partitions_def
        return {
            key: self._folder(parts, partition_folder(definition, key))
            for key in context.asset_partition_keys
        }

    def _folder(self, parts: Sequence[str], partition: str = "") -> str:
        if partition and "{partition}" not in self.layout:
            raise InvalidInputError(
                f"layout {self.layout!r} has no {{partition}}, and the asset has partitions, which "
                "would overwrite each other"
            )
        try:
            path = self.layout.format(asset="/".join(parts), partition=partition)
        except (KeyError, IndexError, ValueError) as error:
            raise InvalidInputError(
                f"layout {self.layout!r} cannot be filled in ({error}): use {{asset}} and "
                "{partition}"
            ) from error
        return self.prefix + "".join(f"{part}/" for part in path.split("/") if part)


class GravelerIOManager(BaseGravelerIOManager):
    """Keeps assets that are bytes or text, one file each."""

    def write(self, step: Step, folder: str, obj: object, context: dg.OutputContext) -> None:
        """Write a value below `folder`."""
        if not isinstance(obj, bytes | str):
            raise InvalidInputError(
                f"{folder}: {type(obj).__name__} is neither bytes nor text: use the IO manager "
                "for Spark, pandas or polars, or write with `graveler.step(context)`"
            )
        step.put(folder + _FILE, obj.encode() if isinstance(obj, str) else obj)

    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the value below `folder`."""
        body = view.get(folder + _FILE)
        return body.decode() if value_type(context) is str else body


def value_type(context: dg.InputContext) -> Any:
    """Return the annotated type of an input; of one value, for a dictionary by partition."""
    annotated = context.dagster_type.typing_type
    if get_origin(annotated) is dict and context.has_asset_key and context.has_asset_partitions:
        return get_args(annotated)[1]
    return annotated


def _mapped(asset: dg.AssetKey, obj: object, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the value of each partition, from a mapping with exactly these keys."""
    subject = f"asset {asset.to_user_string()}: a run for {len(keys)} partitions"
    if not isinstance(obj, Mapping):
        raise InvalidInputError(
            f"{subject} returned one {type(obj).__name__}: return a mapping by partition key, or "
            f"name the column that holds the partition of a row: metadata={{{_COLUMN!r}: ...}}"
        )
    if set(obj) != set(keys):
        wrong = sorted(map(str, set(obj) ^ set(keys)))[:_SHOWN]
        raise InvalidInputError(
            f"{subject} returned a mapping that differs at {wrong}: give each partition its value, "
            "an empty one if it has no data"
        )
    return obj


def _has_rows(definition: dg.PartitionsDefinition[str], obj: object) -> bool:
    """Return whether a column can hold the partition of each row of the value."""
    return not isinstance(definition, dg.MultiPartitionsDefinition) and not isinstance(
        obj, bytes | str
    )


def _is_in_run(context: dg.InputContext) -> bool:
    try:
        context.step_context  # noqa: B018 - it raises outside a run
    except dg.DagsterInvariantViolationError:
        return False
    return True

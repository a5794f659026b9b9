"""Assets as folders of the lake: a step of the run writes them, and reads use the run's branch."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field, model_validator

from dagster_graveler.context import (
    OP_OUTPUTS,
    asset_partitions,
    is_in_run,
    output_name,
    partition_folder,
)
from dagster_graveler.io_managers.folders import (
    asset_folder,
    check_folders,
    check_layout,
    check_prefix,
    common_folder,
)
from dagster_graveler.io_managers.frames import FrameHandler, count_rows
from dagster_graveler.io_managers.handlers import (
    BytesHandler,
    PickleHandler,
    Table,
    TextHandler,
    TypeHandler,
    unknown_type,
)
from dagster_graveler.io_managers.inputs import (
    MISSING,
    annotation_of,
    check_none,
    input_views,
    present,
)
from dagster_graveler.io_managers.lineage import column_lineage, keep_input
from dagster_graveler.pipes import COMMIT, run_marks
from dagster_graveler.resource import GravelerResource
from dagster_graveler.settings import SETTINGS, Checks, check_settings
from graveler.base.arguments import choice
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames.libraries import NAMES, library_named, library_of
from graveler.frames.library import MODES, TYPE
from graveler.frames.rows import PartitionRows
from graveler.lake import Branch, Ref, Run

_SHOWN = 20
_COLUMN = "partition_expr"
HANDLERS = (*NAMES, "bytes", "text")
"""The names of graveler's handlers that ``load_as`` may choose."""

_NAMED: Checks = {"load_as": lambda value, name: choice(value, name, HANDLERS)}
_CHECKS: Checks = {
    "mode": lambda value, name: choice(value, name, MODES),
    "prefix": check_prefix,
    "layout": check_layout,
}


class GravelerIOManager(dg.ConfigurableIOManager):
    """Stores the results of assets on the branch of the run, each in its own folder.

    The type of a result decides its format: bytes and text are stored unchanged, frames of pandas,
    polars and pyarrow as one Parquet file, frames of Spark as the files that Spark writes. The
    annotation of an argument decides its type, whatever the asset upstream returned::

        @dg.asset
        def flights() -> pd.DataFrame: ...

        @dg.asset
        def delays(flights: pl.LazyFrame) -> pl.DataFrame: ...

    Without an annotation an argument gets the type that was written.
    """

    model_config = SETTINGS

    graveler: dg.ResourceDependency[GravelerResource]
    """The repository."""
    prefix: str = ""
    """The beginning of all paths."""
    layout: str = "{asset}/{partition}"
    """An asset's folder below the prefix, with ``{asset}`` (its key, joined by slashes) and
    ``{partition}`` (``2013/01/01/05:00``, UTC, for a time; else the key). Files in folders below it
    belong to other assets, except in ``key=value`` folders."""
    load_as: str = "spark"
    """The type for an argument without annotation if the written type is not known, as for files
    that Spark or another program wrote: ``spark``, ``pandas``, ``polars``, ``pyarrow``, ``bytes`` or
    ``text``."""
    pickle: bool = False
    """Whether values of all other types are stored by Python's pickle. Reading such a file runs code
    that it names, so use it only for a lake whose writers are trusted."""
    mode: str = "overwrite"
    """``overwrite``, ``append`` or ``error``. In every mode, a retry or another run of the same job
    and partition replaces the files that the asset wrote there before. With ``append``, a Spark frame
    of an asset with partitions also replaces the files of other jobs there; an asset without
    partitions adds its rows with each run. ``error`` refuses to overwrite files of another job."""
    file_format: str = "parquet"
    """Spark's name of the format of Spark frames."""
    partition_by: list[str] = Field(default_factory=list)
    """Columns of Spark frames that become ``key=value`` folders."""
    options: dict[str, str] = Field(default_factory=dict)
    """Spark's options of the format, for writing and reading."""

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: Any) -> Any:
        own = cls.type_handlers is not GravelerIOManager.type_handlers
        return check_settings(given, _CHECKS if own else {**_CHECKS, **_NAMED})

    def type_handlers(self) -> Sequence[TypeHandler]:
        """Return handlers of more types; they are tried before graveler's own."""
        return ()

    def check_folders(
        self, assets: Mapping[dg.AssetKey, dg.PartitionsDefinition[str] | None]
    ) -> None:
        """Refuse assets that would replace each other's files; ``append`` lets them share.

        Args:
            assets: The partitions of each asset; None for an asset without partitions.

        Raises:
            InvalidInputError: Two assets have a folder in common.
        """
        if self.mode != "append":
            check_folders(self.layout, assets)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Fail before an asset works if the target of its run is missing."""
        if context.run is not None:  # otherwise a sensor may make the target
            self.graveler.at()

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Write `obj` in a step of the run; a retry replaces the work of the earlier try.

        In a run for several partitions `obj` is a mapping by partition key, or a frame if the
        asset's metadata names a column in ``partition_expr``. None, also of one partition in a
        mapping, writes nothing, and removes the files of the output that any earlier run has
        written. Outside a Dagster run, a run of its own publishes the value at once.
        """
        folders = self._folders(context)
        if not is_in_run(context):
            self._publish(context, folders, obj)
            return
        if obj is None:  # the asset wrote its files itself, or there are none
            self.graveler.undo(context, folders.values() if context.has_asset_key else ())
            return
        values = self._values(context, folders, obj)
        empty = [folders[key] for key, value in values.items() if value is None]
        values = {key: value for key, value in values.items() if value is not None}
        handlers = {key: self._writer(context, value) for key, value in values.items()}
        with self.graveler.step(context) as step:
            gone = self.graveler.outputs(context, empty, step.run.branch) if empty else ()
            step.delete_many(path for path in gone if step.exists(path))
            for key, value in values.items():
                handlers[key].write(step, self._table(folders[key], context), value)
            # this listing is not an input of the run
            written = Branch(step.repository, step.name)
            shown = {
                key: self._describe(context, written, folders[key], handlers[key], value)
                for key, value in values.items()
            }
        run = self.graveler.run(context)
        commit = step.result or run.head
        context.add_output_metadata({**run_marks(run), COMMIT: commit.id})
        for key, metadata in shown.items():
            metadata["dagster/uri"] = self.graveler.uri(commit.id, folders[key])
            if len(shown) == 1:
                context.add_output_metadata(metadata)
            else:
                context.step_context.add_asset_metadata(metadata, context.asset_key, key)

    def _publish(self, context: dg.OutputContext, folders: Mapping[str, str], obj: object) -> None:
        name = f"dagster {context.asset_key.to_user_string()}"
        if context.has_asset_partitions:
            name = f"{name} {','.join(context.asset_partition_keys)}"
        repository, into = self.graveler.repo(), self.graveler.into
        with repository.run(name, into=into) as run, run.step("output") as step:
            for key, value in self._values(context, folders, obj).items():
                self._writer(context, value).write(step, self._table(folders[key], context), value)

    def load_input(self, context: dg.InputContext) -> Any:
        """Read from the run's branch; outside a run, from the present commit of the target."""
        folders, wanted = self._folders(context), annotation_of(context)
        views = input_views(self.graveler, context, folders)
        if "" in folders:
            return self._read(views[""], folders[""], context, "")[1]
        may_miss = (context.definition_metadata or {}).get(MISSING)
        if may_miss:
            folders = present(views, folders)
        elif not folders and (wanted.may_be_none or not wanted.is_mapping):
            return None  # as for the first partition of an asset that depends on itself
        values = {}
        handler: TypeHandler = BytesHandler()
        for key, folder in folders.items():
            handler, values[key] = self._read(views[key], folder, context, key)
        if wanted.is_mapping:
            return values
        if wanted.is_optional:
            values = {key: value for key, value in values.items() if value is not None}
            if not values:
                return None
        return handler.combine(values) if len(folders) != 1 or not values else values.popitem()[1]

    def _read(
        self, view: Run | Ref, folder: str, context: dg.InputContext, partition: str
    ) -> tuple[TypeHandler, Any]:
        table, wanted = self._table(folder, context), annotation_of(context)
        kind = wanted.kind
        if wanted.is_optional and next(table.entries(view), None) is None:
            check_none(self.graveler, context, partition)
            return BytesHandler(), None
        handler = None if kind is Any else self._handler(kind)
        if handler is None:
            first = next(table.entries(view), None)
            writer = "" if first is None else first.metadata.get(TYPE, "")
            if kind is not Any and writer != PickleHandler.name:
                raise unknown_type(f"argument {context.name!r}", kind)
            handler = self._named(writer or self.load_as, folder)
        try:
            value = handler.read(view, table, kind)
        except ObjectNotFoundError:
            check_none(self.graveler, context, partition, optional=False)
            raise
        if is_in_run(context):
            keep_input(context, value)
        return handler, value

    def _writer(self, context: dg.OutputContext, value: object) -> TypeHandler:
        if handler := self._handler(type(value)):
            return handler
        if self.pickle:
            return PickleHandler()
        raise unknown_type(f"output {output_name(context)!r} of {context.step_key}", type(value))

    def _handlers(self) -> Sequence[TypeHandler]:
        return (*self.type_handlers(), BytesHandler(), TextHandler())

    def _handler(self, kind: type) -> TypeHandler | None:
        for handler in self._handlers():
            if handler.handles(kind):
                return handler
        library = library_of(kind)
        return None if library is None else FrameHandler(library)

    def _named(self, name: str, folder: str) -> TypeHandler:
        for handler in self._handlers():
            if handler.name == name:
                return handler
        if name == PickleHandler.name:
            if self.pickle:
                return PickleHandler()
            raise InvalidInputError(
                f"{folder} holds a pickle, and reading it runs code that it names: if you trust "
                "the writers of this lake, give the IO manager `pickle=True`"
            )
        if name not in NAMES:
            raise InvalidInputError(
                f"{folder}: no type handler is named {name!r}: annotate the argument, or add the "
                f"handler to `type_handlers()`; graveler has {', '.join(HANDLERS)}"
            )
        return FrameHandler(library_named(name))

    def _table(self, folder: str, context: dg.OutputContext | dg.InputContext) -> Table:
        """Return a folder; the asset owns the rows of a partition in every run."""
        return Table(
            folder,
            mode=self.mode,
            file_format=self.file_format,
            partition_by=self.partition_by,
            options=self.options,
            owner=context.asset_key.to_user_string() if _is_partitioned(context) else "",
        )

    def _describe(
        self,
        context: dg.OutputContext,
        view: Branch,
        folder: str,
        handler: TypeHandler,
        value: object,
    ) -> dict[str, Any]:
        entries = list(self._table(folder, context).entries(view))
        paths = [entry.path for entry in entries]
        metadata: dict[str, Any] = {
            "graveler/paths": dg.MetadataValue.json(paths[:_SHOWN]),
            "graveler/files": len(paths),
        }
        if not isinstance(handler, FrameHandler):
            return metadata
        rows = count_rows(view, entries)
        if rows is not None:
            of = "partition_" if _is_partitioned(context) else ""
            metadata[f"dagster/{of}row_count"] = rows
        columns = handler.columns(value)
        metadata["dagster/column_schema"] = dg.TableSchema(
            [dg.TableColumn(name, kind) for name, kind in columns.items()]
        )
        if context.has_asset_key:
            metadata.update(column_lineage(context, value, list(columns)))
            metadata["dagster/table_name"] = self.table_name(context.asset_key)
        return metadata

    def asset_folder(self, asset: dg.AssetKey, *, partitioned: bool) -> str:
        """Return the folder of an asset; with partitions, the folder of all of them."""
        return self.prefix + common_folder(
            self.layout, "/".join(asset.path), partitioned=partitioned
        )

    def table_name(self, asset: dg.AssetKey) -> str:
        """Return the name of an asset's table: repository, target and key, joined by dots."""
        return ".".join((self.graveler.repository, self.graveler.into, *asset.path))

    def _folders(self, context: dg.OutputContext | dg.InputContext) -> Mapping[str, str]:
        """Return the folder of each partition; without partitions the key is ""."""
        if not context.has_asset_key:
            output = context if isinstance(context, dg.OutputContext) else context.upstream_output
            if output is None:
                raise InvalidInputError(f"input {context.name!r} comes from no asset and no op")
            # the publishing asset removes it from the run
            return {"": f"{OP_OUTPUTS}{output.step_key}/{output_name(output)}/"}
        asset = "/".join(context.asset_key.path)
        if not context.has_asset_partitions:
            return {"": self.prefix + asset_folder(self.layout, asset)}
        definition = context.asset_partitions_def
        return {
            key: self.prefix + asset_folder(self.layout, asset, partition_folder(definition, key))
            for key in asset_partitions(context)
        }

    def _values(
        self, context: dg.OutputContext, folders: Mapping[str, str], obj: object
    ) -> Mapping[str, Any]:
        """Return the value of each partition; without partitions the key is ""."""
        if not _is_partitioned(context):
            return {"": obj}
        keys = list(folders)
        if isinstance(obj, Mapping) and (len(keys) > 1 or set(obj) == set(keys)):
            return _mapped(context.asset_key, obj, keys)
        column = (context.definition_metadata or {}).get(_COLUMN)
        definition = context.asset_partitions_def
        # a column can hold the partition of each row
        has_rows = not isinstance(definition, dg.MultiPartitionsDefinition) and isinstance(
            self._handler(type(obj)), FrameHandler
        )
        if len(keys) == 1 and not (column and has_rows):
            return {keys[0]: obj}
        if column is None:
            return _mapped(context.asset_key, obj, keys)
        rows = {key: _rows(definition, key) for key in keys}
        return self._writer(context, obj).split(obj, column, rows)  # raises if rows do not belong


def _is_partitioned(context: dg.OutputContext | dg.InputContext) -> bool:
    return context.has_asset_key and context.has_asset_partitions


def _rows(definition: dg.PartitionsDefinition[str], key: str) -> PartitionRows:
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        window = definition.time_window_for_partition_key(key)
        return PartitionRows(key, window.start, window.end, definition.timezone)
    if isinstance(definition, dg.MultiPartitionsDefinition):
        raise InvalidInputError(
            "a frame is split by one column, and the partitions have several dimensions: "
            "return a mapping by partition key"
        )
    return PartitionRows(key)


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

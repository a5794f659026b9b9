"""Assets as folders of the lake: a step of the run writes them, and reads use the run's branch."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from os.path import commonpath
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import dagster as dg
from pydantic import Field, model_validator

from dagster_graveler.context import (
    OP_OUTPUTS,
    input_partitions,
    is_in_run,
    output_name,
    output_partitions,
    partition_folder,
)
from dagster_graveler.io_managers.folders import asset_folder, check_folders, common_folder
from dagster_graveler.io_managers.frames import (
    FrameHandler,
    count_rows,
    declared_lineage,
    frame_handler,
)
from dagster_graveler.io_managers.handlers import (
    BytesHandler,
    PickleHandler,
    Table,
    TextHandler,
    TypeHandler,
    unknown_type,
)
from dagster_graveler.io_managers.lineage import LINEAGE, derived_lineage, keep_input
from dagster_graveler.materializations import (
    COMMIT,
    MISSING,
    check_none,
    input_views,
    run_marks,
)
from dagster_graveler.resource import GravelerResource
from dagster_graveler.settings import NO_INPUT, Checks, check_settings
from graveler.base.arguments import choice
from graveler.base.names import check_path
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.frames.libraries import NAMES, library_named, library_of
from graveler.frames.library import MODES, TYPE
from graveler.frames.rows import PartitionRows
from graveler.lake import Branch, Ref, Run

_SHOWN = 20
_COLUMN = "partition_expr"
HANDLERS = (*NAMES, "bytes", "text")
"""The names of graveler's handlers that ``load_as`` may choose."""


def _check_prefix(value: str, name: str) -> None:
    if value and not value.endswith("/"):
        raise InvalidInputError(
            f"{name}={value!r} is the beginning of all paths, as {f'{value}flights/'!r}: give "
            f"{f'{value}/'!r}"
        )
    check_path(f"{value}file")


def _check_layout(value: str, name: str) -> None:
    partition = "partition" if "{partition}" in value else ""
    check_path(f"{asset_folder(value, 'asset', partition)}{name}")
    plain = value.replace("{asset}", "").replace("{partition}", "")
    if "{" in plain or "}" in plain:
        raise InvalidInputError(
            f"{name}={value!r} changes keys, which can then meet: use plain {{asset}} and "
            "{partition}"
        )


_NAMED: Checks = {"load_as": lambda value, name: choice(value, name, HANDLERS)}
_CHECKS: Checks = {
    "mode": lambda value, name: choice(value, name, MODES),
    "prefix": _check_prefix,
    "layout": _check_layout,
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

    Attributes:
        graveler: The repository.
        prefix: The beginning of all paths.
        layout: An asset's folder below the prefix, with ``{asset}`` (its key, joined by slashes)
            and ``{partition}`` (``2013/01/01/05:00``, UTC, for a time; else the key). Files in
            folders below it belong to other assets, except in ``key=value`` folders.
        load_as: The type for an argument without annotation if the written type is not known, as
            for files that Spark or another program wrote: ``spark``, ``pandas``, ``polars``,
            ``pyarrow``, ``bytes`` or ``text``.
        pickle: Whether values of all other types are stored by Python's pickle. Reading such a file
            runs code that it names, so use it only for a lake whose writers are trusted.
        mode: ``overwrite``, ``append`` or ``error``. In every mode, a retry or another run of
            the same job and partition replaces the files that the asset wrote there before. With
            ``append``, a Spark frame of an asset with partitions also replaces the files of other
            jobs there; an asset without partitions adds its rows with each run. ``error`` refuses
            to overwrite files of another job.
        file_format: Spark's name of the format of Spark frames.
        partition_by: Columns of Spark frames that become ``key=value`` folders.
        options: Spark's options of the format, for writing and reading.
    """

    model_config = NO_INPUT

    graveler: dg.ResourceDependency[GravelerResource]
    prefix: str = ""
    layout: str = "{asset}/{partition}"
    load_as: str = "spark"
    pickle: bool = False
    mode: str = "overwrite"
    file_format: str = "parquet"
    partition_by: list[str] = Field(default_factory=list)
    options: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: Any) -> Any:
        own = cls.type_handlers is not GravelerIOManager.type_handlers
        return check_settings(cls, given, _CHECKS if own else {**_CHECKS, **_NAMED})

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
        if not is_in_run(context):
            self._publish(context, obj)
            return
        if obj is None:  # the asset wrote its files itself, or there are none
            folders = self._folders(context).values() if context.has_asset_key else ()
            self.graveler.undo(context, folders)
            return
        values = dict(self._by_folder(context, obj))
        empty = [values.pop(key)[0] for key, (_, value) in [*values.items()] if value is None]
        handlers = {key: self._writer(context, value) for key, (_, value) in values.items()}
        with self.graveler.step(context) as step:
            gone = self.graveler.outputs(context, empty, step.run.branch) if empty else ()
            step.delete_many(path for path in gone if step.exists(path))
            for key, (folder, value) in values.items():
                handlers[key].write(step, self._table(folder, context), value)
            # this listing is not an input of the run
            written = Branch(step.repository, step.name)
            shown = {
                key: self._describe(context, written, folder, handlers[key], value)
                for key, (folder, value) in values.items()
            }
        run = self.graveler.run(context)
        commit = step.result or run.head
        context.add_output_metadata({**run_marks(run), COMMIT: commit.id})
        for key, (folder, _) in values.items():
            metadata = {"dagster/uri": self._uri(commit.id, folder), **shown[key]}
            if len(values) == 1:
                context.add_output_metadata(metadata)
            else:
                context.step_context.add_asset_metadata(metadata, context.asset_key, key)

    def _publish(self, context: dg.OutputContext, obj: object) -> None:
        name = f"dagster {context.asset_key.to_user_string()}"
        if context.has_asset_partitions:
            name = f"{name} {','.join(context.asset_partition_keys)}"
        repository, into = self.graveler.repo(), self.graveler.into
        with repository.run(name, into=into) as run, run.step("output") as step:
            for folder, value in self._by_folder(context, obj).values():
                self._writer(context, value).write(step, self._table(folder, context), value)

    def load_input(self, context: dg.InputContext) -> Any:
        """Read from the run's branch; outside a run, from the present commit of the target."""
        folders = self._input_folders(context)
        if is_in_run(context):
            views = input_views(self.graveler, context, folders)
        else:
            views = dict.fromkeys(folders, self.graveler.at())
        if "" in folders:
            return self._read(views[""], folders[""], context, "")[1]
        values = {}
        handler: TypeHandler = BytesHandler()
        metadata = context.definition_metadata or {}
        if metadata.get(MISSING):
            present = _present(views, folders)
            folders = {key: folder for key, folder in folders.items() if folder in present}
        elif not folders and NoneType in _kinds(context.dagster_type.typing_type):
            return None
        for key, folder in folders.items():
            handler, values[key] = self._read(views[key], folder, context, key)
        if _mapping_of(context):
            return values
        if not folders and MISSING not in metadata:
            return None  # as for the first partition of an asset that depends on itself
        if NoneType in _kinds(_value_annotation(context)):
            values = {key: value for key, value in values.items() if value is not None}
            if not values:
                return None
        return handler.combine(values) if len(folders) != 1 or not values else values.popitem()[1]

    def _read(
        self, view: Run | Ref, folder: str, context: dg.InputContext, partition: str
    ) -> tuple[TypeHandler, Any]:
        table, kind = self._table(folder, context), value_type(context)
        is_optional = NoneType in _kinds(_value_annotation(context))
        if is_optional and next(table.entries(view), None) is None:
            if is_in_run(context) and context.has_asset_key:
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
            if is_in_run(context) and context.has_asset_key:
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

    def _handler(self, kind: type) -> TypeHandler | None:
        """Return the handler of a type, or None."""
        for handler in (*self.type_handlers(), BytesHandler(), TextHandler()):
            if handler.handles(kind):
                return handler
        library = library_of(kind)
        return None if library is None else frame_handler(library)

    def _named(self, name: str, folder: str) -> TypeHandler:
        """Return the handler of a name."""
        for handler in (*self.type_handlers(), BytesHandler(), TextHandler()):
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
        return frame_handler(library_named(name))

    def _table(self, folder: str, context: dg.OutputContext | dg.InputContext) -> Table:
        return Table(
            folder,
            mode=self.mode,
            file_format=self.file_format,
            partition_by=self.partition_by,
            options=self.options,
            owner=_owner(context),
        )

    def _describe(
        self,
        context: dg.OutputContext,
        view: Branch,
        folder: str,
        handler: TypeHandler,
        value: object,
    ) -> Mapping[str, Any]:
        """Return Dagster's metadata of a written value: its files, rows and columns."""
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
            partitioned = context.has_asset_key and context.has_asset_partitions
            metadata[f"dagster/{'partition_' if partitioned else ''}row_count"] = rows
        columns = [dg.TableColumn(name, kind) for name, kind in handler.columns(value).items()]
        metadata["dagster/column_schema"] = dg.TableSchema(columns)
        if context.has_asset_key:
            if lineage := derived_lineage(context, value):
                metadata[LINEAGE] = lineage
            metadata.update(declared_lineage(context, [column.name for column in columns]))
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

    def _uri(self, ref: str, folder: str) -> str:
        return f"grav://{self.graveler.repository}/{ref}/{folder}"

    def _by_folder(self, context: dg.OutputContext, obj: object) -> Mapping[str, tuple[str, Any]]:
        """Return folder and value of each partition; without partitions the key is ""."""
        if not context.has_asset_key or not context.has_asset_partitions:
            return {key: (folder, obj) for key, folder in self._folders(context).items()}
        values = self._by_partition(context, obj)
        return {key: (self._partition(context, key), value) for key, value in values.items()}

    def _folders(self, context: dg.OutputContext) -> Mapping[str, str]:
        """Return the folder of each partition of an output; without partitions the key is ""."""
        if not context.has_asset_key:
            return {"": _op_folder(context)}
        if not context.has_asset_partitions:
            return {"": self._folder(context.asset_key.path)}
        return {key: self._partition(context, key) for key in output_partitions(context)}

    def _partition(self, context: dg.OutputContext, key: str) -> str:
        folder = partition_folder(context.asset_partitions_def, key)
        return self._folder(context.asset_key.path, folder)

    def _by_partition(self, context: dg.OutputContext, obj: object) -> Mapping[str, Any]:
        definition = context.asset_partitions_def
        keys = output_partitions(context)
        column = (context.definition_metadata or {}).get(_COLUMN)
        if isinstance(obj, Mapping) and (len(keys) > 1 or set(obj) == set(keys)):
            return _mapped(context.asset_key, obj, keys)
        if len(keys) == 1 and (column is None or not self._has_rows(definition, obj)):
            return {keys[0]: obj}
        if column is None:
            return _mapped(context.asset_key, obj, keys)
        rows = {key: _rows(definition, key) for key in keys}
        return self._writer(context, obj).split(obj, column, rows)  # raises if rows do not belong

    def _has_rows(self, definition: dg.PartitionsDefinition[str], obj: object) -> bool:
        """Return whether a column can hold the partition of each row of the value."""
        return not isinstance(definition, dg.MultiPartitionsDefinition) and isinstance(
            self._handler(type(obj)), FrameHandler
        )

    def _input_folders(self, context: dg.InputContext) -> Mapping[str, str]:
        """Return the folder of each partition of an input; without partitions the key is ""."""
        if not context.has_asset_key:
            upstream = context.upstream_output
            if upstream is None:
                raise InvalidInputError(f"input {context.name!r} comes from no asset and no op")
            return {"": _op_folder(upstream)}
        parts = context.asset_key.path
        if not context.has_asset_partitions:
            return {"": self._folder(parts)}
        definition = context.asset_partitions_def
        return {
            key: self._folder(parts, partition_folder(definition, key))
            for key in input_partitions(context)
        }

    def _folder(self, parts: Sequence[str], partition: str = "") -> str:
        return self.prefix + asset_folder(self.layout, "/".join(parts), partition)


def _op_folder(context: dg.OutputContext) -> str:
    """Return the folder of an op's output, which the publishing asset removes from the run."""
    return f"{OP_OUTPUTS}{context.step_key}/{output_name(context)}/"


def _present(views: Mapping[str, Run | Ref], folders: Mapping[str, str]) -> set[str]:
    """Return the folders that have a file, by one listing of each view; none contains another."""
    present = set()
    for view in {id(view): view for view in views.values()}.values():
        ordered = sorted(folder for key, folder in folders.items() if views[key] is view)
        root = commonpath(ordered)
        for entry in view.entries(f"{root}/" if root else ""):
            folder = ordered[max(bisect_right(ordered, entry.path) - 1, 0)]
            if entry.path.startswith(folder):
                present.add(folder)
    return present


def value_type(context: dg.InputContext) -> Any:
    """Return the class of an input's annotation; ``Any`` without annotation.

    For a dictionary by partition it is the class of one value. For an optional value it is the
    class of the value.
    """
    annotated = _value_annotation(context)
    kinds = [kind for kind in _kinds(annotated) if kind is not NoneType]
    annotated = kinds[0] if len(kinds) == 1 else Any
    kind = get_origin(annotated) or annotated
    if kind is list and not context.has_asset_key:  # an op gets the values of several outputs
        return Any
    return kind if isinstance(kind, type) and kind is not object else Any


def _value_annotation(context: dg.InputContext) -> Any:
    """Return the annotation of a value; for a dictionary by partition, that of one of them."""
    mapping = _mapping_of(context)
    if mapping is None:
        return context.dagster_type.typing_type
    return get_args(mapping)[1] if get_args(mapping) else Any


def _mapping_of(context: dg.InputContext) -> Any:
    """Return the annotated dictionary by partition, perhaps from an optional one; else None."""
    if not (context.has_asset_key and context.has_asset_partitions):
        return None
    kinds = _kinds(context.dagster_type.typing_type)
    return next((kind for kind in kinds if (get_origin(kind) or kind) is dict), None)


def _kinds(annotated: Any) -> Sequence[Any]:
    """Return the alternatives of an annotation."""
    return get_args(annotated) if get_origin(annotated) in (Union, UnionType) else (annotated,)


def _rows(definition: dg.PartitionsDefinition[str], key: str) -> PartitionRows:
    """Return the rows of a frame that belong to a partition."""
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        window = definition.time_window_for_partition_key(key)
        return PartitionRows(key, window.start, window.end, definition.timezone)
    if isinstance(definition, dg.MultiPartitionsDefinition):
        raise InvalidInputError(
            "a frame is split by one column, and the partitions have several dimensions: "
            "return a mapping by partition key"
        )
    return PartitionRows(key)


def _owner(context: dg.OutputContext | dg.InputContext) -> str:
    """Return the asset that owns the rows of a partition in every run, or ""."""
    known = context.has_asset_key and context.has_asset_partitions
    return context.asset_key.to_user_string() if known else ""


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

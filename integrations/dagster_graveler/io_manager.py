"""Assets as folders of the lake: written in a step of the run, read from the run's branch."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from pydantic import Field

from dagster_graveler.context import partition_folder
from dagster_graveler.resource import GravelerResource
from graveler.errors import InvalidInputError
from graveler.lake import Ref, Run, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["GravelerIOManager", "GravelerSparkIOManager"]

_FILE: Final = "data"
_SHOWN: Final = 20


class GravelerIOManager(dg.ConfigurableIOManager):
    """Keeps assets that are bytes or text, one file each.

    An asset's folder is ``<prefix><asset key>/``, below it one folder a partition:
    ``2013/01/01/05:00/`` (UTC) where partitions are times.

    Attributes:
        graveler: The repository.
        prefix: What all paths start with.
    """

    graveler: dg.ResourceDependency[GravelerResource]
    prefix: str = ""

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Write `obj` in a step of the run; a retry replaces what the try before it wrote."""
        if obj is None:
            return  # the asset wrote for itself
        folder = self._output_folder(context)
        run = self.graveler.run(context)
        tries = context.step_context.previous_attempt_count + 1
        with run.step(f"{context.step_key}:{_output_name(context)}", try_number=tries) as step:
            self.write(step, folder, obj)
            paths = [entry.path for entry in step.entries(folder)]
        commit = step.result or run.head
        context.add_output_metadata(
            {
                "graveler/branch": run.branch,
                "graveler/commit": commit.id,
                "graveler/paths": dg.MetadataValue.json(paths[:_SHOWN]),
                "graveler/files": len(paths),
            }
        )

    def load_input(self, context: dg.InputContext) -> Any:
        """Read from the run's branch; outside a run from the target, at one commit."""
        view = self.graveler.view(context) if _is_in_run(context) else self.graveler.head()
        found = {key: self.read(view, folder, context) for key, folder in _inputs(self, context)}
        if list(found) == [""]:
            return found[""]
        return self.combine(found) if len(found) != 1 else next(iter(found.values()))

    def write(self, step: Step, folder: str, obj: object) -> None:
        """Write a value below `folder`."""
        if not isinstance(obj, bytes | str):
            raise InvalidInputError(
                f"{folder}: {type(obj).__name__} is neither bytes nor text: use "
                "GravelerSparkIOManager for frames, or write with `graveler.step(context)`"
            )
        step.put(folder + _FILE, obj.encode() if isinstance(obj, str) else obj)

    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the value below `folder`."""
        body = view.get(folder + _FILE)
        return body.decode() if context.dagster_type.typing_type is str else body

    def combine(self, found: Mapping[str, Any]) -> Any:
        """Return what an input of several partitions is: a dictionary by partition key."""
        return dict(found)

    def _output_folder(self, context: dg.OutputContext) -> str:
        if not context.has_asset_key:
            return self._folder([context.step_key, _output_name(context)])
        folder = self._folder(context.asset_key.path)
        if not context.has_asset_partitions:
            return folder
        keys = list(context.asset_partition_keys)
        if len(keys) != 1:
            raise InvalidInputError(
                f"asset {context.asset_key.to_user_string()}: one output for {len(keys)} "
                "partitions: run a partition at a time, or write with `graveler.step(context)`"
            )
        return folder + partition_folder(context.asset_partitions_def, keys[0])

    def _folder(self, parts: Sequence[str]) -> str:
        return self.prefix + "/".join(parts) + "/"


class GravelerSparkIOManager(GravelerIOManager):
    """Keeps assets that are Spark frames, as the files that Spark wrote; and bytes and text.

    Attributes:
        file_format: Spark's name of the format.
        mode: ``overwrite``, ``append`` or ``error``. Whatever the mode, a retry or a run of the
            same partition replaces what the asset wrote there before.
        partition_by: Columns that become ``key=value`` folders.
        options: Spark's options of the format, for writing and reading.
    """

    file_format: str = "parquet"
    mode: str = "overwrite"
    partition_by: list[str] = Field(default_factory=list)
    options: dict[str, str] = Field(default_factory=dict)

    def write(self, step: Step, folder: str, obj: object) -> None:
        """Write a frame below `folder`."""
        from pyspark.sql import DataFrame  # noqa: PLC0415 - heavy: only where it is used

        from graveler.spark import write  # noqa: PLC0415

        if not isinstance(obj, DataFrame):
            super().write(step, folder, obj)
            return
        write(
            step,
            obj,
            folder,
            mode=self.mode,  # type: ignore[arg-type] # Dagster's settings know no literals
            format=self.file_format,
            partition_by=self.partition_by,
            options=self.options,
        )

    def read(self, view: Run | Ref, folder: str, context: dg.InputContext) -> Any:
        """Return the frame below `folder`, or bytes or text where the input says so."""
        from graveler.spark import read  # noqa: PLC0415 - heavy: only where it is used

        if context.dagster_type.typing_type in (bytes, str):
            return super().read(view, folder, context)
        return read(view, folder, format=self.file_format, options=self.options)

    def combine(self, found: "Mapping[str, DataFrame]") -> Any:
        """Return the frames of several partitions as one."""
        return reduce(lambda left, right: left.unionByName(right), found.values())


def _output_name(context: dg.OutputContext) -> str:
    return f"{context.name}.{context.mapping_key}" if context.mapping_key else context.name


def _is_in_run(context: dg.InputContext) -> bool:
    try:
        context.step_context  # noqa: B018 - it raises where there is none
    except dg.DagsterInvariantViolationError:
        return False
    return True


def _inputs(manager: GravelerIOManager, context: dg.InputContext) -> list[tuple[str, str]]:
    """Return the partitions of an input ("" where it has none) and their folders."""
    if not context.has_asset_key:
        upstream = context.upstream_output
        if upstream is None:
            raise InvalidInputError(f"input {context.name!r} comes from no asset and no op")
        return [("", manager._folder([upstream.step_key, _output_name(upstream)]))]
    folder = manager._folder(context.asset_key.path)
    if not context.has_asset_partitions:
        return [("", folder)]
    definition = context.asset_partitions_def
    return [
        (key, folder + partition_folder(definition, key)) for key in context.asset_partition_keys
    ]

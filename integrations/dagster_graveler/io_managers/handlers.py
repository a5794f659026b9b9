"""Type handlers: they write a value of a type as files of the lake, and read it again."""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from graveler.errors import AlreadyExistsError, InvalidInputError, ObjectNotFoundError
from graveler.frames.libraries import full_name
from graveler.frames.library import TYPE
from graveler.frames.rows import PartitionRows
from graveler.lake import Branch, Ref, Run, Step
from graveler.model import Entry
from graveler.reads.partitions import is_in_table


@dataclass(frozen=True, slots=True)
class Table:
    """A folder that holds a value, and the format of frames in it.

    Attributes:
        folder: The folder, with a slash at its end.
        mode: ``overwrite``, ``append`` or ``error``.
        file_format: Spark's name of the format of Spark frames.
        partition_by: Columns of Spark frames that become ``key=value`` folders.
        options: Spark's options of the format.
        owner: The owner of the rows that Spark appends, or "".
    """

    folder: str
    mode: str = "overwrite"
    file_format: str = "parquet"
    partition_by: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""

    def entries(self, view: Run | Ref | Branch) -> Iterator[Entry]:
        """Yield the files of the value: in the folder itself, or in ``key=value`` folders."""
        for entry in view.entries(self.folder):
            if is_in_table(entry.path.removeprefix(self.folder)):
                yield entry


class TypeHandler(ABC):
    """Writes and reads the values of one library.

    Attributes:
        name: The name of the handler; the metadata of its files has this name.
    """

    name: ClassVar[str]

    @abstractmethod
    def handles(self, kind: type) -> bool:
        """Return whether values of a type are written and read by this handler."""

    @abstractmethod
    def write(self, step: Step, table: Table, obj: Any) -> None:
        """Write a value."""

    @abstractmethod
    def read(self, view: Run | Ref, table: Table, kind: Any) -> Any:
        """Return the value.

        Args:
            view: The view to read from.
            table: The folder of the value.
            kind: The annotated type of the argument; ``Any`` without annotation.
        """

    def combine(self, values: Mapping[str, Any]) -> Any:
        """Return the value of an input of several partitions: a dictionary by partition key."""
        return dict(values)

    def split(self, obj: Any, column: str, rows: Mapping[str, PartitionRows]) -> Mapping[str, Any]:
        """Return the parts of a value, by partition key.

        Args:
            obj: The asset's result for all partitions.
            column: The column that holds the partition of a row.
            rows: The rows of each partition.
        """
        raise InvalidInputError(
            f"{type(obj).__name__} cannot be split by column {column!r}: return a mapping by "
            "partition key"
        )

    def columns(self, obj: Any) -> Mapping[str, str]:
        """Return the type of each column; none if the value is not a table."""
        return {}


def written(step: Step, table: Table) -> Sequence[Entry]:
    """Return the present files of a table on the step; they do not become inputs of the run."""
    return list(table.entries(Branch(step.repository, step.name)))


def put(step: Step, table: Table, name: str, body: Any, *, kind: str, content_type: str) -> None:
    """Put a value as one file; the files of its earlier versions are deleted.

    These are the files that handlers put, and the parts that Spark wrote. Other files of the
    folder stay, because the asset may have written them itself.
    """
    path = table.folder + name
    others = [] if table.mode == "append" else written(step, table)
    if others and table.mode == "error":
        raise AlreadyExistsError(
            f"{others[0].path!r} exists already: use mode 'overwrite', or another folder"
        )
    step.delete_many(entry.path for entry in others if entry.path != path and _is_value(entry))
    step.put(path, body, content_type=content_type, metadata={TYPE: kind})


def _is_value(entry: Entry) -> bool:
    name = entry.path.rpartition("/")[2]
    return TYPE in entry.metadata or name.startswith(("part-", "_SUCCESS"))


class BytesHandler(TypeHandler):
    """Bytes, as one file."""

    name = "bytes"
    _KIND: ClassVar[type] = bytes
    _FILE = "data"
    _CONTENT_TYPE = "application/octet-stream"

    def handles(self, kind: type) -> bool:
        """Return whether the type is that of the handler."""
        return issubclass(kind, self._KIND)

    def write(self, step: Step, table: Table, obj: Any) -> None:
        """Write a value."""
        body = self._encode(obj)
        put(step, table, self._FILE, body, kind=self.name, content_type=self._CONTENT_TYPE)

    def read(self, view: Run | Ref, table: Table, kind: Any) -> Any:
        """Return the value."""
        try:
            return self._decode(view.get(table.folder + self._FILE))
        except ObjectNotFoundError:
            names = [entry.path for entry in table.entries(view)]
            if not names:
                raise
            raise ObjectNotFoundError(
                f"no {self.name} below {table.folder!r}, only {', '.join(names[:3])}: annotate the "
                "argument with the type that wrote them"
            ) from None

    def _encode(self, obj: Any) -> Any:
        return obj

    def _decode(self, body: bytes) -> Any:
        return body


class TextHandler(BytesHandler):
    """Text, as one file in UTF-8."""

    name = "text"
    _KIND = str
    _CONTENT_TYPE = "text/plain; charset=utf-8"

    def _encode(self, obj: Any) -> bytes:
        return str(obj).encode()

    def _decode(self, body: bytes) -> Any:
        return body.decode()


class PickleHandler(BytesHandler):
    """Any other value, as one file of Python's pickle."""

    name = "pickle"
    _KIND = object
    _FILE = "data.pickle"
    _CONTENT_TYPE = "application/x-pickle"

    def _encode(self, obj: Any) -> bytes:
        try:
            return pickle.dumps(obj)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"{full_name(type(obj))} cannot be pickled ({error}): return a value that can, or "
                "write files with `graveler.step(context)`"
            ) from error

    def _decode(self, body: bytes) -> Any:
        return pickle.loads(body)  # noqa: S301 - chosen by a setting


def unknown_type(subject: str, kind: Any) -> InvalidInputError:
    """Return the error for a value or an annotation without a handler."""
    return InvalidInputError(
        f"{subject}: no type handler is for {full_name(kind)}: use bytes, str or a frame of pandas, "
        "polars, pyarrow or Spark; give the IO manager `pickle=True`; or return your own from its "
        "`type_handlers()`"
    )

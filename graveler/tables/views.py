"""Tables of a view: read and scanned as frames of any library, and written to a branch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from graveler.base.arguments import PathText, prefix_text
from graveler.errors import InvalidInputError, ReadOnlyError
from graveler.model import Entry
from graveler.reads import view
from graveler.reads.ports import Target
from graveler.tables.layout import POINTER, check_library, folder, names_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from graveler.frames.library import Mode
    from graveler.frames.source import Source
    from graveler.frames.where import Where
    from graveler.tables.rows import TableSource

_Frame = TypeVar("_Frame")


class ReadableTables(view.View):
    """A view whose tables can be read."""

    @overload
    def read(self, path: PathText, as_: type[_Frame], **options: Any) -> _Frame: ...

    @overload
    def read(self, path: PathText, as_: Literal["spark"], **options: Any) -> "DataFrame": ...

    @overload
    def read(self, path: PathText, as_: str | None = None, **options: Any) -> Any: ...

    def read(
        self,
        path: PathText,
        as_: type | str | None = None,
        *,
        columns: Sequence[str] = (),
        where: "Where | None" = None,
        format: str | None = None,
        verify: bool = False,
        nested: bool = True,
        **options: Any,
    ) -> Any:
        """Return the table at `path` as a frame; any library may have written it.

        ::

            late = branch.read("flights/", pandas.DataFrame, where=[("delay", ">", 60)])

        The files are of one format: Parquet, CSV with a header, JSON lines, Arrow. Columns are united
        by their names, and of different types the widest is taken. ``key=value`` folders become columns.
        Files and folders whose names begin with ``_`` or ``.`` are skipped.

        Without `columns` and `where`, the files are read whole and compared with their checksums. Otherwise,
        and for lazy frames, such as relations of DuckDB, Parquet and Arrow files are read in part; see `verify`.

        Args:
            path: A file, or a folder: a prefix that ends with ``/``.
            as_: The type of the frame: ``pandas.DataFrame``, ``polars.DataFrame``, ``pyarrow.Table``,
                ``pyspark.sql.DataFrame``, or a lazy one of `scan`; or ``"pandas"``, ``"polars"``,
                ``"pyarrow"``, ``"duckdb"``, ``"spark"``. By default Spark's if a session is active or
                an argument is for Spark frames, else that of the first of pandas, polars and
                pyarrow that is installed.
            columns: Only these columns, in this order; by default all.
            where: Only these rows: for each column a value or a list of values, or triples of a
                column, an operator (``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``,
                ``not in``) and a value, which must all hold. None is null. A null satisfies no
                comparison. A time that states no zone is in UTC, on Spark in the session's zone.
                The values of ``key=value`` folders are compared as the given type: 1 with a number,
                "1" with the text. Files in other folders are not read.
            format: ``parquet``, ``csv``, ``json`` or ``arrow``; by default the suffixes of the files
                say it, and a file without a known one counts as Parquet.
            verify: Read all files whole, and compare them with their checksums. Otherwise the size
                and the version of a file that is read in part are verified, and its footer with the
                number of rows that its entry states, if it does.
            nested: False leaves out the folders below `path` that are not ``key=value``.
            **options: For a Spark frame, the other arguments of ``graveler.spark.read``.

        Raises:
            InvalidInputError: There are no frames of this type, the files have several formats, cannot
                be read or united, or lack a named column; or a value in `where` is not of the
                column's kind.
            MissingDependencyError: A package that the frame needs is not installed.
            ObjectNotFoundError: There is no file.
            CorruptionError: A file differs from its entry.
        """
        from graveler.frames import reader

        terms = {"columns": columns, "where": where, "format": format, "verify": verify}
        return reader.read(self, path, as_, nested=nested, **terms, **options)

    def scan(self, path: PathText, as_: type | str, **terms: Any) -> Any:
        """Return the table at `path` as a lazy frame, which reads when its rows are asked for.

        Of Parquet and Arrow files only the columns and row groups are read that the query needs. The
        footers are read and verified in this call. CSV and JSON files are read whole in it.

        Args:
            as_: ``"polars"`` or ``polars.LazyFrame``, ``"duckdb"`` for a relation of the default
                connection, ``"pyarrow"`` for a ``pyarrow.dataset.Scanner``, or
                ``pyarrow.RecordBatchReader``; or ``"spark"``.
            **terms: The other arguments of `read`.

        Raises:
            GravelerError: As `read`.
        """
        from graveler.frames import reader

        return reader.scan(self, path, as_, **terms)

    def table(self, path: PathText) -> "Table":
        """Return a handle of the table at `path`; nothing is read yet.

        Args:
            path: A folder, a file, or the name of a table of the catalog, such as ``db.flights``: names
                with dots between them, without a slash or the suffix of a file.
        """
        return Table(self, prefix_text(path, "path"))


class WritableTables(ReadableTables):
    """A branch to which tables can be written."""

    def write(
        self, frame: Any, path: PathText, *, mode: "Mode" = "append", **options: Any
    ) -> list[Entry]:
        """Write a frame of pandas, polars, pyarrow, DuckDB or Spark as files, and stage them.

        A frame in memory becomes one file. If the path ends with ``.parquet``, ``.csv``, ``.jsonl``
        or ``.arrow``, it is that file; else it is a Parquet file in the folder. A Spark frame becomes
        the files that Spark writes into the folder. The caller commits.

        Args:
            path: The table's folder, or a file.
            mode: ``append`` adds files. ``overwrite`` replaces the existing files of the folder.
                ``error`` refuses a folder with files. In every mode, a retry of a step replaces
                the files of the earlier try.
            **options: For a Spark frame, the other arguments of ``graveler.spark.write``.

        Returns:
            The entries of the written files, in byte order of their paths.

        Raises:
            AlreadyExistsError: The mode is ``error`` and `path` has files, or the mode is
                ``append`` and `path` is a file.
            InvalidInputError: `frame` is not a frame, the format cannot hold it, or an argument is for
                Spark frames.
            MissingDependencyError: A package that the frame needs is not installed.
        """
        from graveler.frames.writer import write

        target: Target = self  # type: ignore[assignment]  # a branch, which can stage files
        return write(target, frame, path, mode=mode, **options)


class Ref(ReadableTables, view.Ref):
    """The tree of one commit. It never changes, even if branches move.

    Attributes:
        commit: The commit.
    """


class Table:
    """The table at a path of a view, or a table of Iceberg in its catalog.

    Attributes:
        view: The view.
        path: The file or folder, or the name in the catalog.
    """

    def __init__(self, view: ReadableTables, path: str) -> None:
        self.view = view
        self.path = path

    def __repr__(self) -> str:
        return f"<Table {self.path!r} of {self.view.name}>"

    @property
    def files(self) -> list[Entry]:
        """The entries of the files; of a table of the catalog, of those that have its rows."""
        from graveler.frames import reader

        if (found := self.in_catalog) is not None:
            return found.data_entries
        _, files = reader.table_files(self.view, self.path)
        return [entry for _, entry in files]

    @property
    def schema(self) -> "pa.Schema":
        """The columns of all files, by their footers; partition columns are last."""
        schema: pa.Schema = self._source.schema
        return schema

    @property
    def columns(self) -> dict[str, str]:
        """The type of each column, as Arrow names it."""
        return {field.name: str(field.type) for field in self.schema}

    @property
    def rows(self) -> int:
        """The number of rows, by the footers; in the catalog by its statistics."""
        found = self.in_catalog
        return int(self._source.dataset().count_rows()) if found is None else found.count()

    @property
    def in_catalog(self) -> "TableSource | None":
        """The rows of a table of the catalog as they are now; None for a file or a folder."""
        names = names_of(self.path)
        if names is None or not any(self.view.stat_many([folder(names) + POINTER])):
            return None
        check_library()
        from graveler.tables.rows import table_source

        return table_source(self.view, self.path)

    @property
    def _source(self) -> "Source":
        from graveler.frames import reader

        return self.in_catalog or reader.source_of(self.view, self.path)

    def read(self, as_: type | str | None = None, **terms: Any) -> Any:
        """Return the table as a frame, as the ``read`` of the view does.

        For a table of the catalog, the terms are ``columns`` and ``where``.
        """
        found = self.in_catalog
        return (
            self.view.read(self.path, as_, **terms) if found is None else found.read(as_, **terms)
        )

    def scan(self, as_: type | str, **terms: Any) -> Any:
        """Return the table as a lazy frame, as the ``scan`` of the view does."""
        found = self.in_catalog
        if found is None:
            return self.view.scan(self.path, as_, **terms)
        return found.read(as_, lazy=True, **terms)

    def write(self, frame: Any, *, mode: "Mode" = "append", **options: Any) -> list[Entry]:
        """Write a frame into the table, as the ``write`` of the view, a branch, run or step, does."""
        if self.in_catalog is not None:
            raise InvalidInputError(f"{self!r} is in the catalog: append, overwrite or delete")
        return self._writable.write(frame, self.path, mode=mode, **options)

    def append(self, frame: Any) -> None:
        """Append a frame to the table of the catalog, in a commit of its own.

        A table or a namespace that does not exist is made, with the columns of the frame.
        """
        self._change("append", frame)

    def overwrite(self, frame: Any, where: "Where | None" = None) -> None:
        """Replace the rows that `where` chooses, or all, by a frame; as `append` otherwise."""
        self._change("overwrite", frame, where)

    def delete(self, where: "Where") -> None:
        """Delete the rows of the table of the catalog that `where` chooses."""
        self._change("delete", None, where)

    def _change(self, how: str, *given: Any) -> None:
        if names_of(self.path) is None:
            raise InvalidInputError(
                f"{self.path!r} is a folder or a file, and `write` writes it: append, overwrite and delete "
                "are for tables of the catalog, such as 'db.flights'"
            )
        check_library()
        from graveler.tables.rows import change

        change(self._writable, self.path, how, *given)

    @property
    def _writable(self) -> WritableTables:
        if not isinstance(self.view, WritableTables):
            raise ReadOnlyError(f"{self!r} can only be read: write to a branch, a run or a step")
        return self.view

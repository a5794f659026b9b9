"""Operators that change a tree without copying any file."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.lake import Branch
from graveler.model import Entry
from graveler.objects.address import AddressBook
from graveler.reads.stores import Stores
from graveler_airflow.operators.base import GravelerWritingOperator


class GravelerLinkOperator(GravelerWritingOperator):
    """Links files of a store into the tree; no byte is copied.

    How to use it: ``docs/guides/airflow-operators.md#gravelerlinkoperator``.

    Args:
        source: A folder, as ``s3://bucket/landing/2013/01/01/05/``, ``file:///folder/`` or a
            path. All files below it are linked. It must be in a place that the repository may link
            to (``repository.links.allow``).
        prefix: Their folder in the tree: ``input/2013/01/01/05:00/``; "" for the top.
        pattern: Only files whose name matches it (``*.parquet``).
        missing_ok: Succeed if there is no such file. Otherwise the task fails and is retried,
            because the files may arrive later.
        **kwargs: The arguments of `GravelerWritingOperator`: `run`, or `branch` and `repo`.
    """

    template_fields: Sequence[str] = (
        *GravelerWritingOperator.template_fields,
        "source",
        "prefix",
        "pattern",
    )

    def __init__(
        self,
        *,
        source: str,
        prefix: str,
        pattern: str = "*",
        missing_ok: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.prefix = prefix
        self.pattern = pattern
        self.missing_ok = missing_ok

    def _write(self, target: Branch) -> str:
        count = target.link_many(self._entries(target.repository))
        self.lineage.links.append(AddressBook(target.repository.storage).place(self.source))
        if not count and not self.missing_ok:
            raise ObjectNotFoundError(f"no file {self.pattern!r} below {self.source}")
        return f"{count} files of {self.source} linked at {self.prefix}"

    def _entries(self, stores: Stores) -> Iterator[Entry]:
        folder = self.prefix.rstrip("/")
        store, below = stores.locate(f"{AddressBook(stores.storage).place(self.source)}/")
        for info in store.list(below):
            name = info.key.removeprefix(below)
            if PurePosixPath(name).match(self.pattern):
                yield Entry(
                    path=f"{folder}/{name}" if folder else name,
                    address=store.uri(info.key),
                    size=info.size,
                )


class GravelerDeleteOperator(GravelerWritingOperator):
    """Deletes files from the tree; earlier commits keep them.

    How to use it: ``docs/guides/airflow-operators.md#gravelerdeleteoperator``.

    Args:
        paths: One path, or a list of paths (a template returns a list only in a DAG with
            ``render_template_as_native_obj=True``).
        prefix: Instead of `paths`, all files below it.
        **kwargs: The arguments of `GravelerWritingOperator`: `run`, or `branch` and `repo`.
    """

    template_fields: Sequence[str] = (*GravelerWritingOperator.template_fields, "paths", "prefix")

    def __init__(self, *, paths: str | Sequence[str] = (), prefix: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if bool(paths) == bool(prefix):
            raise InvalidInputError(f"{self.task_id}: give one of paths and prefix")
        self.paths = paths
        self.prefix = prefix

    def _write(self, target: Branch) -> str:
        return f"{target.delete_many(self._paths(target))} files deleted"

    def _paths(self, target: Branch) -> Sequence[str]:
        if self.prefix:
            return [entry.path for entry in target.entries(self.prefix)]
        # a string is also a sequence, of its characters
        return [self.paths] if isinstance(self.paths, str) else self.paths

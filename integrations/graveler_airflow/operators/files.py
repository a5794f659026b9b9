"""Operators that change what is in a tree without moving a byte."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.lake import Branch
from graveler.model import Entry
from graveler.objects.address import AddressBook
from graveler.repository import Stores
from graveler_airflow.operators.base import GravelerWritingOperator

__all__ = ["GravelerDeleteOperator", "GravelerLinkOperator"]


class GravelerLinkOperator(GravelerWritingOperator):
    """Brings files into the tree that are already in a store; no byte is copied.

    Args:
        source: Where they are: ``s3://bucket/landing/2013/01/01/05/``, ``file:///folder/`` or a
            folder. All that is below it. It lies in a place that the repository may link to
            (``repository.links.allow``).
        prefix: Where they shall appear: ``input/2013/01/01/05:00/``; "" for the top of the tree.
        pattern: Only files whose name matches it (``*.parquet``).
        missing_ok: Be content where there is no such file; else the task fails, and is tried
            again, for the files may still be coming.
        **kwargs: As of `GravelerWritingOperator`: `run`, or `branch` and `repo`.
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

    def write(self, target: Branch) -> str:
        """Stage an entry for every file."""
        count = target.link_many(self._entries(target.repository))
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
    """Takes files out of the tree; earlier commits keep them.

    Args:
        paths: One path, or a list of them, which a template gives only in a DAG with
            ``render_template_as_native_obj=True``; or
        prefix: all below it.
        **kwargs: As of `GravelerWritingOperator`: `run`, or `branch` and `repo`.
    """

    template_fields: Sequence[str] = (*GravelerWritingOperator.template_fields, "paths", "prefix")

    def __init__(self, *, paths: str | Sequence[str] = (), prefix: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if bool(paths) == bool(prefix):
            raise InvalidInputError(f"{self.task_id}: give one of paths and prefix")
        self.paths = paths
        self.prefix = prefix

    def write(self, target: Branch) -> str:
        """Stage the deletions."""
        return f"{target.delete_many(self._found(target))} files deleted"

    def _found(self, target: Branch) -> Sequence[str]:
        if self.prefix:
            return [entry.path for entry in target.entries(self.prefix)]
        # a text is a sequence as well, of its letters
        return [self.paths] if isinstance(self.paths, str) else self.paths

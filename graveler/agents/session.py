"""The session of an agent: writes on a branch of its own, which only gates bring to its destination."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from graveler.errors import (
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    ObjectNotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StateError,
)
from graveler.frames.libraries import library_named
from graveler.lake import Branch, MergePreview, Repository, Run
from graveler.lake.shapes import shape_of

PathOf = Annotated[str, Field(max_length=1024)]
Text = Annotated[str, Field(max_length=1 << 20)]
Hour = Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\dZ)?$")]
Message = Annotated[str, Field(min_length=1, max_length=4_000)]


@dataclass
class AgentSession:
    """One agent at work on one repository, by one thread. Its public methods are tools, which write.

    Attributes:
        repository: The repository.
        base: The ref that the branch of the session starts from; "" for the default branch.
        into: The branch that a publish moves; "" for the default branch.
        ttl: Time to live of the session's branch.
        publish_to: The branches that may be published to, as ``repository:branch``.
        began: Whether the first write has made the branch.
    """

    repository: Repository
    base: str = ""
    into: str = ""
    ttl: timedelta = timedelta(days=7)
    publish_to: Collection[str] = ()
    began: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.base = self.base or self.repository.stores.default_branch
        self.into = self.into or self.repository.stores.default_branch
        self.repository.commit(self.base), self.repository.branch(self.into)

    @cached_property
    def name(self) -> str:
        """Name of the session and of its branch."""
        stores = self.repository.stores
        return f"agent-{stores.clock.now():%Y%m%d}-{stores.ids.unique()[-8:]}"

    @property
    def ref(self) -> str:
        """What is read if no ref is named: the branch, once it is made, else the base."""
        return self.name if self.began else self.base

    @property
    def may_publish(self) -> bool:
        """Whether the settings allow a publish."""
        return f"{self.repository.name}:{self.into}" in self.publish_to

    def _branch(self, *, make: bool = True) -> Branch:
        if not self.began:
            if not make:
                raise NoChangesError(
                    "this session has written nothing: begin with put_text or put_rows"
                )
            self.repository.create_branch(self.name, self.base, ttl=self.ttl)
            self.began = True
        return self.repository.branch(self.name)

    def put_text(self, path: PathOf, text: Text, content_type: PathOf = "") -> dict[str, Any]:
        """Write a file of UTF-8 text on the session's branch, where it is staged until `commit`."""
        entry = self._branch().put(path, text.encode(), content_type=content_type)
        return {"written": shape_of(entry)}

    def put_rows(
        self,
        path: PathOf,
        rows: Annotated[Sequence[dict[str, Any]], Field(min_length=1, max_length=10_000)],
        mode: Literal["append", "overwrite", "error"] = "append",
    ) -> dict[str, Any]:
        """Write rows as a table on the session's branch, where they are staged until `commit`.

        A path that ends with / is a folder, which gets one more Parquet file; mode overwrite replaces its
        files. A path that ends with .parquet, .csv, .jsonl or .arrow is that file. Columns get the types
        that they have in the table at the path; give times as ISO 8601.
        """
        library_named("pyarrow")
        import pyarrow as pa

        branch = self._branch()
        try:
            table = pa.Table.from_pylist([*rows])
            with suppress(ObjectNotFoundError):  # a new table
                types = {column.name: column for column in branch.table(path).schema}
                table = table.cast(pa.schema([types.get(own.name, own) for own in table.schema]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(f"rows for {path!r}: {error}") from error
        return {"written": shape_of(branch.write(table, path, mode=mode)), "rows": len(rows)}

    def delete(
        self, paths: Annotated[Sequence[PathOf], Field(min_length=1, max_length=100)]
    ) -> dict[str, Any]:
        """Delete files on the session's branch; the deletion is staged until `commit`."""
        return {"deleted": self._branch().delete_many(paths)}

    def commit(self, message: Message) -> dict[str, Any]:
        """Commit what is staged on the session's branch."""
        commit = self._branch(make=False).commit(message, metadata={"agent": self.name})
        return {"commit": shape_of(commit)}

    def reset(self, everything: bool = False) -> dict[str, Any]:
        """Drop what is staged on the session's branch.

        With everything=true, drop its commits too: it returns to the present head of its base.
        """
        branch = self._branch(make=False)
        dropped = branch.reset(self.base if everything else None)
        return {"dropped": dropped, "head": branch.head.id}

    def check(self, hour: Hour = "") -> dict[str, Any]:
        """Show what a publish would change, and what the gates of the destination say; nothing moves.

        Give the hour of the work, as 2013-01-01T05:00Z, if gates judge it by its hour.
        """
        with self._candidate("a check", hour) as (preview, run):
            verdicts = run.judge(())
            run.abandon("it was a check")
        refused = any(verdict.refuses for verdict in verdicts)
        return {**shape_of(preview), "refused": refused, "verdicts": shape_of(verdicts)}

    def publish(self, message: Message, hour: Hour = "") -> dict[str, Any]:
        """Publish the commits of the session's branch as a run, if every gate of the destination passes.

        Only the user's settings allow it. Afterwards the branch continues from what was published. Give
        the hour of the work, as 2013-01-01T05:00Z, if gates judge it by its hour.
        """
        target = f"{self.repository.name}:{self.into}"
        if not self.may_publish:
            raise PermissionDeniedError(
                f"sessions of agents may not publish to {target}: the user allows it with "
                f'publish = ["{target}"] below [agents] in graveler.toml and begins a new session, or '
                f"merges {self.name}"
            )
        with self._candidate(message, hour) as (_, run):
            result = run.publish(message=message)
        self._branch(make=False).reset(result.commit)
        return {"into": self.into, "published": shape_of(result)}

    @contextmanager
    def _candidate(self, message: str, hour: str) -> Iterator[tuple[MergePreview, Run]]:
        """Yield a run with the work of the branch on the present head of the destination."""
        preview = self._preview()
        metadata = {"agent": self.name, **({"hour": hour} if hour else {})}
        key = f"agent {self.name}"
        run = self.repository.runs.open(key, into=self.into, metadata=metadata, fresh=True)
        try:
            if run.record.base != preview.dest.id:
                raise PreconditionFailedError(f"{self.into!r} has just moved: call again")
            entries = {change.path: change.after for change in preview.changes()}
            run.commit_changes(
                filter(None, entries.values()),
                deleted=[path for path, entry in entries.items() if entry is None],
                message=message,
            )
            yield preview, run
        except BaseException as error:
            run.close(f"{type(error).__name__}: {error}")
            raise

    def _preview(self) -> MergePreview:
        """Return what a merge into the destination would change; refuse staged writes and conflicts."""
        branch = self._branch(make=False)
        if next(branch.uncommitted(), None) is not None:
            raise StateError(f"writes are staged on {self.name}: commit or reset them")
        preview = self.repository.preview_merge(self.name, self.into)
        if preview.conflict_count:
            raise MergeConflictError(
                f"{self.into!r} has changed the same paths since: reset with everything=true, read them "
                "again, and repeat the work",
                preview.conflicts,
                preview.conflict_count,
            )
        if not (preview.added or preview.changed or preview.removed):
            raise NoChangesError(f"{self.into!r} has all of {self.name}: nothing to publish")
        return preview

"""The namespaces of a ref, and how each change of its catalog lands.

A change is planned on the head of the branch and lands as one commit of given changes, which expects
the records that the plan has read. If another one has replaced them, the plan is made again. Nothing is
ever staged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate

from graveler.base.retries import backoff
from graveler.errors import (
    InvalidInputError,
    NoChangesError,
    ObjectNotFoundError,
    PreconditionFailedError,
    ReadOnlyError,
)
from graveler.model import Entry, Prefix
from graveler.reads.view import Ref, View
from graveler.tables.layout import (
    NAMESPACE,
    NAMESPACES,
    POINTER,
    Identifier,
    Namespace,
    folder,
    name_of,
    shown,
)

_ATTEMPTS = 8


class Loaded(NamedTuple):
    """A table as a ref shows it.

    Attributes:
        location: Where its metadata is; "" for a table that was not committed yet.
    """

    metadata: TableMetadata
    location: str


class TableCommit(NamedTuple):
    """What a client wants to commit to one table."""

    table: Identifier
    requirements: Sequence[TableRequirement]
    updates: Sequence[TableUpdate]


@dataclass(slots=True)
class Plan:
    """The changes of a commit, and the entries that it expects."""

    message: str
    entries: list[Entry] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    expected: dict[str, Entry | None] = field(default_factory=dict)
    loaded: list[Loaded] = field(default_factory=list)


class Namespaces:
    """The namespaces of a branch, which can be changed, or of a commit.

    Args:
        view: A branch, also that of a run or a step, or the ref of a commit.
        committer: The committer of changes; "" for the user of the process.
    """

    def __init__(self, view: View, *, committer: str = "") -> None:
        self._view: Any = view  # a branch, of a room above
        self._committer = committer
        self._stores = view.repository

    @property
    def name(self) -> str:
        """The catalog as clients name it: ``REPOSITORY@REF``."""
        return f"{self._stores.name}@{self._view.name}"

    @property
    def writable(self) -> bool:
        """Whether the ref is a branch."""
        return not isinstance(self._view, Ref)

    def namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """Return the namespaces directly below one, or the outermost ones."""
        head = self._head()
        if parent:
            self._namespace(head, parent)
        return self._below(head, parent, NAMESPACE)

    def properties(self, namespace: Identifier) -> Mapping[str, str]:
        """Return the properties of a namespace."""
        return self._namespace(self._head(), namespace)[1].properties

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Make a namespace, and those above it that do not exist."""

        def plan(head: Ref) -> Plan:
            made = Plan(f"create namespace {shown(namespace)}")
            if self._add_namespace(head, namespace, properties, made):
                raise NamespaceAlreadyExistsError(f"Namespace already exists: {shown(namespace)}")
            return made

        if not namespace:
            raise InvalidInputError("a namespace has one name at least")
        self._land(plan)

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace that has no tables and no other files."""

        def plan(head: Ref) -> Plan:
            entry, _ = self._namespace(head, namespace)
            place = folder(namespace)
            path = place + NAMESPACE
            if any(each.path != path for each in head.list(place, delimiter="/")):
                raise NamespaceNotEmptyError(f"Namespace is not empty: {shown(namespace)}")
            return Plan(
                f"drop namespace {shown(namespace)}",
                deleted=[path],
                expected={path: entry, place: None},
            )

        self._land(plan)

    def update_properties(
        self, namespace: Identifier, removals: Iterable[str], updates: Mapping[str, str]
    ) -> PropertiesUpdateSummary:
        """Change the properties of a namespace."""
        gone, summary = {*removals}, PropertiesUpdateSummary([], [], [])
        if both := sorted(gone & updates.keys()):
            raise InvalidInputError(f"properties {both}: either remove or update them")

        def plan(head: Ref) -> Plan:
            nonlocal summary
            entry, record = self._namespace(head, namespace)
            had = record.properties
            summary = PropertiesUpdateSummary(
                removed=sorted(gone & had.keys()),
                updated=sorted(updates),
                missing=sorted(gone - had.keys()),
            )
            kept = {name: value for name, value in had.items() if name not in gone}
            path = folder(namespace) + NAMESPACE
            new = self._record(path, NAMESPACES.encode(Namespace({**kept, **updates})))
            return Plan(
                f"properties of namespace {shown(namespace)}", [new], expected={path: entry}
            )

        self._land(plan)
        return summary

    def _head(self) -> Ref:
        """Return the committed tree; what is staged does not count."""
        view = self._view
        return view if isinstance(view, Ref) else Ref(self._stores, view.head, name=view.name)

    def _land(self, plan: Callable[[Ref], Plan]) -> Plan:
        """Commit a plan, which is made again if the branch has moved in what it expects."""
        branch, failed = self._view, ""
        if isinstance(branch, Ref):
            raise ReadOnlyError(f"{self.name} is a commit, which never changes: name a branch")
        for attempt in range(_ATTEMPTS):
            try:
                made = plan(self._head())
                # a writer claims the namespaces of its tables, so that they stay if another one is undone
                changed = {each.path for each in made.entries}.union(made.deleted)
                kept = (made.expected[p] for p in made.expected if p.endswith(f"/{NAMESPACE}"))
                claimed = [each for each in kept if each and each.path not in changed]
                if made.entries or made.deleted:
                    with suppress(NoChangesError):
                        branch.commit_changes(
                            made.entries + claimed,
                            deleted=made.deleted,
                            expected=made.expected,
                            message=made.message,
                            committer=self._committer,
                        )
            except PreconditionFailedError as error:
                failed = str(error)
                backoff(self._stores.clock, self._stores.ids, attempt)
            except ObjectNotFoundError as error:
                raise InvalidInputError(f"a file of the table is missing: {error}") from error
            else:
                return made
        raise CommitFailedException(failed)

    def _record(self, path: str, content: bytes, kind: str = "application/json") -> Entry:
        """Store a record, and return its entry."""
        made: Entry = self._view.store(path, content, content_type=kind)
        return made

    def _namespace(self, head: Ref, namespace: Identifier) -> tuple[Entry | None, Namespace]:
        """Return a namespace, and its entry; None if a merge has dropped it beside a new table."""
        entry = next(iter(head.stat_many([folder(namespace) + NAMESPACE])))
        if entry is not None:
            return entry, NAMESPACES.decode(head.get(entry))
        if not any(self._below(head, namespace, record) for record in (POINTER, NAMESPACE)):
            raise NoSuchNamespaceError(f"Namespace does not exist: {shown(namespace)}")
        return None, Namespace()

    def _below(self, head: Ref, above: Identifier, record: str) -> list[Identifier]:
        """Return the names directly below a namespace that have such a record."""
        start = folder(above)
        found = head.list(start, delimiter="/")
        folders = [each.path for each in found if isinstance(each, Prefix)]
        entries = head.stat_many([each + record for each in folders])
        return [
            (*above, name_of(place.removeprefix(start).rstrip("/")))
            for place, entry in zip(folders, entries, strict=True)
            if entry is not None
        ]

    def _add_namespace(
        self, head: Ref, namespace: Identifier, properties: Mapping[str, str], plan: Plan
    ) -> bool:
        """Add a namespace to a plan, and those above it; return whether it is there already."""
        planned, there = {each.path for each in plan.entries}, None
        for depth in range(1, len(namespace) + 1):
            place = folder(namespace[:depth])
            there, table = head.stat_many([place + NAMESPACE, place + POINTER])
            if table is not None:
                raise NamespaceAlreadyExistsError(
                    f"Table already exists: {shown(namespace[:depth])}"
                )
            plan.expected |= {place + NAMESPACE: there, place + POINTER: None}
            if there is None and place + NAMESPACE not in planned:
                record = Namespace(dict(properties) if depth == len(namespace) else {})
                plan.entries.append(self._record(place + NAMESPACE, NAMESPACES.encode(record)))
        return there is not None

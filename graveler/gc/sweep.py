"""Sweep: deletes condemned objects that nothing needs according to a new survey.

Commits expire before their objects are deleted. Tables are deleted before data files. A data file
is deleted only when no table in the storage names it. The record of each table moves from
*condemned* to *deleting* by compare-and-set. A writer that needs the table before that step deletes
the record, which keeps the table. A writer that needs it after that step waits.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from graveler.base.background import Threads, batches
from graveler.base.clock import unix_us
from graveler.errors import ObjectNotFoundError
from graveler.gc.files import FileRecord, FileRecords, FileState
from graveler.gc.lease import Lease
from graveler.gc.marks import PAGE, Kind, Mark, Marks, Tally
from graveler.gc.reachability.survey import Survey
from graveler.gc.rules import Retention
from graveler.reads.stores import Stores
from graveler.refs.commits import Expired
from graveler.repository.writes.borrowed import SPARED

_CHUNK = 500
_THREADS = 8
_STAYS = (FileState.DELETED,)  # the table exists: a writer has put it again


class Sweep:
    """One sweep of one mark. Idempotent: a sweep that died can be repeated.

    Args:
        mark: The mark, in the state ``sweeping``.
        lease: Renewed before each step that deletes. If None, nothing is deleted, and the result
            says what would be deleted.
    """

    def __init__(
        self,
        stores: Stores,
        marks: Marks,
        mark: Mark,
        survey: Survey,
        lease: Lease | None,
    ) -> None:
        self._stores = stores
        self._marks = marks
        self._mark = mark
        self._survey = survey
        self._lease = lease
        self._late: list[bytes] = []
        self._files = FileRecords(stores.kv, stores.uid)
        self._expired = stores.refs.expired
        self._freed: defaultdict[Kind, Tally] = defaultdict(Tally)
        self._spared: defaultdict[Kind, Tally] = defaultdict(Tally)

    def run(self, rules: Retention, decide: Callable[[int], bool]) -> Mark | None:
        """Delete, and return the mark with the totals of freed and spared objects.

        Args:
            decide: Called before any data file is deleted, with the number of pages that list the
                kept data files; returns whether the survey is still valid.

        Returns:
            None if the survey is not valid: a writer has named something that the mark lists.
        """
        self._survey.keep_commits(rules)
        for commit in self._marks.names(self._mark, Kind.COMMITS):
            self._count(Kind.COMMITS, 0, gone=self._expire(commit))
        for file in self._survey.scratch.unseen_files():
            record = self._files.get(file.id)
            if record is None or record.mark != self._mark.id or record.state in _STAYS:
                self._survey.reach_stray(file.id)
        for kind in (Kind.METARANGES, Kind.RANGES):
            for name, size in self._marks.names(self._mark, kind):
                self._count(kind, size, gone=self._delete_table(bytes.fromhex(name)))
        self._finish_late()
        if not decide(self._spare_data()):
            return None
        self._delete_data()
        self._drop_tokens()
        return replace(
            self._mark,
            freed={kind: self._freed[kind] for kind in Kind},
            spared={kind: self._spared[kind] for kind in Kind},
        )

    def _count(self, kind: Kind, size: int, *, gone: bool) -> None:
        tallies = self._freed if gone else self._spared
        tallies[kind] = tallies[kind].plus(size)

    def _expire(self, commit: str) -> bool:
        """Declare a commit expired, unless it is needed; return whether it is expired."""
        while True:
            current = self._expired.find(commit)
            if current is not None and current[0].gone:
                # expired by an earlier sweep of this mark that died, or by the sweep of a later mark
                return current[0].mark == self._mark.id
            if current is None or current[0].mark != self._mark.id:
                # a writer has named the commit, and removed the condemnation
                trees = self._survey.graph.get(commit).trees
                self._survey.reach_trees(trees[:1])
                self._survey.reach_claims(trees[1:])
                return False
            if commit in self._survey.kept or self._survey.has_tree(commit):
                if self._lease is None or self._expired.remove(commit, current[1]):
                    return False
                continue
            record = Expired(self._mark.id, self._survey.now, gone=True)
            if self._lease is None or self._expired.write(commit, record, current[1]):
                return True

    def _delete_table(self, identifier: bytes) -> bool:
        """Delete a table, unless it is needed; return whether it is gone."""
        taken = False
        while True:
            current = self._files.find(identifier)
            if current is None or current[0].mark != self._mark.id:
                self._survey.reach_stray(identifier)  # a writer has taken it over
                return False
            record, predicate = current
            condemned = record.state is FileState.CONDEMNED
            if record.state is FileState.DELETED:
                return True
            if condemned and self._survey.scratch.is_seen(identifier):
                if self._lease is None or self._files.remove(identifier, predicate):
                    return False
            elif self._lease is None:
                return True
            elif condemned:
                deleting = FileRecord(self._mark.id, FileState.DELETING)
                taken = self._files.write(identifier, deleting, predicate)
            else:
                self._lease.hold()
                # An earlier sweep may have deleted it, and a writer may have put it again. Only
                # the condemned table is deleted.
                left = True if taken else self._is_left(identifier)
                if left is False and self._files.remove(identifier, predicate):
                    self._survey.reach_stray(identifier)
                    return False
                if left and self._delete_late(identifier, self._lease):
                    return True
                taken = False
                deleted = FileRecord(self._mark.id, FileState.DELETED)
                self._files.write(identifier, deleted, predicate)

    def _delete_late(self, identifier: bytes, lease: Lease) -> bool:
        """Delete the object; return whether a request without a reply may still take effect.

        Until it cannot, the record is *deleting*, and no writer puts the table.
        """
        lease.late = True
        late = self._stores.objects.delete(self._stores.ranges.key(identifier))
        if late:
            self._late.append(identifier)
        lease.late = bool(self._late)
        return late

    def _finish_late(self) -> None:
        while self._late and self._lease is not None:
            late, self._late = self._late, []
            self._lease.outlast()
            self._lease.late = False
            for identifier in late:
                self._delete_table(identifier)

    def _is_left(self, identifier: bytes) -> bool | None:
        """Return whether the table is the condemned one; None if there is no table.

        A table that is newer than the mark, by the store's clock, was put again by a writer that
        did not find it.
        """
        try:
            info = self._stores.objects.head(self._stores.ranges.key(identifier))
        except ObjectNotFoundError:
            return None
        return unix_us(info.mtime) <= self._mark.marked

    def _spare_data(self) -> int:
        """List the data files that are kept, for borrowers; return the number of pages."""
        names = self._marks.names(self._mark, Kind.DATA)
        spared = ([key, size] for key, size in names if self._is_named(key))
        if self._lease is None:
            return 0
        count = 0
        for count, page in enumerate(batches(spared, PAGE), 1):
            self._marks.put_page(self._mark.id, SPARED, count - 1, page)
        return count

    def _delete_data(self) -> None:
        names = self._marks.names(self._mark, Kind.DATA)
        with Threads(_THREADS, thread_name_prefix="graveler-sweep") as pool:
            for chunk in batches(names, _CHUNK):
                gone = []
                for key, size in chunk:
                    needed = self._is_named(key)
                    self._count(Kind.DATA, size, gone=not needed)
                    if not needed:
                        gone.append(key)
                if self._lease is not None:
                    self._lease.hold()
                    list(pool.map(self._stores.objects.delete, gone))

    def _is_named(self, key: str) -> bool:
        return not self._mark.own or self._survey.scratch.is_named(
            key.encode("utf-8", "surrogatepass")
        )

    def _drop_tokens(self) -> None:
        dead = set(self._survey.dead_tokens())
        for token in self._mark.tokens:
            rows = sum(1 for _ in self._stores.staging.scan([token]))
            if token in self._survey.roots.tokens:
                self._count(Kind.STAGING, rows, gone=False)
                continue
            self._count(Kind.STAGING, rows, gone=True)
            if self._lease is not None and token in dead:
                self._lease.hold()
                self._stores.staging.drop(token)

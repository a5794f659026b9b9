"""Condemnation: marks condemn objects that nothing names, and are withdrawn or closed as lost.

A condemnation is a record that every writer reads. It deletes nothing. The records are written
one by one, and then the undelete window begins. The next mark supersedes an unfinished one and
takes over its records.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from graveler.errors import StateError
from graveler.gc.files import FileRecord, FileRecords, FileState
from graveler.gc.marks import PAGE, WAITING, Kind, Mark, Marks, MarkState, Tally, store_now
from graveler.gc.reachability.survey import Survey
from graveler.gc.rules import Retention
from graveler.kv.record_store import RecordStore
from graveler.kv.store import ABSENT
from graveler.reads.stores import Stores
from graveler.refs.commits import Expired
from graveler.repository.wholeness import whole_commits

R = TypeVar("R", FileRecord, Expired)

_UNFINISHED = (MarkState.SUPERSEDED, MarkState.UNDELETED)
_OVER = (MarkState.SWEPT, MarkState.LOST)


class _Pages:
    def __init__(self, put: Callable[[Kind, int, list[Any]], None]) -> None:
        self._put = put
        self._names: defaultdict[Kind, list[Any]] = defaultdict(list)
        self.numbers: defaultdict[Kind, int] = defaultdict(int)
        self.tallies: defaultdict[Kind, Tally] = defaultdict(Tally)

    def add(self, kind: Kind, name: Any, size: int) -> None:
        self.tallies[kind] = self.tallies[kind].plus(size)
        self._names[kind].append(name)
        if len(self._names[kind]) >= PAGE:
            self._flush(kind)

    def finish(self) -> None:
        for kind in list(self._names):
            if self._names[kind]:
                self._flush(kind)

    def _flush(self, kind: Kind) -> None:
        self._put(kind, self.numbers[kind], self._names[kind])
        self.numbers[kind] += 1
        self._names[kind] = []


def condemn(
    stores: Stores, survey: Survey, marks: Marks, rules: Retention, mark: Mark, *, dry: bool
) -> Mark:
    """Condemn what nothing names, for the mark, and return it; `dry`: nothing is written."""
    try:
        return _Marking(stores, survey, marks, mark, dry=dry).run(rules)
    except StateError:
        if not dry:
            withdraw(stores, mark.id)
        raise


class _Marking:
    def __init__(
        self, stores: Stores, survey: Survey, marks: Marks, mark: Mark, *, dry: bool
    ) -> None:
        self._stores = stores
        self._survey = survey
        self._marks = marks
        self._mark = mark
        self._dry = dry
        self._files = FileRecords(stores.kv, stores.uid)
        self._expired = stores.refs.expired
        self._earlier = {earlier.id: earlier for earlier in marks.list()}
        self._data_kept = Tally()
        self._pages = _Pages(self._put_page)

    def run(self, rules: Retention) -> Mark:
        survey = self._survey
        survey.keep_commits(rules)
        if not self._dry:
            self._withdraw_reached()
        records = dict(self._files.list())
        for file in survey.scratch.unseen_files():
            record = records.get(file.id)
            if survey.is_young(file.mtime) or (
                record is not None and not self._unfinished(record.mark)
            ):
                survey.reach_stray(file.id)
        left = sorted(survey.graph.nodes.keys() - survey.kept)
        self._condemn_commits([commit for commit in left if not survey.has_tree(commit)])
        self._condemn_files()
        waiting = self._leave_to_earlier_marks()
        self._condemn_data()
        self._pages.finish()
        tokens = [token for token in survey.dead_tokens() if token not in waiting]
        staging = Tally()
        for token in tokens:
            staging = staging.plus(sum(1 for _ in self._stores.staging.scan([token])))
        condemned = {**self._pages.tallies, Kind.STAGING: staging}
        kept = {
            **survey.tables_kept(),
            Kind.COMMITS: Tally(len(survey.kept)),
            Kind.DATA: self._data_kept,
        }
        condemnation = replace(
            self._mark,
            condemned={kind: condemned.get(kind, Tally()) for kind in Kind},
            kept={kind: kept.get(kind, Tally()) for kind in Kind if kind is not Kind.STAGING},
            unknown=survey.unknown.count,
            unknown_keys=survey.unknown.keys,
            pages=dict(self._pages.numbers),
            tokens=tuple(tokens),
        )
        if self._dry:
            return condemnation
        self._tidy()
        marked = store_now(self._stores.objects, self._stores.uid)
        done = replace(condemnation, state=MarkState.CONDEMNED, marked=marked)
        return self._marks.move(self._mark.id, (MarkState.MARKING,), lambda _: done)

    def _leave_to_earlier_marks(self) -> set[str]:
        """Leave data files to earlier marks that are not swept yet; return their tokens."""
        tokens: set[str] = set()
        for mark in self._earlier.values():
            if mark.state in WAITING:
                tokens.update(mark.tokens)
                with suppress(StateError):  # it was swept at the same time
                    self._survey.leave(key for key, _ in self._marks.names(mark, Kind.DATA))
        return tokens

    def _withdraw_reached(self) -> None:
        for records, name, _ in _condemned(self._stores):
            kept, seen = self._survey.kept, self._survey.scratch.is_seen
            if seen(name) if isinstance(name, bytes) else name in kept:
                _settle(records, name, _is_condemned)

    def _tidy(self) -> None:
        """Remove records of unfinished marks, records of old deletions, and lost lists."""
        for key in self._survey.lost_lists():
            self._stores.objects.delete(key)
        for records, name, record in _condemned(self._stores):
            if self._unfinished(record.mark):
                _settle(records, name, record.__eq__)
        for identifier, record in list(self._files.list()):
            mark = self._earlier.get(record.mark)
            over = mark is not None and (
                mark.state in _OVER and self._survey.now - mark.swept >= mark.window * 1e6
            )
            if over and record.state is FileState.DELETED:
                _settle(self._files, identifier, record.__eq__)

    def _put_page(self, kind: Kind, number: int, names: list[Any]) -> None:
        if not self._dry:
            self._marks.put_page(self._mark.id, kind, number, names)

    def _condemn_commits(self, commits: list[str]) -> None:
        at = self._survey.now
        known = dict(self._expired.list())
        for identifier in commits:
            earlier = known.get(identifier)
            if earlier is not None and earlier.gone:
                continue
            mine = earlier is None or self._unfinished(earlier.mark)
            record = Expired(self._mark.id, at, gone=False)
            if mine and (self._dry or self._take(self._expired, identifier, record)):
                self._pages.add(Kind.COMMITS, identifier, 0)
            else:  # another mark decides about the tree, and keeps it until its own sweep
                for tree in self._survey.graph.get(identifier).trees:
                    self._survey.reach_stray(bytes.fromhex(tree))

    def _take(self, records: RecordStore[R], name: str | bytes, record: R) -> bool:
        """Write a record if there is none, or only that of a mark that was never finished."""
        current = records.find(name)
        if current is None:
            return records.write(name, record, ABSENT)
        earlier, predicate = current
        free = _is_condemned(earlier) and self._unfinished(earlier.mark)
        return free and records.write(name, record, predicate)

    def _condemn_files(self) -> None:
        trees = self._survey.table_kinds()
        record = FileRecord(self._mark.id, FileState.CONDEMNED)
        for file in self._survey.scratch.unseen_files():
            kind = Kind.METARANGES if file.id in trees else Kind.RANGES
            if self._dry or self._take(self._files, file.id, record):
                self._pages.add(kind, [file.id.hex(), file.size], file.size)
            else:
                self._survey.reach_stray(file.id)

    def _unfinished(self, mark: str) -> bool:
        """Return whether a mark was never finished, so that its records may be taken over."""
        known = self._earlier.get(mark)
        return known is not None and known.state in _UNFINISHED

    def _condemn_data(self) -> None:
        for file in self._survey.data():
            if file.named or self._survey.is_young(file.mtime):
                self._data_kept = self._data_kept.plus(file.size)
            else:
                self._pages.add(Kind.DATA, [file.key, file.size], file.size)


def withdraw(stores: Stores, mark: str) -> None:
    """Remove the records by which `mark` condemned tables and commits. Idempotent."""
    for records, name, record in _condemned(stores):
        if record.mark == mark:
            _settle(records, name, record.__eq__)


def _is_condemned(record: FileRecord | Expired) -> bool:
    """Return whether no sweep has decided about the object yet."""
    if isinstance(record, Expired):
        return not record.gone
    return record.state is FileState.CONDEMNED


def _condemned(stores: Stores) -> Iterator[tuple[RecordStore[Any], Any, FileRecord | Expired]]:
    """Yield the records of condemned tables and commits, each with its store and name."""
    files, expired = FileRecords(stores.kv, stores.uid), stores.refs.expired
    for identifier, table in list(files.list()):
        if _is_condemned(table):
            yield files, identifier, table
    for name, commit in list(expired.list()):
        if _is_condemned(commit):
            yield expired, name, commit


def close_lost(stores: Stores, marks: Marks, mark: Mark) -> Mark:
    """Settle the condemnations of a lost mark, and close it. Idempotent.

    Commits whose trees are gone expire. Commits whose trees exist can be named again. The next mark
    condemns the remaining files that nothing names.
    """
    _settle_commits(stores, mark)
    _settle_tables(stores, mark)
    epoch = stores.refs.epochs.read()
    if epoch.mark == mark.id:
        stores.refs.epochs.end(epoch)
    now = store_now(stores.objects, stores.uid)
    closed = marks.move(
        mark.id,
        WAITING,
        lambda waiting: replace(waiting, state=MarkState.LOST, swept=now, tokens=()),
    )
    marks.forget_pages(mark.id)
    return closed


def _settle_commits(stores: Stores, mark: Mark) -> None:
    expired, is_whole = stores.refs.expired, whole_commits(stores.ranges)
    for commit, known in list(expired.list()):
        if known.mark == mark.id and not known.gone:
            whole = is_whole(stores.refs.commits.get(commit))
            _settle(expired, commit, known.__eq__, None if whole else replace(known, gone=True))


def _settle_tables(stores: Stores, mark: Mark) -> None:
    files = FileRecords(stores.kv, stores.uid)
    deleted = FileRecord(mark.id, FileState.DELETED)
    for identifier, known in list(files.list()):
        if known.mark == mark.id and known.state is not FileState.DELETED:
            stored = stores.ranges.is_stored(identifier)
            _settle(files, identifier, known.__eq__, None if stored else deleted)


def _settle(
    records: RecordStore[R], name: str | bytes, still: Callable[[R], bool], settled: R | None = None
) -> None:
    """Replace a record if `still` holds for it; None removes it."""
    current = records.find(name)
    if current is None or not still(current[0]):
        return
    if settled is None:
        records.remove(name, current[1])
    else:
        records.write(name, settled, current[1])

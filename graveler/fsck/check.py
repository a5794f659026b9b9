"""Checks that everything exists, and is sound, that the refs of a repository need.

The check starts at every branch (those of runs included), tag and named commit, and follows all
history to trees, ranges and objects, each of them once; then it checks what is staged. Metadata is
read from its store, never from a cache. Nothing is repaired. The trees of expired commits are not
expected to exist.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from graveler.committed import EMPTY_METARANGE, verify_range, verify_tree
from graveler.committed import Problem as TableProblem
from graveler.errors import CorruptionError, RefNotFoundError
from graveler.fsck.checkpoint import Checkpoint
from graveler.fsck.objects import Depth, ObjectCheck, Pace
from graveler.fsck.report import FsckReport, Problem, ProblemKind
from graveler.model import BranchRecord, Commit, Entry, RangeInfo
from graveler.process import Progress, batches, no_progress
from graveler.reads import Stores
from graveler.refs import Refs
from graveler.sstable.reader import TableReader
from graveler.values import decode_entry, entry_identity, record_id, staged_changes, value_identity

_CHUNK: Final = 1_000
_ORDER: Final = list(ProblemKind)

_Name = tuple[ProblemKind, str]
_T = TypeVar("_T")


def fsck(
    stores: Stores,
    *,
    objects: Depth = "exist",
    also: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    rate: float | None = None,
    resume: bool = False,
) -> FsckReport:
    """Check all that the refs of a repository need; return what is missing or damaged.

    Objects with the right checksum are recorded during the check, so that a check of checksums
    that was stopped can be resumed, even on another host. A completed check drops the record.

    Args:
        stores: The repository (``repository.stores``).
        objects: ``exist`` asks the store for the presence and size of every object,
            ``checksum`` reads them all, ``none`` leaves them out.
        also: More commits that must be whole, by a label for the report (those of runs).
        progress: Called with the progress; None: not reported.
        rate: Bytes of objects to read per second; None: no limit.
        resume: Skip objects that an earlier, stopped check has found sound.
    """
    if objects != "checksum":
        check = ObjectCheck(stores, objects)
        return _Fsck(stores, check, progress or no_progress).run(also or {})
    checkpoint = Checkpoint(stores, resume=resume)
    check = ObjectCheck(stores, objects, pace=Pace(stores.clock, rate), checkpoint=checkpoint)
    try:
        report = _Fsck(stores, check, progress or no_progress).run(also or {})
    except BaseException:
        checkpoint.write()
        raise
    checkpoint.forget()
    return report


class _Fsck:
    def __init__(self, stores: Stores, objects: ObjectCheck, progress: Progress) -> None:
        self._stores = stores
        # refs of its own: those of the repository remember commits
        self._refs = Refs(stores.kv, stores.uid, clock=stores.clock, ids=stores.ids)
        self._objects = objects
        self._progress = progress
        self._branches: list[BranchRecord] = []
        self._roots: dict[str, str] = {}
        self._commits: dict[str, Commit] = {}
        self._expired: set[str] = set()
        self._ranges: set[bytes] = set()
        self._messages: dict[_Name, str] = {}
        self._needed_by: defaultdict[_Name, set[str]] = defaultdict(set)
        self._paths: defaultdict[_Name, set[str]] = defaultdict(set)
        self._in_commit: dict[str, _Name] = {}
        self._in_tree: defaultdict[str, set[_Name]] = defaultdict(set)
        self._in_range: defaultdict[bytes, set[_Name]] = defaultdict(set)

    def run(self, also: Mapping[str, str]) -> FsckReport:
        self._find_roots(also)
        self._walk(self._roots.values())
        has_tree = self._stores.refs.expired.has_tree  # a condemned commit may have lost its tree
        gone = {
            name for name, record in self._refs.expired.list() if record.gone or not has_tree(name)
        }
        self._expired = gone & self._commits.keys()
        self._check_generations()
        trees = sorted(
            {
                commit.metarange
                for name, commit in self._commits.items()
                if name not in self._expired
            }
        )
        for done, tree in enumerate(trees):
            self._progress("trees", done, len(trees))
            self._check_tree(tree)
        for done, branch in enumerate(self._branches):
            self._progress("branches", done, len(self._branches))
            self._check_staged(branch)
        if self._messages:
            for label, head in self._roots.items():
                self._blame(label, head)
        return FsckReport(
            problems=tuple(self._problems()),
            refs=len(self._roots),
            commits=len(self._commits),
            metaranges=len(trees) - (EMPTY_METARANGE in trees),
            ranges=len(self._ranges),
            objects=self._objects.looked_at,
            hashed=self._objects.hashed,
            expired=len(self._expired),
            resumed=self._objects.resumed,
        )

    def _find_roots(self, also: Mapping[str, str]) -> None:
        for name in self._refs.branches.names():
            try:
                record = self._refs.branches.get(name)
            except CorruptionError as error:
                self._add(ProblemKind.BRANCH, name, str(error))
                continue
            except RefNotFoundError:
                continue  # deleted after the listing
            self._branches.append(record)
            self._roots[name] = record.commit_id
        self._roots |= {f"tag {name}": commit for name, commit in self._refs.tags.list()}
        self._roots |= also

    def _walk(self, heads: Iterable[str]) -> None:
        todo = list(dict.fromkeys(heads))
        seen = set(todo)
        while todo:
            self._progress("commits", len(self._commits), len(seen))
            identifier = todo.pop()
            commit = self._read_commit(identifier)
            if commit is None:
                continue
            self._commits[identifier] = commit
            fresh = [parent for parent in commit.parents if parent not in seen]
            seen.update(fresh)
            todo += fresh

    def _read_commit(self, identifier: str) -> Commit | None:
        """Return the commit; None if it is missing or does not match its id."""
        try:
            commit = self._refs.commits.find(identifier)
            if commit is not None:
                return commit
            what = "is missing"
        except CorruptionError as error:
            what = str(error)
        self._in_commit[identifier] = self._add(
            ProblemKind.COMMIT, identifier, f"{what}; what lies before it was not looked at"
        )
        return None

    def _check_generations(self) -> None:
        for identifier, commit in self._commits.items():
            parents = [self._commits.get(parent) for parent in commit.parents]
            known = [parent.generation for parent in parents if parent is not None]
            if len(known) == len(parents) and commit.generation != 1 + max(known, default=0):
                self._in_commit[identifier] = self._add(
                    ProblemKind.COMMIT,
                    identifier,
                    f"has generation {commit.generation}, its parents {known}",
                )

    def _check_tree(self, tree: str) -> None:
        infos = self._drain(verify_tree(self._stores.ranges, tree), self._in_tree[tree])
        for info in infos:
            if info.id not in self._ranges:
                self._ranges.add(info.id)
                self._check_range(info)
            self._in_tree[tree] |= self._in_range.get(info.id, set())

    def _check_range(self, info: RangeInfo) -> None:
        names: set[_Name] = set()
        reader = self._drain(verify_range(self._stores.ranges, info.id, info), names)
        if reader is not None and self._objects.depth != "none":
            names |= set(self._bad_objects(self._entries(info, reader, names)))
        for kind, identifier in names:
            if kind is ProblemKind.RANGE:
                self._paths[kind, identifier] |= {_text(info.min_key), _text(info.max_key)}
        if names:
            self._in_range[info.id] = names

    def _entries(self, info: RangeInfo, reader: TableReader, names: set[_Name]) -> Iterator[Entry]:
        """Yield the entries of a sound range; an invalid entry is a problem of the range."""
        for key, value in reader.items():
            try:
                yield _entry(key, value)
            except CorruptionError as error:
                names.add(self._add(ProblemKind.RANGE, info.id.hex(), str(error)))

    def _drain(self, problems: Generator[TableProblem, None, _T], names: set[_Name]) -> _T:
        """Keep the problems of a table under `names`; return what could be read of it."""
        while True:
            try:
                problem = next(problems)
            except StopIteration as end:
                result: _T = end.value
                return result
            names.add(self._add(ProblemKind(problem.kind.value), problem.id, problem.message))

    def _bad_objects(self, entries: Iterable[Entry]) -> Iterator[_Name]:
        for chunk in batches(entries, _CHUNK):
            for entry, fault in self._objects.faults(chunk):
                name = self._add(ProblemKind.OBJECT, self._stores.uri(entry.address), fault)
                self._paths[name].add(entry.path)
                yield name

    def _check_staged(self, branch: BranchRecord) -> None:
        entries = []
        tokens = [branch.staging_token, *reversed(branch.sealed_tokens)]
        for key, write in self._stores.staging.scan(tokens):
            try:
                ((_, identifier, value),) = staged_changes([(key, write)])
                if value is not None:
                    entries.append(_staged_entry(key, identifier, value))
            except CorruptionError as error:
                name = self._add(ProblemKind.STAGED, f"{branch.name}:{_text(key)}", str(error))
                self._needed_by[name].add(branch.name)
                self._paths[name].add(_text(key))
        for name in self._bad_objects(entries):
            self._needed_by[name].add(branch.name)

    def _blame(self, label: str, head: str) -> None:
        """Add this ref to every problem below `head`."""
        todo, seen = [head], {head}
        while todo:
            identifier = todo.pop()
            if identifier in self._in_commit:
                self._needed_by[self._in_commit[identifier]].add(label)
                continue
            commit = self._commits[identifier]
            needed = () if identifier in self._expired else self._in_tree[commit.metarange]
            for name in needed:
                self._needed_by[name].add(label)
            fresh = [parent for parent in commit.parents if parent not in seen]
            seen.update(fresh)
            todo += fresh

    def _add(self, kind: ProblemKind, identifier: str, message: str) -> _Name:
        name = (kind, identifier)
        self._messages.setdefault(name, message)
        return name

    def _problems(self) -> Iterator[Problem]:
        for name in sorted(self._messages, key=lambda name: (_ORDER.index(name[0]), name[1])):
            kind, identifier = name
            yield Problem(
                kind=kind,
                id=identifier,
                message=self._messages[name],
                refs=tuple(sorted(self._needed_by[name])),
                paths=tuple(sorted(self._paths[name])),
            )


def _entry(key: bytes, value: bytes) -> Entry:
    """Return an entry whose content identity follows from its fields, or raise CorruptionError."""
    entry = decode_entry(key, value)
    stated, computed = value_identity(value), entry_identity(entry)
    if stated != computed:
        raise CorruptionError(
            f"entry at {key!r} has the content identity {stated.hex()}, its fields give {computed.hex()}"
        )
    return entry


def _staged_entry(key: bytes, identifier: bytes | None, value: bytes) -> Entry:
    """Return a staged entry, or raise CorruptionError: a commit goes by its record id."""
    computed = record_id(key, value)
    if identifier != computed:
        raise CorruptionError(
            f"staged write of {key!r} has another record id than its bytes ({computed.hex()}): it was "
            "damaged or changed in the key-value store; write the path again before it is committed"
        )
    return _entry(key, value)


def _text(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")

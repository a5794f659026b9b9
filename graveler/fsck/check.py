"""Checks that everything that the refs of a repository need exists and is sound.

The check starts at every branch (including those of runs), tag and named commit. It follows all
history to trees, ranges and objects, each of them once, and then checks staged writes. Metadata is
read from its store, never from a cache. Nothing is repaired. The trees of expired commits need not
exist.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from graveler.base.background import Progress, no_progress
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.verify import Problem as TableProblem
from graveler.committed.verify import verify_range, verify_tree
from graveler.errors import CorruptionError, RefNotFoundError
from graveler.fsck.objects import Checkpoint, ObjectCheck, Pace
from graveler.model import BranchRecord, Commit, Entry, RangeInfo
from graveler.reads.changes import reached
from graveler.reads.soundness import Depth, FileCheck, Finding, Staged, shown, sound_entry
from graveler.reads.stores import Stores
from graveler.refs.refs import Refs
from graveler.values import record_id, staged_changes


class ProblemKind(StrEnum):
    """The kind of a missing or damaged part."""

    BRANCH = "branch"
    COMMIT = "commit"
    METARANGE = "metarange"
    RANGE = "range"
    OBJECT = "object"
    STAGED = "staged"


@dataclass(frozen=True, slots=True)
class Problem:
    """A missing or damaged part of a repository.

    Attributes:
        id: The name of a branch, the id of a commit, metarange or range, the URI of an object, or
            ``branch:path`` of a staged write.
        paths: The paths that need it, if known; for a range, its first and last path.
    """

    kind: ProblemKind
    id: str
    message: str
    refs: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FsckReport:
    """The problems of a repository, and the numbers of checked parts; each part counts once.

    Attributes:
        problems: The problems in the order of their kinds, from branches to objects.
        resumed: Number of objects that were not read, because the resumed check had found them sound.
    """

    problems: tuple[Problem, ...]
    refs: int
    commits: int
    metaranges: int
    ranges: int
    objects: int
    hashed: int
    expired: int = 0
    resumed: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing is missing or damaged."""
        return not self.problems


_ORDER = list(ProblemKind)

_Name = tuple[ProblemKind, str]


def fsck(
    stores: Stores,
    *,
    objects: Depth = "exist",
    also: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    rate: float | None = None,
    resume: bool = False,
    check: FileCheck | None = None,
) -> FsckReport:
    """Check everything that the refs of a repository need; return missing and damaged parts.

    Objects with the right checksum are recorded during the check, so that a check of checksums
    that was stopped can be resumed, even on another host. A completed check drops the record.

    Args:
        stores: The repository (``repository.stores``).
        objects: ``exist`` checks the presence and size of every object, ``checksum`` reads all
            objects, ``none`` leaves them out.
        also: More commits that must be complete, such as those of runs, by a label for the report.
        progress: Called with the progress, or None.
        rate: Bytes of objects to read per second; None for no limit.
        resume: Skip objects that an earlier, stopped check has found sound.
        check: Checks ranges and objects, without `rate` and `resume`; None for a check in this process.
    """
    if check is not None or objects != "checksum":
        check = check or ObjectCheck(stores, objects)
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
    def __init__(self, stores: Stores, objects: FileCheck, progress: Progress) -> None:
        self._stores = stores
        # separate refs, because those of the repository cache commits
        self._refs = Refs(stores.kv, stores.uid, clock=stores.clock, ids=stores.ids)
        self._objects = objects
        self._progress = progress
        self._branches: list[BranchRecord] = []
        self._roots: dict[str, str] = {}
        self._commits: dict[str, Commit] = {}
        self._expired: set[str] = set()
        self._ranges: dict[bytes, bytes] = {}
        self._trees: dict[str, list[bytes]] = {}
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
        self._expired = gone & self._commits.keys() - set(self._roots.values())
        self._check_generations()
        kept = [commit for name, commit in self._commits.items() if name not in self._expired]
        trees = sorted({commit.metarange for commit in kept})
        claims = sorted({tree for commit in kept for tree in commit.trees[1:]})
        for finding in self._objects(self._new_ranges(trees), self._staged()):
            self._note(finding)
        for info in self._new_ranges(claims):
            problems: list[TableProblem] = []
            verify_range(self._stores.ranges, info, problems)
            self._keep(problems, self._in_range[info.id])
        for tree, ranges in self._trees.items():
            for identifier in ranges:
                self._in_tree[tree] |= self._in_range.get(identifier, set())
        if self._messages:
            for label, head in self._roots.items():
                self._blame(label, head)
        return FsckReport(
            problems=tuple(self._problems()),
            refs=len(self._roots),
            commits=len(self._commits),
            metaranges=len(trees) + len(claims) - (EMPTY_METARANGE in trees),
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

    def _new_ranges(self, trees: Sequence[str]) -> Iterator[RangeInfo]:
        for done, tree in enumerate(trees):
            self._progress("trees", done, len(trees))
            problems: list[TableProblem] = []
            infos = verify_tree(self._stores.ranges, tree, problems)
            self._keep(problems, self._in_tree[tree])
            new = [info for info in infos if info.id not in self._ranges]
            # keep one copy of each id for all trees
            self._trees[tree] = [self._ranges.setdefault(info.id, info.id) for info in infos]
            yield from new

    def _note(self, finding: Finding) -> None:
        name = self._add(ProblemKind(finding.kind), finding.id, finding.message)
        self._paths[name].update(finding.paths)
        if isinstance(finding.holder, bytes):
            self._in_range[finding.holder].add(name)
        else:
            self._needed_by[name].add(finding.holder)

    def _keep(self, problems: Iterable[TableProblem], names: set[_Name]) -> None:
        names.update(self._add(ProblemKind(kind.value), of, told) for kind, of, told in problems)

    def _staged(self) -> Iterator[Staged]:
        """Yield the staged entries; an invalid write is recorded as a problem."""
        for done, branch in enumerate(self._branches):
            self._progress("branches", done, len(self._branches))
            tokens = [branch.staging_token, *reversed(branch.sealed_tokens)]
            for key, write in self._stores.staging.scan(tokens):
                try:
                    ((_, identifier, value),) = staged_changes([(key, write)])
                    if value is not None:
                        yield branch.name, _staged_entry(key, identifier, value)
                except CorruptionError as error:
                    name = self._add(ProblemKind.STAGED, f"{branch.name}:{shown(key)}", str(error))
                    self._needed_by[name].add(branch.name)
                    self._paths[name].add(shown(key))

    def _blame(self, label: str, head: str) -> None:
        """Add this ref to every problem below `head`."""

        def parents(identifier: str) -> tuple[str, ...]:
            return () if identifier in self._in_commit else self._commits[identifier].parents

        for identifier in reached([head], parents):
            if identifier in self._in_commit:
                self._needed_by[self._in_commit[identifier]].add(label)
            elif identifier not in self._expired:
                for tree in self._commits[identifier].trees:
                    for name in self._in_tree[tree]:
                        self._needed_by[name].add(label)

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


def _staged_entry(key: bytes, identifier: bytes | None, value: bytes) -> Entry:
    """Return a staged entry; raise CorruptionError if its record id, which a commit uses, is wrong."""
    computed = record_id(key, value)
    if identifier != computed:
        raise CorruptionError(
            f"staged write of {key!r} has another record id than its bytes ({computed.hex()}): it was "
            "damaged or changed in the key-value store; write the path again before it is committed"
        )
    return sound_entry(key, value)

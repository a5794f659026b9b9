"""The page of storage: which refs hold the most, what collection frees, and how ranges are reused.

It reads metaranges, and no range: the bytes of files are those that the last mark counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from graveler.committed.metarange import read
from graveler.committed.tree import Tree
from graveler.display import size_text
from graveler.errors import GravelerError
from graveler.gc.marks import WAITING, Mark, MarkState
from graveler.gc.rules import RETENTION
from graveler.lake import Repository
from graveler.model import Commit
from graveler.pages.drawing import Square, bar
from graveler.pages.page import Page, limited
from graveler.pages.pipelines.runs import command
from graveler.pages.query import Query

_REFS, _COMMITS, _MARKS = 100, 24, 10


@dataclass(frozen=True, slots=True)
class Held:
    """What a ref holds.

    Attributes:
        kind: ``branch`` or ``tag``.
        head: Its commit.
        files: Number of files of its tree; None if the tree was collected.
        ranges: Number of ranges of the tree.
        own: Files in ranges that the default branch does not have: no fewer than those that differ.
        own_ranges: Number of these ranges.
    """

    kind: str
    name: str
    head: Commit
    files: int | None
    ranges: int
    own: int
    own_ranges: int


@dataclass(frozen=True, slots=True)
class Reuse:
    """The ranges of a commit: those that it wrote, and those that its first parent has too."""

    commit: Commit
    written: int
    written_bytes: int
    reused: int
    reused_bytes: int

    @property
    def drawn(self) -> str:
        """A bar of the reused and the written bytes."""
        parts = [
            Square("quiet", f"reused {size_text(self.reused_bytes)}", size=self.reused_bytes),
            Square("warn", f"written {size_text(self.written_bytes)}", size=self.written_bytes),
        ]
        return bar(
            parts, label=f"reused {self.reused} and written {self.written} ranges", width=160
        )


def storage(repository: Repository, query: Query) -> Page:
    """Return what refs hold, the last marks of collection, the last check, and the reuse of ranges."""
    default = repository.stores.default_branch
    refs, more = limited(_refs(repository), _REFS)
    usual = _tree(repository, repository.commit(default))
    held = _held(repository, refs, usual)
    marks, trouble = _marks(repository)
    values: dict[str, Any] = {
        "default": default,
        "held": sorted(held, key=lambda one: (one.own, one.files or 0), reverse=True),
        "more": more,
        "stats": None if usual is None else repository.stats(default),
        "reuse": list(_reuse(repository, default)),
        "marks": marks[:_MARKS],
        "waiting": next((mark for mark in marks if mark.state in WAITING), None),
        "counted": next((mark for mark in marks if mark.kept), None),
        "collected": next((mark for mark in marks if mark.state is MarkState.SWEPT), None),
        "trouble": trouble,
        "rules": _rules(repository),
        "check": repository.last_check,
        "measure": command(repository, "gc", "mark", "--dry-run"),
        "fsck": command(repository, "fsck"),
    }
    return Page("storage", "Storage", values)


def _refs(repository: Repository) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and commit of the branches and tags."""
    for branch in repository.branches():
        yield "branch", branch.name, branch.commit_id
    for name, commit in repository.tags.list().items():
        yield "tag", name, commit


def _tree(repository: Repository, commit: Commit) -> Tree | None:
    """Return the ranges of a commit; None if they were collected."""
    try:
        return read(repository.stores.ranges, commit.metarange)
    except GravelerError:
        return None


def _held(
    repository: Repository, refs: Iterable[tuple[str, str, str]], usual: Tree | None
) -> Iterator[Held]:
    known = frozenset(() if usual is None else usual.ids())
    numbers: dict[str, tuple[int | None, int, int, int]] = {}
    for kind, name, commit in refs:
        head = repository.commit(commit)
        if head.metarange not in numbers:
            tree = _tree(repository, head)
            own = [info.count for info in tree or () if info.id not in known]
            files = None if tree is None else sum(info.count for info in tree)
            numbers[head.metarange] = files, len(tree or ()), sum(own), len(own)
        yield Held(kind, name, head, *numbers[head.metarange])


def _reuse(repository: Repository, branch: str) -> Iterator[Reuse]:
    """Yield the reuse by the last commits that changed the tree of a branch."""
    commits = list(repository.log(branch, limit=_COMMITS + 1, first_parent=True))
    trees = [_tree(repository, commit) for commit in commits]
    for commit, tree, before in zip(commits, trees, trees[1:], strict=False):
        if tree is None or before is None or tree == before:
            continue
        known = frozenset(before.ids())
        written = [info.size for info in tree if info.id not in known]
        reused = [info.size for info in tree if info.id in known]
        yield Reuse(commit, len(written), sum(written), len(reused), sum(reused))


def _marks(repository: Repository) -> tuple[list[Mark], str]:
    """Return the marks, the latest first, and why they cannot be read."""
    try:
        return list(repository.gc.marks())[::-1], ""
    except GravelerError as error:
        return [], str(error)


def _rules(repository: Repository) -> list[tuple[str, str]]:
    rules = repository.stores.refs.settings.get(RETENTION)
    others = "all other branches" if rules.patterns else "all branches"
    named = [(pattern, str(keep)) for pattern, keep in rules.patterns.items()]
    return [*named, (others, str(rules.default))]

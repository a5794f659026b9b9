"""The history that the report draws: main, its runs, and the ranges of each tree."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graveler.committed.metarange import read
from graveler.lake import Repository
from graveler.model import Commit, RangeInfo


@dataclass(frozen=True, slots=True)
class Lane:
    """The commits of one run, next to main."""

    commits: tuple[Commit, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RangeLife:
    """One range, from the place in main that added it to the last place in a row that has it."""

    info: RangeInfo
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class History:
    """The history of a branch."""

    main: tuple[Commit, ...]
    lanes: tuple[Lane, ...]
    ranges: tuple[RangeLife, ...]
    sizes: tuple[tuple[int, int], ...]


def read_history(repository: Repository, branch: str = "main") -> History:
    """Read the history of `branch`."""
    main = tuple(repository.log(branch, first_parent=True))[::-1]
    trees = [read(repository.stores.ranges, commit.metarange) for commit in main]
    lives = _lives(trees)
    new = [[life for life in lives if life.first == place] for place in range(len(main))]
    sizes = tuple(
        (_size(life.info for life in lives), _size(tree))
        for lives, tree in zip(new, trees, strict=True)
    )
    return History(main, _lanes(repository, main), lives, sizes)


def _size(ranges: Iterable[RangeInfo]) -> int:
    return sum(info.size for info in ranges)


def _lanes(repository: Repository, main: tuple[Commit, ...]) -> tuple[Lane, ...]:
    places = {commit.id: place for place, commit in enumerate(main)}
    ends = [(parent, places[commit.id]) for commit in main for parent in commit.parents[1:]]
    hidden = (branch for branch in repository.branches(hidden=True) if branch.hidden)
    ends += [(branch.commit_id, len(main)) for branch in hidden]
    lanes = []
    for head, merge in ends:
        commits = []
        commit = repository.commit(head)
        while commit.id not in places:
            commits.append(commit)
            commit = repository.commit(commit.parents[0])
        if commits:
            lanes.append(Lane(tuple(commits[::-1]), places[commit.id] + 1, merge))
    return tuple(sorted(lanes, key=lambda lane: lane.commits[0].created))


def _lives(trees: Sequence[Sequence[RangeInfo]]) -> tuple[RangeLife, ...]:
    alive: dict[bytes, RangeLife] = {}
    lives: list[RangeLife] = []
    for place, tree in enumerate(trees):
        earlier, alive = alive, {}
        for info in tree:
            first = earlier.pop(info.id).first if info.id in earlier else place
            alive[info.id] = RangeLife(info, first, place)
        lives += earlier.values()
    lives += alive.values()
    return tuple(sorted(lives, key=lambda life: (life.info.min_key, life.first)))

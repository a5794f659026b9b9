"""The history that the report draws: main, its runs, and the ranges of each tree."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from graveler.committed.metarange import read
from graveler.lake import Repository
from graveler.model import Commit, RangeInfo


@dataclass(frozen=True, slots=True)
class Lane:
    """The commits of one run, drawn next to main.

    Attributes:
        commits: Its commits, oldest first.
        fork: Commit of main from which the run started.
        merge: Commit of main that merges it; "" while there is none.
    """

    commits: tuple[Commit, ...]
    fork: str
    merge: str


@dataclass(frozen=True, slots=True)
class RangeLife:
    """One range, from the commit that added it to the last one that has it.

    Attributes:
        first: Position in main of the commit that added it.
        last: Position of the last commit in a row that has it.
    """

    info: RangeInfo
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class History:
    """The history of a branch.

    Attributes:
        main: Its commits by first parents, oldest first.
        lanes: The runs that were published to it, by their first commit.
        ranges: Every range of any of its commits.
        sizes: For each commit of main, the bytes of its new ranges and of all its ranges.
    """

    main: tuple[Commit, ...]
    lanes: tuple[Lane, ...]
    ranges: tuple[RangeLife, ...]
    sizes: tuple[tuple[int, int], ...]

    def positions(self) -> dict[str, float]:
        """Return the position of each commit in time: 0, 1, 2 … on main, values between on a run."""
        places = {commit.id: float(place) for place, commit in enumerate(self.main)}
        between: defaultdict[int, list[Commit]] = defaultdict(list)
        for lane in self.lanes:
            for commit in lane.commits:
                earlier = sum(other.created < commit.created for other in self.main)
                between[max(earlier - 1, 0)].append(commit)
        for place, commits in between.items():
            commits.sort(key=lambda commit: commit.created)
            for count, commit in enumerate(commits, 1):
                places[commit.id] = place + count / (len(commits) + 1)
        return places


def read_history(repository: Repository, branch: str = "main") -> History:
    """Read the history of `branch`."""
    main = tuple(repository.log(branch, first_parent=True))[::-1]
    trees = [read(repository.stores.ranges, commit.metarange) for commit in main]
    return History(
        main=main,
        lanes=_lanes(repository, main),
        ranges=_lives(trees),
        sizes=_sizes(trees),
    )


def _lanes(repository: Repository, main: tuple[Commit, ...]) -> tuple[Lane, ...]:
    on_main = {commit.id for commit in main}
    ends = [(parent, commit.id) for commit in main for parent in commit.parents[1:]]
    ends += [(branch.commit_id, "") for branch in repository.branches(hidden=True) if branch.hidden]
    lanes = []
    for head, merge in ends:
        commits = []
        commit = repository.commit(head)
        while commit.id not in on_main:
            commits.append(commit)
            commit = repository.commit(commit.parents[0])
        if commits:
            lanes.append(Lane(tuple(commits[::-1]), commit.id, merge))
    return tuple(sorted(lanes, key=lambda lane: lane.commits[0].created))


def _lives(trees: Sequence[Sequence[RangeInfo]]) -> tuple[RangeLife, ...]:
    alive: dict[bytes, RangeLife] = {}
    over: list[RangeLife] = []
    for place, tree in enumerate(trees):
        ranges = {info.id: info for info in tree}
        over += [life for identifier, life in alive.items() if identifier not in ranges]
        alive = {
            identifier: RangeLife(
                info, alive[identifier].first if identifier in alive else place, place
            )
            for identifier, info in ranges.items()
        }
    over += alive.values()
    return tuple(sorted(over, key=lambda life: (life.info.min_key, life.first)))


def _sizes(trees: Sequence[Sequence[RangeInfo]]) -> tuple[tuple[int, int], ...]:
    sizes = []
    before: set[bytes] = set()
    for tree in trees:
        brought = sum(info.size for info in tree if info.id not in before)
        sizes.append((brought, sum(info.size for info in tree)))
        before = {info.id for info in tree}
    return tuple(sizes)

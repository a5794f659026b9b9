"""The result of a check of a whole repository."""

from dataclasses import dataclass
from enum import StrEnum


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
        refs: The branches, tags and runs that need it.
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
        refs: Number of branches, tags and runs.
        commits: Number of commits that these reach.
        metaranges: Number of trees of those commits.
        ranges: Number of ranges of those trees.
        objects: Number of objects of those ranges and of staged writes.
        expired: Number of the commits whose trees garbage collection has removed.
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

"""The result of a check of a whole repository."""

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    """The kind of thing that is missing or damaged."""

    BRANCH = "branch"
    COMMIT = "commit"
    METARANGE = "metarange"
    RANGE = "range"
    OBJECT = "object"
    STAGED = "staged"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is missing or damaged.

    Attributes:
        kind: What sort of thing it is.
        id: Which one: a branch's name, a commit's, metarange's or range's id, an object's URI,
            or ``branch:path`` of a staged write.
        message: What is wrong with it.
        refs: The branches, tags and runs that need it.
        paths: The paths that need it, if they are known; the first and the last one of a range.
    """

    kind: ProblemKind
    id: str
    message: str
    refs: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FsckReport:
    """The problems of a repository, and how much was checked; each thing counts once.

    Attributes:
        problems: In the order of their kinds, from branches down to objects.
        refs: Branches, tags and runs.
        commits: Commits that these reach.
        metaranges: Trees of those commits.
        ranges: Ranges of those trees.
        objects: Objects of those ranges and of what is staged.
        hashed: Bytes read to compare checksums.
        expired: Commits among them whose trees garbage collection has removed.
        resumed: Objects that were not read, because the resumed check had found them sound.
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

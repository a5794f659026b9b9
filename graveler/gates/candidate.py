"""The candidate: a read-only view of exactly what the target would become."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graveler.model import Change, Commit
from graveler.repository.diffing import diff_commits
from graveler.repository.ref import Ref
from graveler.repository.stores import Stores

__all__ = ["Candidate", "RunContext"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a gate may know of the run it judges.

    Attributes:
        key: The run's key.
        attempt: Which attempt publishes.
        metadata: The run's metadata.
    """

    key: str
    attempt: int
    metadata: Mapping[str, str] = field(default_factory=dict)


class Candidate(Ref):
    """The tree that would be published, with the change set beside it.

    Attributes:
        target: The head of the branch that would move.
        into: The name of that branch.
        run: The run that publishes.
    """

    def __init__(
        self, repository: Stores, commit: Commit, *, target: Commit, into: str, run: RunContext
    ) -> None:
        super().__init__(repository, commit, name=f"candidate of {run.key!r}")
        self.target = target
        self.into = into
        self.run = run

    def changes(self, prefix: str = "") -> Iterator[Change]:
        """Yield what publishing would change on the target, below `prefix`."""
        return diff_commits(self.repository, self.target, self.commit, prefix=prefix)

    @property
    def before(self) -> Ref:
        """The target as it is now."""
        return Ref(self.repository, self.target, name=self.into)

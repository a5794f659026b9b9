"""The candidate: a read-only view of exactly what the target would become."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Self

from graveler.gates.facts import plain
from graveler.gates.footers import Footer
from graveler.gates.history import Past, brought, past, seen_key
from graveler.gates.read_only import read_only
from graveler.gates.statistics import Statistics, statistics
from graveler.model import Change, Commit
from graveler.repository.diffing import diff_commits
from graveler.repository.ref import Ref
from graveler.repository.stores import Stores

__all__ = ["NO_RUN", "Candidate", "RunContext"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a gate may know of the run it judges.

    Attributes:
        key: The run's key; "" where no run publishes, as in a merge.
        attempt: Which attempt publishes; 0 where no run does.
        metadata: The run's metadata.
    """

    key: str
    attempt: int
    metadata: Mapping[str, str] = field(default_factory=dict)


NO_RUN: Final = RunContext("", 0)


class Candidate(Ref):
    """The tree that would be published, with the change set beside it.

    It can only be read: whatever is reached through it refuses to write with ReadOnlyError.

    Attributes:
        target: The head of the branch that would move.
        into: The name of that branch.
        run: The run that publishes.
        action: What would move the branch: ``publish``, ``merge``, ``commit``, ``revert``, …
        facts: What the gate has reported.
        seen: Statistics that were looked up, to be kept for later candidates.
    """

    def __init__(
        self,
        repository: Stores,
        commit: Commit,
        *,
        target: Commit,
        into: str,
        run: RunContext = NO_RUN,
        action: str = "publish",
    ) -> None:
        name = f"candidate of {run.key!r}" if run.key else f"{action} into {into}"
        super().__init__(read_only(repository), commit, name=name)
        self.target = target
        self.into = into
        self.run = run
        self.action = action
        self.facts: dict[str, Any] = {}
        self.seen: dict[str, Any] = {}
        self._footers: dict[str, Footer] = {}

    def changes(self, prefix: str = "") -> Iterator[Change]:
        """Yield what publishing would change on the target, below `prefix`."""
        return diff_commits(self.repository, self.target, self.commit, prefix=prefix)

    def stats(self, prefix: str = "") -> Statistics:
        """Return statistics of all files below `prefix`, from the footers of Parquet files.

        Raises:
            CorruptionError: A file is not what its name says.
        """
        return statistics(self.repository, self.entries(prefix), self._footers)

    def added(self, prefix: str = "") -> Statistics:
        """Return statistics of the files below `prefix` that publishing would add or replace."""
        found = statistics(self.repository, brought(self.changes(prefix)), self._footers)
        self.seen[seen_key(self.commit_id, prefix)] = found.encode()
        return found

    def history(self, prefix: str = "", limit: int = 20) -> list[Past]:
        """Return statistics of what earlier commits on the branch brought below `prefix`.

        They are kept when they were looked up once, so that they can be told when the data is
        long gone; of commits that nobody looked at footers are read now.

        Args:
            prefix: Where.
            limit: Of at most so many commits, the latest first, those that brought no file
                there left out; found among the latest 1,000.
        """
        return list(islice(past(self.repository, self.target, prefix, self.seen), max(limit, 0)))

    def afresh(self) -> Self:
        """Return the same candidate for another gate: nothing is reported yet."""
        other = copy(self)
        other.facts, other.seen = {}, {}
        return other

    @property
    def before(self) -> Ref:
        """The target as it is now."""
        return Ref(self.repository, self.target, name=self.into)

    def report(self, **facts: Any) -> None:
        """Keep numbers or short texts with the verdict, for those who read it later."""
        self.facts.update(plain(facts))

"""A selection of commits by metadata, run, committer and time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from graveler.model import Commit

_RUN = "graveler.run"


@dataclass(frozen=True, slots=True)
class Selection:
    """The commits that a log shows. A missing condition accepts all commits.

    Attributes:
        metadata: Pairs of the metadata. A commit has all of them.
        run: Key of the run that made or published a commit.
        until: The time before which a commit was made.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    committer: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def covers(self, commit: Commit) -> bool:
        """Return whether the log shows the commit."""
        return (
            self.metadata.items() <= commit.metadata.items()
            and self.run in {"", commit.metadata.get(_RUN)}
            and self.committer in {"", commit.committer}
            and (self.since is None or self.since <= commit.created)
            and (self.until is None or commit.created < self.until)
        )

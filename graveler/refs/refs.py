"""The refs of one repository, bundled; all in the key-value partition ``refs:<uid>``."""

from graveler.clock import Clock, IdSource
from graveler.kv.store import KVStore
from graveler.refs.branches import Branches
from graveler.refs.commits import Commits
from graveler.refs.protection import Protection
from graveler.refs.tags import Tags

__all__ = ["Refs"]


class Refs:
    """Branches, tags, commits and the protection rules of one repository."""

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock, ids: IdSource) -> None:
        partition = f"refs:{uid}"
        self.clock = clock
        self.ids = ids
        self.commits = Commits(kv, partition)
        self.branches = Branches(kv, partition, ids)
        self.tags = Tags(kv, partition)
        self.protection = Protection(kv, partition, ids)

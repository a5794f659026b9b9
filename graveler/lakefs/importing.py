"""The import of a lakeFS repository: first its trees, then its commits, tags and branches.

Readers see nothing of the import before the first branch or tag is written. An incomplete import
can be repeated: converted trees are not read again. A branch of an earlier import moves forward
with the branch of lakeFS, unless it has commits of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from graveler.base.arguments import commit_texts, pairs
from graveler.base.background import Progress, no_progress
from graveler.base.clock import from_unix_us, unix_us
from graveler.base.names import check_tag, check_users_branch
from graveler.base.read_only import refuse_writes
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.gc.files import FileRecords
from graveler.lakefs.entries import EntryMaker
from graveler.lakefs.messages import LakefsCommit
from graveler.lakefs.namespace import Namespace
from graveler.lakefs.refs import LakefsRefs
from graveler.lakefs.state import NOTHING, ImportState
from graveler.lakefs.trees import Terms, Trees, tree_of
from graveler.model import TIMES, Commit
from graveler.reads.changes import reached
from graveler.reads.stores import Stores
from graveler.refs.commits import Expired, id_of
from graveler.refs.dump import RefSet
from graveler.repository.dumps import check_room, restore_refs

COMMIT = "graveler.lakefs.commit"
"""Metadata of an imported commit: its id in lakeFS."""

_IMPORT = "import"
_OURS = "graveler."
_RENAMED = "lakefs:"


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import. All counts are numbers.

    Attributes:
        repository: Name of the repository.
        commits: Commits that branches and tags reach.
        new_commits: Commits that the repository did not have.
        branches: Branches.
        tags: Tags.
        ranges: Ranges that were converted, without those that an earlier import converted.
        objects: Entries in the converted ranges.
        skipped: Entries that were omitted because of their paths.
        expired: Commits whose trees lack files.
    """

    repository: str
    commits: int
    new_commits: int
    branches: int
    tags: int
    ranges: int
    objects: int
    skipped: int
    expired: int


def check_names(refs: LakefsRefs) -> None:
    """Refuse names of branches and tags that graveler does not allow."""
    for names, check in ((refs.branches, check_users_branch), (refs.tags, check_tag)):
        for name in names:
            try:
                check(name)
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"{error}; import it under another name, with rename={{{name!r}: 'NEW'}} or "
                    f"--rename {name}=NEW; without a new name it is left out"
                ) from None


def import_lakefs(
    stores: Stores,
    namespace: Namespace,
    root: str,
    refs: LakefsRefs,
    *,
    terms: Terms,
    progress: Progress = no_progress,
) -> Imported:
    """Import commits, branches, tags and trees into a repository."""
    refuse_writes("an import from lakeFS")
    maker = EntryMaker(stores, root, tuple(stores.refs.links.list()), etags=terms.etags)
    maker.check_root()
    state = ImportState(
        stores.kv, stores.uid, (root, f"{terms.etags=}", f"{terms.skip_odd_paths=}")
    )
    _forget_lost(stores, state)
    trees = Trees(stores, namespace, maker, state, terms)
    wanted: dict[str, str] = {}
    for commit in refs.commits.values():
        if commit.metarange:
            wanted.setdefault(commit.metarange, f"commit {commit.id}")
    try:
        trees.convert(wanted, progress)
    finally:
        state.flush()
    _check_heads(refs, trees.missing)
    commits = _commits(refs, state, trees.missing)
    expired = [commit for commit in refs.commits.values() if commit.metarange in trees.missing]
    new = _land(stores, refs, commits, {commits[commit.id].id for commit in expired})
    return Imported(
        repository=stores.name,
        commits=len(commits),
        new_commits=new,
        branches=len(refs.branches),
        tags=len(refs.tags),
        ranges=trees.ranges,
        objects=trees.objects,
        skipped=trees.skipped,
        expired=len(expired),
    )


def _forget_lost(stores: Stores, state: ImportState) -> None:
    """Forget converted tables that are missing from the storage or condemned."""
    if not state.ranges and not state.metaranges:
        return
    folder = stores.ranges.key(b"")
    stored = {info.key.removeprefix(folder) for info in stores.objects.list(folder)}
    stored -= {name.hex() for name, _ in FileRecords(stores.kv, stores.uid).list()}
    stored.add(EMPTY_METARANGE)
    for name, info in list(state.ranges.items()):
        if info is not NOTHING and info.id.hex() not in stored:
            del state.ranges[name]
    for name, tree in list(state.metaranges.items()):
        if tree not in stored:
            del state.metaranges[name]


def _check_heads(refs: LakefsRefs, missing: Mapping[str, ObjectNotFoundError]) -> None:
    for kind, names in (("branch", refs.branches), ("tag", refs.tags)):
        for name, commit in names.items():
            error = missing.get(refs.commits[commit].metarange)
            if error is not None:
                raise ObjectNotFoundError(
                    f"{error}; it is the head of {kind} {name!r}, which can only be left out, with "
                    f"rename={{{name!r}: ''}} or --rename {name}="
                ) from error


def _commits(
    refs: LakefsRefs, state: ImportState, missing: Mapping[str, ObjectNotFoundError]
) -> dict[str, Commit]:
    """Return the new commits by lakeFS id, parents before children."""
    commits: dict[str, Commit] = {}
    for theirs in refs.commits.values():
        parents = [commits[parent] for parent in theirs.parents]
        lost = theirs.metarange in missing
        tree = theirs.metarange if lost else tree_of(state, theirs.metarange)
        commits[theirs.id] = _commit(theirs, parents, tree)
    return commits


def _commit(theirs: LakefsCommit, parents: list[Commit], tree: str) -> Commit:
    metadata = {
        f"{_RENAMED}{name}" if name.startswith(_OURS) else name: value
        for name, value in theirs.metadata.items()
    }
    try:
        commit_texts(theirs.message, theirs.committer)
        pairs(metadata | {COMMIT: theirs.id}, "metadata")
    except InvalidInputError as error:
        raise InvalidInputError(
            f"commit {theirs.id} of lakeFS exceeds the limits of a commit of graveler: {error}"
        ) from error
    commit = Commit(
        id="",
        metarange=tree,
        parents=tuple(parent.id for parent in parents),
        generation=1 + max((parent.generation for parent in parents), default=0),
        message=theirs.message,
        committer=theirs.committer,
        created=_moment(theirs.created_us),
        metadata=metadata | {COMMIT: theirs.id},
    )
    return replace(commit, id=id_of(commit))


def _moment(microseconds: int) -> datetime:
    first, last = TIMES
    return from_unix_us(min(max(microseconds, unix_us(first)), unix_us(last)))


def _land(
    stores: Stores, refs: LakefsRefs, commits: Mapping[str, Commit], expired: set[str]
) -> int:
    """Write commits, tags and branches. Return the number of new commits."""
    ours = {commit.id: commit for commit in commits.values()}
    now = unix_us(stores.clock.now())
    contents = RefSet(
        expired={name: Expired(_IMPORT, now, gone=True) for name in sorted(expired)},
        branches={name: (commits[head].id, False) for name, head in refs.branches.items()},
        tags={name: commits[head].id for name, head in refs.tags.items()},
    )

    def follows(head: str, new: str) -> bool:
        return head in reached([new], lambda name: ours[name].parents)

    check_room(stores.refs, contents, follows)
    for name, _ in list(stores.refs.expired.list()):
        found = stores.refs.expired.find(name) if name in ours and name not in expired else None
        if found is not None:  # its tree is stored again
            stores.refs.expired.remove(name, found[1])
    new = [commit for name, commit in ours.items() if stores.refs.commits.find(name) is None]
    restore_refs(stores.refs, contents, new, action=_IMPORT, follows=follows)
    return len(new)

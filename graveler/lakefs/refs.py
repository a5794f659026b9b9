"""The dump of refs of lakeFS: a manifest with the metaranges of commits, branches and tags."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from graveler.base.records import TEXT, decode_json, read_fields
from graveler.errors import CorruptionError, InvalidInputError, ObjectNotFoundError
from graveler.lakefs.messages import LakefsCommit, checked_id, decode_commit, decode_ref
from graveler.lakefs.namespace import Namespace
from graveler.lakefs.wire import WireError

MANIFEST = "refs_manifest.json"
_PARTS = ("commits", "branches", "tags")
_MADE_BY = "`lakectl refs-dump lakefs://REPOSITORY` makes it"


@dataclass(frozen=True, slots=True)
class LakefsRefs:
    """The refs of a lakeFS repository."""

    commits: Mapping[str, LakefsCommit]
    branches: Mapping[str, str]
    tags: Mapping[str, str]

    def default_branch(self) -> str:
        """Return the default branch: main, master or the only branch."""
        only = list(self.branches) if len(self.branches) == 1 else []
        for name in ["main", "master", *only]:
            if name in self.branches:
                return name
        raise InvalidInputError(
            f"none of the branches ({', '.join(sorted(self.branches)) or 'there is none'}) is main "
            "or master: name the default branch"
        )

    def renamed(self, names: Mapping[str, str]) -> "LakefsRefs":
        """Return the refs under other names. A ref that is renamed to "" is omitted."""
        unknown = names.keys() - self.branches.keys() - self.tags.keys()
        if unknown:
            raise InvalidInputError(f"rename of {min(unknown)!r}: no branch or tag has that name")
        branches, tags = (_renamed(refs, names) for refs in (self.branches, self.tags))
        kept = _ordered(self.commits, [*branches.values(), *tags.values()])
        return LakefsRefs(kept, branches, tags)


def _renamed(refs: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for old, commit in refs.items():
        new = names.get(old, old)
        if new in renamed:
            raise InvalidInputError(f"rename of {old!r}: another one would be called {new!r} too")
        if new:
            renamed[new] = commit
    return renamed


def read_refs(namespace: Namespace, manifest: bytes | None = None) -> LakefsRefs:
    """Check a whole dump and return its refs."""
    if manifest is None:
        try:
            manifest = namespace.read(MANIFEST, needed_by="the import")
        except ObjectNotFoundError:
            raise ObjectNotFoundError(
                f"{namespace.uri(MANIFEST)} is missing: the refs of the repository were not "
                f"dumped, or this is not a storage namespace of lakeFS; {_MADE_BY}"
            ) from None
        what = namespace.uri(MANIFEST)
    else:
        what = "the dump of refs"
    metaranges = _metaranges(manifest, what)
    commits: dict[str, LakefsCommit] = {}
    for name, key, value in namespace.values(metaranges["commits"], needed_by=what):
        commit = namespace.decoded(name, decode_commit, key, value)
        commits[commit.id] = commit
    branches, tags = (
        dict(
            namespace.decoded(name, decode_ref, key, value)
            for name, key, value in namespace.values(metaranges[part], needed_by=what)
        )
        for part in ("branches", "tags")
    )
    _check_whole(commits, branches, tags, what)
    return LakefsRefs(_ordered(commits, [*branches.values(), *tags.values()]), branches, tags)


def _metaranges(manifest: bytes, what: str) -> dict[str, str]:
    try:
        names = {f"{part}_meta_range_id": TEXT for part in _PARTS}
        found = read_fields(decode_json(manifest, what), what, **names)
        return {
            part: checked_id(one) if one else "" for part, one in zip(_PARTS, found, strict=True)
        }
    except (CorruptionError, WireError) as error:
        raise InvalidInputError(
            f"{what} is not a complete dump of refs of lakeFS ({error}): {_MADE_BY}"
        ) from error


def _check_whole(
    commits: Mapping[str, LakefsCommit],
    branches: Mapping[str, str],
    tags: Mapping[str, str],
    what: str,
) -> None:
    for kind, refs in (("branch", branches), ("tag", tags)):
        for name, commit in refs.items():
            if commit not in commits:
                raise CorruptionError(f"{what}: it lacks commit {commit} of {kind} {name!r}")
    if not branches:
        raise CorruptionError(f"{what}: it has no branch, and every repository of lakeFS has one")


def _ordered(commits: Mapping[str, LakefsCommit], heads: Iterable[str]) -> dict[str, LakefsCommit]:
    """Return the commits that the heads reach, parents before children.

    There is no cycle, because the id of each commit covers the ids of its parents.
    """
    done: dict[str, LakefsCommit] = {}
    todo = list(dict.fromkeys(heads))[::-1]
    while todo:
        identifier = todo[-1]
        commit = commits.get(identifier)
        if commit is None:
            raise CorruptionError(f"the dump of refs lacks commit {identifier}, a parent of others")
        missing = [parent for parent in commit.parents if parent not in done]
        if missing:
            todo += missing[::-1]
        else:
            done.setdefault(todo.pop(), commit)
    return done

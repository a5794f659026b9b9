"""A dump of all refs in one file of JSON lines: a backup for the loss of the key-value store.

A file is not trusted: the id of every commit is computed again before it is used.
``docs/formats/refs-dump.md`` has the lines.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from graveler.base.names import check_branch, check_repository, check_tag
from graveler.base.records import (
    ANY,
    DIGEST,
    FLAG,
    PLACE,
    TEXT,
    Schema,
    decode_json,
    encode_json,
    mapping,
    read_fields,
)
from graveler.errors import CorruptionError, InvalidInputError, NotFoundError
from graveler.model import Commit
from graveler.refs.commits import COMMIT, EXPIRED, Expired, id_of
from graveler.refs.refs import Refs
from graveler.refs.settings import FORBIDDEN, GATES

_KIND = "graveler refs"
_MARK = f'"kind":"{_KIND}"'.encode()
_END = b'{"end":'


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a dump: its repository."""

    repository: str
    storage: str
    default_branch: str
    splitting: Mapping[str, Any]
    storage_id: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


_HEADER = Schema(Header, types={"storage": PLACE}, added=("storage_id", "settings"), stamped=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefSet:
    """The refs and rules that a restore or an import writes besides commits.

    Attributes:
        branches: Branch name to its head and whether it is hidden.
    """

    expired: dict[str, Expired] = field(default_factory=dict)
    branches: dict[str, tuple[str, bool]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gates: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents(RefSet):
    """The contents of a dump, except the commits themselves.

    Attributes:
        trees: Commit id to metaranges, for the commits that branches and tags name.
    """

    header: Header
    generations: dict[str, int] = field(default_factory=dict)
    trees: dict[str, tuple[str, ...]] = field(default_factory=dict)


def write_dump(refs: Refs, header: Header, file: BinaryIO) -> Contents:
    """Write all refs of a repository to a file. They may move meanwhile.

    The branches of runs become hidden branches without an owner.
    """
    contents = Contents(
        header=header,
        branches={
            record.name: (record.commit_id, record.hidden) for record in refs.branches.list()
        },
        tags=dict(refs.tags.list()),
        rules=refs.protection.rules(),
        gates=dict(refs.requirements.rules()),
    )
    contents.generations.update(reachable(refs, _heads(contents)))
    gone = {name: record for name, record in refs.expired.list() if record.gone}
    contents.expired.update({name: gone[name] for name in contents.generations if name in gone})
    digest = sha256()
    for line in _lines(refs, contents):
        raw = encode_json(line) + b"\n"
        digest.update(raw)
        file.write(raw)
    file.write(encode_json({"end": {"sha256": digest.hexdigest()}}) + b"\n")
    return contents


def _heads(contents: Contents) -> set[str]:
    return {head for head, _ in contents.branches.values()} | set(contents.tags.values())


def heads_of(refs: Refs) -> set[str]:
    """Return the commits that branches and tags name."""
    return {record.commit_id for record in refs.branches.list()} | {
        commit for _, commit in refs.tags.list()
    }


def reachable(refs: Refs, heads: Iterable[str]) -> dict[str, int]:
    """Return the generations of the reached commits, in ascending order."""
    generations: dict[str, int] = {}
    pending = list(heads)
    while pending:
        identifier = pending.pop()
        if identifier not in generations:
            commit = refs.commits.get(identifier)
            generations[identifier] = commit.generation
            pending += commit.parents
    return dict(sorted(generations.items(), key=lambda item: (item[1], item[0])))


def _lines(refs: Refs, contents: Contents) -> Iterator[dict[str, Any]]:
    yield {"kind": _KIND, **_HEADER.plain(contents.header)}
    for identifier in contents.generations:
        fields = COMMIT.plain(refs.commits.get(identifier))
        del fields["tokens"]  # they belong to this key-value store
        yield {"commit": identifier, **fields}
    for identifier, record in contents.expired.items():
        yield {"expired": identifier, "mark": record.mark, "at": record.at}
    for name, (head, hidden) in contents.branches.items():
        yield {"branch": name, "head": head, "hidden": hidden}
    for name, head in contents.tags.items():
        yield {"tag": name, "head": head}
    yield {"protection": contents.rules}
    if contents.gates:
        yield {"gates": contents.gates}


def read_dump(path: Path) -> Contents:
    """Check a whole file and return its contents. Nothing is written."""
    if not path.is_file():
        raise NotFoundError(f"no dump at {path}: there is no such file")
    digest = sha256()
    contents: Contents | None = None
    ended = False
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            what = f"{path}, line {number}"
            if contents is None:
                contents = Contents(header=_header(raw, what))
            elif ended:
                raise CorruptionError(f"{what}: it has lines after its end")
            elif raw.startswith(_END):
                ended = True
                if raw != encode_json({"end": {"sha256": digest.hexdigest()}}) + b"\n":
                    raise CorruptionError(f"{what}: its checksum differs: it was damaged")
            else:
                _take(contents, raw, what)
            digest.update(raw)
    if contents is None or not ended:
        raise CorruptionError(f"{path} has no end: it was cut off, or is not a dump of refs")
    _check_heads(contents, path)
    return contents


def _header(raw: bytes, what: str) -> Header:
    if _MARK not in raw:
        raise InvalidInputError(f"{what}: this is not a dump of refs")
    try:
        header = _HEADER.decode(raw, what)
    except CorruptionError as error:
        raise InvalidInputError(f"{what}: this is not a dump of refs ({error})") from error
    check_repository(header.repository)
    check_branch(header.default_branch)
    return header


def _take(contents: Contents, raw: bytes, what: str) -> None:
    """Check a line and keep its contents."""
    line = mapping(ANY).read(decode_json(raw, what), what)
    if "metarange" in line:
        commit, generations = _commit(line, what), contents.generations
        known = [generations[_known(contents, parent, what)] for parent in commit.parents]
        if commit.generation != 1 + max(known, default=0):
            raise CorruptionError(
                f"{what}: commit {commit.id} has generation {commit.generation}, its parents {known}"
            )
        generations[commit.id] = commit.generation
        contents.trees[commit.id] = commit.trees
    elif "expired" in line:
        (name,) = read_fields(line, what, expired=TEXT)
        expired = EXPIRED.read({**line, "gone": True}, what)
        contents.expired[_known(contents, name, what)] = expired
    elif "branch" in line:
        name, head, hidden = read_fields(line, what, branch=TEXT, head=TEXT, hidden=FLAG)
        contents.branches[_ref(name, check_branch, what)] = _known(contents, head, what), hidden
    elif "tag" in line:
        name, head = read_fields(line, what, tag=TEXT, head=TEXT)
        contents.tags[_ref(name, check_tag, what)] = _known(contents, head, what)
    elif "gates" in line:
        contents.gates.update(*read_fields(line, what, gates=GATES))
    else:
        contents.rules.update(*read_fields(line, what, protection=FORBIDDEN))


def _ref(name: str, check: Callable[[str], str], what: str) -> str:
    try:
        return check(name)
    except InvalidInputError as error:
        raise CorruptionError(f"{what} cannot be read: {error}") from error


def _known(contents: Contents, identifier: str, what: str) -> str:
    if identifier not in contents.generations:
        raise CorruptionError(f"{what}: commit {identifier} is not in the file before it")
    return identifier


def _commit(line: Mapping[str, Any], what: str) -> Commit:
    """Return the commit of a line, or raise CorruptionError if it does not match its id."""
    (identifier,) = read_fields(line, what, commit=DIGEST)
    commit = COMMIT.read(line, what, id=identifier)
    computed = id_of(commit)
    if computed != identifier:
        raise CorruptionError(
            f"{what}: commit {identifier} does not match its id (it computes to {computed}): the "
            "file was damaged or changed; nothing was written"
        )
    return commit


def _check_heads(contents: Contents, path: Path) -> None:
    if contents.header.default_branch not in contents.branches:
        raise CorruptionError(f"{path}: it has no branch {contents.header.default_branch!r}")
    heads = _heads(contents)
    for identifier in contents.trees.keys() - heads:
        del contents.trees[identifier]


def commits_in(path: Path) -> Iterator[Commit]:
    """Yield the commits of a file that `read_dump` has checked, parents before children."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            what = f"{path}, line {number}"
            line = decode_json(raw, what)
            if "metarange" in line:
                yield _commit(line, what)

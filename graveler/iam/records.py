"""The records of users and rights, in the partition ``auth`` of the key-value store.

An entity has an id of its own, `born`, and a link names both ends by theirs. A link to what was deleted
does not count, also after another entity got the name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Annotated, Any, TypeVar

from graveler.base.clock import Clock, IdSource
from graveler.base.records import Name, Schema, read_key
from graveler.errors import InvalidInputError, NotFoundError
from graveler.iam.statements import SCOPES, STATEMENTS, Statement
from graveler.kv.record_store import RecordStore, SnapshotReader, Version
from graveler.kv.store import MAX_KEYS, KVStore

PARTITION = "auth"
ADMINS = "admins"
"""The group whose members manage users and rights; it has a record of its own."""
ADMINS_KEY = "users"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Entity:
    """A user or a group.

    Attributes:
        born: Unique to this creation.
    """

    name: Name
    born: Name
    created: datetime


@dataclass(frozen=True, slots=True)
class Policy(Entity):
    """Statements that are attached to users and groups.

    Attributes:
        nonce: Differs with every write.
    """

    statements: Annotated[tuple[Statement, ...], STATEMENTS]
    nonce: str


@dataclass(frozen=True, slots=True)
class Link:
    """A membership, or an attachment of a policy: both ends by their `born`."""

    holder: Name
    target: Name


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a user; the key has its SHA-256.

    Attributes:
        id: The first digits of that hash.
        born: Of the user.
        scopes: What the token may be used for, of what its user may do; empty for all of it.
        last: Its last characters, by which its holder knows it.
    """

    id: Name
    user: Name
    born: Name
    name: str
    last: str
    scopes: Annotated[tuple[Statement, ...], SCOPES]
    made_by: str
    created: datetime
    expires: datetime


@dataclass(frozen=True, slots=True)
class Admins:
    """The admins: names with their `born`. One record, so that one of them always stays.

    Attributes:
        leaving: Users whose deletion has begun.
    """

    users: Mapping[str, str]
    nonce: str
    leaving: Mapping[str, str] = field(default_factory=dict)

    def with_user(self, user: Entity) -> "Admins":
        """Return the admins with a user."""
        if self.leaving.get(user.name) == user.born:
            raise NotFoundError(f"user {user.name!r} is being deleted")
        if self.users.get(user.name) == user.born:
            return self
        return replace(self, users={**self.users, user.name: user.born})

    def leaves(self, name: str, born: str) -> "Admins":
        """Return the admins while the deletion of a user runs."""
        return replace(self, leaving={**self.leaving, name: born})

    def left(self, name: str, born: str) -> "Admins":
        """Return the admins after the deletion of a user."""
        others = {who: of for who, of in self.leaving.items() if (who, of) != (name, born)}
        return replace(self, leaving=others)


R = TypeVar("R", Entity, Policy)
E = TypeVar("E")


def check_name(kind: str, name: Any) -> str:
    """Return a valid name of a user, a group or a policy."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{kind} {name!r}: use up to 64 of A-Z, a-z, 0-9 and '_.@+-', starting with a letter, "
            "digit or '_'"
        )
    return name


class Kind(RecordStore[E]):
    """The records of one kind."""

    def __init__(self, kv: KVStore, kind: str, schema: Schema[E]) -> None:
        decode = partial(schema.decode, what=f"{kind} of the lake")
        prefix = f"{kind}/".encode()
        super().__init__(kv, PARTITION, prefix=prefix, encode=schema.encode, decode=decode)
        self.kind = kind

    def page(self, after: str = "", limit: int | None = None) -> Iterator[E]:
        """Yield the records after a name."""
        start = self.key(after) + b"\0" if after else b""
        found = self._kv.scan_below(PARTITION, self._prefix, start)
        yield from (self._decode(value) for _, value in islice(found, limit))

    def drop(self, name: str | bytes, record: E) -> None:
        """Remove a record, unless another one is there."""
        while (found := self.find(name)) is not None and found.record == record:
            self.remove(name, found.predicate)  # again if the request was lost


class Named(Kind[R]):
    """The entities of one kind, by name."""

    def existing(self, name: str) -> Version[R]:
        """Return an entity with its version, or raise NotFoundError."""
        found = self.find(check_name(self.kind, name))
        if found is None:
            raise NotFoundError(
                f"no {self.kind} {name!r} in the lake: `graveler {self.kind} list` shows all of them"
            )
        return found


class Links(Kind[Link]):
    """Memberships of users in groups, or attachments of policies: ``<holder>/<target>``.

    The key below the holder is the truth; from the other side links are found by a scan.
    """

    def __init__(self, kv: KVStore, kind: str, holders: Named[Any], targets: Named[Any]) -> None:
        super().__init__(kv, kind, Schema(Link))
        self.holders = holders
        self.targets = targets

    def add(self, holder: str, target: str, *, clock: Clock, ids: IdSource) -> None:
        """Add a link between existing entities.

        A deletion of an end that ends while this runs either prunes the link, or this finds it.
        """
        key = f"{holder}/{target}"

        def made(found: Link | None) -> Link:
            ends = self.holders.existing(holder).record, self.targets.existing(target).record
            link = Link(ends[0].born, ends[1].born)
            return found if found == link and found is not None else link

        link = self.update(key, made, what=f"{self.kind} {key}", clock=clock, ids=ids)
        try:
            if made(link) is not link:
                raise NotFoundError(f"{self.kind} {key}: one of both was deleted and made again")
        except NotFoundError:
            self.drop(key, link)
            raise

    def of(self, holder: Entity) -> list[tuple[str, Link]]:
        """Return the links of an entity with the names of their targets."""
        below = self.key(f"{holder.name}/")
        found = [
            (read_key(key[len(below) :], self.kind), self._decode(value))
            for key, value in self._kv.scan_below(PARTITION, below)
        ]
        return [(name, link) for name, link in found if link.holder == holder.born]

    def to(self, target: Entity) -> Iterator[str]:
        """Yield the names of the holders of links to an entity, sorted, that exist."""
        for key, link in self.scan():
            if link.target == target.born:
                name = read_key(key, self.kind).partition("/")[0]
                holder = self.holders.get(name)
                if holder is not None and holder.born == link.holder:
                    yield name

    def prune(self, born: str) -> None:
        """Remove the links at either side of an entity."""
        for key, link in self.scan():
            if born in {link.holder, link.target}:
                self.drop(key, link)


class Records:
    """All records of users and rights."""

    def __init__(self, kv: KVStore) -> None:
        self.users: Named[Entity] = Named(kv, "user", Schema(Entity))
        self.groups: Named[Entity] = Named(kv, "group", Schema(Entity))
        self.policies: Named[Policy] = Named(kv, "policy", Schema(Policy))
        self.tokens = Kind(kv, "token", Schema(Token))
        self.admins = Kind(kv, ADMINS, Schema(Admins, sparse=("leaving",)))
        self.members = Links(kv, "member", self.users, self.groups)
        self.of_users = Links(kv, "user-policy", self.users, self.policies)
        self.of_groups = Links(kv, "group-policy", self.groups, self.policies)
        self.together = SnapshotReader(kv)

    def targets(self, kind: Named[R], links: Iterable[tuple[str, Link]]) -> list[R]:
        """Return the targets of links that exist still."""
        left, found = list(links), []
        while left:
            now, left = left[:MAX_KEYS], left[MAX_KEYS:]
            read = self.together.read(*[kind.place(name) for name, _ in now])
            for (_, link), version in zip(now, read, strict=True):
                if version is not None and version.record.born == link.target:
                    found.append(version.record)
        return found

"""The users of a lake, their groups, policies and tokens, as admins manage them."""

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from graveler.base import arguments as args
from graveler.base.clock import Clock, IdSource
from graveler.base.read_only import refuse_writes
from graveler.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StateError
from graveler.iam.access import Access, digest_of
from graveler.iam.records import (
    ADMINS,
    ADMINS_KEY,
    Admins,
    Entity,
    Links,
    Named,
    Policy,
    R,
    Records,
    Token,
    check_name,
)
from graveler.iam.statements import check_statements
from graveler.kv.store import KVStore

TOKEN_LIFE = timedelta(days=90)
_ID_DIGITS = 12
_LAST = 4


def _secret() -> str:
    return f"grav{secrets.token_hex(20)}"


class Directory:
    """The users and rights of a lake.

    The first user is an admin: a member of the group ``admins``, who may do everything that no policy
    denies. There is always one. Listings are sorted by name; `after` and `limit` give their pages.

    Attributes:
        access: What servers ask: who a token stands for, and what they may do.
    """

    def __init__(
        self, kv: KVStore, *, clock: Clock, ids: IdSource, secret: Callable[[], str] = _secret
    ) -> None:
        self._records = Records(kv)
        self._clock = clock
        self._ids = ids
        self._secret = secret
        self.access = Access(self._records, clock=clock)

    def create_user(self, name: str) -> Entity:
        """Make a user. The first one is an admin.

        Raises:
            AlreadyExistsError: The name is taken.
        """
        refuse_writes("users")
        user = Entity(check_name("user", name), self._ids.unique(), self._clock.now())
        users = self._records.users
        if not users.write(name, user):
            found = users.existing(name).record
            if found != user and self.members(ADMINS):
                raise AlreadyExistsError(f"user {name!r} exists")
            user = found  # its maker may have died before it was the first admin

        def first(admins: Admins) -> Admins:
            return admins if admins.users else admins.with_user(user)

        self._change_admins(first)
        return user

    def users(self, *, after: str = "", limit: int | None = None) -> Iterator[Entity]:
        """Yield the users."""
        return self._records.users.page(after, args.optional(args.count, limit, "limit"))

    def user(self, name: str) -> Entity:
        """Return a user.

        Raises:
            NotFoundError: No user has this name.
        """
        return self._records.users.existing(name).record

    def delete_user(self, name: str) -> None:
        """Delete a user with its memberships, attachments and tokens.

        Raises:
            NotFoundError: No user has this name.
            StateError: It is the last admin.
        """
        refuse_writes("users")
        found = self._records.users.find(check_name("user", name))
        admins = self._records.admins.get(ADMINS_KEY)
        begun = admins.leaving.get(name) if admins else None
        born = found.record.born if found else begun
        if born is None:
            self.user(name)
            return
        # from the first step on, no process can make it an admin
        self._change_admins(lambda now: self._without(now, name).leaves(name, born))
        self._delete(self._records.users, name, born)
        self._change_admins(lambda now: now.left(name, born))

    def create_group(self, name: str) -> Entity:
        """Make a group.

        Raises:
            AlreadyExistsError: The name is taken.
        """
        refuse_writes("groups")
        group = Entity(check_name("group", name), self._ids.unique(), self._clock.now())
        if name == ADMINS or not self._records.groups.write(name, group):
            raise AlreadyExistsError(f"group {name!r} exists")
        return group

    def groups(self, *, after: str = "", limit: int | None = None) -> Iterator[Entity]:
        """Yield the groups, besides ``admins``."""
        return self._records.groups.page(after, args.optional(args.count, limit, "limit"))

    def delete_group(self, name: str) -> None:
        """Delete a group with its memberships and attachments.

        Raises:
            NotFoundError: No group has this name.
        """
        refuse_writes("groups")
        self._delete(self._records.groups, name, self._records.groups.existing(name).record.born)

    def members(self, group: str) -> list[str]:
        """Return the names of the users in a group, sorted."""
        if group == ADMINS:
            admins = self._records.admins.get(ADMINS_KEY)
            return sorted(admins.users) if admins else []
        return list(self._records.members.to(self._records.groups.existing(group).record))

    def groups_of(self, user: str) -> list[str]:
        """Return the names of the groups of a user, sorted."""
        records = self._records
        found = records.targets(records.groups, records.members.of(self.user(user)))
        return sorted([group.name for group in found] + [ADMINS] * (user in self.members(ADMINS)))

    def add_member(self, group: str, user: str) -> None:
        """Add a user to a group; no error if it is there.

        Raises:
            NotFoundError: The user or the group does not exist.
        """
        refuse_writes("members of groups")
        if group != ADMINS:
            self._link(self._records.members, user, group)
            return

        def added(admins: Admins) -> Admins:
            return admins.with_user(self.user(user))  # read after the admins: it may be deleted

        self._change_admins(added)

    def remove_member(self, group: str, user: str) -> None:
        """Remove a user from a group; no error if it is not there.

        Raises:
            NotFoundError: The user or the group does not exist.
            StateError: It is the last admin.
        """
        refuse_writes("members of groups")
        self.user(user)
        if group == ADMINS:
            self._change_admins(lambda admins: self._without(admins, user))
        else:
            self._unlink(self._records.members, user, group)

    def put_policy(self, name: str, statements: Iterable[str]) -> Policy:
        """Make a policy, or replace its statements.

        Args:
            name: Its name.
            statements: Texts as ``allow read,write on flights@dev:tables/*``; see `graveler.iam.statements`.
        """
        refuse_writes("policies")
        rules = check_statements(args.texts(statements, "statements"))
        born, nonce = self._ids.unique(), self._ids.unique()
        made = Policy(check_name("policy", name), born, self._clock.now(), rules, nonce)
        return self._records.policies.update(
            name,
            lambda found: replace(found, statements=rules, nonce=nonce) if found else made,
            what=f"policy {name!r}",
            clock=self._clock,
            ids=self._ids,
        )

    def policies(self, *, after: str = "", limit: int | None = None) -> Iterator[Policy]:
        """Yield the policies."""
        return self._records.policies.page(after, args.optional(args.count, limit, "limit"))

    def policy(self, name: str) -> Policy:
        """Return a policy.

        Raises:
            NotFoundError: No policy has this name.
        """
        return self._records.policies.existing(name).record

    def delete_policy(self, name: str) -> None:
        """Delete a policy with its attachments.

        Raises:
            NotFoundError: No policy has this name.
        """
        refuse_writes("policies")
        self._delete(self._records.policies, name, self.policy(name).born)

    def attach(self, policy: str, *, user: str = "", group: str = "") -> None:
        """Attach a policy to a user or a group; no error if it is attached.

        Raises:
            NotFoundError: One of both does not exist.
        """
        refuse_writes("attachments of policies")
        self._link(*self._holder(user, group), policy)

    def detach(self, policy: str, *, user: str = "", group: str = "") -> None:
        """Detach a policy from a user or a group; no error if it is not attached.

        Raises:
            NotFoundError: One of both does not exist.
        """
        refuse_writes("attachments of policies")
        self._unlink(*self._holder(user, group), policy)

    def attached(self, *, user: str = "", group: str = "") -> list[str]:
        """Return the names of the policies of a user or a group itself, sorted."""
        links, holder = self._holder(user, group)
        found = links.of(links.holders.existing(holder).record)
        return [policy.name for policy in self._records.targets(self._records.policies, found)]

    def holders(self, policy: str) -> dict[str, list[str]]:
        """Return the names of the users and the groups that have a policy."""
        record, records = self.policy(policy), self._records
        return {
            "users": list(records.of_users.to(record)),
            "groups": list(records.of_groups.to(record)),
        }

    def create_token(
        self,
        user: str,
        *,
        name: str = "",
        life: timedelta | str = TOKEN_LIFE,
        scopes: Iterable[str] = (),
        made_by: str = "",
    ) -> tuple[str, Token]:
        """Make a token of a user; return its secret, which is stored nowhere, and its record.

        Args:
            user: The user.
            name: What it is for.
            life: How long it is valid.
            scopes: What it may be used for, as ``read on flights``; by default all that its user may do.
            made_by: Who made it.
        """
        refuse_writes("tokens")
        narrowed = check_statements(args.texts(scopes, "scopes"), scope=True)
        secret, now = self._secret(), self._clock.now()
        digest = digest_of(secret)
        token = Token(
            id=digest[:_ID_DIGITS],
            user=user,
            born=self.user(user).born,
            name=args.text(name, "name", empty=True, most=256),
            last=secret[-_LAST:],
            scopes=narrowed,
            made_by=args.text(made_by, "made_by", empty=True, most=256),
            created=now,
            expires=now + args.duration(life, "life", zero=False),
        )
        self._records.tokens.write(digest, token)
        owner = self._records.users.get(user)
        if owner is None or owner.born != token.born:
            self._records.tokens.drop(digest, token)  # which the user's deletion may have missed
            raise NotFoundError(f"user {user!r} was deleted meanwhile")
        return secret, token

    def tokens(self, user: str = "", *, after: str = "", limit: int | None = None) -> list[Token]:
        """Return the tokens of a user, or of all users, sorted by id; expired ones too."""
        found = (token for token in self._records.tokens.page() if token.id > after)
        mine = [token for token in found if user in ("", token.user)]
        return mine[: args.optional(args.count, limit, "limit")]

    def revoke_token(self, id: str) -> Token:
        """Delete a token by its id; return its record.

        Raises:
            NotFoundError: No token has this id.
        """
        refuse_writes("tokens")
        for key, token in self._records.tokens.scan():
            if token.id == id:
                self._records.tokens.drop(key, token)
                return token
        raise NotFoundError(f"no token {id!r} in the lake: `graveler token list` shows all of them")

    def _holder(self, user: str, group: str) -> tuple[Links, str]:
        if bool(user) == bool(group):
            raise InvalidInputError(f"user={user!r}, group={group!r}: give one of them")
        if group == ADMINS:
            raise InvalidInputError(
                f"group {ADMINS!r}: admins may do everything that no policy of their own denies: "
                "attach the policy to a user or to another group"
            )
        return (self._records.of_users, user) if user else (self._records.of_groups, group)

    def _link(self, links: Links, holder: str, target: str) -> None:
        links.add(holder, target, clock=self._clock, ids=self._ids)

    def _unlink(self, links: Links, holder: str, target: str) -> None:
        links.holders.existing(holder), links.targets.existing(target)
        key = f"{holder}/{target}"
        found = links.find(key)
        if found is not None:
            links.drop(key, found.record)

    def _delete(self, kind: Named[R], name: str, born: str) -> None:
        """Delete an entity; what was added to it meanwhile is pruned afterwards, or by who adds it."""
        self._prune(born)
        while (found := kind.find(name)) is not None and found.record.born == born:
            kind.remove(name, found.predicate)  # again if its statements were replaced meanwhile
        self._prune(born)

    def _prune(self, born: str) -> None:
        records = self._records
        for links in (records.members, records.of_users, records.of_groups):
            links.prune(born)
        for key, token in records.tokens.scan():
            if token.born == born:
                records.tokens.drop(key, token)

    def _without(self, admins: Admins, user: str) -> Admins:
        others = {name: born for name, born in admins.users.items() if name != user}
        if others == admins.users:
            return admins
        if not others:
            raise StateError(
                f"user {user!r} is the last admin: make another one first, with "
                f"`graveler group add {ADMINS} NAME`"
            )
        return replace(admins, users=others)

    def _change_admins(self, change: Callable[[Admins], Admins]) -> None:
        def changed(found: Admins | None) -> Admins:
            before = found or Admins({}, "")
            new = change(before)
            return new if new is found else replace(new, nonce=self._ids.unique())

        self._records.admins.update(
            ADMINS_KEY, changed, what="admins of the lake", clock=self._clock, ids=self._ids
        )

"""Who asks, and whether they may.

All that is served asks `Access`. What it knows of a token is read again after `FRESH`, so that a removal
takes effect within two seconds in every process.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from graveler.base.clock import Clock
from graveler.errors import InvalidInputError, PermissionDeniedError
from graveler.iam.records import ADMINS, ADMINS_KEY, Entity, Records, Token
from graveler.iam.statements import ACTIONS, EVERYTHING, Statement, Target
from graveler.kv.record_store import SharedReads

FRESH = timedelta(seconds=1)
_MOST_KNOWN = 4096


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sent a request, and what they may do.

    Attributes:
        user: The user; "" if the lake has none.
        rules: Statements with the names of their policies.
        digest: The SHA-256 of the token; "" for the token of a server.
    """

    user: str = ""
    admin: bool = False
    groups: tuple[str, ...] = ()
    rules: tuple[tuple[str, Statement], ...] = ()
    token: Token | None = None
    digest: str = ""

    def __str__(self) -> str:
        return f"user {self.user!r}" if self.user else "the holder of the server's token"


STRANGER = Identity()
"""A client that has shown no token."""
SERVER = Identity(admin=True, rules=((ADMINS, EVERYTHING),))
"""The holder of the token of a server whose lake has no users."""


def digest_of(secret: str) -> str:
    """Return the hash by which a token is stored; looking it up compares in constant time."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class Access:
    """The rights of the users of one lake. Threads share it."""

    def __init__(self, records: Records, *, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._known: dict[str, tuple[datetime, Identity | None]] = {}
        self._reads: SharedReads[str, Identity | None] = SharedReads(self._read)

    def has_users(self) -> bool:
        """Return whether the lake has users; then the token of a server does not count."""
        return self._cached("") is not None

    def identify(self, secret: str) -> Identity | None:
        """Return whose token this is; None if it is unknown, revoked or expired."""
        digest = digest_of(secret)
        identity = self._cached(digest)
        if identity is None:
            self._known.pop(digest, None)  # guesses do not fill the cache
        return self._present(identity)

    def seconds_left(self, identity: Identity) -> int:
        """Return how long the token of an identity is still valid, in whole seconds."""
        ends = identity.token.expires if identity.token else self._clock.now()
        return max(0, int((ends - self._clock.now()).total_seconds()))

    def check(
        self, identity: Identity, action: str, repository: str = "", ref: str = "", path: str = ""
    ) -> None:
        """Raise PermissionDeniedError unless an identity may do something.

        Args:
            identity: Who asks; their present rights count, not those of the time of `identify`.
            action: One of `ACTIONS`.
            repository: The repository; "" for all.
            ref: The branch or tag; "" for all, and for a commit id.
            path: The file; ``folder/`` for all that is below it, "" for all of the ref.
        """
        target, now = Target(repository, ref, path), self._now(identity)
        refusal = self._refusal(now, action, target)
        if now is STRANGER and identity is not STRANGER:
            refusal = "the token was revoked, or has ended"
        if refusal:
            raise PermissionDeniedError(f"{identity} may not {action} {target}: {refusal}")

    def allows(
        self, identity: Identity, action: str, repository: str = "", ref: str = "", path: str = ""
    ) -> bool:
        """Return whether `check` allows something."""
        return not self._refusal(self._now(identity), action, Target(repository, ref, path))

    def sees(
        self, identity: Identity, action: str, repository: str = "", ref: str = "", path: str = ""
    ) -> bool:
        """Return whether an identity may do something with a part of a target, as with a folder's file."""
        target, identity = Target(repository, ref, path), self._now(identity)
        scopes = identity.token.scopes if identity.token else ()
        return (
            (not scopes or any(scope.touches(action, target) for scope in scopes))
            and any(rule.allows and rule.touches(action, target) for _, rule in identity.rules)
            and not any(
                not rule.allows and rule.covers(action, target) for _, rule in identity.rules
            )
        )

    def _refusal(self, identity: Identity, action: str, target: Target) -> str:
        """Return why an identity may not do something; "" if it may."""
        if action not in ACTIONS:
            raise InvalidInputError(f"action {action!r}: give one of {', '.join(ACTIONS)}")
        scopes = identity.token.scopes if identity.token else ()
        if scopes and not any(scope.covers(action, target) for scope in scopes):
            has = "', '".join(map(str, scopes))
            return (
                f"their token has only the scopes '{has}'; make one with `graveler token create "
                f"{identity.user} --scope '{action} on {target}'`"
            )
        if identity.admin and action == "admin":
            return ""  # no policy takes it from an admin
        for policy, rule in identity.rules:
            if not rule.allows and rule.touches(action, target):
                return (
                    f"policy {policy!r} denies it ('{rule}'); an admin can change it with "
                    "`graveler policy put`, or detach it"
                )
        if any(rule.allows and rule.covers(action, target) for _, rule in identity.rules):
            return ""
        return (
            "no policy allows it; an admin can attach one that does: `graveler policy put NAME "
            f"'allow {action} on {target}'`, `graveler policy attach NAME --user {identity.user}`"
        )

    def _now(self, identity: Identity) -> Identity:
        """Return an identity with its present rights, none if its token has ended."""
        if identity.digest:
            return self._present(self._cached(identity.digest)) or STRANGER
        return STRANGER if self.has_users() else identity

    def _present(self, identity: Identity | None) -> Identity | None:
        token = identity.token if identity else None
        return None if token is not None and token.expires <= self._clock.now() else identity

    def _cached(self, digest: str) -> Identity | None:
        known = self._known.get(digest)
        now = self._clock.now()
        if known is not None and timedelta() <= now - known[0] < FRESH:
            return known[1]
        identity = self._reads.get(digest)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = now, identity
        return identity

    def _read(self, digest: str) -> Identity | None:
        """Read all that a token stands for; for "", whether there are users."""
        records = self._records
        if not digest:
            admins = records.admins.get(ADMINS_KEY)
            return STRANGER if admins and admins.users else None
        token = records.tokens.get(digest)
        if token is None:
            return None
        user, held = records.together.read(
            records.users.place(token.user), records.admins.place(ADMINS_KEY)
        )
        if user is None or user.record.born != token.born:
            return None
        groups = records.targets(records.groups, records.members.of(user.record))
        admin = held is not None and held.record.users.get(token.user) == token.born
        rules = [(ADMINS, EVERYTHING)] if admin else []
        rules += self._rules(user.record, groups)
        return Identity(
            user=token.user,
            admin=admin,
            groups=tuple(group.name for group in groups),
            rules=tuple(rules),
            token=token,
            digest=digest,
        )

    def _rules(self, user: Entity, groups: Iterable[Entity]) -> list[tuple[str, Statement]]:
        records = self._records
        links = records.of_users.of(user)
        for group in groups:
            links += records.of_groups.of(group)
        policies = records.targets(records.policies, sorted(set(links), key=lambda link: link[0]))
        return [(policy.name, rule) for policy in policies for rule in policy.statements]

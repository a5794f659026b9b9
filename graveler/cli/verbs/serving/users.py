"""``graveler user``, ``group``, ``policy`` and ``token``: who may do what on everything that is served."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.arguments import LimitOption, read_duration
from graveler.cli.failure import UsageError
from graveler.cli.output import field_lines
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import default_committer
from graveler.iam.records import ADMINS

if TYPE_CHECKING:
    from graveler.iam.directory import Directory
    from graveler.iam.records import Entity, Policy, Token

_User = Annotated[str, "The user."]
_Group = Annotated[str, "The group; 'admins' manage users and rights."]
_Policy = Annotated[str, "The policy."]
_AfterOption = Annotated[str, "(NAME): Only what comes after this one."]
_ToUser = Annotated[str, "(NAME): The user."]
_ToGroup = Annotated[str, "(NAME): The group."]
_WIDTH = 19


def _iam(session: Session) -> "Directory":
    return session.lake.iam


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "(none)"


@verb("user create")
def _create_user(session: Session, name: _User) -> None:
    """Make a user; the first one is an admin, and the printed token of servers ends."""
    _iam(session).create_user(name)
    groups = _iam(session).groups_of(name)
    note = ", in the group admins" if groups else ""
    session.out.show({"name": name, "groups": groups}, f"made user {name}{note}")


@verb("user list")
def _list_users(session: Session, *, limit: LimitOption = None, after: _AfterOption = "") -> None:
    """List the users."""
    _list(session, _iam(session).users(after=after, limit=limit))


@verb("user show")
def _show_user(session: Session, name: _User) -> None:
    """Show a user with its groups, policies and tokens."""
    iam = _iam(session)
    user, groups = iam.user(name), iam.groups_of(name)
    policies, tokens = iam.attached(user=name), iam.tokens(name)
    shape = _shape(user) | {
        "groups": groups,
        "policies": policies,
        "tokens": [_token_shape(token) for token in tokens],
    }
    fields = [("user", name), ("created", _moment(shape["created"]))]
    fields += [("groups", _names(groups)), ("policies", _names(policies))]
    fields += [("token", _token_line(token)) for token in tokens]
    session.out.show(shape, *field_lines(fields))


@verb("user delete")
def _delete_user(session: Session, name: _User) -> None:
    """Delete a user with its memberships, policies and tokens; the last admin cannot be deleted."""
    _iam(session).delete_user(name)
    session.out.show({"deleted": name}, f"deleted user {name}")


@verb("group create")
def _create_group(session: Session, name: _Group) -> None:
    """Make a group."""
    _iam(session).create_group(name)
    session.out.show({"name": name}, f"made group {name}")


@verb("group delete")
def _delete_group(session: Session, name: _Group) -> None:
    """Delete a group; its users stay."""
    _iam(session).delete_group(name)
    session.out.show({"deleted": name}, f"deleted group {name}")


@verb("group list")
def _list_groups(session: Session, *, limit: LimitOption = None, after: _AfterOption = "") -> None:
    """List the groups with their users and policies."""
    iam = _iam(session)
    names = [group.name for group in iam.groups(after=after, limit=limit)]
    for name in sorted(names + [ADMINS] * (after < ADMINS))[:limit]:
        members = iam.members(name)
        policies = [] if name == ADMINS else iam.attached(group=name)
        line = f"{name}  users: {_names(members)}; policies: {_names(policies)}"
        session.out.show({"name": name, "members": members, "policies": policies}, line)


@verb("group add")
def _add_member(session: Session, name: _Group, user: _User) -> None:
    """Add a user to a group."""
    _iam(session).add_member(name, user)
    session.out.show({"name": name, "user": user}, f"user {user} is in group {name}")


@verb("group remove")
def _remove_member(session: Session, name: _Group, user: _User) -> None:
    """Remove a user from a group; the last admin stays."""
    _iam(session).remove_member(name, user)
    session.out.show({"name": name, "user": user}, f"user {user} is not in group {name}")


@verb("policy put")
def _put_policy(session: Session, name: _Policy, statements: list[str]) -> None:
    """Make a policy of statements, or replace those of a policy.

    As in 'allow read on flights', 'allow read,write on flights@dev:tables/*' or 'deny write on *@main'.
    Deny wins, and what no statement allows is refused.

    Args:
        statements (STATEMENT...): allow or deny, actions (read, write, admin, keep:read, keep:write,
            keep:manage), 'on', and a repository, then @ and a ref, then a colon and a path.
    """
    _show(session, _iam(session).put_policy(name, statements))


@verb("policy show")
def _show_policy(session: Session, name: _Policy) -> None:
    """Show the statements of a policy, and who has it."""
    policy, holders = _iam(session).policy(name), _iam(session).holders(name)
    lines = [f"{kind}: {_names(names)}" for kind, names in holders.items()]
    _show(session, policy, holders, lines)


@verb("policy list")
def _list_policies(
    session: Session, *, limit: LimitOption = None, after: _AfterOption = ""
) -> None:
    """List the policies with their statements."""
    for policy in _iam(session).policies(after=after, limit=limit):
        _show(session, policy)


@verb("policy delete")
def _delete_policy(session: Session, name: _Policy) -> None:
    """Delete a policy; its users and groups lose it."""
    _iam(session).delete_policy(name)
    session.out.show({"deleted": name}, f"deleted policy {name}")


@verb("policy attach")
def _attach(session: Session, name: _Policy, *, user: _ToUser = "", group: _ToGroup = "") -> None:
    """Give a policy to a user or a group."""
    _one_of(user, group)
    _iam(session).attach(name, user=user, group=group)
    _show_holder(session, name, user, group, "has")


@verb("policy detach")
def _detach(session: Session, name: _Policy, *, user: _ToUser = "", group: _ToGroup = "") -> None:
    """Take a policy from a user or a group."""
    _one_of(user, group)
    _iam(session).detach(name, user=user, group=group)
    _show_holder(session, name, user, group, "does not have")


@verb("token create")
def _create_token(
    session: Session,
    user: _User,
    *,
    name: str = "",
    expires: str = "90d",
    scope: list[str] | None = None,
) -> None:
    """Make a token of a user. It is printed once, and only its hash is stored.

    Args:
        name (TEXT): What it is for.
        expires (TIME): How long it is valid, as 90d or 36h.
        scope (SCOPE): What it may be used for, as 'read on flights'; repeat for more. Else all that its
            user may do.
    """
    secret, token = _iam(session).create_token(
        user,
        name=name,
        life=read_duration("--expires", expires),
        scopes=scope or (),
        made_by=default_committer(),
    )
    shape = _token_shape(token) | {"token": secret}
    session.out.show(shape, f"token: {secret}", _token_line(token))


@verb("token list")
def _list_tokens(
    session: Session, user: str = "", *, limit: LimitOption = None, after: _AfterOption = ""
) -> None:
    """List the tokens of a user, or of all; their secrets are not stored.

    Args:
        user: The user.
    """
    for token in _iam(session).tokens(user, after=after, limit=limit):
        session.out.show(_token_shape(token), f"{token.user}  {_token_line(token)}")


@verb("token revoke")
def _revoke(session: Session, token: str) -> None:
    """End a token.

    Args:
        token (ID): Its id, as listed.
    """
    gone = _iam(session).revoke_token(token)
    session.out.show({"revoked": token, "user": gone.user}, f"revoked token {token} of {gone.user}")


def _list(session: Session, entities: "Iterable[Entity]") -> None:
    for entity in entities:
        shape = _shape(entity)
        session.out.show(shape, f"{_moment(shape['created'])}  {entity.name}")


def _shape(entity: "Entity") -> dict[str, Any]:
    return {"name": entity.name, "created": entity.created.isoformat()}


def _moment(text: str) -> str:
    return text[:_WIDTH].replace("T", " ")


def _show(
    session: Session,
    policy: "Policy",
    more: Mapping[str, Any] | None = None,
    lines: Iterable[str] = (),
) -> None:
    statements = [str(statement) for statement in policy.statements]
    shape = _shape(policy) | {"statements": statements, **(more or {})}
    session.out.show(shape, policy.name, *(f"  {line}" for line in [*statements, *lines]))


def _one_of(user: str, group: str) -> None:
    if bool(user) == bool(group):
        raise UsageError("--user and --group: give one of them")


def _show_holder(session: Session, policy: str, user: str, group: str, has: str) -> None:
    shape = {"policy": policy, "user": user} if user else {"policy": policy, "group": group}
    who = f"user {user}" if user else f"group {group}"
    session.out.show(shape, f"{who} {has} policy {policy}")


def _token_shape(token: "Token") -> dict[str, Any]:
    return {
        "id": token.id,
        "user": token.user,
        "name": token.name,
        "last": token.last,
        "scopes": [str(scope) for scope in token.scopes],
        "made_by": token.made_by,
        "created": token.created.isoformat(),
        "expires": token.expires.isoformat(),
    }


def _token_line(token: "Token") -> str:
    ends = _moment(token.expires.isoformat())
    parts = [token.id, f"…{token.last}", f"until {ends}", token.name, *map(str, token.scopes)]
    return "  ".join(filter(None, parts))

"""What admins do with users, groups, policies and tokens."""

from datetime import timedelta

import pytest

from graveler.base.read_only import judging
from graveler.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    StateError,
)


def test_the_first_user_is_an_admin_and_no_other(iam):
    assert iam.members("admins") == ["ann"]
    assert iam.groups_of("ann") == ["admins"]
    assert iam.groups_of("bob") == ["team"]


@pytest.mark.parametrize("remove", ["delete_user", "remove_member"])
def test_the_last_admin_stays(iam, remove):
    def removed(user):
        arguments = (user,) if remove == "delete_user" else ("admins", user)
        getattr(iam, remove)(*arguments)

    with pytest.raises(StateError, match="'ann' is the last admin: make another one first"):
        removed("ann")
    iam.add_member("admins", "bob")
    removed("ann")
    with pytest.raises(StateError, match="'bob' is the last admin"):
        removed("bob")
    assert iam.members("admins") == ["bob"]


def test_deleting_a_user_leaves_no_key_that_names_it(iam, kv):
    before = {key: value for key, value in kv.scan("auth") if key != b"admins/users"}
    iam.create_user("carl")
    iam.add_member("team", "carl")
    iam.add_member("admins", "carl")
    iam.attach("readers", user="carl")
    born, (_, token) = iam.user("carl").born, iam.create_token("carl")
    iam.delete_user("carl")
    after = dict(kv.scan("auth"))
    for named in ("carl", born, token.id):
        assert not [key for key, value in after.items() if named.encode() in key + value]
    del after[b"admins/users"]  # it has another nonce
    assert after == before


@pytest.mark.parametrize("kind", ["user", "group", "policy"])
def test_a_name_that_is_made_again_has_nothing_of_the_old(iam, kind):
    iam.attach("readers", user="bob")
    iam.create_token("bob")
    name = {"user": "bob", "group": "team", "policy": "readers"}[kind]
    getattr(iam, f"delete_{kind}")(name)
    if kind == "policy":
        iam.put_policy(name, ["allow read on *"])
        assert iam.holders(name) == {"users": [], "groups": []}
    else:
        getattr(iam, f"create_{kind}")(name)
        assert iam.attached(**{kind: name}) == []
        assert iam.members("team") == iam.groups_of("bob") == []
    assert bool(iam.tokens("bob")) == (kind != "user")


@pytest.mark.parametrize("again", ["user", "group", "policy"])
def test_links_that_dangle_are_ignored(iam, kv, again):
    """As a process that died in the middle of an addition leaves them."""
    iam.attach("readers", user="bob")
    secret, _ = iam.create_token("bob")
    kept = dict(kv.scan("auth"))
    if again == "policy":
        iam.delete_policy("readers")
        iam.put_policy("readers", ["allow read on *"])
    else:
        name = {"user": "bob", "group": "team"}[again]
        getattr(iam, f"delete_{again}")(name)
        getattr(iam, f"create_{again}")(name)
    for key, value in kept.items():
        if key.startswith((b"member/", b"group-policy/", b"user-policy/", b"token/")):
            kv.set("auth", key, value)
    in_team = ["bob"] * (again == "policy")
    assert iam.members("team") == in_team
    assert iam.groups_of("bob") == ["team"] * len(in_team)
    assert iam.attached(group="team") == ["readers"] * (again == "user")
    assert iam.attached(user="bob") == ["readers"] * (again == "group")
    assert iam.holders("readers") == {
        "users": ["bob"] * (again == "group"),
        "groups": ["team"] * (again == "user"),
    }
    assert (iam.access.identify(secret) is None) == (again == "user")
    bob = iam.access.identify(iam.create_token("bob")[0])
    assert bool(bob.rules) == (again == "group")
    iam.add_member("team", "bob")
    iam.attach("readers", group="team")
    assert (iam.members("team"), iam.attached(group="team")) == (["bob"], ["readers"])


def test_listings_page_by_sorted_name(iam):
    for name in ("zoe", "Al", "b", "ann-2", "ann@x.org"):
        iam.create_user(name)
        iam.create_group(name)
        iam.put_policy(name, [])
        iam.create_token("bob", name=name)
    for listed in (iam.users, iam.groups, iam.policies):
        names = [each.name for each in listed()]
        assert names == sorted(names)
        assert [each.name for each in listed(limit=2)] == names[:2]
        assert [each.name for each in listed(after=names[1], limit=2)] == names[2:4]
        assert [each.name for each in listed(after="ann")] == [
            name for name in names if name > "ann"
        ]
        assert list(listed(after=names[-1])) == list(listed(limit=0)) == []
    ids = [token.id for token in iam.tokens()]
    assert ids == sorted(ids)
    assert [token.id for token in iam.tokens(after=ids[1], limit=2)] == ids[2:4]
    assert [token.name for token in iam.tokens("ann")] == []


def test_a_group_of_many_and_a_user_in_many(iam):
    """More than the store reads at one moment."""
    for number in range(60):
        iam.create_group(f"g{number:02}")
        iam.add_member(f"g{number:02}", "ann")
        iam.put_policy(f"p{number:02}", [f"deny read on r-{number}"])
        iam.attach(f"p{number:02}", group=f"g{number:02}")
    secret, _ = iam.create_token("ann")
    assert len(iam.groups_of("ann")) == 61
    assert len(iam.access.identify(secret).rules) == 61


def test_a_policy_that_is_replaced_stays_attached(iam):
    made = iam.policy("readers")
    new = iam.put_policy("readers", ["deny read on flights"])
    assert (new.born, new.created) == (made.born, made.created)
    assert iam.attached(group="team") == ["readers"]
    assert [str(each) for each in iam.policy("readers").statements] == ["deny read on flights"]


def test_what_is_done_twice_is_done_once(iam, kv):
    for again in (
        lambda: iam.add_member("team", "bob"),
        lambda: iam.add_member("admins", "ann"),
        lambda: iam.attach("readers", group="team"),
        lambda: iam.remove_member("team", "ann"),
        lambda: iam.detach("readers", user="bob"),
    ):
        before = dict(kv.scan("auth"))
        again()
        assert dict(kv.scan("auth")) == before


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda iam: iam.create_user("ann"), AlreadyExistsError),
        (lambda iam: iam.create_group("team"), AlreadyExistsError),
        (lambda iam: iam.create_group("admins"), AlreadyExistsError),
        (lambda iam: iam.create_user("a/b"), InvalidInputError),
        (lambda iam: iam.create_user(""), InvalidInputError),
        (lambda iam: iam.create_user("a" * 65), InvalidInputError),
        (lambda iam: iam.create_group(None), InvalidInputError),
        (lambda iam: iam.put_policy("p", "allow read on *"), InvalidInputError),
        (lambda iam: iam.create_token("bob", life="0s"), InvalidInputError),
        (lambda iam: iam.create_token("bob", scopes=["allow read on *"]), InvalidInputError),
        (lambda iam: iam.attach("readers"), InvalidInputError),
        (lambda iam: iam.attach("readers", user="bob", group="team"), InvalidInputError),
        (lambda iam: iam.attach("readers", group="admins"), InvalidInputError),
        (lambda iam: iam.create_token("eve"), NotFoundError),
        (lambda iam: iam.add_member("team", "eve"), NotFoundError),
        (lambda iam: iam.add_member("admins", "eve"), NotFoundError),
        (lambda iam: iam.remove_member("teams", "bob"), NotFoundError),
        (lambda iam: iam.attach("writers", user="bob"), NotFoundError),
        (lambda iam: iam.detach("writers", user="bob"), NotFoundError),
        (lambda iam: iam.delete_user("eve"), NotFoundError),
        (lambda iam: iam.delete_group("admins"), NotFoundError),
        (lambda iam: iam.delete_policy("writers"), NotFoundError),
        (lambda iam: iam.revoke_token(""), NotFoundError),
        (lambda iam: iam.members("teams"), NotFoundError),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(iam, kv, call, error):
    before = dict(kv.scan("auth"))
    with pytest.raises(error):
        call(iam)
    assert dict(kv.scan("auth")) == before


def test_a_token_knows_what_it_is_for(iam):
    _, made = iam.create_token(
        "bob", name="spark", life="36h", scopes=["read on flights"], made_by="ann"
    )
    (token,) = iam.tokens("bob")
    assert token == made
    assert (token.user, token.name, token.made_by) == ("bob", "spark", "ann")
    assert token.expires - token.created == timedelta(hours=36)
    assert list(map(str, token.scopes)) == ["read on flights"]
    assert iam.revoke_token(token.id) == made
    assert iam.tokens() == []


def test_a_gate_changes_no_rights(iam):
    with judging("mine"), pytest.raises(ReadOnlyError):
        iam.add_member("admins", "bob")


@pytest.mark.parametrize(
    "key", [b"user/bob", b"policy/readers", b"admins/users", b"member/bob/team"]
)
def test_a_damaged_record_allows_nothing(iam, kv, key):
    secret, _ = iam.create_token("bob")
    kv.set("auth", key, b'{"statements":["allow all on *"]}')
    with pytest.raises(CorruptionError):
        iam.access.identify(secret)


def test_an_admin_of_an_old_name_is_none(iam, kv):
    born = iam.user("ann").born
    iam.add_member("admins", "bob")
    stored = kv.get("auth", b"admins/users").value
    kv.set("auth", b"admins/users", stored.replace(iam.user("bob").born.encode(), b"0" * 32))
    assert not iam.access.identify(iam.create_token("bob")[0]).admin
    kv.set("auth", b"admins/users", stored.replace(born.encode(), b"0" * 32))
    assert iam.access.identify(iam.create_token("bob")[0]).admin

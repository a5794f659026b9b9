"""Who a token stands for, what they may do, and until when."""

from typing import Any

import pytest

from graveler.errors import GravelerError, PermissionDeniedError
from graveler.iam.access import SERVER, STRANGER
from graveler.iam.directory import Directory
from graveler.testing.clock import SequenceIds


@pytest.fixture
def known(iam):
    """Makes a token of a user and returns who it stands for."""

    def make(user, **options):
        return iam.access.identify(iam.create_token(user, **options)[0])

    return make


def may(iam, identity, text):
    """Ask ``read flights main path``."""
    return iam.access.allows(identity, *text.split())


@pytest.mark.parametrize(
    ("statements", "scopes", "allowed", "refused"),
    [
        ([], [], [], ["read flights main a", "read", "admin"]),
        (["allow read on flights"], [], ["read flights main a"], ["write flights main a", "read"]),
        (["allow read on *"], [], ["read", "read flights"], ["write"]),
        (
            ["allow write on flights@dev:t/*"],
            [],
            ["write flights dev t/a", "write flights dev t/"],
            ["write flights dev", "write flights dev u", "write flights main t/a"],
        ),
        (
            ["allow write on flights", "deny write on flights@main:t/*"],
            [],
            ["write flights main u", "write flights dev", "write flights dev t/a"],
            [
                "write flights main t/a",
                "write flights main",
                "write flights",
                "write flights main t/",
            ],
        ),
        (
            ["allow read,write on flights"],
            ["read on flights:t/*", "write on other"],
            ["read flights main t/a"],
            ["read flights main u", "read flights main", "write flights main t/a", "write other"],
        ),
        (["allow keep:read on *"], [], ["keep:read"], ["keep:write", "keep:manage", "read"]),
    ],
)
def test_deny_wins_and_nothing_is_allowed_by_default(
    iam, known, statements, scopes, allowed, refused
):
    iam.create_user("eve")
    iam.put_policy("own", statements)
    iam.attach("own", user="eve")
    eve = known("eve", scopes=scopes)
    assert [text for text in allowed + refused if may(iam, eve, text)] == allowed


def test_a_group_gives_its_policies_and_a_users_own_deny_wins(iam, known):
    bob = known("bob")
    assert may(iam, bob, "read flights main a")
    iam.put_policy("not-main", ["deny read on *@main"])
    iam.attach("not-main", user="bob")
    bob = known("bob")
    assert not may(iam, bob, "read flights main a")
    assert may(iam, bob, "read flights dev a")


def test_an_admin_may_all_that_is_not_denied_and_stays_one(iam, known):
    iam.put_policy("none", ["deny read,write,admin on *"])
    iam.attach("none", user="ann")
    ann = known("ann")
    assert may(iam, ann, "admin")
    assert may(iam, ann, "keep:manage")
    assert not may(iam, ann, "read flights main a")
    assert not may(iam, known("ann", scopes=["read on *"]), "admin")


@pytest.mark.parametrize(
    ("user", "options", "told"),
    [
        ("bob", {}, "user 'bob' may not write flights@main:a: no policy allows it; an admin can"),
        ("ann", {}, "policy 'no' denies it ('deny write on flights@main')"),
        ("ann", {"scopes": ["read on *"]}, "their token has only the scopes 'read on *'; make one"),
    ],
)
def test_a_refusal_says_who_what_where_and_why(iam, known, user, options, told):
    iam.put_policy("no", ["deny write on flights@main"])
    iam.attach("no", user="ann")
    with pytest.raises(PermissionDeniedError) as failure:
        iam.access.check(known(user, **options), "write", "flights", "main", "a")
    assert told in str(failure.value)


def test_the_advice_of_a_refusal_is_a_statement_that_helps(iam, known):
    bob = known("bob")
    with pytest.raises(PermissionDeniedError) as failure:
        iam.access.check(bob, "write", "flights", "main", "t/")
    iam.put_policy("helps", [str(failure.value).split("NAME '")[1].split("'")[0]])
    iam.attach("helps", user="bob")
    assert may(iam, known("bob"), "write flights main t/")


REMOVALS = {
    "membership": lambda iam, _: iam.remove_member("team", "bob"),
    "attachment": lambda iam, _: iam.detach("readers", group="team"),
    "policy": lambda iam, _: iam.delete_policy("readers"),
    "statement": lambda iam, _: iam.put_policy("readers", []),
    "group": lambda iam, _: iam.delete_group("team"),
    "user": lambda iam, _: iam.delete_user("bob"),
    "token": lambda iam, token: iam.revoke_token(token),
}


@pytest.mark.parametrize("removed", REMOVALS)
def test_a_removal_takes_effect_within_two_seconds(iam, kv, clock, removed):
    """In another process, which has just asked."""
    secret, token = iam.create_token("bob")
    other = Directory(kv, clock=clock, ids=SequenceIds()).access
    bob: Any = other.identify(secret)
    other.check(bob, "read", "flights", "main", "a")
    REMOVALS[removed](iam, token.id)
    clock.advance(seconds=1.9)
    assert not other.allows(bob, "read", "flights", "main", "a")
    known = other.identify(secret)
    assert (known is None) == (removed in {"user", "token"})
    assert known is None or not other.allows(known, "read", "flights", "main", "a")


def test_a_token_ends_when_it_says(iam, clock):
    secret, _ = iam.create_token("bob", life="1h")
    clock.advance(minutes=59)
    bob = iam.access.identify(secret)
    assert iam.access.allows(bob, "read", "flights", "main", "a")
    clock.advance(minutes=1)
    assert iam.access.identify(secret) is None
    with pytest.raises(PermissionDeniedError, match="the token was revoked, or has ended"):
        iam.access.check(bob, "read", "flights", "main", "a")


def test_a_clock_that_is_set_back_keeps_no_right_alive(iam, clock):
    secret, _ = iam.create_token("bob")
    iam.access.identify(secret)
    iam.remove_member("team", "bob")
    clock.advance(hours=-1)
    assert not may(iam, iam.access.identify(secret), "read flights main a")


def test_what_is_known_is_not_read_again_for_a_second(iam, clock, monkeypatch):
    secret, _ = iam.create_token("bob")
    bob = iam.access.identify(secret)
    with monkeypatch.context() as patched:
        patched.setattr("graveler.kv.drivers.memory.MemoryKVStore.get", None)
        patched.setattr("graveler.kv.drivers.memory.MemoryKVStore.get_many", None)
        assert may(iam, bob, "read flights main a")
    assert iam.access.identify("grav-of-stranger") is None


def test_the_token_of_a_server_ends_with_the_first_user(kv, clock):
    iam = Directory(kv, clock=clock, ids=SequenceIds())
    assert iam.access.allows(SERVER, "write", "flights")
    assert not iam.access.allows(STRANGER, "read", "flights")
    iam.create_user("ann")
    clock.advance(seconds=1)
    assert not iam.access.allows(SERVER, "write", "flights")


def test_the_store_has_no_secret(iam, kv):
    secret, token = iam.create_token("bob", name="spark", scopes=["read on flights"])
    assert len(secret) == 44
    assert token.last == secret[-4:]
    stored = b"".join(key + value for key, value in kv.scan("auth"))
    assert secret.encode() not in stored
    assert secret[4:].encode() not in stored


def test_an_unknown_action_is_refused(iam, known):
    with pytest.raises(GravelerError, match="action 'list': give one of read, write"):
        iam.access.check(known("ann"), "list")

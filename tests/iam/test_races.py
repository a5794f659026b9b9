"""Faults before and after each call of the store, and deleting beside adding."""

from contextlib import suppress
from itertools import count

import pytest

from graveler.errors import GravelerError
from graveler.iam.directory import Directory
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.faults import ProcessDied
from tests.harness.faults import FaultyKVStore, Script
from tests.harness.worlds import FAULTS


class World:
    """The users of a lake, as one process sees them through a script, and as another one does."""

    def __init__(self):
        self.kv, self.script = MemoryKVStore(), Script()
        clock, ids = FakeClock(), SequenceIds()
        self.other = Directory(self.kv, clock=clock, ids=ids)
        self.iam = Directory(FaultyKVStore(self.kv, self.script), clock=clock, ids=ids)

    def prepare(self):
        iam = self.other
        for name in ("ann", "bob", "carl"):
            iam.create_user(name)
        for name in ("team", "other"):
            iam.create_group(name)
        iam.add_member("admins", "bob")
        iam.add_member("team", "bob")
        iam.put_policy("readers", ["allow read on flights"])
        iam.attach("readers", group="team")
        iam.attach("readers", user="bob")
        iam.create_token("bob", name="first")
        return self

    def state(self):
        """All that can be seen, without ids and times."""
        iam = self.other
        return {
            "users": {user.name: iam.groups_of(user.name) for user in iam.users()},
            "groups": {
                group.name: (iam.members(group.name), iam.attached(group=group.name))
                for group in iam.groups()
            },
            "policies": {
                policy.name: ([*map(str, policy.statements)], iam.holders(policy.name))
                for policy in iam.policies()
            },
            "admins": iam.members("admins"),
            "tokens": sorted((token.user, token.name) for token in iam.tokens()),
        }

    def check_whole(self):
        """No key names what is gone, and there is an admin who exists."""
        live = {
            each.born
            for listed in (self.other.users(), self.other.groups(), self.other.policies())
            for each in listed
        }
        for key, value in self.kv.scan("auth"):
            found = [part for part in value.decode().split('"') if len(part) == 32]
            fields = value.decode().count('"nonce"')
            assert len(set(found) - live) <= fields, (key, value)
        assert set(self.other.members("admins")) & {user.name for user in self.other.users()}


CHANGES = {
    "create": lambda iam: iam.create_user("new"),
    "delete": lambda iam: iam.delete_user("bob"),
    "create group": lambda iam: iam.create_group("new"),
    "delete group": lambda iam: iam.delete_group("team"),
    "add": lambda iam: iam.add_member("team", "carl"),
    "remove": lambda iam: iam.remove_member("team", "bob"),
    "add admin": lambda iam: iam.add_member("admins", "carl"),
    "remove admin": lambda iam: iam.remove_member("admins", "bob"),
    "put": lambda iam: iam.put_policy("new", ["allow read on *"]),
    "replace": lambda iam: iam.put_policy("readers", ["deny read on *"]),
    "delete policy": lambda iam: iam.delete_policy("readers"),
    "attach": lambda iam: iam.attach("readers", user="carl"),
    "detach": lambda iam: iam.detach("readers", group="team"),
    "revoke": lambda iam: iam.revoke_token(iam.tokens("bob")[0].id),
}
_DONE = {"already-exists", "not-found"}


def outcome(change, iam):
    """Return the error of a change, or None."""
    try:
        change(iam)
    except (GravelerError, IndexError) as error:
        return error
    return None


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_failed_anywhere_can_be_repeated(change, fault):
    action, moment, differs = FAULTS[fault]
    expected = World().prepare()
    before = expected.state()
    CHANGES[change](expected.other)
    struck = 0
    for number in count(1):
        world = World().prepare()
        world.script.arm(number, action, moment=moment)
        done = False
        with suppress(GravelerError, ProcessDied):
            CHANGES[change](world.iam)
            done = True
        hit = world.script.disarm()
        if not hit:
            break
        struck += differs(hit)
        if done:
            assert world.state() == expected.state(), (number, hit)
            world.check_whole()
        if "delete" not in change:  # the others are done in one step
            assert world.state() in (before, expected.state())
        again = outcome(CHANGES[change], world.other)
        assert again is None or getattr(again, "code", "not-found") in _DONE, again
        assert world.state() == expected.state(), (number, hit)
        world.check_whole()
    assert struck > 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_first_user_whose_maker_died_can_be_made_again(fault):
    action, moment, _ = FAULTS[fault]
    for number in count(1):
        world = World()
        world.script.arm(number, action, moment=moment)
        with suppress(GravelerError, ProcessDied):
            world.iam.create_user("ann")
        if not world.script.disarm():
            break
        assert getattr(outcome(lambda iam: iam.create_user("ann"), world.other), "code", "") in (
            "",
            "already-exists",
        )
        assert world.other.members("admins") == ["ann"]
        world.other.create_user("bob")
        assert world.other.members("admins") == ["ann"]
    assert number > 2


def test_a_token_whose_maker_failed_is_no_token_or_one():
    for fault, (action, moment, _) in FAULTS.items():
        for number in count(1):
            world = World().prepare()
            world.script.arm(number, action, moment=moment)
            with suppress(GravelerError, ProcessDied):
                world.iam.create_token("carl")
            if not world.script.disarm():
                break
            assert len(world.other.tokens("carl")) <= 1, fault
            world.other.delete_user("carl")
            world.check_whole()
            assert not world.other.tokens("carl")


ADD = {
    "membership": lambda iam: iam.add_member("other", "bob"),
    "attachment": lambda iam: iam.attach("readers", user="bob"),
    "token": lambda iam: iam.create_token("bob", name="second"),
    "admin": lambda iam: iam.add_member("admins", "bob"),
    "member": lambda iam: iam.add_member("team", "carl"),
    "policy": lambda iam: iam.attach("readers", group="team"),
    "holder": lambda iam: iam.attach("readers", user="carl"),
}
AGAIN = {
    "delete": lambda iam: iam.create_user("bob"),
    "delete group": lambda iam: iam.create_group("team"),
    "delete policy": lambda iam: iam.put_policy("readers", ["allow read on flights"]),
}
BESIDE = {
    "delete": ("membership", "attachment", "token", "admin"),
    "delete group": ("member", "policy"),
    "delete policy": ("holder", "policy"),
}
RACES = {
    f"{'re' * again}{deletion} and {addition}": (
        (CHANGES[deletion], *[AGAIN[deletion]] * again),
        (ADD[addition],),
    )
    for deletion, additions in BESIDE.items()
    for addition in additions
    for again in (0, 1)
} | {
    "policy and put": ((CHANGES["delete policy"],), (CHANGES["replace"],)),
    "two deletions": ((CHANGES["delete"],), (CHANGES["delete"],)),
    "two memberships": ((CHANGES["add"],), (lambda iam: iam.remove_member("team", "carl"),)),
    "both admins": (
        (lambda iam: iam.remove_member("admins", "ann"),),
        (CHANGES["remove admin"],),
    ),
    "both admins deleted": ((lambda iam: iam.delete_user("ann"),), (CHANGES["delete"],)),
    "an admin deleted and made": (
        (CHANGES["delete"],),
        (ADD["admin"], lambda iam: iam.remove_member("admins", "ann")),
    ),
}
"""What two processes do at the same time, step by step."""


def merged(one, other):
    """Yield all orders of the steps of both."""
    if not (one and other):
        yield [*one, *other]
        return
    yield from ([one[0], *rest] for rest in merged(one[1:], other))
    yield from ([other[0], *rest] for rest in merged(one, other[1:]))


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("first", [0, 1])
def test_two_changes_end_as_one_after_the_other(race, first):
    """One runs whole between two calls of the other, at each point, and in both roles."""
    paused, whole = RACES[race][first], RACES[race][1 - first]
    results = []
    for steps in merged(paused, whole):
        world = World().prepare()
        [outcome(step, world.other) for step in steps]
        results.append(world.state())
    for number in count(1):
        world = World().prepare()
        world.script.arm(number, lambda _: [outcome(step, world.other) for step in whole])  # noqa: B023
        [outcome(step, world.iam) for step in paused]
        if not world.script.disarm():
            break
        world.check_whole()
        assert world.state() in results, number
    assert number > 2

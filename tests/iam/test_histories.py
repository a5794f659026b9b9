"""Random histories of changes against a model of plain dicts, on a store in memory and on SQLite."""

from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from graveler.errors import AlreadyExistsError, NotFoundError, StateError
from graveler.iam.directory import Directory
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.kv.drivers.sqlite import SQLiteKVStore
from graveler.testing.clock import FakeClock, SequenceIds

names = st.sampled_from(["a", "b", "c"])
groups = st.sampled_from(["a", "b", "admins"])
holders = st.sampled_from([("user", "a"), ("user", "b"), ("group", "a"), ("group", "b")])
statements = st.lists(
    st.sampled_from(
        [
            "allow read on r",
            "allow read,write on *",
            "deny write on r@main",
            "deny read on r:t/*",
            "allow write on r@main:t/*",
        ]
    ),
    max_size=2,
)
TARGETS = [("r", "main", "t/x"), ("r", "main", ""), ("r", "dev", "t/"), ("", "", "")]


class Histories(RuleBasedStateMachine):
    """One history of changes, of the directory and of the model.

    Attributes:
        users: Users with the groups of each.
    """

    def __init__(self):
        super().__init__()
        self.folder = TemporaryDirectory(prefix="k-iam-")
        self.kv = self.store(Path(self.folder.name))
        self.clock = FakeClock()
        self.iam = Directory(self.kv, clock=self.clock, ids=SequenceIds())
        self.users, self.groups, self.policies = {}, set(), {}
        self.attached = {}
        self.tokens = {}

    @staticmethod
    def store(_):
        return MemoryKVStore()

    def teardown(self):
        self.kv.close()
        self.folder.cleanup()

    def admins(self):
        return {user for user, its in self.users.items() if "admins" in its}

    def expect(self, call, *errors):
        """Make a call, which must raise the first error whose condition holds; return whether none did."""
        wanted = next((error for error, holds in errors if holds), None)
        with pytest.raises(wanted) if wanted else nullcontext():
            call()
        return wanted is None

    @rule(name=names)
    def create_user(self, name):
        taken = (AlreadyExistsError, name in self.users)
        if self.expect(lambda: self.iam.create_user(name), taken):
            self.users[name] = set() if self.users else {"admins"}

    @rule(name=names)
    def delete_user(self, name):
        missing = (NotFoundError, name not in self.users)
        last = (StateError, self.admins() == {name})
        if self.expect(lambda: self.iam.delete_user(name), missing, last):
            del self.users[name]
            self.attached.pop(("user", name), None)
            self.tokens = {secret: user for secret, user in self.tokens.items() if user != name}

    @rule(name=groups)
    def create_group(self, name):
        taken = (AlreadyExistsError, name in self.groups | {"admins"})
        if self.expect(lambda: self.iam.create_group(name), taken):
            self.groups.add(name)

    @rule(name=groups)
    def delete_group(self, name):
        if self.expect(
            lambda: self.iam.delete_group(name), (NotFoundError, name not in self.groups)
        ):
            self.groups.discard(name)
            self.attached.pop(("group", name), None)
            for its in self.users.values():
                its.discard(name)

    @rule(group=groups, user=names, adds=st.booleans())
    def change_member(self, group, user, adds):
        missing = user not in self.users or group not in self.groups | {"admins"}
        last = not adds and group == "admins" and self.admins() == {user}
        change = self.iam.add_member if adds else self.iam.remove_member
        if self.expect(lambda: change(group, user), (NotFoundError, missing), (StateError, last)):
            (self.users[user].add if adds else self.users[user].discard)(group)

    @rule(name=names, rules=statements)
    def put_policy(self, name, rules):
        self.iam.put_policy(name, rules)
        self.policies[name] = rules

    @rule(name=names)
    def delete_policy(self, name):
        missing = (NotFoundError, name not in self.policies)
        if self.expect(lambda: self.iam.delete_policy(name), missing):
            del self.policies[name]
            for its in self.attached.values():
                its.discard(name)

    @rule(policy=names, holder=holders, adds=st.booleans())
    def change_attachment(self, policy, holder, adds):
        kind, name = holder
        known = self.users if kind == "user" else self.groups
        missing = (NotFoundError, name not in known or policy not in self.policies)
        change = self.iam.attach if adds else self.iam.detach
        if self.expect(lambda: change(policy, **{kind: name}), missing):
            its = self.attached.setdefault(holder, set())
            (its.add if adds else its.discard)(policy)

    @rule(user=names)
    def create_token(self, user):
        def made():
            self.tokens[self.iam.create_token(user)[0]] = user

        self.expect(made, (NotFoundError, user not in self.users))

    @rule(data=st.data())
    def revoke_token(self, data):
        if self.tokens:
            secret = data.draw(st.sampled_from(sorted(self.tokens)))
            known: Any = self.iam.access.identify(secret)
            self.iam.revoke_token(known.token.id)
            del self.tokens[secret]

    def allows(self, user, action, target):
        """Whether the model allows something: by the plainest reading of the five statements."""
        holders = [("user", user), *(("group", group) for group in self.users[user])]
        held = {policy for holder in holders for policy in self.attached.get(holder, ())}
        texts = {text for policy in held for text in self.policies[policy]}
        repository, ref, path = target
        below = path.startswith("t/")
        main, of_r = ref == "main" or not ref, repository == "r" or not repository
        denied = action == "write" and "deny write on r@main" in texts and main and of_r
        denied |= (
            action == "read" and "deny read on r:t/*" in texts and of_r and (below or not path)
        )
        allowed = "admins" in self.users[user] or "allow read,write on *" in texts
        allowed |= action == "read" and "allow read on r" in texts and repository == "r"
        allowed |= (
            action == "write" and "allow write on r@main:t/*" in texts and ref == "main" and below
        )
        return allowed and not denied

    @invariant()
    def is_as_the_model(self):
        self.clock.advance(seconds=2)
        iam = self.iam
        assert {user.name: iam.groups_of(user.name) for user in iam.users()} == {
            name: sorted(its) for name, its in self.users.items()
        }
        assert {each.name for each in iam.groups()} == self.groups
        assert iam.access.has_users() == bool(self.users)
        assert bool(self.admins()) == bool(self.users)
        for (kind, name), its in self.attached.items():
            if name in (self.users if kind == "user" else self.groups):
                assert iam.attached(**{kind: name}) == sorted(its)
        assert len(iam.tokens()) == len(self.tokens)
        for secret, user in self.tokens.items():
            known: Any = iam.access.identify(secret)
            assert known.user == user
            for target in TARGETS:
                for action in ("read", "write"):
                    expected = self.allows(user, action, target)
                    assert iam.access.allows(known, action, *target) == expected, (action, target)


class OnSQLite(Histories):
    @staticmethod
    def store(folder):
        return SQLiteKVStore(folder / "kv.db")


@pytest.mark.parametrize(("machine", "examples"), [(Histories, 60), (OnSQLite, 10)])
def test_random_histories_are_as_the_model(machine, examples):
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=30)
    )

import pytest

from graveler.errors import NotFoundError
from graveler.gc.rules import KEEP_ALL, RETENTION, Keep, Retention
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.refs.settings import Settings
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.faults import lost_reply
from tests.harness.faults import FaultyKVStore, Script


class Rules(Settings):
    def now(self):
        return self.get(RETENTION)

    def set(self, keep, pattern=None):
        return self.change(RETENTION, lambda rules: rules.changed(pattern, keep))

    def remove(self, pattern=None):
        return self.change(RETENTION, lambda rules: rules.without(pattern))


def rules_of(kv, seed=0):
    return Rules(kv, "u", clock=FakeClock(), ids=SequenceIds(seed))


@pytest.fixture
def kv():
    return MemoryKVStore()


@pytest.fixture
def rules(kv):
    return rules_of(kv)


def test_without_rules_everything_is_kept(rules):
    assert rules.now().keeps_everything
    assert rules.now().of("main") == KEEP_ALL


def test_a_branch_that_matches_several_patterns_keeps_the_most():
    found = Retention(patterns={"*": Keep(days=3), "r-*": Keep(days=1, count=7), "r-x": Keep()})
    assert found.of("r-1") == Keep(days=3, count=7)
    assert found.of("r-x") == KEEP_ALL
    assert found.of("q") == Keep(days=3)


def test_a_rule_can_be_changed_and_taken_away(rules):
    rules.set(Keep(days=30), "main")
    rules.set(Keep(days=3), "main")
    rules.set(Keep(count=1))
    assert rules.remove("main").of("main") == Keep(count=1)
    assert rules.remove().keeps_everything
    with pytest.raises(NotFoundError, match=r"no retention rule for 'main' \(there are: none\)"):
        rules.remove("main")


def test_a_lost_reply_does_not_lose_a_rule(kv):
    script = Script()
    rules = rules_of(FaultyKVStore(kv, script))
    for moment in ("before", "after"):
        script.arm(2, lost_reply, moment=moment)
        rules.set(Keep(days=1), moment)
        assert script.disarm() == "set_if"
    assert set(rules.now().patterns) == {"before", "after"}


def test_two_who_change_rules_lose_neither(kv, rules):
    script = Script()
    other = rules_of(FaultyKVStore(kv, script), 7)
    script.arm(2, lambda _: rules.set(Keep(days=1), "a"))
    other.set(Keep(days=2), "b")
    assert set(rules.now().patterns) == {"a", "b"}

import pytest

from graveler.errors import CorruptionError, InvalidInputError, NotFoundError
from graveler.gc.rules import KEEP_ALL, Keep, Retention, RetentionRules
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.refs.settings import Settings
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.faults import FaultyKVStore, Script, lost_reply


def rules_of(kv, seed=0):
    return RetentionRules(Settings(kv, "u", clock=FakeClock(), ids=SequenceIds(seed)))


@pytest.fixture
def kv():
    return MemoryKVStore()


@pytest.fixture
def rules(kv):
    return rules_of(kv)


def test_without_rules_everything_is_kept(rules):
    assert rules.get().keeps_everything
    assert rules.get().of("main") == KEEP_ALL


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


@pytest.mark.parametrize(
    ("keep", "pattern", "says"),
    [
        (Keep(days=-1), None, "give 0 or more"),
        (Keep(days=float("nan")), None, "give 0 or more"),
        (Keep(count=0), None, "give 1 or more"),
        (Keep(count=1), "", "pattern is empty"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rules, keep, pattern, says):
    with pytest.raises(InvalidInputError, match=says):
        rules.set(keep, pattern)
    assert rules.get().keeps_everything


def test_a_lost_reply_does_not_lose_a_rule(kv):
    script = Script()
    rules = rules_of(FaultyKVStore(kv, script))
    for moment in ("before", "after"):
        script.arm(2, lost_reply, moment=moment)
        rules.set(Keep(days=1), moment)
        assert script.disarm() == "set_if"
    assert set(rules.get().patterns) == {"before", "after"}


def test_two_who_change_rules_lose_neither(kv, rules):
    script = Script()
    other = rules_of(FaultyKVStore(kv, script), 7)
    script.arm(2, lambda _: rules.set(Keep(days=1), "a"))
    other.set(Keep(days=2), "b")
    assert set(rules.get().patterns) == {"a", "b"}


def test_rules_that_cannot_be_read_are_damage(kv, rules):
    kv.set("refs:u", b"settings/retention", b"{}")
    with pytest.raises(CorruptionError, match="retention rules cannot be read"):
        rules.get()


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        (KEEP_ALL, "everything"),
        (Keep(days=1), "1 day"),
        (Keep(days=0.5, count=1), "0.5 days or 1 commit"),
        (Keep(count=3), "3 commits"),
    ],
)
def test_a_rule_reads_as_people_say_it(keep, text):
    assert str(keep) == text

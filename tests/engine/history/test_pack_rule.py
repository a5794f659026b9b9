"""The rule of packing: which branches are packed, and when."""

import pytest

from graveler.errors import InvalidInputError
from graveler.refs.pack_rule import AFTER, PackRule


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights")


def test_without_a_setting_the_default_branch_is_packed(repo):
    rule = repo.packing.show()
    assert rule == PackRule(after=AFTER, branches=())
    assert rule.covers("main", "main")
    assert rule.covers("trunk", "trunk")
    assert not rule.covers("dev", "main")


def test_a_rule_is_changed_one_part_at_a_time(lake, repo):
    assert repo.packing.set(after=7) == PackRule(7, ())
    assert repo.packing.set(branches=["release-*", "main", "main"]) == PackRule(
        7, ("main", "release-*")
    )
    assert lake.repository("flights").packing.show() == repo.packing.show()
    assert repo.packing.set(branches=[]) == PackRule(7, ())


def test_patterns_choose_the_branches_and_zero_switches_it_off():
    rule = PackRule(7, ("release-*",))
    assert rule.covers("release-1", "main")
    assert not rule.covers("main", "main")
    assert not PackRule(0, ("*",)).covers("main", "main")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"after": -1}, {"after": True}, {"after": "7"}, {"branches": "main"}, {"branches": [""]}],
)
def test_a_rule_that_makes_no_sense_changes_nothing(repo, wrong):
    repo.packing.set(after=7)
    with pytest.raises(InvalidInputError):
        repo.packing.set(**wrong)
    assert repo.packing.show() == PackRule(7, ())

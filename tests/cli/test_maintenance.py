"""``graveler packing`` and ``graveler maintain``, as people and programs see them."""

import pytest

pytestmark = pytest.mark.usefixtures("history")


def test_the_rule_of_packing_is_shown_and_changed(cli):
    assert cli("packing", "show").out.splitlines() == [
        "after     100 badly cut ranges",
        "branches  the default branch",
    ]
    said = cli("packing", "set", "--after", "7", "--branch", "main", "--branch", "release-*")
    assert said.out.splitlines() == ["after     7 badly cut ranges", "branches  main, release-*"]
    assert cli("packing", "show", "--json").json == {"after": 7, "branches": ["main", "release-*"]}
    assert cli("packing", "set", "--branch", "", "--json").json["branches"] == []
    assert cli("packing", "set", "--after", "0").out.startswith("after     never\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((), "give --after, --branch or both"), (("--after", "-1"), "--after")],
)
def test_a_rule_without_sense_is_refused(cli, arguments, says):
    said = cli("packing", "set", *arguments)
    assert said.code == 2
    assert says in said.err

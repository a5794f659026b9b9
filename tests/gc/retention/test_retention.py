"""Which commits keep their trees: tables of ages in days, first parents, and heads with rules."""

from dataclasses import dataclass

import pytest

from graveler.gc.reachability.graph import CommitGraph, Node
from graveler.gc.reachability.retention import Line, kept_commits
from graveler.gc.rules import Keep

DAY = 86_400_000_000
NOW = 1_000 * DAY


@dataclass
class History(CommitGraph):
    """Commits as a text: in ``d6<c,a``, d is 6 days old and has the parents c and a."""

    text: str

    def __post_init__(self):
        self.nodes = {}
        for word in self.text.split():
            commit, _, parents = word.partition("<")
            name = commit.rstrip("0123456789.")
            age = float(commit[len(name) :])
            self.nodes[name] = Node(
                tuple(filter(None, parents.split(","))),
                int(NOW - age * DAY),
                trees=(name,),
                generation=0,
            )


def kept(history, heads, merged=""):
    lines = []
    for word in heads.split():
        name, _, rule = word.partition(":")
        days, _, count = rule.partition("/")
        keep = Keep(float(days) if days else None, int(count) if count else None)
        lines.append(Line(name, keep))
    for word in merged.split():
        name, _, days = word.partition(":")
        lines.append(Line(name, Keep(float(days)), merged=True))
    found = kept_commits(History(history), lines, NOW)
    assert found == kept_commits(History(history), lines[::-1], NOW), "the order of branches counts"
    return " ".join(sorted(found))


FORK = "a15 b10<a c10<a d5<c e5<b f1<e"


@pytest.mark.parametrize(
    ("history", "heads", "expected"),
    [
        pytest.param(FORK, "f:7 d:3", "b d e f", id="two-branches"),
        pytest.param("a15 b20 c20<a d20<a", "b:7 c:7 d:7", "b c d", id="old-heads-stay"),
        pytest.param("a5 b4<a c3<b d2<c e1<d", "e:7", "a b c d e", id="all-young"),
        pytest.param("a5 b4<a c3<b d2<b e1<a", "d:15 e:7 c:2", "a b c d e", id="forks"),
        pytest.param("a7 b6<a c7 d6<c", "b:3 d:10", "b c d", id="a-branch-each"),
        pytest.param("a7 b6<a c7 d6<c,a", "b:3 d:10", "b c d", id="second-parents-do-not-count"),
        pytest.param("a15 b10<a c10<a d5<c e7<b f1<e", "f:7 d:3", "d e f", id="as-old-as-the-rule"),
        pytest.param("r20 x14<r g10<x h9<x", "h:9 g:12", "g h x", id="the-longer-rule-walks-on"),
    ],
)
def test_by_age_what_is_young_and_what_was_current_then(history, heads, expected):
    assert kept(history, heads) == expected


@pytest.mark.parametrize(
    ("history", "merged", "expected"),
    [
        pytest.param(f"{FORK} g8<c h7<g i4<h", "i:5", "b d e f h i", id="young"),
        pytest.param(f"{FORK} g8<c h7<g i6<h", "i:5", "b d e f", id="old"),
        pytest.param(f"{FORK} g8<c h7<g i5<h", "i:5", "b d e f", id="as-old-as-the-rule"),
    ],
)
def test_what_was_merged_is_kept_while_it_is_young(history, merged, expected):
    assert kept(history, "f:7 d:3", merged) == expected


CHAIN = "a50 b40<a c30<b d20<c e10<d"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("/1", "e"),
        ("/3", "c d e"),
        ("/9", "a b c d e"),
        ("0", "e"),
        ("5", "e"),
        ("15", "d e"),
        ("25/1", "c d e"),
        ("5/4", "b c d e"),
        ("", "a b c d e"),
    ],
)
def test_by_count_or_age_whichever_keeps_more(rule, expected):
    assert kept(CHAIN, f"e:{rule}") == expected


def test_a_branch_without_a_rule_keeps_all_it_descends_from():
    assert kept("a50 b40<a x45 c30<b,x d60<x", "c: d:1") == "a b c d x"


def test_a_commit_from_the_future_is_young():
    history = History("a50 b1<a")
    history.nodes["b"] = Node(("a",), NOW + 2 * DAY, trees=("",), generation=0)
    assert kept_commits(history, [Line("b", Keep(days=1))], NOW) == {"a", "b"}

"""The value of several merge bases at a path: orders, limits, and the cost of the look-up."""

from itertools import count

import pytest

from graveler.committed import bases as module
from graveler.committed.bases import CONFLICT, LEVELS, MOST_BASES, WIDEST, Base, Bases, BaseValues
from graveler.committed.merge import Earlier, merge
from graveler.committed.metarange import EMPTY_METARANGE
from tests.committed.drawing import NAMES, edited, wide
from tests.committed.trees import CRUMBS, Forest, text_of

KEY = b"k"


class History:
    """Commits by name: each has a tree of one key, and a pair of commits has bases."""

    def __init__(self):
        self.forest = Forest()
        self.store = self.forest.fresh()
        self.trees = {}
        self.below = {}
        self.asked = []

    def add(self, name, text):
        self.trees[name] = self.forest.tree(f"k={text}") if text else EMPTY_METARANGE
        return name

    def under(self, one, other, *bases):
        self.below[frozenset((one, other))] = bases

    def bases(self, commits, other):
        self.asked.append((commits, other))
        names = {name for one in commits for name in self.below[frozenset((one, other))]}
        return [Base(name, self.trees[name]) for name in sorted(names)]

    def value(self, *names):
        best = tuple(Base(name, self.trees[name]) for name in names)
        found = BaseValues(self.store, Bases(best, self.bases)).at(KEY)
        return found if found is CONFLICT else text_of(found)


@pytest.fixture
def history():
    return History()


@pytest.mark.parametrize(
    ("base", "one", "other", "expected"),
    [
        ("o", "x", "o", "x"),
        ("o", "x", "x", "x"),
        ("o", "x", "y", CONFLICT),
        ("o", "", "o", None),
        ("o", "", "y", CONFLICT),
        ("", "x", "", "x"),
        ("", "x", "y", CONFLICT),
        (None, "x", "", "x"),
    ],
)
def test_two_bases_are_merged_over_what_they_have_in_common(history, base, one, other, expected):
    history.add("a", one)
    history.add("b", other)
    history.under("a", "b", *([history.add("o", base)] if base is not None else []))
    assert history.value("a", "b") == history.value("b", "a") == expected


def test_a_conflict_in_the_bases_is_settled_by_agreeing_sides(history):
    for name, text in {"o": "o", "p": "p", "q": "q", "a": "o", "b": "x", "c": "x"}.items():
        history.add(name, text)
    history.under("p", "q", "o")
    for pair in ("ab", "ac", "bc"):
        history.under(*pair, "p", "q")
    assert history.value("a", "b") is CONFLICT  # git takes the value below: o, so b's x
    assert history.value("b", "c") == "x"


def test_three_bases_count_where_every_order_gives_the_same(history):
    for name, text in {"o": "o", "a": "o", "b": "x", "c": "o"}.items():
        history.add(name, text)
    for pair in ("ab", "ac", "bc"):
        history.under(*pair, "o")
    assert history.value("a", "b", "c") == "x"


def test_three_bases_of_which_the_order_decides_are_a_conflict(history):
    # a changed to b, b to c, and c to a: the base that is merged last wins
    for name, text in {"a": "1", "b": "2", "c": "3", "oa": "1", "ob": "2", "oc": "3"}.items():
        history.add(name, text)
    history.under("a", "b", "oa")
    history.under("b", "c", "ob")
    history.under("a", "c", "oc")
    for one, other in (("oa", "ob"), ("ob", "oc"), ("oa", "oc")):
        history.under(one, other)
    assert history.value("a", "b", "c") is CONFLICT


def ladder(history, levels):
    """On each level, one base has the value of the level below, and the other base changed it."""
    for level in range(levels):
        history.add(f"x{level}", f"v{level}")
        history.add(f"y{level}", f"v{min(level + 1, levels - 1)}")
        if level:
            history.under(f"x{level - 1}", f"y{level - 1}", f"x{level}", f"y{level}")
    return history.value("x0", "y0")


def test_levels_are_followed_as_deep_as_is_allowed(history):
    assert ladder(history, LEVELS) == "v0"
    assert ladder(History(), LEVELS + 1) is CONFLICT


def test_beyond_so_many_commits_the_path_is_a_conflict(history, monkeypatch):
    monkeypatch.setattr(module, "MOST_BASES", 5)
    assert ladder(history, 2) == "v0"  # this ladder has four commits
    assert ladder(History(), 4) is CONFLICT
    assert MOST_BASES == 1_000


@pytest.mark.parametrize(("width", "expected"), [(WIDEST, "x"), (WIDEST + 1, CONFLICT)])
def test_so_many_bases_are_merged_in_every_order(history, width, expected):
    history.add("o", "o")
    names = [history.add(f"b{number}", "o" if number else "x") for number in range(width)]
    for one in names:
        for other in names:
            history.under(one, other, "o")
    assert history.value(*names) == expected


def test_several_bases_open_only_what_the_sides_changed():
    forest = Forest()
    start = wide(forest)
    one = edited(forest, start, k0100="one")
    two = edited(forest, start, k0200="two")
    both = edited(forest, one, k0200="two")
    source = edited(forest, both, k0100="late", k0350="s")
    dest = edited(forest, both, k0300="d")
    asked = count()

    def below(_commits, _other):
        next(asked)
        return [Base("start", start)]

    bases = Bases((Base("one", one), Base("two", two)), below)
    store = forest.fresh()
    merged = merge(store, bases, source, dest, splitting=CRUMBS)
    changed = {"k0100": "late", "k0200": "two", "k0350": "s", "k0300": "d"}
    assert forest.contents(merged.metarange) == dict.fromkeys(NAMES, "1") | changed
    assert store.stats.ranges_read < 20
    assert next(asked) == 1  # one look-up serves all paths
    earlier = Earlier(dest, merged.metarange)
    moved = edited(forest, dest, k0250="later")
    again = forest.fresh()
    redone = merge(again, bases, source, moved, splitting=CRUMBS, earlier=earlier)
    at_once = merge(forest.fresh(), bases, source, moved, splitting=CRUMBS)
    assert forest.contents(redone.metarange) == forest.contents(at_once.metarange)
    assert again.stats.ranges_read <= 4

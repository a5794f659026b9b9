"""Paths that both sides changed: strategies as words, patterns and resolvers."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.base.globs import matches
from graveler.committed.splitting import Splitting
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    MergeConflictError,
    ObjectNotFoundError,
    ThrottledError,
)
from tests.harness.worlds import ScriptedWorld, tree


def commit(branch, files):
    for path, text in files.items():
        if text is None:
            branch.delete(path)
        else:
            branch.put(path, text.encode())
    return branch.commit("c", allow_empty=True)


CONFLICTS = {"config.json": "{}", "tables/a/1": "1", "tables/b/1": "1", "top": "1"}


def diverged(repo):
    """Make two branches on which every path conflicts; ``dev`` has deleted one."""
    main = repo.branch("main")
    dev = repo.create_branch("dev", commit(main, CONFLICTS).id)
    commit(dev, {**dict.fromkeys(CONFLICTS, "dev"), "tables/b/1": None})
    commit(main, dict.fromkeys(CONFLICTS, "main"))
    return repo


@pytest.fixture
def sides(repo):
    return diverged(repo)


RULES = {"tables/b/**": "dest-wins", "tables/**": "source-wins", "**": "dest-wins"}
BY_RULES = {"config.json": "main", "tables/a/1": "dev", "tables/b/1": "main", "top": "main"}


def decide(conflict):
    return {
        "config.json": "source-wins",
        "tables/a/1": replace(conflict.base),
        "tables/b/1": conflict.dest,
        "top": "delete",
    }[conflict.path]


def test_a_resolver_sees_three_entries_and_decides(sides):
    seen = {}

    def resolver(conflict):
        seen[conflict.path] = [
            None if entry is None else sides.branch("main").get(entry).decode()
            for entry in (conflict.base, conflict.source, conflict.dest)
        ]
        return decide(conflict)

    sides.merge("dev", into="main", strategy=resolver)
    assert tree(sides.ref("main")) == {
        "config.json": "dev",
        "tables/a/1": "1",
        "tables/b/1": "main",
    }
    assert seen == {
        "config.json": ["{}", "dev", "main"],
        "tables/a/1": ["1", "dev", "main"],
        "tables/b/1": ["1", None, "main"],
        "top": ["1", "dev", "main"],
    }


def test_a_resolver_may_make_a_file_of_both_sides(sides):
    main = sides.branch("main")

    def both(conflict):
        text = main.get(conflict.source) + b"+" + main.get(conflict.dest)
        return main.store(conflict.path, text)

    sides.merge("dev", into="main", strategy={"config.json": both, "**": "dest-wins"})
    assert tree(sides.ref("main")) == {
        **dict.fromkeys(CONFLICTS, "main"),
        "config.json": "dev+main",
    }
    assert not [token for token in sides.stores.staging.tokens() if token.startswith("hold-")]


def test_reverts_and_cherry_picks_take_patterns_too(sides):
    start = sides.commit("main~1")
    sides.cherry_pick("dev", onto="main", strategy=RULES)
    assert tree(sides.ref("main")) == BY_RULES
    commit(sides.branch("main"), {"top": "later"})
    reverted = {"top": "dest-wins", "**": "source-wins"}
    sides.revert("main~2", on="main", strategy=reverted)
    assert tree(sides.ref("main")) == {**tree(sides.ref(start.id)), "top": "later"}


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("no JSON"), InvalidInputError),
        (ObjectNotFoundError("gone"), InvalidInputError),
        (ThrottledError("slow down"), ThrottledError),
    ],
)
def test_an_error_of_a_resolver_names_the_path(sides, raised, expected):
    def fails(_conflict):
        raise raised

    with pytest.raises(expected, match=r"'config\.json'.*" + str(raised)):
        sides.merge("dev", into="main", strategy=fails)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: "theirs", "'theirs' for 'config.json'"),
        (lambda _: 7, "7 for 'config.json'"),
        (lambda conflict: replace(conflict.base, path="b"), "entry of 'b'.*'config.json'"),
        (lambda conflict: replace(conflict.base, address="data/none"), "no object at 'data/none'"),
    ],
)
def test_an_answer_that_makes_no_sense_names_the_path(sides, answer, said):
    with pytest.raises(GravelerError, match=said):
        sides.merge("dev", into="main", strategy=answer)


@pytest.mark.parametrize(
    "strategy", ["ours", 7, {"a": "ours"}, {"": "source-wins"}, {1: "conflict"}]
)
def test_a_strategy_that_does_not_exist_is_refused_first(sides, strategy):
    head = sides.commit("main")
    for call in (
        lambda: sides.merge("nowhere", into="main", strategy=strategy),
        lambda: sides.revert("nowhere", strategy=strategy),
        lambda: sides.cherry_pick("nowhere", strategy=strategy),
        lambda: sides.run("hour", strategy=strategy).__enter__(),
        lambda: sides.runs.open("other").publish(strategy=strategy),
    ):
        with pytest.raises(InvalidInputError, match=r"strategy|pattern"):
            call()
    assert sides.commit("main") == head


PATHS = [f"{folder}{name}" for folder in ("", "a/", "b/c/") for name in "pqrs"]
TREES = st.dictionaries(st.sampled_from(PATHS), st.sampled_from("123"), max_size=12)
WORDS = st.sampled_from(["source-wins", "dest-wins", "conflict", "base"])
PATTERNS = st.sampled_from(["**", "a/**", "*", "**/p", "b/", "?", "[pq]", "b/*/q"])


def ask(word):
    if word != "base":
        return word
    return lambda conflict: conflict.base or "delete"


@settings(max_examples=30, deadline=None)
@given(TREES, TREES, TREES, st.dictionaries(PATTERNS, WORDS, max_size=4), st.data())
def test_what_patterns_decide_does_not_depend_on_cuts(base, ours, theirs, rules, data):
    strategy = {pattern: ask(word) for pattern, word in rules.items()}
    expected, conflicts = {}, []
    for path in sorted(PATHS):
        then, here, there = base.get(path), theirs.get(path), ours.get(path)
        kept = there if here in {then, there} else here
        if then not in {here, there} and here != there:
            word = next((word for glob, word in rules.items() if matches(glob, path)), "conflict")
            if word == "conflict":
                conflicts.append(path)
            kept = {"source-wins": there, "dest-wins": here, "base": then}.get(word)
        if kept is not None:
            expected[path] = kept
    cut = data.draw(st.sampled_from([(100, 1), (300, 2), (100_000, 1_000)]))
    lake = ScriptedWorld().lake()
    repo = lake.create_repository("cuts", splitting=Splitting(max_bytes=cut[0], raggedness=cut[1]))
    main = repo.branch("main")
    dev = repo.create_branch("dev", commit(main, base).id)
    commit(dev, {path: ours.get(path) for path in PATHS})
    commit(main, {path: theirs.get(path) for path in PATHS})
    preview = repo.preview_merge("dev", into="main", strategy=strategy)
    assert [conflict.path for conflict in preview.conflicts] == conflicts
    if conflicts:
        with pytest.raises(MergeConflictError):
            repo.merge("dev", into="main", strategy=strategy)
    else:
        told, before = list(preview.changes()), repo.commit("main").id
        made = repo.merge("dev", into="main", strategy=strategy).commit
        assert tree(repo.ref("main")) == expected
        assert told == list(repo.diff(before, made.id))


ODD = dict.fromkeys(("a[1].csv", "a1.csv", "in[1]/x", "in1/x", "z"), "base")


def odd_sides(repo):
    main = repo.branch("main")
    dev = repo.create_branch("dev", commit(main, ODD).id)
    commit(dev, dict.fromkeys(ODD, "dev"))
    return commit(main, dict.fromkeys(ODD, "main"))


def test_a_path_that_exists_is_no_pattern(repo):
    odd_sides(repo)
    rules = {"a[1].csv": "source-wins", "in[1]/": "source-wins", "**": "dest-wins"}
    preview = repo.preview_merge("dev", into="main", strategy={"a[1].csv": "source-wins"})
    assert [each.path for each in preview.conflicts] == ["a1.csv", "in1/x", "in[1]/x", "z"]
    repo.cherry_pick("dev", onto="main", strategy=rules)
    named = {"a[1].csv": "dev", "in[1]/x": "dev"}
    assert tree(repo.ref("main")) == dict.fromkeys(ODD, "main") | named


def test_a_run_publishes_with_named_paths(repo):
    commit(repo.branch("main"), ODD)
    with repo.run("05", strategy={"a[1].csv": "source-wins", "**": "dest-wins"}) as run:
        for path in ODD:
            run.put(path, b"dev")
        commit(repo.branch("main"), dict.fromkeys(ODD, "main"))
    assert tree(repo.ref("main")) == dict.fromkeys(ODD, "main") | {"a[1].csv": "dev"}

"""Ref expressions: what they name; anything else raises a typed error."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graveler.errors import InvalidInputError, RefNotFoundError
from tests.harness.worlds import ScriptedWorld


@pytest.fixture(scope="module")
def repo():
    made = ScriptedWorld().repo()
    main = made.branch("main")
    for name in ("one", "two", "three"):
        main.put(name, b"1")
        main.commit(name)
    dev = made.create_branch("dev", "main~1")
    dev.put("dev", b"1")
    dev.commit("dev")
    made.merge("dev", "main", message="merge")
    made.tags.create("v1", "main~1")
    return made


NAMED = {
    "merge": "main main@ main~0 main^0",
    "three": "main~ main~1 main^ main^1 v1",
    "dev": "main^2 dev",
    "two": "main^2~1 main^2^ main~~ main~2",
    "one": "main~3 main~^~ v1~2",
    "Repository created": "main~4",
}


@pytest.mark.parametrize("message", NAMED)
def test_what_an_expression_names(repo, message):
    for expression in NAMED[message].split():
        assert repo.commit(expression).message == message, expression


def test_a_commit_is_named_by_its_id_or_enough_of_it(repo):
    for commit in repo.log():
        assert repo.commit(commit.id) == commit
        assert repo.commit(commit.id[:12]) == commit
        if commit.parents:
            assert repo.commit(f"{commit.id[:16]}~").id == commit.parents[0]


def test_what_names_nothing_is_not_found(repo):
    for expression in ("unknown", "main~9", "main^3", "v1@", "abcdef", "0" * 64, "abc"):
        with pytest.raises(RefNotFoundError):
            repo.commit(expression)
    with pytest.raises(RefNotFoundError, match=r"has 1 parent$"):
        repo.commit("v1^2")


@pytest.mark.parametrize(
    "expression",
    [
        *("", "~1", "main~x", "main@{x}", "a/b", "main~1@", "é", "main\n", " main", "x" * 300),
        *("main~-1", "main~" + "9" * 5000, "main^" + "1" * 5000, "main~~99999999"),
    ],
    ids=repr,
)
def test_what_cannot_be_read_is_said_to_be_so(repo, expression):
    with pytest.raises(InvalidInputError):
        repo.commit(expression)


@given(
    st.one_of(
        st.text(max_size=12),
        st.text(alphabet="main~^@0129 v1-_./:", max_size=12),
        st.from_regex(r"(main|dev|v1|[0-9a-f]{2,9})([~^][0-9]{0,3}){0,4}", fullmatch=True),
    )
)
@example("\ud800")
@example("main~" * 400)
def test_any_text_names_a_commit_or_raises_a_typed_error(repo, expression):
    try:
        found = repo.commit(expression)
    except (RefNotFoundError, InvalidInputError):
        return
    assert repo.commit(found.id) == found


def test_an_ambiguous_prefix_is_refused():
    repo = ScriptedWorld().repo()
    main = repo.branch("main")
    prefixes: dict[str, int] = {}
    while not any(seen > 1 for seen in prefixes.values()):
        commit = main.commit("again", allow_empty=True)
        prefixes[commit.id[:4]] = prefixes.get(commit.id[:4], 0) + 1
        assert len(prefixes) < 5_000
    (twice,) = [prefix for prefix, seen in prefixes.items() if seen > 1]
    with pytest.raises(InvalidInputError, match="ambiguous"):
        repo.commit(twice)

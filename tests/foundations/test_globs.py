"""Patterns of paths, compared with a matcher that walks the parts."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.base.globs import literal_start, matches
from graveler.errors import InvalidInputError


def walks(parts, names):
    """Return whether parts of a pattern match the parts of a path, by the definition."""
    if not parts:
        return not names
    if parts[0] == "**":
        if len(parts) == 1:
            return bool(names)
        return any(walks(parts[1:], names[at:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], parts[0]) and walks(parts[1:], names[1:])


PARTS = st.sampled_from(["**", "*", "a", "b", "a*", "*b", "?", "[ab]", "[!a]", "a?", "*a*"])
NAMES = st.text("ab.", min_size=1, max_size=3)


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=5))
def test_a_pattern_matches_part_by_part(parts, names):
    assert matches("/".join(parts), "/".join(names)) == walks(parts, names)


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=5))
def test_what_matches_begins_with_the_literal_start(parts, names):
    pattern, path = "/".join(parts), "/".join(names)
    if matches(pattern, path):
        assert path.startswith(literal_start(pattern))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("tables/", "tables/a/b", True),
        ("tables/", "tables", False),
        ("tables/**", "tables/a", True),
        ("**/x.json", "x.json", True),
        ("*.json", "a/b.json", False),
        ("a.json", "aXjson", False),
        ("[]a]", "]", True),
        ("[a-c]", "b", True),
        ("[!a-c]", "b", False),
        ("[!a]", "/", False),
        ("a[", "a[", True),
        ("Ab", "ab", False),
        ("05:00*", "05:00\n", True),
    ],
)
def test_examples(pattern, path, expected):
    assert matches(pattern, path) is expected


@pytest.mark.parametrize("pattern", ["", "/a", "[c-a]"])
def test_a_pattern_that_nothing_can_match_is_refused(pattern):
    with pytest.raises(InvalidInputError, match="pattern"):
        matches(pattern, "a")

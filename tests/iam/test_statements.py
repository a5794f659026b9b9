"""What a statement is, and what it is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import InvalidInputError
from graveler.iam.statements import Target, check_statements, parse


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "give allow|deny ACTION"),
        ("read on flights", "give allow|deny ACTION"),
        ("allow read on", "give allow|deny ACTION"),
        ("Allow read on flights", "give allow|deny ACTION"),
        ("allow read, write on flights", "give allow|deny ACTION"),
        ("allow raed on flights", "action 'raed' is none of read, write, admin, keep:read"),
        ("allow read, on flights", "action '' is none of"),
        ("allow read,,write on flights", "action '' is none of"),
        ("allow * on flights", "action '*' is none of"),
        ("allow read on Flights", "resource 'Flights'"),
        ("allow read on flights/main", "resource 'flights/main'"),
        ("allow read on flights@", "resource 'flights@'"),
        ("allow read on flights@main:", "resource 'flights@main:'"),
        ("allow read on flights@ma[in", "resource 'flights@ma[in'"),
        ("allow read on flights:/a", "path '/a'"),
        ("allow read on flights:a//b", "path 'a//b'"),
        ("allow read on flights:a/../b", "path 'a/../b'"),
        ("allow read on flights:a/[z-a]", "pattern 'a/[z-a]'"),
    ],
)
def test_what_is_no_statement_is_refused_with_the_reason(text, told):
    with pytest.raises(InvalidInputError) as failure:
        parse(text)
    assert told in str(failure.value)


def test_a_scope_has_no_effect_and_a_policy_has_a_bound():
    assert parse("read on flights", scope=True).allows
    with pytest.raises(InvalidInputError, match="scope 'allow read on flights': give ACTION"):
        parse("allow read on flights", scope=True)
    with pytest.raises(InvalidInputError, match="65 statements"):
        check_statements(("allow read on flights",) * 65)


CASES = [
    # resource, target, covers, touches
    ("*", Target(), True, True),
    ("*", Target("flights", "main", "a"), True, True),
    ("flights", Target(), False, True),
    ("flights", Target("flights"), True, True),
    ("flights", Target("flights2", "main", "a"), False, False),
    ("fl*", Target("flights2", "main", "a"), True, True),
    ("flights@main", Target("flights", "main"), True, True),
    ("flights@main", Target("flights", "main2"), False, False),
    ("flights@main", Target("flights", ""), False, True),
    ("flights@rel-?", Target("flights", "rel-1", "a"), True, True),
    ("flights@*", Target("flights", "", "a"), True, True),
    ("flights:*", Target("flights", "main"), True, True),
    ("flights:t/*", Target("flights", "main"), False, True),
    ("flights:t/*", Target("flights", "main", "t/"), True, True),
    ("flights:t/*", Target("flights", "main", "t"), False, False),
    ("flights:t/*", Target("flights", "main", "t/a/b"), True, True),
    ("flights:t/", Target("flights", "main", "t/a/b"), True, True),
    ("flights:t/**", Target("flights", "main", "t/a/b/"), True, True),
    ("flights:t/*", Target("flights", "main", "t2/a"), False, False),
    ("flights:t/*", Target("flights", "main", "t2/"), False, False),
    ("flights:t/a", Target("flights", "main", "t/a"), True, True),
    ("flights:t/a", Target("flights", "main", "t/"), False, True),
    ("flights:t", Target("flights", "main", "table/"), False, False),
    ("flights:t/*.csv", Target("flights", "main", "t/a.csv"), True, True),
    ("flights:t/*.csv", Target("flights", "main", "t/a/b.csv"), False, False),
    ("flights:*/raw/*", Target("flights", "main", "t/raw/x/y"), True, True),
    ("flights:*/raw/*", Target("flights", "main", "t/raw/"), True, True),
    ("flights:*/raw/*", Target("flights", "main", "t/"), False, True),
    ("flights:**/_tmp/*", Target("flights", "main", "a/b/_tmp/c"), True, True),
    ("flights:a[1].csv", Target("flights", "main", "a[1].csv"), True, True),
    ("flights:a[1]/*", Target("flights", "main", "a[1]/b"), True, True),
    ("flights:a[1]/*", Target("flights", "main", "a[1]/"), True, True),
    ("flights:a b/05:00/*", Target("flights", "main", "a b/05:00/c"), True, True),
]


@pytest.mark.parametrize(("resource", "target", "covers", "touches"), CASES)
def test_what_a_resource_is_about(resource, target, covers, touches):
    statement = parse(f"allow read on {resource}")
    assert (statement.covers("read", target), statement.touches("read", target)) == (
        covers,
        touches,
    )
    assert not statement.covers("write", target)
    assert not statement.touches("write", target)


parts = st.sampled_from(["a", "b", "a1", "a[1]", "ab"])
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)
patterns = st.lists(
    st.sampled_from(["a", "b", "a1", "a[1]", "*", "**", "a*", "?"]), min_size=1, max_size=4
).map("/".join)


@given(patterns, paths, paths)
def test_a_folder_is_covered_or_touched_by_its_files(pattern, folder, below):
    """What covers a folder covers all below it; what covers something below it touches it."""
    statement = parse(f"deny read on flights:{pattern}")
    tree, file = (
        Target("flights", "main", f"{folder}/"),
        Target("flights", "main", f"{folder}/{below}"),
    )
    if statement.covers("read", tree):
        assert statement.covers("read", file)
    if statement.covers("read", file):
        assert statement.touches("read", tree)
        assert statement.touches("read", Target("flights", "main"))
        assert statement.touches("read", Target())

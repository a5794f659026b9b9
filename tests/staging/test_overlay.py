"""Staged writes above a tree, and listings grouped by a delimiter."""

from hypothesis import given
from hypothesis import strategies as st

from graveler.model import Entry, Prefix
from graveler.reads.listing import Scan, list_entries, overlay
from graveler.values import TOMBSTONE, encode_entry, stage_entry

paths = st.text(alphabet="ab/é", min_size=1, max_size=5)


def entry(path, size=0):
    return Entry(path, "data/x", size, "c")


def value(path, size=0):
    return encode_entry(entry(path, size))[1]


@given(st.sets(paths, max_size=8), st.dictionaries(paths, st.booleans(), max_size=8))
def test_staged_writes_win_and_tombstones_hide(committed, staged):
    below = sorted((path.encode(), value(path)) for path in committed)
    above = sorted(
        (path.encode(), stage_entry(path.encode(), entry(path, 1)) if live else TOMBSTONE)
        for path, live in staged.items()
    )
    expected = {path: value(path) for path in committed}
    for path, live in staged.items():
        expected.pop(path, None)
        if live:
            expected[path] = value(path, 1)
    seen = list(overlay(iter(above), iter(below)))
    assert seen == sorted((path.encode(), kept) for path, kept in expected.items())


def by_definition(tree, prefix, after, delimiter):
    """Return the listing by its definition: each path or group after `after`, once."""
    listed = {}
    for path in tree:
        if not path.startswith(prefix):
            continue
        cut = path.find(delimiter, len(prefix)) if delimiter else -1
        folded = path if cut < 0 else path[: cut + len(delimiter)]
        if not after or (folded.encode() > after.encode() and path.encode() > after.encode()):
            listed[folded.encode()] = cut >= 0
    return [(key.decode(), is_folded) for key, is_folded in sorted(listed.items())]


@given(
    st.sets(paths, max_size=12),
    st.sampled_from(["", "a", "a/", "b/a", "é", "/"]),
    st.sampled_from(["", "a", "a/", "a/b", "b", "é/"]),
    st.sampled_from(["", "/", "a/", "é"]),
    st.integers(1, 3),
)
def test_a_listing_is_what_its_definition_says(tree, prefix, after, delimiter, size):
    items = sorted((path.encode(), value(path)) for path in tree)

    def listed(after):
        def scan(start):
            below = (item for item in items if item[0].startswith(prefix.encode()))
            return (item for item in below if item[0] >= start)

        found = list_entries(Scan(scan), prefix=prefix, after=after, delimiter=delimiter)
        return [(item.path, isinstance(item, Prefix)) for item in found]

    assert listed(after) == by_definition(tree, prefix, after, delimiter)
    paged: list[tuple[str, bool]] = []
    while page := listed(paged[-1][0] if paged else after)[:size]:
        paged += page
    assert paged == listed(after)

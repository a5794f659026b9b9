"""Added, changed and removed files as a gate sees them, and the guides' gate for empty hours."""

import pytest

import graveler
from graveler.errors import GateFailedError

HOUR = {"hour": "2013-01-01T05:00Z"}
FOLDER = "output/2013/01/01/05:00/"


@graveler.gate(reads="run")
def no_empty_hour(candidate):
    assert candidate.has_below(candidate.run.hour_prefix("output")), "the hour has no output"


@pytest.fixture
def published(repo):
    """A repository with the hour and the hour before it."""
    main = repo.branch("main")
    main.put("output/2013/01/01/04:00/part-0", b"4")
    main.commit("04:00")
    with repo.run("05:00", metadata=HOUR, gates=[no_empty_hour]) as run:
        run.put(FOLDER + "part-0", b"5")
    return repo


@pytest.mark.parametrize("isolated", [False, True])
def test_a_run_without_an_hour_is_told_how_to_name_it(published, isolated):
    gate = graveler.gate(reads="run", isolated=isolated)(no_empty_hour.check)
    with (
        pytest.raises(GateFailedError, match="run '07:00' has no hour: open it with metadata="),
        published.run("07:00", gates=[gate]) as run,
    ):
        run.put("x", b"1")


def test_added_changed_and_removed_are_apart(published):
    main = published.branch("main")
    for name in ("same", "changes", "goes"):
        main.put(f"t/{name}", name.encode())
    main.commit("more")

    @graveler.gate(prefix="t/", reads="changes")
    def apart(candidate):
        new, changed = list(candidate.added("t/")), list(candidate.changed("t/"))
        (removed,) = candidate.removed("t/")
        assert [(entry.path, candidate.get(entry)) for entry in new] == [("t/new", b"n")]
        assert [(entry.path, candidate.get(entry)) for entry in changed] == [("t/changes", b"c")]
        assert (removed.path, candidate.before.get(removed)) == ("t/goes", b"goes")
        assert candidate.before.stat("t/changes").size == len("changes")

    with published.run("t", gates=[apart]) as run:
        run.put("t/same", b"same")
        run.put("t/changes", b"c")
        run.put("t/new", b"n")
        run.delete("t/goes")
        run.put("u/other", b"1")
    assert published.ref("main").exists("t/new")

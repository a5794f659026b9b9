"""What the history of a path reads."""

from tests.harness.histories import commit, messages
from tests.harness.worlds import ScriptedWorld


def test_only_commits_that_can_have_changed_the_path_are_opened():
    """Of 500 commits, ten change the path."""
    repo = ScriptedWorld().repo(scripted=False)
    main = repo.branch("main")
    commit(main, "base", **{f"k{number:03}": "0" for number in range(60)})
    for number in range(500):
        path = "k010" if number % 50 == 0 else f"k{30 + number % 25:03}"
        commit(main, str(number), **{path: f"v{number}"})
    stats = repo.stores.ranges.stats

    def opened(**options):
        before = (stats.ranges_read, stats.metaranges_read)
        found = messages(repo, **options)
        return found, stats.ranges_read - before[0], stats.metaranges_read - before[1]

    tens = [*(str(number) for number in range(450, -1, -50)), "base"]
    for options in ({"path": "k010"}, {"prefix": "k010"}):
        found, ranges, trees = opened(**options)
        assert found == tens
        assert len(tens) <= ranges <= 2 * len(tens)
        assert len(tens) <= trees <= 2 * len(tens)
    assert opened(path="k059") == (["base"], 1, 1)  # the first commit that has it, alone

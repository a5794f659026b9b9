"""Iceberg's compatibility kit: the page lists what does not pass, with what the kit says and the reason."""

import re
from collections import Counter
from pathlib import Path

from tests.harness.iceberg import catalog_of, delays

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "iceberg-compatibility.md"
ROW = re.compile(r"^\| (`test.+`|`\w+.*`) \| (\w+) \| `(.+)` \| .+ \|$", re.MULTILINE)
COUNTS = "Of its {total} tests, {passed} pass, {failed} fail, {aborted} are aborted and {skipped} is skipped"


def listed():
    """Return the tests on the page, with how each ends and what the kit says."""
    return {
        name: (outcome, words)
        for names, outcome, words in ROW.findall(PAGE.read_text("utf-8"))
        for name in re.findall(r"`([^`]+)`", names)
    }


def test_the_page_lists_what_does_not_pass(kit):
    expected = listed()
    other = {
        name: (outcome, told[:500])
        for name, (outcome, told) in kit.outcomes.items()
        for listing, words in [expected.get(name, ("passed", ""))]
        if outcome != listing or words not in told
    }
    assert other == {}
    assert expected.keys() <= kit.outcomes.keys()


def test_the_page_has_the_counts(kit):
    counts = Counter(outcome for outcome, _ in kit.outcomes.values())
    told = COUNTS.format(total=counts.total(), **counts)
    assert told in " ".join(PAGE.read_text("utf-8").split())


def test_the_other_branches_have_moved_and_have_what_is_theirs(kit):
    repo, run, rounds = kit.repo, kit.run, kit.rounds
    assert rounds > 5
    main = catalog_of(repo.branch("main"))
    assert main.list_namespaces() == [("beside",)]
    assert delays(main, "beside.flights") == [*range(rounds)]
    assert {entry.path for entry in repo.ref("main").list("files/")} == {
        f"files/{number}" for number in range(rounds)
    }
    for number in range(rounds):
        assert delays(catalog_of(repo.branch(f"other-{number}")), "newdb.newtable") == [number]
    assert not run.exists("beside/flights/_table.json")
    left = {entry.path for entry in run.entries()}
    assert left
    run.publish()
    assert left < {entry.path for entry in repo.ref("main")}
    assert delays(main, "beside.flights") == [*range(rounds)]
    assert repo.fsck().sound

"""Each checker judges a history that breaks its guarantee, and one that keeps it."""

from itertools import count

import pytest

from graveler.errors import CorruptionError, NoChangesError, OutcomeUnknownError
from tests.simulate.checkers import CHECKERS, listings_show_one_version, verdict
from tests.simulate.evidence import CommitFacts, Evidence
from tests.simulate.history import Operation

_bits = count()

Trees = dict[str, dict[str, str]]


def op(kind, *, after=(), done=True, **fields):
    """An operation that began after those of `after`, and all before them, had ended."""
    before = 0
    for earlier in after:
        before |= earlier.bit | earlier.before
    bit = 1 << next(_bits)
    fields.setdefault("branch", "main")
    fields.setdefault("message", f"m{bit}")
    return Operation(bit, "p", kind, before=before, done=done, **fields)


def put(value, **fields):
    return op("put", writes={"k": value}, **fields)


def delete(**fields):
    return op("delete", writes={"k": None}, **fields)


def read(result, **fields):
    return op("read", path="k", result=result, **fields)


def commit(identifier, **fields):
    return op("commit", result=identifier, **fields)


def evidence(*operations, trees=None, heads=None, **fields):
    """Evidence whose commits form a line in the given order; the last one is the head of main."""
    commits: dict[str, CommitFacts] = {}
    parent: tuple[str, ...] = ()
    told = {o.result: o.message for o in operations if o.kind in {"commit", "merge"} and o.ok}
    for identifier, tree in (trees or {}).items():
        commits[identifier] = CommitFacts(parent, tree, told.get(identifier, identifier))
        parent = (identifier,)
    if heads is None:
        heads = {"main": parent[0]} if parent else {}
    return Evidence(operations, commits=commits, heads=heads, **fields)


def lost():
    a = put("a")
    return evidence(a, read(None, after=[a])), evidence(a, read("a", after=[a]), read(None))


def phantom():
    a = put("a")
    return evidence(a, read("x", after=[a])), evidence(a, read("a"))


def from_the_future():
    seen = read("a")
    return evidence(seen, put("a", after=[seen])), evidence(read("a"), put("a"))


def stale():
    a = put("a")
    b = put("b", after=[a])
    beside = put("c")
    wrong = evidence(a, b, read("a", after=[b]))
    return wrong, evidence(a, b, beside, read("c", after=[b, beside]), read("b", after=[b]))


def stale_listing():
    a = put("a")
    b = put("b", after=[a])
    return (
        evidence(a, b, op("list", after=[b], result={"k": "a"})),
        evidence(a, b, op("list", after=[a], result={"k": "a"})),
    )


def resurrected():
    a = put("a")
    gone = delete(after=[a])
    never_told = delete(after=[a], done=False)
    return (
        evidence(a, gone, read("a", after=[gone])),
        evidence(a, never_told, read("a", after=[a])),
    )


def undiscarded():
    a = put("a")
    reset = op("reset", after=[a])
    saved = commit("1", after=[a])
    after = op("reset", after=[saved])
    return (
        evidence(a, reset, read("a", after=[reset])),
        evidence(a, saved, after, read("a", after=[after]), trees={"1": {"k": "a"}}),
    )


def of_a_deleted_branch():
    a = put("a")
    drop = op("drop", after=[a])
    create = op("create", after=[drop])
    b = put("b", after=[create])
    return (
        evidence(a, drop, create, read("a", after=[create])),
        evidence(a, drop, create, b, read("b", after=[b]), read(None, after=[create])),
    )


def unreal_commit():
    a = put("a")
    late = commit("1", after=[a])
    return (
        evidence(a, late, put("b", after=[late]), trees={"1": {"k": "b"}}),
        evidence(a, commit("1", after=[a]), put("b"), trees={"1": {"k": "b"}}),
    )


def unreal_commit_without_a_result():
    a = put("a")
    unknown = op("commit", after=[a], done=False, message="1")
    return (
        evidence(a, unknown, trees={"1": {"k": "x"}}),
        evidence(a, unknown, trees={"1": {"k": "a"}}),
    )


def acausal_commit():
    a = put("a")
    return (
        evidence(a, commit("1", after=[a]), trees={"1": {}}),
        evidence(a, commit("1"), trees={"1": {}}),
    )


def nothing_to_commit():
    a = put("a")

    def none(head):
        error = OutcomeUnknownError("said to have nothing to do")
        return op("commit", after=[a], error=error, head=head)

    trees = {"0": {}, "1": {"k": "a"}}
    return evidence(a, none("0"), trees=trees), evidence(a, none("1"), trees=trees)


def acausal_merge():
    a = put("a")
    saved = commit("1", after=[a])
    trees = {"1": {"k": "a"}}

    def merge(**fields):
        return op("merge", result="2", writes={"m": "s"}, **fields)

    return (
        evidence(a, saved, merge(after=[saved]), trees=trees | {"2": {"m": "s"}}),
        evidence(a, merge(after=[a]), trees={"2": {"m": "s"}}),
    )


def commit_out_of_history():
    trees: Trees = {"1": {}, "2": {}}
    return (
        evidence(commit("2"), trees=trees, heads={"main": "1"}),
        evidence(commit("1"), trees=trees),
    )


def commit_out_of_a_deleted_branch():
    drop = op("drop")
    trees: Trees = {"1": {}, "2": {}}
    return (
        evidence(drop, commit("2", after=[drop]), trees=trees, heads={"main": "1"}),
        evidence(drop, commit("2"), trees=trees, heads={"main": "1"}),
    )


def landed_twice():
    made = op("commit", result="1", message="same")
    twice = {
        "1": CommitFacts((), {}, "same"),
        "2": CommitFacts(("1",), {}, "same"),
    }
    once = {"1": twice["1"], "2": CommitFacts(("1",), {}, "other")}
    return (
        Evidence([made], commits=twice, heads={"main": "2"}),
        Evidence([made], commits=once, heads={"main": "2"}),
    )


def guessed():
    """Two branches that kept their own values merge again: one value is taken, or none."""

    def merged(theirs, made):
        trees = {
            "0": ((), "old"),
            "x": (("0",), "x"),
            "y": (("0",), "y"),
            "x2": (("x", "y"), "x"),
            "y2": (("y", "x"), theirs),
            "m": (("x2", "y2"), made),
        }
        commits = {
            name: CommitFacts(parents, {"k": value}, name)
            for name, (parents, value) in trees.items()
        }
        return Evidence([op("merge", result="m", message="m")], commits=commits)

    return merged("y", "x"), merged("x", "x")


def guessed_at_the_start():
    """The value of one branch replaces that of another, although neither knew the other."""
    commits = {
        "0": CommitFacts((), {"k": "old"}, "0"),
        "x": CommitFacts(("0",), {"k": "x"}, "x"),
        "y": CommitFacts(("0",), {"k": "y"}, "y"),
        "z": CommitFacts(("0",), {"k": "old"}, "z"),
    }
    wrong = {**commits, "m": CommitFacts(("x", "y"), {"k": "x"}, "m")}
    right = {**commits, "m": CommitFacts(("x", "z"), {"k": "x"}, "m")}
    merge = op("merge", result="m", message="m")
    return Evidence([merge], commits=wrong), Evidence([merge], commits=right)


def moving_tag():
    first = op("list_ref", branch="v1", result={"k": "a"})
    return (
        evidence(first, op("list_ref", branch="v1", result={"k": "b"})),
        evidence(first, op("list_ref", branch="v2", result={"k": "b"})),
    )


def broken_on_the_way():
    return evidence(broken=["commit/1 was written again"]), evidence()


def surprise():
    def failed(kind, error):
        return op(kind, error=error)

    unknown = failed("put", OutcomeUnknownError("lost"))
    return (
        evidence(failed("read", CorruptionError("damaged"))),
        evidence(unknown, struck=unknown.bit),
    )


def refused_though_it_may_be_empty():
    return (
        evidence(op("commit", error=NoChangesError("nothing"), empty=True)),
        evidence(op("commit", error=NoChangesError("nothing"))),
    )


def unexplained_fault():
    unknown = op("put", error=OutcomeUnknownError("lost"))
    return evidence(unknown), evidence(unknown, struck=unknown.bit)


def endless():
    first = commit("1", calls=90)
    trees: Trees = {"1": {}}
    return evidence(first, trees=trees), evidence(first, put("a"), trees=trees)


def sealed():
    return evidence(sealed={"main": ("t",)}), evidence(sealed={"main": ()})


def staged_at_rest():
    a = put("a")

    def seen(result):
        return op("list", after=[a], result=result)

    def ended(listing, tree):
        listing.process = "recovery"
        return evidence(a, listing, trees={"1": tree}, heads={"main": "1"})

    return ended(seen({"k": "a"}), {}), ended(seen({"k": "a"}), {"k": "a"})


def old_news():
    first = commit("1")
    trees: Trees = {"1": {}}
    return (
        evidence(commit("1", after=[first]), first, trees=trees),
        evidence(commit("1"), first, trees=trees),
    )


def left_behind():
    return (
        evidence(put("a", calls=3), orphans=["t"]),
        evidence(put("a", calls=5), orphans=["t"]),
    )


def left_by_the_dead():
    return evidence(put("a"), orphans=["t"]), evidence(put("a", done=False), orphans=["t"])


def left_by_a_reset():
    dropped = op("drop")
    nothing, one = (op("hard_reset", result=files) for files in (0, 1))
    return evidence(nothing, dropped, orphans=["t"]), evidence(one, dropped, orphans=["t"])


CASES = {
    "no_write_is_lost": [lost],
    "reads_see_what_happened": [phantom, from_the_future],
    "reads_are_fresh": [stale, stale_listing],
    "deletions_stay": [resurrected],
    "discarded_stays_discarded": [undiscarded, of_a_deleted_branch],
    "commits_hold_a_listing": [unreal_commit, unreal_commit_without_a_result],
    "commits_hold_what_came_before": [acausal_commit, nothing_to_commit, acausal_merge],
    "commits_stay_in_history": [commit_out_of_history, commit_out_of_a_deleted_branch],
    "commits_land_once": [landed_twice],
    "commits_are_news": [old_news],
    "merges_never_guess": [guessed, guessed_at_the_start],
    "nothing_staged_is_left_behind": [left_behind, left_by_the_dead, left_by_a_reset],
    "refs_hold_still": [moving_tag],
    "nothing_immutable_was_written": [broken_on_the_way],
    "only_expected_errors": [surprise, unexplained_fault, refused_though_it_may_be_empty],
    "operations_end": [endless],
    "nothing_is_sealed_at_rest": [sealed],
    "everything_is_committed_at_rest": [staged_at_rest],
}


@pytest.mark.parametrize(
    ("checker", "case"),
    [(checker, case) for checker in CHECKERS for case in CASES[checker.__name__]],
    ids=lambda value: value.__name__,
)
def test_a_checker_tells_the_broken_promise_from_the_kept_one(checker, case):
    broken, kept = case()
    assert list(checker(broken))
    assert list(checker(kept)) == []


@pytest.mark.parametrize("case", [case for cases in CASES.values() for case in cases])
def test_the_verdict_names_who_found_it(case):
    broken, _ = case()
    assert verdict(broken).partition(":")[0] in CASES


def test_every_checker_is_tested():
    assert {checker.__name__ for checker in CHECKERS} == set(CASES)


def test_a_listing_of_two_versions_is_found_out():
    first = op("merge", writes={"a": "1", "b": "1"})
    second = op("merge", after=[first], writes={"a": "2", "b": "2"})

    def listed(a, b):
        history = evidence(first, second, op("list", result={"a": a, "b": b}))
        return verdict(history, [listings_show_one_version])

    for mixed in (("1", "2"), ("2", "1")):
        assert listed(*mixed).startswith("listings_show_one_version: ")
    for whole in (("1", "1"), ("2", "2")):
        assert listed(*whole) == ""
    nothing = evidence(first, op("list", result={"a": "1"}))
    assert verdict(nothing, [listings_show_one_version]).startswith("listings_show_one_version: b=")

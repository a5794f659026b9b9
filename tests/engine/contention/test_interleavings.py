"""Operations of two processes: the second one runs between any two calls of the first one.

The second operation runs before call 1 of the first operation, then before call 2, and so on,
until the first operation ends earlier. So each test covers every such interleaving.
"""

from graveler.repository.commits.sealing import (  # a commit calls it before it dies
    MOST_SEALED,
    _seal,
)
from tests.harness.worlds import ScriptedWorld, interleave, tree


def main_of(world):
    return world.repo(scripted=False).branch("main")


def history(world, ref="main"):
    return list(world.repo(scripted=False).log(ref, first_parent=True))


def assert_linear(world, *commits):
    """Assert that main's history is linear and has each of `commits` once."""
    log = history(world)
    assert all(len(commit.parents) <= 1 for commit in log)
    assert [commit.generation for commit in log] == list(range(len(log), 0, -1))
    ids = [commit.id for commit in log]
    for commit in commits:
        assert ids.count(commit.id) == 1


def start(repo):
    main = repo.branch("main")
    main.put("base", b"0")
    main.put("gone", b"0")
    main.commit("base")
    main.put("staged", b"1")


def put(path, body=b"new"):
    return lambda repo: repo.branch("main").put(path, body)


def commit(message="c"):
    return lambda repo: repo.branch("main").commit(message)


def test_a_write_is_never_lost_to_a_commit():
    def check(world, entry, _):
        assert entry.path == "w"
        assert tree(main_of(world)) == {"base": "0", "gone": "0", "staged": "1", "w": "new"}
        world.repo(scripted=False).branch("main").commit("rest", allow_empty=True)
        assert tree(world.repo(scripted=False).ref("main"))["w"] == "new"

    interleave(start, put("w"), commit(), check)


def test_a_deletion_is_never_lost_to_a_commit():
    def check(world, outcome, _):
        assert outcome is None
        assert tree(main_of(world)) == {"base": "0", "staged": "1"}

    interleave(start, lambda repo: repo.branch("main").delete("gone"), commit(), check)


def test_a_commit_takes_or_leaves_staged_concurrent_writes():
    def check(world, made, entry):
        assert entry.path == "w"
        committed = tree(world.repo(scripted=False).ref(made.id))
        assert committed["staged"] == "1"  # acknowledged before the commit began
        assert tree(main_of(world)) == {"base": "0", "gone": "0", "staged": "1", "w": "new"}
        staged = {change.path for change in main_of(world).uncommitted()}
        assert ("w" in committed) != ("w" in staged)
        assert_linear(world, made)

    interleave(start, commit("mine"), put("w"), check)


def test_a_reader_sees_every_acknowledged_path_whoever_commits():
    expected = {"base": "0", "gone": "0", "staged": "1"}

    def check(world, seen, _):
        assert seen == expected

    interleave(start, lambda repo: tree(repo.branch("main")), commit(), check)
    interleave(
        start,
        lambda repo: {path: repo.branch("main").get(path).decode() for path in expected},
        commit(),
        check,
    )


def test_what_is_uncommitted_is_all_or_nothing_beside_a_commit():
    def check(world, paths, _):
        assert paths in (["staged"], [])

    interleave(
        start,
        lambda repo: [change.path for change in repo.branch("main").uncommitted()],
        commit(),
        check,
    )


def test_a_loser_to_a_commit_of_its_own_tokens_lands_its_tree():
    built = []

    def other(repo):
        repo.branch("main").put("more", b"2")
        return repo.branch("main").commit("theirs")

    def mine(repo):
        written = repo.stores.ranges.stats
        made = repo.branch("main").commit("mine")
        built.append(written.metaranges_written)
        return made

    def check(world, made, theirs):
        assert tree(world.repo(scripted=False).ref("main"))["staged"] == "1"
        assert theirs.message == "theirs"

    interleave(start, mine, other, check)
    assert max(built) == 1


def test_dying_committers_leave_a_bounded_number_of_tokens():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    main = repo.branch("main")
    for number in range(3 * MOST_SEALED):
        main.put(f"p{number}", b"1")
        main.put("same", str(number).encode())
        _seal(repo.stores, "main", "")  # and the committer dies
    record = repo.stores.refs.branches.get("main")
    assert len(record.sealed_tokens) == MOST_SEALED
    made = main.commit("the next")
    assert not made.by_other
    assert repo.stores.refs.branches.get("main").sealed_tokens == ()
    shown = tree(repo.ref("main"))
    assert len(shown) == 3 * MOST_SEALED + 1
    assert shown["same"] == str(3 * MOST_SEALED - 1)
    assert not list(main.uncommitted())
    assert [commit.message for commit in history(world)][:2] == ["the next", "the next"]

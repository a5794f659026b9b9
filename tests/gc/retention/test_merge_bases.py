"""Merges after a collection: which are possible, with a full and an empty cache alike."""

from graveler.errors import ExpiredError, MergeConflictError
from tests.harness.gc_lakes import check_sound, collect, commit, pass_days


def grow(world, repo, branch, count=3):
    for _ in range(count):
        pass_days(world, 10)
        commit(repo, branch, **{branch: str(world._clock.now())})


def merge(repo, source, into):
    """Merge, and return the class of the error or None."""
    try:
        repo.merge(source, into)
    except (ExpiredError, MergeConflictError) as error:
        return type(error)
    return None


def hosts(world, repo):
    """Yield a host that has read everything before the collection, and a host with empty caches."""
    list(repo.log("main"))
    for record in repo.branches():
        for one in repo.log(record.name):
            list(repo.ref(one.id).entries())
    yield repo
    collect(world.repo())
    yield world.repo()


def test_branches_that_merged_each_other_merge_again(world, repo):
    for number in range(4):
        one, two = (
            commit(repo, name, **{f"{name}{number}": "x", "p0": f"{name}{number}"})
            for name in ("one", "two")
        )
        repo.merge(two.id, into="one", strategy="dest-wins")
        repo.merge(one.id, into="two", strategy="dest-wins")
        pass_days(world, 10)
    for name in ("one", "two"):
        grow(world, repo, name)
    repo.gc.keep(count=1)
    warm, cold = hosts(world, repo)
    assert {merge(host, "one", "two") for host in (warm, cold)} == {MergeConflictError}
    commit(cold, "two", p0=cold.ref("one").get("p0"))
    assert merge(cold, "one", "two") is None
    check_sound(cold)


def test_any_other_merge_is_refused_with_full_and_empty_caches(world, repo):
    grow(world, repo, "main", 1)
    commit(repo, "gone", gone="0")
    repo.tags.create("v1", "gone")
    commit(repo, "dev", dev="0")
    repo.delete_branch("gone")
    grow(world, repo, "main")
    grow(world, repo, "dev")
    repo.merge("main", into="dev")  # main and dev start from the same commit
    grow(world, repo, "dev", 1)
    repo.gc.keep(count=1)
    warm, cold = hosts(world, repo)
    assert merge(cold, "v1", "dev") is ExpiredError
    assert merge(warm, "v1", "dev") is ExpiredError
    assert merge(warm, "dev", "main") is None
    check_sound(cold)

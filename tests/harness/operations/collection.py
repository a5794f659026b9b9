"""Mark, sweep and undelete."""

from tests.harness.gc_lakes import commit, days, made_key


def start(repo):
    """A history with a rule, garbage of each kind, staged writes, and a parked run."""
    for number in range(3):
        commit(repo, "main", f"m{number}", a=str(number), b=f"b{number}")
    commit(repo, "dev", x="x", y="y")
    repo.delete_branch("dev")
    dead = repo.stores.refs.branches.get("main").staging_token
    repo.branch("main").put("staged", b"s")
    repo.branch("main").commit("staged")
    repo.stores.staging.set(dead, b"late", b"\x00")
    repo.branch("main").put("live", b"l")
    run = repo.runs.open("hour")
    run.put("run", b"r")
    run.commit("half")
    run.park("later")
    repo.stores.objects.put(made_key(repo), b"stray")
    repo.gc.keep(count=2)
    days(repo, 2)


def marked(repo):
    start(repo)
    repo.gc.mark()
    days(repo, 8)


def mark(repo):
    return repo.gc.mark()


def sweep(repo):
    return repo.gc.sweep(next(iter(repo.gc.marks())).id)


def undelete(repo):
    return repo.gc.undelete(next(iter(repo.gc.marks())).id)

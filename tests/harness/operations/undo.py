"""Undo of moves and of deletions."""


def start(repo):
    """A log that fills its record, so that the next move writes a page; a staged write."""
    main = repo.branch("main")
    for number in range(7):
        main.put("a", str(number).encode())
        main.commit(str(number))
    dev = repo.create_branch("dev")
    dev.put("dev", b"d")
    dev.commit("dev")
    repo.tags.create("v1")
    main.put("staged", b"s")


def deleted(repo):
    start(repo)
    repo.delete_branch("dev")
    repo.tags.delete("v1")


def shared(repo):
    """Two staged paths, of which one may have been dropped."""
    start(repo)
    repo.branch("main").put("x/1", b"x")
    repo.branch("main").delete("a")


def dropped(repo):
    shared(repo)
    repo.branch("main").reset(paths=["x/", "a"])
    repo.branch("main").put("a", b"newer")


def some(repo):
    repo.branch("main").reset(paths=["x/", "a"])


def deletion(repo):
    repo.delete_branch("dev")
    repo.tags.delete("v1")


OPERATIONS = {
    "undo": (start, lambda repo: repo.undo("main")),
    "undo-reset": (dropped, lambda repo: repo.undo("main")),
    "reset": (shared, lambda repo: repo.branch("main").reset()),
    "reset-some": (shared, some),
    "undo-far": (start, lambda repo: repo.undo("main", to=5)),
    "undelete": (deleted, lambda repo: repo.undo("dev")),
    "undelete-tag": (deleted, lambda repo: repo.tags.undelete("v1")),
    "delete": (start, lambda repo: repo.delete_branch("dev")),
    "delete-tag": (start, lambda repo: repo.tags.delete("v1")),
    "tag": (start, lambda repo: repo.tags.create("v2", "dev")),
}

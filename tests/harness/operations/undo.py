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


def deletion(repo):
    repo.delete_branch("dev")
    repo.tags.delete("v1")


OPERATIONS = {
    "undo": (start, lambda repo: repo.undo("main")),
    "undo-far": (start, lambda repo: repo.undo("main", to=5)),
    "undelete": (deleted, lambda repo: repo.undo("dev")),
    "undelete-tag": (deleted, lambda repo: repo.tags.undelete("v1")),
    "delete": (start, lambda repo: repo.delete_branch("dev")),
    "delete-tag": (start, lambda repo: repo.tags.delete("v1")),
    "tag": (start, lambda repo: repo.tags.create("v2", "dev")),
}

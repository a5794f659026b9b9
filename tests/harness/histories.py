"""Helpers for short histories: a commit of files in one call, and the messages of a log."""


def commit(branch, message="c", **files):
    """Commit files; `__` in a name stands for `/`, and None deletes a file."""
    for path, content in files.items():
        if content is None:
            branch.delete(path.replace("__", "/"))
        else:
            branch.put(path.replace("__", "/"), content.encode())
    return branch.commit(message)


def messages(repo, ref="main", **options):
    return [made.message for made in repo.log(ref, **options)]

"""Runs that publish files, and what a branch then has."""

KEY = "hourly 05"


def publish(repo, key, files, *, into="main", step="work"):
    """Publish files by a step; None deletes a path."""
    run = repo.runs.open(key, into=into)
    with run.step(step) as work:
        for path, text in files.items():
            if text is None:
                work.delete(path)
            else:
                work.put(path, text.encode())
    return run.publish().commit


def files(repo, ref="main"):
    view = repo.ref(ref)
    return {
        entry.path: view.get(entry.path).decode()
        for entry in view.list()
        if entry.path != "settled"
    }

"""The expected content of an imported repository, from the model of the writer."""

from graveler.lakefs.importing import COMMIT
from graveler.model import Entry


def imported(repo):
    """Return the commits that came from lakeFS, by their ids there."""
    return {
        commit.metadata[COMMIT]: commit
        for commit in repo.stores.refs.commits.list()
        if COMMIT in commit.metadata
    }


def expected(source, tree):
    """Return the entries of a lakeFS tree as graveler has them: (path, address, size, …)."""
    return [
        (
            path,
            found.address if found.kind == 2 else f"{source}/{found.address}",
            found.size,
            dict(found.metadata),
            found.content_type,
        )
        for path, found in sorted(tree.items(), key=lambda item: item[0].encode())
    ]


def held(view):
    """Return the entries of a view in the same form."""
    return [
        (entry.path, entry.address, entry.size, dict(entry.metadata), entry.content_type)
        for entry in view.list()
        if isinstance(entry, Entry)
    ]


def check_history(repo, source, lakefs):
    """Assert that every commit that a ref reaches has its tree, its parents and its fields."""
    commits = imported(repo)
    todo = [*lakefs.branches.values(), *lakefs.tags.values()]
    seen = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        fields, commit = lakefs.commits[name], commits[name]
        parents = fields["parents"][:: 1 if fields["version"] else -1]
        assert commit.parents == tuple(commits[parent].id for parent in parents)
        assert (commit.message, commit.committer) == (fields["message"], fields["committer"])
        assert held(repo.ref(commit.id)) == expected(source, lakefs.trees[name])
        todo += parents
    for name, head in lakefs.branches.items():
        assert repo.commit(name) == commits[head]
    for name, head in lakefs.tags.items():
        assert repo.tags.list()[name] == commits[head].id

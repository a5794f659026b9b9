"""A repository compared with a dict of dicts after any operations."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from graveler.committed.splitting import Splitting
from graveler.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
)
from graveler.model import ChangeKind, Entry
from tests.harness.merge_model import MergeModel
from tests.harness.worlds import ScriptedWorld, tree

PATHS = [f"{folder}{name}" for folder in ("", "a/", "b/c/") for name in "pqrst"]
BRANCHES = ["main", "dev", "fix"]

paths = st.sampled_from(PATHS)
contents = st.sampled_from(["1", "2", "3"])
linked = st.sampled_from(["4", "5"])  # never put: a caller's checksum does not equal a computed one
branches = st.sampled_from(BRANCHES)


def changes(left, right):
    """Return the paths that differ, with the kind of each change."""
    kinds = {}
    for path in sorted(set(left) | set(right)):
        if path not in left:
            kinds[path] = ChangeKind.ADDED
        elif path not in right:
            kinds[path] = ChangeKind.REMOVED
        elif left[path] != right[path]:
            kinds[path] = ChangeKind.CHANGED
    return kinds


class RepositoryMachine(MergeModel, RuleBasedStateMachine):
    """A model in which a commit is a dict, and a branch is a head and its staged writes."""

    @initialize(raggedness=st.sampled_from([1, 2, 1_000]), most=st.sampled_from([300, 100_000]))
    def make(self, raggedness, most):
        lake = ScriptedWorld().lake()
        self.repo = lake.create_repository(
            "model", splitting=Splitting(max_bytes=most, raggedness=raggedness)
        )
        root = self.repo.commit("main")
        self.trees: dict[str, dict[str, str]] = {root.id: {}}
        self.parents = {root.id: ()}
        self.heads = dict.fromkeys(BRANCHES, root.id)
        self.staged: dict[str, dict[str, str | None]] = {branch: {} for branch in BRANCHES}
        for branch in BRANCHES[1:]:
            self.repo.create_branch(branch)
        self.tags = {}

    # What a branch shows in the model.

    def committed(self, branch):
        return self.trees[self.heads[branch]]

    def shown(self, branch):
        laid = {**self.committed(branch), **self.staged[branch]}
        return {path: content for path, content in laid.items() if content is not None}

    def exists(self, branch):
        return branch in self.heads

    # The operations.

    @rule(branch=branches, path=paths, content=contents)
    def put(self, branch, path, content):
        if self.exists(branch):
            self.repo.branch(branch).put(path, content.encode())
            self.staged[branch][path] = content

    @rule(branch=branches, path=paths)
    def delete(self, branch, path):
        if self.exists(branch):
            self.repo.branch(branch).delete(path)
            self.staged[branch][path] = None

    @rule(branch=branches, some=st.dictionaries(paths, linked, max_size=6))
    def link_many(self, branch, some):
        if self.exists(branch):
            objects = self.repo.stores.objects
            entries = []
            for path, content in some.items():
                info = objects.put(f"data/{content}", content.encode())
                entries.append(Entry(path, f"data/{content}", 1, info.checksum, computed=True))
            assert self.repo.branch(branch).link_many(entries) == len(some)
            self.staged[branch].update(some)

    @rule(branch=branches)
    def commit(self, branch):
        if not self.exists(branch):
            return
        before, after = self.committed(branch), self.shown(branch)
        if before == after:
            with pytest.raises(NoChangesError):
                self.repo.branch(branch).commit("c")
        else:
            made = self.repo.branch(branch).commit("c")
            assert made.parents == (self.heads[branch],)
            self.moved(branch, made, after)
        self.staged[branch] = {}

    def moved(self, branch, commit, tree):
        self.trees[commit.id] = tree
        self.parents[commit.id] = commit.parents
        self.heads[branch] = commit.id

    @rule(branch=branches)
    def reset(self, branch):
        if self.exists(branch):
            self.repo.branch(branch).reset()
            self.staged[branch] = {}

    @rule(branch=branches, source=branches)
    def create_branch(self, branch, source):
        if not self.exists(source):
            return
        if self.exists(branch):
            with pytest.raises(AlreadyExistsError):
                self.repo.create_branch(branch, source)
        else:
            self.repo.create_branch(branch, source)
            self.heads[branch], self.staged[branch] = self.heads[source], {}

    @rule(branch=branches)
    def delete_branch(self, branch):
        if branch == "main":
            with pytest.raises(InvalidInputError):
                self.repo.delete_branch(branch)
        elif self.exists(branch):
            self.repo.delete_branch(branch)
            del self.heads[branch], self.staged[branch]

    @rule(name=st.sampled_from(["v1", "v2"]), branch=branches)
    def tag(self, name, branch):
        if not self.exists(branch):
            return
        if self.tags.get(name, self.heads[branch]) != self.heads[branch]:
            with pytest.raises(AlreadyExistsError):
                self.repo.tags.create(name, branch)
        else:
            self.repo.tags.create(name, branch)
            self.tags[name] = self.heads[branch]

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def delete_tag(self, data):
        name = data.draw(st.sampled_from(sorted(self.tags)))
        self.repo.tags.delete(name)
        del self.tags[name]

    @rule(
        source=branches,
        into=branches,
        strategy=st.sampled_from([None, "source-wins", "dest-wins"]),
    )
    def merge(self, source, into, strategy):
        if source == into:
            with pytest.raises(InvalidInputError):
                self.repo.merge(source, into, strategy=strategy)
            return
        if not (self.exists(source) and self.exists(into)):
            return
        ours, theirs = self.heads[into], self.heads[source]
        if theirs in self.ancestors(ours):
            merged = self.repo.merge(source, into, strategy=strategy)
            assert merged.already
            assert merged.commit.id == ours
            return
        expected, conflicts = self.merged(theirs, ours, strategy)
        if conflicts:
            with pytest.raises(MergeConflictError) as refused:
                self.repo.merge(source, into, strategy=strategy)
            assert [conflict.path for conflict in refused.value.conflicts] == conflicts
        else:
            done = self.repo.merge(source, into, strategy=strategy)
            assert not done.already
            assert done.commit.parents == (ours, theirs)
            self.moved(into, done.commit, expected)

    # The invariants after each step.

    @rule(left=branches, right=branches, prefix=st.sampled_from(["", "a/", "b/c/", "p"]))
    def diff(self, left, right, prefix):
        if self.exists(left) and self.exists(right):
            found = {
                change.path: change.kind for change in self.repo.diff(left, right, prefix=prefix)
            }
            expected = changes(self.committed(left), self.committed(right))
            assert found == {p: kind for p, kind in expected.items() if p.startswith(prefix)}

    @rule(branch=branches, path=paths)
    def look(self, branch, path):
        if self.exists(branch):
            view = self.repo.branch(branch)
            content = self.shown(branch).get(path)
            assert view.exists(path) == (content is not None)
            if content is not None:
                assert view.get(path) == content.encode()

    @rule(data=st.data())
    def an_old_commit_never_changes(self, data):
        commit = data.draw(st.sampled_from(sorted(self.trees)))
        assert tree(self.repo.ref(commit)) == self.trees[commit]

    @invariant()
    def every_branch_shows_what_the_model_shows(self):
        if not hasattr(self, "repo"):
            return
        assert [record.name for record in self.repo.branches()] == sorted(self.heads)
        for branch in self.heads:
            shown = self.shown(branch)
            view = self.repo.branch(branch)
            assert tree(view) == shown
            assert [entry.path for entry in view.entries()] == sorted(shown, key=str.encode)
            assert self.repo.commit(branch).id == self.heads[branch]
            staged = {change.path: change.kind for change in view.uncommitted()}
            assert staged == changes(self.committed(branch), shown)

    @invariant()
    def the_history_of_every_branch_is_that_of_the_model(self):
        if not hasattr(self, "repo"):
            return
        for branch, head in self.heads.items():
            assert {commit.id for commit in self.repo.log(branch)} == self.ancestors(head)
        assert self.repo.tags.list() == self.tags


def test_a_merge_of_disjoint_histories_is_refused():
    repo = ScriptedWorld().repo()
    root = repo.stores.refs.commits.add(
        metarange=repo.commit("main").metarange,
        parents=(),
        message="another root",
        committer="",
        created=repo.stores.clock.now(),
        metadata={},
    )
    with pytest.raises(ConflictError, match="in common"):
        repo.merge(root.id, "main")


TestRepository = RepositoryMachine.TestCase
TestRepository.settings = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

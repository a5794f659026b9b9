"""The result of a merge by its definition, on plain dicts, for every order of several bases."""

from itertools import permutations

UNSURE = object()
"""A value that cannot be merged; it equals no other value."""


def settled(base, one, other):
    """Merge one value."""
    if UNSURE in (one, other):
        return UNSURE
    if one == other or base == other:
        return one
    return other if base == one else UNSURE


class MergeModel:
    """Commits as dicts.

    Attributes:
        trees: Content by path, for each commit.
        parents: The parents of each commit.
    """

    trees: dict[str, dict[str, str]]
    parents: dict[str, tuple[str, ...]]

    def ancestors(self, commit):
        """The commit and all its ancestors."""
        found, pending = set(), [commit]
        while pending:
            here = pending.pop()
            if here not in found:
                found.add(here)
                pending += self.parents[here]
        return found

    def best(self, several, other):
        """All best common ancestors of a merge of several commits and of another commit."""
        common = self.ancestors(other) & set().union(*map(self.ancestors, several))
        return [
            one for one in common if not any(one in self.ancestors(two) for two in common - {one})
        ]

    def outcomes(self, several, path):
        """The results of merging the commits at the path, for every order of the commits."""
        if not several:
            return {None}
        found = set()
        for first, *rest in permutations(several):
            values, done = {self.trees[first].get(path)}, [first]
            for commit in rest:
                bases = self.outcomes(self.best(done, commit), path)
                new = self.trees[commit].get(path)
                values = {settled(base, one, new) for base in bases for one in values}
                done.append(commit)
            found |= values
        return found

    def merged(self, source, dest, strategy):
        """The merged tree, and the paths that conflict."""
        ours, theirs = self.trees[dest], self.trees[source]
        bases = self.best([source], dest)
        result, conflicts = {}, []
        for path in sorted({*ours, *theirs}.union(*(self.trees[one] for one in bases))):
            outcomes = self.outcomes(bases, path)
            base = outcomes.pop() if len(outcomes) == 1 else UNSURE
            kept = settled(base, theirs.get(path), ours.get(path))
            if kept is UNSURE:
                kept = (theirs if strategy == "source-wins" else ours).get(path)
                if strategy is None:
                    conflicts.append(path)
            if kept is not None:
                result[path] = kept
        return result, conflicts

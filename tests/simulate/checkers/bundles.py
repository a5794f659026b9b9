"""Checkers of operations with many writes, and of commits of some paths."""

from collections.abc import Iterator, Mapping

from tests.simulate.checkers.judging import judge
from tests.simulate.evidence import Evidence
from tests.simulate.history import Operation

_BUNDLES = ("copy", "import")


def bundles_show_whole(evidence: Evidence) -> Iterator[str]:
    """A commit or a listing has all writes of a copy or an import, or none.

    This checker is for worlds in which no other operation writes these values or overwrites them.
    """
    for bundle in evidence.of_kind(*_BUNDLES):
        for name, tree in _trees(evidence, bundle.branch):
            there = {path for path, value in bundle.writes.items() if tree.get(path) == value}
            shows = any(bundle.writes[path] is not None for path in there)
            if shows and there != bundle.writes.keys():
                missing = sorted(bundle.writes.keys() - there)
                yield f"{name} has {sorted(there)} and not {missing} of {bundle}"


def _trees(evidence: Evidence, branch: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for listing in evidence.of_kind("list", branch=branch):
        if listing.ok:
            yield str(listing), listing.result
    if branch in evidence.heads:
        for identifier in evidence.ancestors(branch):
            facts = evidence.commits[identifier]
            yield f"commit {facts.message}", facts.tree


def chosen_paths_are_committed_alone(evidence: Evidence) -> Iterator[str]:
    """A commit of some paths holds the earlier writes of these paths, and changes no other path."""
    for operation in evidence.of_kind("commit_paths"):
        facts = evidence.commits.get(operation.result or "")
        if not operation.ok or facts is None or facts.message != operation.message:
            continue
        before = evidence.commits[facts.parents[0]].tree
        for path in sorted(evidence.paths(operation.branch) | set(facts.tree) | set(before)):
            yield from _judged(evidence, operation, path, facts.tree.get(path), before.get(path))


def _judged(
    evidence: Evidence, operation: Operation, path: str, value: str | None, before: str | None
) -> Iterator[str]:
    if path.startswith(operation.paths):
        wrong = judge(evidence, operation, operation.branch, path, value)
        if wrong is not None:
            yield f"{path}={value}: {wrong.value}; {operation}"
    elif value != before:
        yield f"{path}={value} was {before}, and was not chosen; {operation}"

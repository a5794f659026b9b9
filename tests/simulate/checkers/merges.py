"""The checker of merges."""

from collections.abc import Iterator, Sequence
from itertools import permutations

from tests.simulate.evidence import CommitFacts, Evidence

_CONFLICT = "a conflict"
_Values = set[str | None]


def merges_never_guess(evidence: Evidence) -> Iterator[str]:
    """A merge has at each path the three-way result over its best common ancestors.

    The base is the merge of all best common ancestors. If the ancestors conflict, or if their
    order matters, then two different values conflict. A merge with a conflict does not land.
    """
    for operation in evidence.of_kind("merge"):
        made = evidence.commits.get(operation.result or "")
        if not operation.ok or made is None or made.message != operation.message:
            continue
        dest, source = made.parents
        facts = [evidence.commits.get(parent) for parent in made.parents]
        for path in sorted({path for one in (made, *facts) if one for path in one.tree}):
            expected = _merged(evidence, source, dest, path)
            found = made.tree.get(path)
            if expected != {found}:
                yield f"{path}={found}, and it should be {expected}; {operation}"


def _merged(evidence: Evidence, source: str, dest: str, path: str) -> _Values:
    bases = _outcomes(evidence, _best(evidence, [source], dest), path)
    base = bases.pop() if len(bases) == 1 else _CONFLICT
    return {_settled(base, _value(evidence, source, path), _value(evidence, dest, path))}


def _outcomes(evidence: Evidence, commits: Sequence[str], path: str) -> _Values:
    """Return the possible values after merging the commits, over all orders."""
    if not commits:
        return {None}
    found: _Values = set()
    for first, *rest in permutations(commits):
        values, done = {_value(evidence, first, path)}, [first]
        for commit in rest:
            bases = _outcomes(evidence, _best(evidence, done, commit), path)
            new = _value(evidence, commit, path)
            values = {_settled(base, one, new) for base in bases for one in values}
            done.append(commit)
        found |= values
    return found


def _settled(base: str | None, one: str | None, other: str | None) -> str | None:
    if _CONFLICT in {one, other}:
        return _CONFLICT
    if one == other or base == other:
        return one
    return other if base == one else _CONFLICT


def _best(evidence: Evidence, several: Sequence[str], other: str) -> list[str]:
    common = _above(evidence, [other]) & _above(evidence, several)
    return [
        one for one in common if not any(one in _above(evidence, [two]) for two in common - {one})
    ]


def _above(evidence: Evidence, commits: Sequence[str]) -> set[str]:
    pending, seen = list(commits), set[str]()
    while pending:
        identifier = pending.pop()
        if identifier not in seen:
            seen.add(identifier)
            pending += evidence.commits[identifier].parents
    return seen


def _value(evidence: Evidence, commit: str, path: str) -> str | None:
    facts: CommitFacts = evidence.commits[commit]
    return facts.tree.get(path)

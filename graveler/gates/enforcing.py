"""The gates that a branch requires, asked at whatever door it is moved by."""

from graveler.errors import GateFailedError
from graveler.gates.candidate import Candidate
from graveler.gates.required import RequiredGates
from graveler.gates.runner import judge
from graveler.model import Commit
from graveler.repository.stores import Stores

__all__ = ["enforce"]


def enforce(stores: Stores, action: str, branch: str, commit: Commit, head: Commit) -> None:
    """Have the gates that a branch requires judge what it would become.

    Args:
        stores: The repository.
        action: What would move it.
        branch: The branch.
        commit: What it would be at.
        head: What it is at.

    Raises:
        GateFailedError: One refuses; the branch must not move.
    """
    if not RequiredGates(stores).of(branch):
        return
    candidate = Candidate(stores, commit, target=head, into=branch, action=action)
    verdicts = judge(stores, candidate, ())
    refusals = [verdict for verdict in verdicts if verdict.refuses]
    if refusals:
        said = "; ".join(f"{verdict.gate}: {verdict.reason}" for verdict in refusals)
        raise GateFailedError(f"{action} into {branch!r} was refused: {said}", verdicts)

"""Checks on what a branch would become, before it does."""

from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.gate import Gate, as_gate, gate
from graveler.gates.runner import judge, known_verdicts
from graveler.gates.verdict import Verdict, Verdicts

__all__ = [
    "Candidate",
    "Gate",
    "RunContext",
    "Verdict",
    "Verdicts",
    "as_gate",
    "gate",
    "judge",
    "known_verdicts",
]

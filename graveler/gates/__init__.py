"""Checks on what a branch would become, before it does."""

from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.gate import Check, Gate, as_gate, gate
from graveler.gates.judgement import Judgement
from graveler.gates.runner import judge, known_verdicts
from graveler.gates.verdict import Verdict
from graveler.gates.verdicts import Verdicts

__all__ = [
    "Candidate",
    "Check",
    "Gate",
    "Judgement",
    "RunContext",
    "Verdict",
    "Verdicts",
    "as_gate",
    "gate",
    "judge",
    "known_verdicts",
]

"""Gates: checks of the tree that a branch would get, run before the branch moves."""

from graveler.gates.answer import Check
from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.gate import Gate, as_gate, as_gates, gate
from graveler.gates.judgement import Judgement
from graveler.gates.named import NamedGate, named
from graveler.gates.verdict import Verdict
from graveler.gates.verdicts import Verdicts

__all__ = [
    "Candidate",
    "Check",
    "Gate",
    "Judgement",
    "NamedGate",
    "RunContext",
    "Verdict",
    "Verdicts",
    "as_gate",
    "as_gates",
    "gate",
    "named",
]

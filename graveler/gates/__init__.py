"""Gates: checks of the tree that a branch would get, run before the branch moves."""

from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.gate import Check, Gate, as_gate, as_gates, gate, gate_factory
from graveler.gates.named import NamedGate, named
from graveler.gates.verdicts import Judgement, Verdict, Verdicts

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
    "gate_factory",
    "named",
]

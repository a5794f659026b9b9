"""Simulation of splitting policies: the replay of a history without files, and its costs."""

from graveler.simulation.figures import Figures, MergeFigures, cost_of, figures
from graveler.simulation.history import History
from graveler.simulation.listing import S3_COLUMNS
from graveler.simulation.patterns import PATTERNS, changed_by, pattern
from graveler.simulation.replay import BASELINE, Policy, replay
from graveler.simulation.sources import branch_history, listed_history, listed_tree

__all__ = [
    "BASELINE",
    "PATTERNS",
    "S3_COLUMNS",
    "Figures",
    "History",
    "MergeFigures",
    "Policy",
    "branch_history",
    "changed_by",
    "cost_of",
    "figures",
    "listed_history",
    "listed_tree",
    "pattern",
    "replay",
]

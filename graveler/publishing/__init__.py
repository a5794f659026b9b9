"""The one way to move a branch behind gates: candidate, panel of gates, landing."""

from graveler.publishing.landing import Candidacy, land
from graveler.publishing.panel import Panel, RequiredGates, enforce

__all__ = ["Candidacy", "Panel", "RequiredGates", "enforce", "land"]

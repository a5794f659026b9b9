"""The one way to move a branch: landing, candidates, and the panel of gates that judges them."""

from graveler.publishing.candidacy import Candidacy, land
from graveler.publishing.panel import Panel, RequiredGates, enforce

__all__ = ["Candidacy", "Panel", "RequiredGates", "enforce", "land"]

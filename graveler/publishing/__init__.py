"""The only way to move a branch: landing, candidates, and the panel of gates that judges them."""

from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.publishing.candidacy import Candidacy as Candidacy
    from graveler.publishing.candidacy import land as land
    from graveler.publishing.landing import CommitSpec as CommitSpec
    from graveler.publishing.panel import Panel as Panel
    from graveler.publishing.panel import RequiredGates as RequiredGates
    from graveler.publishing.panel import enforce as enforce

__getattr__, __dir__, __all__ = lazy_names(__name__)

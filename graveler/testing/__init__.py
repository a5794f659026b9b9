"""A kit for tests of pipelines.

It is a pytest plugin (``graveler.testing.plugin``, which pytest loads automatically) and
:func:`simulate`, which runs a pipeline through every possible crash.
"""

from typing import TYPE_CHECKING

from graveler.base.exports import lazy_names

if TYPE_CHECKING:
    from graveler.testing.clock import FakeClock as FakeClock
    from graveler.testing.pipeline import Simulation as Simulation
    from graveler.testing.pipeline import SimulationError as SimulationError
    from graveler.testing.pipeline import simulate as simulate
    from graveler.testing.world import World as World

__getattr__, __dir__, __all__ = lazy_names(__name__)

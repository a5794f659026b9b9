"""For tests, ours and anyone's: what each port promises, as suites to derive from; and a kit.

The kit, for the tests of pipelines, is a pytest plugin (``graveler.testing.plugin``, found by
itself) and :func:`simulate`, which runs a pipeline through every crash that it may meet.
"""

import sys
from typing import TYPE_CHECKING

from graveler.exports import lazy_names

if TYPE_CHECKING:
    from graveler.testing.clock import FakeClock as FakeClock
    from graveler.testing.pipeline import Simulation as Simulation
    from graveler.testing.pipeline import SimulationError as SimulationError
    from graveler.testing.pipeline import simulate as simulate
    from graveler.testing.world import World as World

if "pytest" in sys.modules:
    import pytest

    # so that a failing assert in a suite shows its values
    pytest.register_assert_rewrite("graveler.testing.kv_suite", "graveler.testing.objects_suite")

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "graveler.testing.clock": ("FakeClock",),
        "graveler.testing.pipeline": ("Simulation", "SimulationError", "simulate"),
        "graveler.testing.world": ("World",),
    },
)

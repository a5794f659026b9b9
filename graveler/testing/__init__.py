"""For tests, ours and anyone's: what each port promises, as suites to derive from; and a kit.

The kit, for the tests of pipelines, is a pytest plugin (``graveler.testing.plugin``, found by
itself) and :func:`simulate`, which runs a pipeline through every crash that it may meet.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graveler.testing.clock import FakeClock
    from graveler.testing.pipeline import Simulation, SimulationError, simulate
    from graveler.testing.world import World

_HOMES = {
    "FakeClock": "clock",
    "Simulation": "pipeline",
    "SimulationError": "pipeline",
    "World": "world",
    "simulate": "pipeline",
}

__all__ = ["FakeClock", "Simulation", "SimulationError", "World", "simulate"]

if "pytest" in sys.modules:
    import pytest

    # so that a failing assert in a suite shows its values
    pytest.register_assert_rewrite("graveler.testing.kv_suite", "graveler.testing.objects_suite")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'graveler.testing' has no attribute {name!r}")
    value = getattr(import_module(f"graveler.testing.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

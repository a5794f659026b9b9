"""The conditions under which schedules are run."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from graveler.repository import bundles
from tests.simulate.trees import remembered_trees


@contextmanager
def simulating() -> Iterator[None]:
    """Remember trees, stage bundles of four rows apart, look for garbage rarely, and do not log the clean-up that faults stop."""
    thresholds = gc.get_threshold()
    log = logging.getLogger("graveler.process")
    was_off = log.disabled
    gc.set_threshold(200_000, 10, 10)  # a schedule leaves little, and there are many
    log.disabled = True
    try:
        with remembered_trees(), patch.object(bundles, "CHUNK", 4):
            yield
    finally:
        log.disabled = was_off
        gc.set_threshold(*thresholds)

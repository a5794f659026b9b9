"""The conditions under which schedules run."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from graveler.repository.writes import bundles
from tests.simulate.trees import remembered_trees


@contextmanager
def simulating() -> Iterator[None]:
    """Set the conditions of a simulation while the block runs.

    Trees are cached. A bundle stages its rows in chunks of four. Python collects its garbage
    rarely. The errors of background clean-up that faults cause, and wrong clocks, are not logged.
    """
    thresholds = gc.get_threshold()
    logs = [logging.getLogger(f"graveler.{name}") for name in ("process", "clock")]
    were_off = [log.disabled for log in logs]
    gc.set_threshold(200_000, 10, 10)  # a schedule leaves little garbage
    for log in logs:
        log.disabled = True
    try:
        with remembered_trees(), patch.object(bundles, "CHUNK", 4):
            yield
    finally:
        for log, was_off in zip(logs, were_off, strict=True):
            log.disabled = was_off
        gc.set_threshold(*thresholds)

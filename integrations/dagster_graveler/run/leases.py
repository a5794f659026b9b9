"""The runs that the steps of this process work in: one object each, whose lease is renewed.

Dagster calls IO managers and assets one after the other, each with a context of its own. What
they read is stored with the run by the next write, so all of them must share one run object. Its
lease is renewed from a thread until Dagster considers its own run finished: an asset may
compute for hours before it writes.
"""

import atexit
import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final

from graveler.errors import FencedError, GravelerError
from graveler.lake import Run

_MOST_RUNS: Final = 64
_log = logging.getLogger(__name__)
_runs: Final[dict[str, tuple[Run, Event]]] = {}
_lock: Final = Lock()


def shared_run(run: Run, is_finished: Callable[[], bool]) -> Run:
    """Return this process's object for the same attempt, and keep its lease renewed.

    Args:
        run: An attempt.
        is_finished: Whether Dagster's run is over.
    """
    with _lock:
        fence = run.handle.fence
        if fence not in _runs:
            while len(_runs) >= _MOST_RUNS:
                _runs.pop(next(iter(_runs)))[1].set()
            over = Event()
            pause = run.record.lease.total_seconds() / 3
            _runs[fence] = run, over
            Thread(
                target=renew_until,
                args=(run, pause, is_finished, over.wait),
                name=f"lease of {run.branch}",
                daemon=True,
            ).start()
        return _runs[fence][0]


def renew_until(
    run: Run, pause: float, is_finished: Callable[[], bool], wait: Callable[[float], bool]
) -> None:
    """Renew the run's lease periodically, until Dagster's run or the attempt is over.

    Args:
        run: An attempt.
        pause: Seconds between two renewals.
        is_finished: Whether Dagster's run is over.
        wait: Waits so many seconds; True ends the renewals.
    """
    while not wait(pause):
        try:
            if is_finished():
                return
            run.renew()
        except FencedError:
            return  # the attempt is published, parked, or superseded
        except GravelerError as error:
            _log.warning("run %s: its lease could not be renewed, retrying: %s", run.key, error)
        except Exception:  # noqa: BLE001 - a storage of Dagster may raise anything
            _log.exception("run %s: Dagster cannot tell whether its run is over", run.key)
            return


def forget_runs() -> None:
    """Stop renewing all leases."""
    with _lock:
        for _, over in _runs.values():
            over.set()
        _runs.clear()


atexit.register(forget_runs)

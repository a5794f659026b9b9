"""The runs that steps of this process work in: one object each, kept alive while it works.

Dagster calls IO managers and assets one after the other, each with a context of its own. What
they read is kept with the run by whoever writes next, so all of them are given the same run. Its
lease is renewed from a thread as long as Dagster holds its run for unfinished: an asset may
compute for hours before it writes.
"""

import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final

from graveler.errors import FencedError, GravelerError
from graveler.lake import Run

__all__ = ["beat", "forget_runs", "shared"]

_KEPT: Final = 64
_log = logging.getLogger(__name__)
_runs: Final[dict[str, tuple[Run, Event]]] = {}
_lock: Final = Lock()


def shared(run: Run, is_finished: Callable[[], bool]) -> Run:
    """Return the run that this process has of the same attempt; keep it alive.

    Args:
        run: An attempt.
        is_finished: Whether Dagster's run is over.
    """
    with _lock:
        fence = run.handle.fence
        if fence not in _runs:
            while len(_runs) >= _KEPT:
                _runs.pop(next(iter(_runs)))[1].set()
            over = Event()
            pause = run.record.lease.total_seconds() / 3
            _runs[fence] = run, over
            Thread(
                target=beat,
                args=(run, pause, is_finished, over.wait),
                name=f"lease of {run.branch}",
                daemon=True,
            ).start()
        return _runs[fence][0]


def forget_runs() -> None:
    """Keep no run alive any more."""
    with _lock:
        for _, over in _runs.values():
            over.set()
        _runs.clear()


def beat(
    run: Run, pause: float, is_finished: Callable[[], bool], wait: Callable[[float], bool]
) -> None:
    """Renew the run's lease again and again, until Dagster's run or the attempt is over.

    Args:
        run: An attempt.
        pause: Seconds between two renewals.
        is_finished: Whether Dagster's run is over.
        wait: Waits so many seconds; True ends it.
    """
    while not wait(pause):
        try:
            if is_finished():
                return
            run.renew()
        except FencedError:
            return  # published, parked, or a newer attempt's
        except GravelerError as error:
            _log.warning("run %s: its lease is renewed later: %s", run.key, error)
        except Exception:  # noqa: BLE001 - a storage of Dagster raises what it likes
            _log.exception("run %s: Dagster cannot say whether its run is over", run.key)
            return

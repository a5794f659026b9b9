"""Units: folders that a merge decides as a whole, such as a table of Delta Lake with its log.

If both sides changed the log, and neither log holds the changes of the other, the folder is *torn*:
one conflict.
"""

from collections.abc import Iterable

from graveler.committed.bases import CONFLICT, BaseValues
from graveler.committed.diff import diff, same_content
from graveler.committed.ranges.range_store import RangeStore

_LOG = b"_delta_log/"


def log_of(key: bytes) -> bytes | None:
    """Return the folder of the log that holds a key, as in ``tables/a/_delta_log/``, or None."""
    if _LOG not in key:
        return None
    if key.startswith(_LOG):
        return _LOG
    at = key.find(b"/" + _LOG)
    return None if at < 0 else key[: at + 1 + len(_LOG)]


def is_torn(store: RangeStore, values: BaseValues, source: str, dest: str, log: bytes) -> bool:
    """Return whether each side changed a log in a way that the other did not."""
    changed = [False, False]
    for key, ours, theirs in diff(store, source, dest, prefix=log):
        base = values.at(key)
        unchanged = [base is not CONFLICT and same_content(base, side) for side in (ours, theirs)]
        changed = [was or not now for was, now in zip(changed, unchanged, strict=True)]
        if all(changed):
            return True
    return False


def units_of(logs: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the folders that hold the logs, in key order, without those within another."""
    units: list[bytes] = []
    for log in sorted(logs, key=lambda log: log.removesuffix(_LOG)):
        unit = log.removesuffix(_LOG)
        if not units or not unit.startswith(units[-1]):
            units.append(unit)
    return tuple(units)


def name_of(unit: bytes) -> bytes:
    """Return the name of a unit in a conflict: the path of its log, as in ``a/_delta_log``."""
    return unit + _LOG.removesuffix(b"/")


def names_unit(path: str) -> bool:
    """Return whether the path of a conflict is the name of a unit."""
    return path.rpartition("/")[2] == _LOG.decode().rstrip("/")

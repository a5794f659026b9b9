"""The content of an hour, which depends on the hour alone, and the steps that make it.

Each step reads the files of earlier steps, so that lost work changes the bytes. In the middle of
its writing it calls a `pause`. There it may be killed, with garbage beside the files that it has
written.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

Pause = Callable[[Any], None]
"""A function that gets the step in the middle of its writing."""

ROOTS = ("input", "left", "right", "curated")
COLUMNS = b"name,value\n"
"""The bytes of a file that is in every folder of every hour."""

SPLIT_FIRST = datetime(2016, 1, 1, tzinfo=UTC)
"""The first hour of the pipeline whose backfills Dagster splits."""

ROWS = 20
GARBAGE = "half-written"
"""A part of the name of every file that must never be published."""

Row = tuple[str, int]


def _rows(hour: datetime) -> list[Row]:
    digest = hashlib.sha256(hour.isoformat().encode()).digest()
    return [(f"{hour:%Y%m%d%H}-{number:02}", digest[number]) for number in range(ROWS)]


def _left(rows: list[Row]) -> list[Row]:
    return [(name, value * 2) for name, value in rows if value % 2]


def _right(rows: list[Row]) -> list[Row]:
    return [(name, value + 1000) for name, value in rows if not value % 2]


def _text(rows: list[Row]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def _table(body: bytes) -> list[Row]:
    return [(name, int(value)) for name, value in csv.reader(io.StringIO(body.decode()))]


def folder(root: str, hour: datetime) -> str:
    """Return the folder of an hour below a root."""
    return f"{root}/{hour:%Y/%m/%d/%H:%M}/"


def _halves(root: str, hour: datetime, rows: list[Row]) -> Iterator[tuple[str, bytes]]:
    middle = len(rows) // 2
    yield f"{folder(root, hour)}part-0.csv", _text(rows[:middle])
    yield f"{folder(root, hour)}part-1.csv", _text(rows[middle:])


def expected(hour: datetime) -> dict[str, bytes]:
    """Return every file that only this hour has, by path."""
    rows = _rows(hour)
    left, right = _left(rows), _right(rows)
    tables = zip(ROOTS, (rows, left, right, sorted(left + right)), strict=True)
    parts = {path: body for root, table in tables for path, body in _halves(root, hour, table)}
    return parts | {f"{folder(root, hour)}columns.csv": COLUMNS for root in ROOTS}


def shared(hour: datetime) -> dict[str, bytes]:
    """Return the files that every step writes: one of all hours, and one of all hours of a day."""
    return {"out/_SUCCESS": b"", f"out/{hour:%Y/%m/%d}/day": f"{hour:%A}".encode()}


def split_left(hour: datetime) -> str:
    """Return the value of the asset ``split_left`` for an hour."""
    return f"{hour:%Y-%m-%dT%H} has {len(_left(_rows(hour)))} odd"


def split_balance(values: Iterable[str]) -> str:
    """Return the value of ``split_balance``: made of the hour before, if there is one, and the hour."""
    return "; ".join(sorted(values))


def digest(balance: str) -> str:
    """Return the value of the asset ``digest``, which another pipeline makes of a balance."""
    return hashlib.sha256(balance.encode()).hexdigest()


def _split(hour: datetime) -> dict[str, bytes]:
    """Return the files that only the hours of the split pipeline have."""
    return {
        f"{folder('split_left', hour)}data": split_left(hour).encode(),
        f"{folder('split_balance', hour)}data": _balance(hour).encode(),
    }


def _balance(hour: datetime) -> str:
    before = [hour - timedelta(hours=1)] if hour > SPLIT_FIRST else []
    return split_balance(map(split_left, [*before, hour]))


def expected_of(key: str, hour: datetime) -> dict[str, bytes]:
    """Return every file that the run of a key and an hour publishes, except the shared ones."""
    if is_digest(key):
        return {f"{folder('digest', hour)}data": digest(_balance(hour)).encode()}
    return expected(hour) | (_split(hour) if " split_job " in key else {})


def is_digest(key: str) -> bool:
    """Return whether the run of a key is one of the pipeline that follows the split one."""
    return " digest_job " in key


def judged(candidate: Any, hour: datetime) -> bool | str:
    """Return whether the tables of an hour have exactly the expected files, or what they have."""
    there = {entry.path for root in ROOTS for entry in candidate.entries(folder(root, hour))}
    return there == set(expected(hour)) or f"not the files of the hour: {sorted(there)}"


def _written(view: Any, root: str, hour: datetime) -> list[Row]:
    return [
        row
        for number in (0, 1)
        for row in _table(view.get(f"{folder(root, hour)}part-{number}.csv"))
    ]


def _write(step: Any, root: str, hour: datetime, rows: list[Row], pause: Pause) -> None:
    first, second = _halves(root, hour, rows)
    step.put(*first)
    garbage = f"{folder(root, hour)}{GARBAGE}"
    step.put(garbage, b"of a try that may be the last")
    pause(step)
    step.delete(garbage)
    step.put(*second)
    step.put(f"{folder(root, hour)}columns.csv", COLUMNS)
    put_shared(step, hour)


def put_shared(step: Any, hour: datetime) -> None:
    """Write the files that hours share."""
    for path, body in shared(hour).items():
        step.put(path, body)


def run_step(name: str, step: Any, hour: datetime, pause: Pause, view: Any = None) -> None:
    """Do one step of an hour's work.

    Args:
        name: One of `STEPS`.
        step: The target, which has ``put`` and ``delete``.
        hour: The hour.
        pause: Called in the middle of the writing.
        view: The source; by default the step itself.
    """
    _write(step, name_to_root(name), hour, STEPS[name](view or step, hour), pause)


def name_to_root(name: str) -> str:
    """Return the folder of a step's files."""
    return {"ingest": "input", "curate": "curated"}.get(name, name)


STEPS: dict[str, Callable[[Any, datetime], list[Row]]] = {
    "ingest": lambda _, hour: _rows(hour),
    "left": lambda view, hour: _left(_written(view, "input", hour)),
    "right": lambda view, hour: _right(_written(view, "input", hour)),
    "curate": lambda view, hour: sorted(
        _written(view, "left", hour) + _written(view, "right", hour)
    ),
}
"""The function of each step. left and right work in parallel, and curate joins their tables."""


def hours(first: datetime, count: int) -> list[datetime]:
    """Return `count` successive hours."""
    return [first + timedelta(hours=number) for number in range(count)]

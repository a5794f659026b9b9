"""``graveler demo``: a day of real flights with one damaged hour."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from graveler.base.arguments import expand_home
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.errors import AlreadyExistsError, InvalidInputError
from graveler.lake.shapes import moment

_LAKE = "lake"
_REPORT = "report.html"
_MADE_BY_DEMO = (_LAKE, "landing", "disks", _REPORT)


@verb("demo")
def _demo(
    session: Session,
    folder: str = "demo-lake",
    *,
    hours: Annotated[int, {"min": 1}] = 24,
    fresh: bool = False,
    storage: str = "files",
) -> None:
    """Publish hours of real flights through Spark, branches and gates; one hour is damaged.

    Args:
        folder: The folder of the new lake.
        hours: Number of hours of flights.
        fresh (--fresh/--keep): Remove the files of an earlier demo.
        storage (files|keep): Where the files are: in the lake's folder, or on three servers of Keep.
    """
    place = expand_home(folder).absolute()
    _clear(place, fresh=fresh)
    import graveler
    from graveler.demo import run_demo
    from graveler.demo.report import summarize, write_report
    from graveler.demo.story import serving

    with session.progress("demo") as bar:
        progress = bar if bar is not None or session.out.as_json else _write_step
        result = run_demo(place, hours=hours, progress=progress, storage=storage)
    with graveler.open(result.lake) as lake, serving(lake, result.disks) as servers:
        report = write_report(lake.repository(result.repository), result, place / _REPORT)
    if session.out.as_json:
        session.out.show(_shape(result, report, servers))
    else:
        summarize(result, report, servers, shown_as=folder)


def _clear(place: Path, *, fresh: bool) -> None:
    """Empty the folder for a new demo.

    Raises:
        AlreadyExistsError: The folder holds an earlier demo, and `fresh` is not set.
        InvalidInputError: The folder holds something else.
    """
    if not place.exists():
        return
    if not place.is_dir():
        raise InvalidInputError(f"{place} is a file: give a folder")
    names = sorted(item.name for item in place.iterdir())
    others = [name for name in names if name not in _MADE_BY_DEMO]
    if others:
        raise InvalidInputError(f"{place} holds {others[0]!r}: give the demo a folder of its own")
    if names and not fresh:
        raise AlreadyExistsError(
            f"{place} holds an earlier demo: --fresh removes it and starts over; "
            f"`graveler -C {place / _LAKE} log main` shows it"
        )
    for name in names:
        item = place / name
        if item.is_dir():
            shutil.rmtree(item)
        else:
            item.unlink()


def _write_step(what: str, done: int, total: int) -> None:
    sys.stderr.write(f"[{done:>3}/{total}] {what}\n")
    sys.stderr.flush()


def _shape(result: Any, report: Path, servers: Sequence[str]) -> dict[str, Any]:
    return {
        "lake": str(result.lake),
        "repository": result.repository,
        "report": str(report),
        "servers": dict(zip(servers, map(str, result.disks), strict=True)),
        "flights": result.flights,
        "expected": result.expected,
        "seconds": round(result.seconds, 3),
        "spark_seconds": round(result.spark_seconds, 3),
        "runs": [
            {
                "hour": moment(run.hour),
                "key": run.key,
                "state": str(run.state),
                "attempt": run.attempt,
                "commit": run.commit,
                "rows": run.rows,
                "ranges": {"written": run.ranges_written, "reused": run.ranges_reused},
                "seconds": round(run.seconds, 3),
                "damaged": run.damaged,
                "message": run.message,
            }
            for run in result.runs
        ],
    }

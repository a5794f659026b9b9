"""The verdicts of gates on runs, and the files in which dbt records its results."""

import json

from graveler.errors import GateFailedError


def said(repo, gate, files, *, on_main=None, delete=(), metadata=None):
    """Return the reason of a gate on a run that writes these files, or "" if it passes."""
    if on_main:
        with repo.run("before") as before:
            for path, data in on_main.items():
                before.put(path, data)
    try:
        with repo.run("hour 05", gates=[gate], metadata=metadata, on_failure="drop") as run:
            for path, data in files.items():
                run.put(path, data)
            run.delete_many(delete)
            if not files:
                run.put("elsewhere", b"1")
    except GateFailedError as error:
        return error.verdicts[0].reason
    return ""


def dbt(*results):
    """Return the file in which dbt records results, given as id, status and message."""
    rows = [dict(zip(("unique_id", "status", "message"), row, strict=False)) for row in results]
    return {"dbt/05/run_results.json": json.dumps({"metadata": {}, "results": rows}).encode()}


MODEL = ("model.flights.departures", "success", "OK")
TEST = ("test.flights.unique_departures_flight.f2c2", "pass", None)
FAILED = ("test.flights.not_null_departures_flight.f2c2", "fail", "Got 1 result,\n  not 0")

"""Small pipelines that files in a folder control, so that other processes can run them too."""

import os
import signal
import warnings
from pathlib import Path

import dagster as dg

from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions
from graveler.base.clock import SystemClock
from graveler.config import environment
from graveler.errors import FencedError
from graveler.gates import gate

parts = dg.StaticPartitionsDefinition(["x", "y"])


def _is_asked_to(what: str) -> bool:
    """Return whether the test wants `what` to happen; a wish is fulfilled once."""
    wish = Path(environment("TEST_FOLDER")) / what
    present = wish.exists()
    wish.unlink(missing_ok=True)
    return present


def _ran(name: str) -> None:
    with (Path(environment("TEST_FOLDER")) / "ran").open("a") as out:
        out.write(f"{name}\n")


@dg.asset(partitions_def=parts)
def left(context: dg.AssetExecutionContext) -> bytes:
    _ran("left")
    return f"left of {context.partition_key}".encode()


@dg.asset(partitions_def=parts)
def right() -> str:
    _ran("right")
    return "right"


@dg.asset(partitions_def=parts, retry_policy=dg.RetryPolicy(max_retries=1))
def both(
    context: dg.AssetExecutionContext, graveler: GravelerResource, left: bytes, right: str
) -> bytes:
    """Writes a file in a step, and returns bytes that the IO manager writes."""
    _ran("both")
    with graveler.step(context) as step:
        step.put(f"both/{context.partition_key}/try {context.retry_number}", b"1")
        if (Path(environment("TEST_FOLDER")) / "kill").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if _is_asked_to("raise inside"):
            raise ConnectionError("lost")
    if _is_asked_to("raise"):
        raise ConnectionError("lost")
    return b" and ".join((left, right.encode()))


def _wait_for(what: str) -> None:
    """Tell the test that this process waits, and continue when the test says so."""
    folder = Path(environment("TEST_FOLDER"))
    (folder / "waiting").write_text(str(os.getpid()))
    clock = SystemClock()
    while not (folder / what).exists():
        clock.sleep(0.05)


@dg.asset
def first(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
    _ran("first")
    waits = _is_asked_to("wait")
    try:
        with graveler.step(context) as step:
            step.put("first/beside", b"1")
            if waits:
                _wait_for("go on")
                step.put("first/late", b"1")
    except FencedError:
        (Path(environment("TEST_FOLDER")) / "fenced").touch()
        raise
    return "first"


@dg.asset(deps=[first])
def second() -> str:
    _ran("second")
    if _is_asked_to("raise"):
        raise ConnectionError("lost")
    return "second"


@gate("not too much")
def not_too_much(candidate):
    """No forbidden file exists."""
    return "forbidden" if any("forbidden" in entry.path for entry in candidate.list()) else None


def judge_right(right: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=not _is_asked_to("refuse"))


with warnings.catch_warnings():  # partitions of checks are in preview
    warnings.simplefilter("ignore", dg.PreviewWarning)
    is_right = dg.asset_check(asset=right, name="is_right", blocking=True, partitions_def=parts)(
        judge_right
    )


def _resource() -> GravelerResource:
    # not the folder's name: Dagster caches a job that it makes from `reconstructable`
    return GravelerResource(lake=dg.EnvVar("TEST_LAKE"), repository="flights")


def definitions() -> dg.Definitions:
    resource = _resource()
    return graveler_definitions(
        [left, right, both],
        resource,
        gates=[not_too_much],
        asset_checks=[is_right],
        partitions_def=parts,
        io_manager=GravelerIOManager(graveler=resource),
    )


def job() -> dg.JobDefinition:
    return definitions().resolve_job_def("graveler_job")


def plain() -> dg.JobDefinition:
    """Return a job of two assets without partitions."""
    resource = _resource()
    manager = GravelerIOManager(graveler=resource, prefix="plain/")
    defs = graveler_definitions([first, second], resource, io_manager=manager, name="plain")
    return defs.resolve_job_def("plain_job")


@dg.asset(deps=["plain_publish"])
def report(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
    """Reads the published files."""
    if _is_asked_to("raise"):
        raise ConnectionError("lost")
    assert graveler.view(context).get("plain/second/data") == b"second"
    if _is_asked_to("write"):
        with graveler.step(context) as step:
            step.put("report", b"1")


def reported() -> dg.JobDefinition:
    """Return a job of the two assets, and an asset after their publish."""
    resource = _resource()
    manager = GravelerIOManager(graveler=resource, prefix="plain/")
    defs = graveler_definitions([first, second], resource, io_manager=manager, name="plain")
    job = dg.define_asset_job("reported_job", selection="*")
    return dg.Definitions.merge(defs, dg.Definitions([report], jobs=[job])).resolve_job_def(
        "reported_job"
    )

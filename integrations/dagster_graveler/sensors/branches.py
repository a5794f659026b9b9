"""Branch deployments: a sensor makes and drops a branch of the lake for each pull request."""

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

import dagster as dg

from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import branch_text, count, duration
from graveler.base.clock import SystemClock
from graveler.base.names import check_users_branch
from graveler.config import environment
from graveler.errors import InvalidInputError, RefNotFoundError

_NUMBER = "{n}"
_IS_BRANCH = "DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT"
_PULL_REQUEST = "DAGSTER_CLOUD_PULL_REQUEST_ID"


def deployment_branch(pattern: str = "pr-{n}", *, production: str = "main") -> str:
    """Return the branch that this deployment publishes to, for ``GravelerResource(into=...)``.

    In a branch deployment, Dagster+ sets ``DAGSTER_CLOUD_PULL_REQUEST_ID`` to the pull request.
    Elsewhere set it, and ``DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT=1``.

    Args:
        pattern: The name of a pull request's branch, with ``{n}`` for its number.
        production: The branch of every other deployment.

    Raises:
        InvalidInputError: The number of a branch deployment's pull request is missing. Such a
            deployment must not publish to production.
    """
    _compile(pattern)
    branch_text(production, "production")
    if environment(_IS_BRANCH, "0") != "1":
        return production
    number = environment(_PULL_REQUEST, "")
    if not number:
        raise InvalidInputError(
            f"this is a branch deployment ({_IS_BRANCH}=1) without a pull request: open one, or set "
            f"{_PULL_REQUEST}"
        )
    return pattern.replace(_NUMBER, number)


def build_branch_sensor(
    pull_requests: Callable[[], Iterable[int | str]],
    *,
    name: str = "graveler_branches",
    pattern: str = "pr-{n}",
    source: str = "main",
    keep: timedelta = timedelta(days=1),
    minimum_interval_seconds: int = 60,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Return the sensor that gives each open pull request a branch of the lake.

    It needs the resource ``graveler``, and runs in the production deployment. A branch begins at
    the present commit of `source` and copies nothing. It is dropped when the time `keep` has passed
    since its pull request was last seen open. ``graveler undo <branch>`` restores it. Branches whose
    names do not match the pattern are ignored.

    Args:
        pull_requests: A function that returns the numbers of the open pull requests; if it
            raises, nothing is dropped.
        pattern: The name of a branch, with ``{n}`` for the number.
        source: The branch from which they begin.
        keep: How long a branch stays after its pull request was closed.

    Raises:
        InvalidInputError: The pattern has no ``{n}``, or matches `source`.
    """
    if not callable(pull_requests):
        raise InvalidInputError(
            f"pull_requests={pull_requests!r}: give a function that returns the open ones"
        )
    branch_text(source, "source")
    duration(keep, "keep")
    count(minimum_interval_seconds, "minimum_interval_seconds")
    fits = _compile(pattern)
    if fits.fullmatch(source):
        raise InvalidInputError(
            f"pattern {pattern!r} fits {source!r}, which would be dropped: choose another pattern"
        )

    @dg.sensor(
        name=name,
        description=f"Makes {pattern} for each open pull request, and drops it afterwards.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def sensor(context: dg.SensorEvaluationContext, graveler: GravelerResource) -> dg.SensorResult:
        wanted = {pattern.replace(_NUMBER, str(number)) for number in pull_requests()}
        for branch in wanted:
            if not fits.fullmatch(branch):
                raise InvalidInputError(
                    f"{branch!r} is no branch of a pull request: return numbers, as 17"
                )
        repository = graveler.repo()
        known = {record.name for record in repository.branches() if fits.fullmatch(record.name)}
        for branch in sorted(wanted - known):
            repository.create_branch(branch, source, exist_ok=True)
        now, seen, waiting = SystemClock().now(), json.loads(context.cursor or "{}"), {}
        closed = known - wanted - {graveler.into, source}
        for branch in closed:
            since = seen.get(branch, f"{now:%Y-%m-%dT%H:%M:%S%z}")
            if now - datetime.fromisoformat(since) < keep:
                waiting[branch] = since
                continue
            with suppress(RefNotFoundError):  # it was dropped meanwhile
                repository.delete_branch(branch)
        dropped = sorted(closed - waiting.keys())
        context.log.info("made %s, dropped %s", sorted(wanted - known), dropped)
        return dg.SensorResult(
            cursor=json.dumps(waiting),
            skip_reason=f"made {len(wanted - known)} branches, dropped {len(dropped)}",
        )

    return sensor


def _compile(pattern: str) -> re.Pattern[str]:
    before, number, after = pattern.partition(_NUMBER)
    if not number or number in after:
        raise InvalidInputError(f"pattern {pattern!r}: write {_NUMBER} once, for the pull request")
    check_users_branch(f"{before}1{after}")
    return re.compile(f"{re.escape(before)}[A-Za-z0-9]+{re.escape(after)}")

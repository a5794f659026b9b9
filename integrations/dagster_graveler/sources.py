"""Folders of the lake that other programs write, as observable assets, and their freshness."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg
from dagster._utils.warnings import disable_dagster_warnings

from dagster_graveler.resource import GravelerResource
from graveler.base.arguments import duration, each, prefix_text, text
from graveler.base.clock import SystemClock
from graveler.errors import InvalidInputError
from graveler.model import Commit

_PREFIX = "graveler/prefix"
_REF = "graveler/ref"


def build_source_asset(
    key: dg.AssetKey | str | Sequence[str],
    prefix: str,
    *,
    ref: str = "",
    group_name: str | None = None,
    automation_condition: dg.AutomationCondition | None = None,  # type: ignore[type-arg]
) -> dg.AssetsDefinition:
    """Return an observable asset for the files that other programs publish below a folder.

    It needs the resource ``graveler``. Its data version is the last commit that changed a path
    below `prefix`. Downstream assets become stale, and eager ones are requested, only after such a
    commit. It reports ``dagster/last_updated_timestamp``, which Dagster's freshness checks read.

    Args:
        prefix: The folder, with a slash at its end.
        ref: The branch; the resource's target if not given.
        automation_condition: When Dagster observes it, as
            ``dg.AutomationCondition.on_cron("*/5 * * * *")``.
    """
    prefix_text(prefix, "prefix")
    text(ref, "ref", empty=True)

    def observe(context: dg.AssetExecutionContext, graveler: GravelerResource) -> dg.ObserveResult:
        commit = _last_change(graveler, ref, prefix)
        if commit is None:
            return dg.ObserveResult(metadata={"graveler/files": 0})
        return dg.ObserveResult(
            data_version=dg.DataVersion(commit.id), metadata=_metadata(graveler, commit, prefix)
        )

    spec = dg.AssetSpec(
        key,
        group_name=group_name,
        kinds={"graveler"},
        description=f"Files that other programs publish below {prefix!r}.",
        metadata={_PREFIX: prefix, _REF: ref},
        automation_condition=automation_condition,
    )
    with disable_dagster_warnings():  # of beta and preview APIs
        source: dg.AssetsDefinition = dg.multi_observable_source_asset(
            specs=[spec], name=f"observe_{spec.key.to_python_identifier()}"
        )(observe)
    return source


def build_freshness_checks(
    assets: Sequence[dg.AssetKey | str],
    *,
    prefix: str,
    within: timedelta,
    ref: str = "",
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
) -> dg.AssetChecksDefinition:
    """Return checks that fail when the last commit below a folder is too old.

    They need the resource ``graveler``, and read the history of the branch, not Dagster's events.
    A publish of another program or deployment counts. Work on the branch of a parked run does not.

    Args:
        assets: The assets that show the check.
        prefix: The folder, with a slash at its end.
        within: Largest age of the last commit that changed a path below it.
        ref: The branch; the resource's target if not given.

    Raises:
        InvalidInputError: `within` is not positive, or there is no asset.
    """
    duration(within, "within", zero=False)
    prefix_text(prefix, "prefix")
    text(ref, "ref", empty=True)
    assets = list(each(assets, "assets", (dg.AssetKey, str), "asset keys"))
    if not assets:
        raise InvalidInputError("freshness checks need at least one asset that shows them")
    specs = [dg.AssetCheckSpec("graveler_freshness", asset=asset) for asset in assets]

    @dg.multi_asset_check(
        name=f"freshness_of_{specs[0].asset_key.to_python_identifier()}", specs=specs
    )
    def check(graveler: GravelerResource) -> Any:
        commit = _last_change(graveler, ref, prefix)
        age = None if commit is None else SystemClock().now() - commit.created
        text = "nothing was ever published" if age is None else f"published {_hours(age)} ago"
        for spec in specs:
            yield dg.AssetCheckResult(
                passed=age is not None and age <= within,
                check_name=spec.name,
                asset_key=spec.asset_key,
                severity=severity,
                description=f"{text} below {prefix!r}; at most {_hours(within)} are allowed",
                metadata={} if commit is None else _metadata(graveler, commit, prefix),
            )

    return check


def _last_change(graveler: GravelerResource, ref: str, prefix: str) -> Commit | None:
    head = graveler.at(ref).commit
    return next(graveler.repo().log(head.id, first_parent=True, prefix=prefix), None)


def _metadata(graveler: GravelerResource, commit: Commit, prefix: str) -> Mapping[str, Any]:
    return {
        "dagster/uri": graveler.uri(commit.id, prefix),
        "dagster/last_updated_timestamp": dg.MetadataValue.timestamp(commit.created),
        **graveler.links(commit),
    }


def _hours(time: timedelta) -> str:
    return f"{time.total_seconds() / 3600:.1f} hours"

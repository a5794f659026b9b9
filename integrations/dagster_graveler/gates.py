"""Gates as blocking asset checks: Dagster shows their verdicts before the publish judges again."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster._utils.warnings import disable_dagster_warnings

from dagster_graveler.context import step_of
from dagster_graveler.display import as_value, failure_of, final_failure
from dagster_graveler.resource import GravelerResource
from graveler.errors import InvalidInputError, MergeConflictError
from graveler.gates import Verdict
from graveler.gates.gate import Check, Gate, as_gates


def graveler_gates(
    gates: Iterable[Gate | Check],
    *,
    asset: dg.AssetKey | str,
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    deps: Iterable[dg.AssetKey | str] = (),
    name: str = "graveler_gates",
) -> dg.AssetChecksDefinition:
    """Return the checks that judge the tree that main would get if the run published now.

    One step runs all of them. A gate that refuses blocks everything downstream of `asset`, unless
    its severity is ``warn``. They need the resource ``graveler``. The publish judges independently,
    so give it the same gates. A Dagster run of the checks without any asset has nothing to publish.
    The checks then fail, so that they do not hide the verdicts of the last publish.

    Args:
        gates: Gates, or functions of a ``graveler.Candidate``.
        asset: The asset that shows the checks.
        partitions_def: The partitions of the asset; without it the checks have no partition.
        deps: Other assets that the gates wait for.

    Raises:
        InvalidInputError: Two gates have the same name as checks, which allow fewer characters.
    """
    checks = as_checks(gates)
    if not checks:
        raise InvalidInputError(f"{name!r} has no gates: give at least one")

    def judge(
        context: dg.AssetCheckExecutionContext, graveler: GravelerResource
    ) -> Iterator[dg.AssetCheckResult]:
        if not step_of(context).job_def.asset_layer.executable_asset_keys:
            raise final_failure(
                "gates judge what a run is about to publish, and this Dagster run makes no asset: "
                "there is nothing to judge; run the job again, or see the last verdicts with "
                "`graveler gates show`"
            )
        run = graveler.run(context)
        try:
            verdicts = run.judge(checks.values())
        except MergeConflictError as error:
            raise failure_of(error, run=run.key) from error
        metadata = {"graveler/branch": run.branch, "graveler/commit": run.head.id}
        yield from check_results(checks, verdicts, asset, metadata)

    specs = check_specs(checks, asset, partitions_def, deps=deps, blocking=True)
    return dg.multi_asset_check(name=name, specs=specs)(judge)


def as_checks(gates: Iterable[Gate | Check]) -> Mapping[str, Gate]:
    """Return gates by the names of their checks."""
    checks: dict[str, Gate] = {}
    for gate in as_gates(gates):
        other = checks.setdefault(re.sub(r"\W+", "_", gate.name), gate)
        if other is not gate:
            raise InvalidInputError(
                f"gates {other.name!r} and {gate.name!r} would be one check: rename one of them"
            )
    return checks


def check_specs(
    checks: Mapping[str, Gate],
    asset: dg.AssetKey | str,
    partitions_def: dg.PartitionsDefinition[str] | None,
    *,
    deps: Iterable[dg.AssetKey | str] = (),
    blocking: bool,
) -> Sequence[dg.AssetCheckSpec]:
    """Return the specs of checks that `asset` shows."""
    with disable_dagster_warnings():  # of beta and preview APIs
        return [
            dg.AssetCheckSpec(
                check,
                asset=asset,
                description=gate.check.__doc__ if inspect.isroutine(gate.check) else None,
                blocking=blocking and gate.severity == "error",
                partitions_def=partitions_def,
                additional_deps=list(deps),
            )
            for check, gate in checks.items()
        ]


def check_results(
    checks: Mapping[str, Gate],
    verdicts: Iterable[Verdict],
    asset: dg.AssetKey | str,
    metadata: Mapping[str, Any],
) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of each check: the verdict of its gate."""
    by_gate = {verdict.gate: verdict for verdict in verdicts}
    for check, gate in checks.items():
        verdict = by_gate.get(gate.name)
        reason, shown = "nothing to judge: the run changes nothing", dict(metadata)
        if verdict is not None:
            reason, shown["graveler/seconds"] = verdict.reason, verdict.seconds
            for name, fact in verdict.facts.items():
                shown[f"graveler/facts/{name}"] = as_value(fact)
        yield dg.AssetCheckResult(
            check_name=check,
            asset_key=asset,
            passed=verdict is None or verdict.passed,
            severity=dg.AssetCheckSeverity[gate.severity.upper()],
            description=reason or None,
            metadata=shown,
        )


def concerned(
    gates: Iterable[Gate], folders: Mapping[dg.AssetKey, str]
) -> Mapping[dg.AssetKey | None, Sequence[Gate]]:
    """Return gates by the only asset whose files they read; None has those of several or none."""
    by_asset: dict[dg.AssetKey | None, list[Gate]] = {}
    for gate in gates:
        read = {
            key
            for prefix in gate.prefixes
            for key, folder in folders.items()
            if folder.startswith(prefix) or prefix.startswith(folder)
        }
        by_asset.setdefault(read.pop() if len(read) == 1 else None, []).append(gate)
    return by_asset

"""Gates as blocking asset checks: Dagster shows their verdicts before publishing judges again."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import dagster as dg

from dagster_graveler.context import step_of
from dagster_graveler.display import as_value, final_failure
from dagster_graveler.resource import GravelerResource
from graveler.errors import InvalidInputError
from graveler.gates import Verdict
from graveler.gates.gate import Check, Gate, as_gates

_SEVERITIES: Final[Mapping[str, dg.AssetCheckSeverity]] = {
    "error": dg.AssetCheckSeverity.ERROR,
    "warn": dg.AssetCheckSeverity.WARN,
}


def graveler_gates(
    gates: Iterable[Gate | Check],
    *,
    asset: dg.AssetKey | str,
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    deps: Iterable[dg.AssetKey | str] = (),
    name: str = "graveler_gates",
) -> dg.AssetChecksDefinition:
    """Return the checks that judge what main would become if the run published now.

    One step runs all of them. A gate that refuses blocks everything downstream of `asset`, unless
    its severity is ``warn``. They need the resource ``graveler``. Publishing judges by itself:
    give it the same gates. A Dagster run that executes the checks without any asset has nothing to
    publish: the checks fail, so that they do not hide the verdicts of the last publish.

    Args:
        gates: Gates, or functions of a ``graveler.Candidate``.
        asset: The asset that shows the checks.
        partitions_def: The partitions of the asset; without it Dagster runs the checks for none.
        deps: Other assets that the gates wait for.
        name: The name of the step.

    Raises:
        InvalidInputError: Two gates have the same name as checks, which allow fewer characters.
    """
    by_check: dict[str, Gate] = {}
    for gate in as_gates(gates):
        other = by_check.setdefault(re.sub(r"\W+", "_", gate.name), gate)
        if other is not gate:
            raise InvalidInputError(
                f"gates {other.name!r} and {gate.name!r} would be one check: rename one of them"
            )

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
        verdicts = {verdict.gate: verdict for verdict in run.judge(by_check.values())}
        metadata = {"graveler/branch": run.branch, "graveler/commit": run.head.id}
        for check, gate in by_check.items():
            verdict = verdicts.get(gate.name)
            reason = verdict.reason if verdict else "nothing to judge: the run changes nothing"
            yield dg.AssetCheckResult(
                check_name=check,
                asset_key=asset,
                passed=verdict is None or verdict.passed,
                severity=_SEVERITIES[gate.severity],
                description=reason or None,
                metadata={**metadata, **(_facts(verdict) if verdict else {})},
            )

    with warnings.catch_warnings():
        # Dagster marks partitioned checks as a preview
        warnings.filterwarnings("ignore", "Specifying a partitions_def", dg.PreviewWarning)
        specs = [
            dg.AssetCheckSpec(
                check,
                asset=asset,
                description=gate.check.__doc__,
                blocking=gate.severity == "error",
                partitions_def=partitions_def,
                additional_deps=list(deps),
            )
            for check, gate in by_check.items()
        ]
    return dg.multi_asset_check(name=name, specs=specs)(judge)


def _facts(verdict: Verdict) -> Mapping[str, Any]:
    """Return the facts that a gate reported, and how long it took, as Dagster's metadata."""
    facts = {f"graveler/facts/{name}": as_value(fact) for name, fact in verdict.facts.items()}
    return {"graveler/seconds": verdict.seconds, **facts}

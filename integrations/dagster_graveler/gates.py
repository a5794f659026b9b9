"""Gates as blocking asset checks: shown in Dagster, before publishing asks again."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import dagster as dg

from dagster_graveler.resource import GravelerResource
from dagster_graveler.run.context import step_of
from graveler.errors import InvalidInputError
from graveler.gates import Gate, Verdict, as_gates
from graveler.gates.gate import Check

__all__ = ["graveler_gates", "verdict_table"]

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
    """Return the checks that ask the gates what main would become if the run published now.

    One step asks them all. A gate that refuses blocks what is downstream of `asset`, unless it
    only warns. The resource ``graveler`` is needed. Publishing asks the gates for itself: give
    them to it too. Executed without any asset the checks fail: such a Dagster run has nothing to
    publish, and what was said of the last one that had shall not be hidden by it.

    Args:
        gates: Gates, or functions of a ``graveler.Candidate``.
        asset: The asset that shows the checks.
        partitions_def: The asset's own; without it Dagster runs checks for no partition.
        deps: Other assets that the gates wait for.
        name: Of the step.

    Raises:
        InvalidInputError: Two gates would be one check, Dagster's names being narrower.
    """
    by_check: dict[str, Gate] = {}
    for gate in as_gates(gates):
        other = by_check.setdefault(re.sub(r"\W+", "_", gate.name), gate)
        if other is not gate:
            raise InvalidInputError(
                f"gates {other.name!r} and {gate.name!r} would be one check: rename one of them"
            )

    def ask(
        context: dg.AssetCheckExecutionContext, graveler: GravelerResource
    ) -> Iterator[dg.AssetCheckResult]:
        if not step_of(context).job_def.asset_layer.executable_asset_keys:
            raise dg.Failure(
                description="gates judge what a run is about to publish, and this Dagster run makes "
                "no asset: there is nothing to judge; run the job again, or ask "
                "`graveler gates show` what they said",
                allow_retries=False,
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
        # Dagster calls partitions of checks a preview; without them the check is for none
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
    return dg.multi_asset_check(name=name, specs=specs)(ask)


def _facts(verdict: Verdict) -> Mapping[str, Any]:
    """Return what a gate has reported, and how long it took, for Dagster's metadata."""
    facts = {f"graveler/facts/{name}": value for name, value in verdict.facts.items()}
    plain = {
        name: value if isinstance(value, int | float | str) else dg.MetadataValue.json(value)
        for name, value in facts.items()
    }
    return {"graveler/seconds": verdict.seconds, **plain}


def verdict_table(verdicts: Iterable[Verdict]) -> dg.TableMetadataValue:
    """Return verdicts as Dagster shows them."""
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "gate": verdict.gate,
                    "passed": verdict.passed,
                    "severity": verdict.severity,
                    "reason": verdict.reason,
                    "died": verdict.died,
                    "seconds": round(verdict.seconds, 3),
                }
            )
            for verdict in verdicts
        ],
        schema=dg.TableSchema(
            [
                dg.TableColumn("gate"),
                dg.TableColumn("passed", "bool"),
                dg.TableColumn("severity"),
                dg.TableColumn("reason"),
                dg.TableColumn("died", "bool", description="it could not say anything"),
                dg.TableColumn("seconds", "float"),
            ]
        ),
    )

"""A graveler gate as a blocking asset check: shown in Dagster, before publishing asks again."""

import re
import warnings
from collections.abc import Iterable

import dagster as dg

from dagster_graveler.resource import GravelerResource
from graveler.gates import Gate, Verdict, as_gate
from graveler.gates.gate import Check

__all__ = ["graveler_gate", "verdict_table"]


def graveler_gate(
    gate: Gate | Check,
    *,
    asset: dg.AssetKey | str | list[str] | dg.AssetsDefinition,
    partitions_def: dg.PartitionsDefinition[str] | None = None,
    deps: Iterable[dg.AssetKey] = (),
) -> dg.AssetChecksDefinition:
    """Return the asset check that asks a gate what main would become if the run published now.

    A gate that refuses blocks what is downstream of `asset`, unless it only warns. It needs the
    resource ``graveler``. Publishing asks the gates for itself: give them to it too.

    Args:
        gate: The gate, or a function of a ``graveler.Candidate``.
        asset: The asset that shows the check.
        partitions_def: The asset's own; without it Dagster runs a check for no partition.
        deps: Other assets that the gate waits for.
    """
    judged = as_gate(gate)
    blocking = judged.severity == "error"

    def check(
        context: dg.AssetCheckExecutionContext, graveler: GravelerResource
    ) -> dg.AssetCheckResult:
        run = graveler.run(context)
        verdicts = run.judge([judged])
        reason = next((verdict.reason for verdict in verdicts if not verdict.passed), "")
        return dg.AssetCheckResult(
            passed=not reason,
            severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
            description=reason or None,
            metadata={"graveler/branch": run.branch, "graveler/commit": run.head.id},
        )

    with warnings.catch_warnings():
        # Dagster calls partitions of checks a preview; without them the check is for none
        warnings.filterwarnings("ignore", "Specifying a partitions_def", dg.PreviewWarning)
        return dg.asset_check(
            asset=asset,
            name=re.sub(r"\W+", "_", judged.name),
            description=judged.check.__doc__,
            blocking=blocking,
            partitions_def=partitions_def,
            additional_deps=list(deps),
        )(check)


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
            ]
        ),
    )

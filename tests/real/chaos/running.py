"""The harness: a plan, an orchestrator under it, the judge, and the final report."""

from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import graveler
from tests.real.chaos.driving import Chaos
from tests.real.chaos.judging import Judge, Verdict
from tests.real.chaos.page import write
from tests.real.chaos.plan import AIRFLOW, DAGSTER, DISASTER_KINDS, Kind, Plan, each_kind, some


def work(given: Namespace, folder: Path) -> int:
    """Run what the command line asks for; return 1 if there is any error."""
    plan = _plan(given)
    print(
        f"== {given.orchestrator}: {len(plan.fates)} hours, seed {given.seed}, "
        f"{sum(fate.kind != 'nothing' for fate in plan.fates)} of them meet something, "
        f"{len(plan.disasters)} disasters",
        flush=True,
    )
    chaos = _orchestrator(given)(
        folder, plan, reaper=given.reaper, say=_say, patience=given.patience
    )
    with closing(chaos):
        return _judged(given, folder, plan, chaos)


def _judged(given: Namespace, folder: Path, plan: Plan, chaos: Chaos) -> int:
    chaos.run()
    with graveler.open(chaos.lake) as lake:
        judge = Judge(
            lake.repository("hours"), [fate.hour for fate in plan.fates], folder / "chaos/said"
        )
        verdict = judge.judge(chaos.published())
    for row in chaos.rows.values():
        for state in row.main:
            verdict.check(
                state in ("unchanged", "whole"), f"{row.fate.hour} {row.fate.kind}: main {state}"
            )
        if row.fate.renewals and not plan.disasters:
            verdict.check(
                row.main[-1] == "whole", f"{row.fate.hour} {row.fate.kind}: no attempt published"
            )
    if not plan.disasters:  # a disaster may come before a fault occurs
        for fault in plan.faults:
            fell = (folder / "chaos/reached" / fault.name).exists()
            verdict.check(fell, f"{fault.name}: it never fell on {fault.task}")
    verdict.wrong += chaos.wrong
    verdict.wrong += chaos.shown()
    met = Counter(row.fate.kind for row in chaos.rows.values() if chaos.happened(row.fate))
    drawn = not (given.matrix or given.kinds)
    for kind in _kinds(given) if drawn else dict.fromkeys(fate.kind for fate in plan.fates):
        outside = DISASTER_KINDS.get(kind, "") if drawn else ""
        verdict.acts[kind] = chaos.done[outside] if outside else met[kind]
    verdict.figures["done from outside"] = dict(sorted(chaos.done.items()))
    verdict.figures["manual steps"] = 0
    if hosts := chaos.hosts():
        verdict.figures["worked on"] = ", ".join(hosts)
    print(report(given, verdict))
    if given.page and not verdict.wrong:
        write(given.page, given.orchestrator, chaos.rows.values())
    return 1 if verdict.wrong else 0


def _orchestrator(given: Namespace) -> Callable[..., Chaos]:
    """Return the driver of the orchestrator, without importing the other one."""
    if given.orchestrator == "airflow":
        from tests.real.chaos.orchestrators.airflow_chaos import AirflowChaos

        return partial(AirflowChaos, executor=given.executor)
    from tests.real.chaos.orchestrators.dagster_chaos import DagsterChaos

    return DagsterChaos


def _say(line: str) -> None:
    print(line, flush=True)


def _kinds(given: Namespace) -> dict[str, Kind]:
    return AIRFLOW if given.orchestrator == "airflow" else DAGSTER


def _plan(given: Namespace) -> Plan:
    kinds = _kinds(given)
    if given.matrix:
        return each_kind(kinds)
    if given.kinds:
        return each_kind(kinds, given.kinds.split(";"))
    return some(kinds, given.hours, given.seed)


def report(given: Namespace, verdict: Verdict) -> str:
    """Return the table at the end."""
    lines = [f"{name:>45}  {value}" for name, value in verdict.figures.items()]
    lines += ["", f"{'event':>60}  times"]
    lines += [f"{kind:>60}  {times or 'NEVER'}" for kind, times in verdict.acts.items()]
    if verdict.wrong:
        lines += ["", f"WRONG, {len(verdict.wrong)} times:", *verdict.wrong]
        lines.append(
            f"replay: make chaos-{given.orchestrator} HOURS={given.hours} SEED={given.seed}"
        )
    else:
        lines += ["", "as it must be"]
    return "\n".join(lines)

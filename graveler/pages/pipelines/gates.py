"""The page of gates: what branches require, what gates reported hour by hour, and refusals first."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from graveler.base.names import hour_text, named_hour
from graveler.errors import RefNotFoundError
from graveler.gates import Judgement, NamedGate, Verdict
from graveler.ingest import INGEST
from graveler.lake import Repository
from graveler.pages.drawing import curve
from graveler.pages.page import Page, limited
from graveler.pages.pipelines.runs import facts
from graveler.pages.query import Query

_LOOKED, _SHOWN, _REFUSED = 500, 60, 40
_GATES, _CURVES, _POINTS = 40, 6, 120
_BRANCHES = 500


@dataclass(slots=True)
class Numbers:
    """What one gate said, and the numbers that it reported by name, in the order of the hours."""

    name: str
    passed: int = 0
    warned: int = 0
    refused: int = 0
    facts: dict[str, list[float | None]] = field(default_factory=lambda: defaultdict(list))
    refusals: list[int] = field(default_factory=list)
    said: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count a verdict; a number that is not reported interrupts its curve."""
        self.passed += verdict.passed
        self.refused += verdict.refuses
        self.warned += not (verdict.passed or verdict.refuses)
        if verdict.refuses:
            self.refusals.append(self.said)
        for name, value in verdict.facts.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                values = self.facts[name]
                values += [None] * (self.said - len(values)) + [float(value)]
        self.said += 1

    def curves(self) -> list[tuple[str, str, str]]:
        """Return the name, the curve and the bounds of each number, those of the last judgements."""
        drawn: list[tuple[str, str, str]] = []
        first = max(0, self.said - _POINTS)
        for name, values in islice(self.facts.items(), _CURVES):
            shown = (values + [None] * (self.said - len(values)))[first:]
            known = [value for value in shown if value is not None]
            bounds = f"{min(known):,g} to {max(known):,g}, last {known[-1]:,g}" if known else ""
            marks = [at - first for at in self.refusals if at >= first]
            drawn.append(
                (name, curve(shown, label=f"{self.name}, {name}: {bounds}", marks=marks), bounds)
            )
        return drawn


def gates(repository: Repository, query: Query) -> Page:
    """Return the required gates, the numbers of each gate, and the last judgements."""
    gate, into = query.text("gate"), query.text("into")
    only = query.choice("only", ("", "refused"))
    looked, more = limited(repository.gates.judgements(), _LOOKED)
    found = [
        judgement
        for judgement in looked
        if into in ("", judgement.into)
        and (not gate or any(verdict.gate == gate for verdict in judgement.verdicts))
    ]
    refused, cut = limited((each for each in found if each.refused), _REFUSED)
    others = () if only else (each for each in found if not each.refused)
    rest, left = limited(others, _SHOWN - min(len(refused), _SHOWN // 2))
    values = {
        "required": _required(repository),
        "numbers": _numbers(found, gate),
        "refused": [_row(repository, each) for each in refused],
        "rest": [_row(repository, each) for each in rest],
        "looked": len(looked),
        "more": more or cut or left,
        "names": sorted({verdict.gate for each in looked for verdict in each.verdicts})[:_GATES],
    }
    return Page("gates", "Gates", values)


def _numbers(judgements: Sequence[Judgement], only: str) -> list[Numbers]:
    numbers: dict[str, Numbers] = {}
    for judgement in sorted(judgements, key=lambda each: (_hour(each) or "", each.at)):
        for verdict in judgement.verdicts:
            if only in ("", verdict.gate):
                numbers.setdefault(verdict.gate, Numbers(verdict.gate)).add(verdict)
    return sorted(numbers.values(), key=lambda each: (-each.refused, each.name))[:_GATES]


def _hour(judgement: Judgement) -> str:
    hour = named_hour(judgement.run)
    return judgement.at if hour is None else hour_text(hour)


def _row(repository: Repository, judgement: Judgement) -> dict[str, Any]:
    verdicts = sorted(judgement.verdicts, key=lambda verdict: (not verdict.refuses, verdict.passed))
    hour = named_hour(judgement.run)
    return {
        "judgement": judgement,
        "at": datetime.fromisoformat(judgement.at),
        "hour": "" if hour is None else hour_text(hour),
        "ingested": INGEST in _metadata(repository, judgement.commit),
        "verdicts": [(verdict, facts(verdict.facts)) for verdict in verdicts],
    }


def _metadata(repository: Repository, commit: str) -> Mapping[str, str]:
    try:
        return repository.commit(commit).metadata
    except RefNotFoundError:
        return {}


def _required(repository: Repository) -> list[dict[str, Any]]:
    """Return the gates by pattern, with the branches that have to pass them."""
    rules = repository.gates.settings()
    branches = list(repository.branches(limit=_BRANCHES)) if rules else []
    return [
        {
            "pattern": pattern,
            "gates": [_named(gate) for gate in required],
            "branches": [each.name for each in branches if fnmatchcase(each.name, pattern)],
        }
        for pattern, required in rules.items()
    ]


def _named(gate: NamedGate) -> dict[str, Any]:
    pairs: Iterable[tuple[str, Any]] = [*gate.parameters.items(), *gate.options.items()]
    return {
        "name": str(gate.options.get("name") or gate.check),
        "check": gate.check,
        "pairs": [(name, str(value)) for name, value in pairs if name != "name"],
    }

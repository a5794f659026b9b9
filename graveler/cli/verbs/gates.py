"""``graveler gates``: verdicts, and the gates that branches require."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.arguments import duration_text, load_gates, read_duration, split_pair
from graveler.cli.failure import GATE, UsageError, fact_rows, verdict_lines
from graveler.cli.output import field_lines
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.errors import NotFoundError, RunNotFoundError

if TYPE_CHECKING:
    from graveler.gates import Judgement, NamedGate, Verdict


_Pattern = Annotated[str, "Branches, as main or release-*."]


@verb("gates show")
def _show(session: Session, what: str) -> None:
    """Show the verdicts of a run or a commit.

    Args:
        what: A run, or a ref expression that names a commit.
    """
    judgement = _judgement(session, what)
    fields = [
        ("commit", judgement.commit),
        ("judged", f"{_moment(judgement)}, to {judgement.action} into {judgement.into}"),
    ]
    if judgement.run:
        fields.append(("run", f"{judgement.run}, attempt {judgement.attempt}"))
    for verdict in judgement.verdicts:
        fields += _fields(session, verdict, reused=verdict.gate in judgement.reused)
    session.out.show(_shape(judgement), *field_lines(fields, 8))


def _moment(judgement: "Judgement") -> str:
    return judgement.at[:19].replace("T", " ")


def _judgement(session: Session, what: str) -> "Judgement":
    from graveler.gates import Judgement

    gates = session.repository.gates
    try:
        record = session.repository.runs.get(what)
    except RunNotFoundError:
        return gates.judgement(what)
    judged = [(verdict.at, verdict.commit) for verdict in record.verdicts if verdict.commit]
    commit = record.candidate or max(judged, default=("", ""))[1]
    if record.state == "PUBLISHED" or not commit:
        commit = record.commit or commit
    if commit:
        try:
            return gates.judgement(commit)
        except NotFoundError:
            pass
    if not record.verdicts:
        raise NotFoundError(f"no gate has judged run {what!r}")
    return Judgement(
        commit=commit,
        target="",
        into=record.into,
        action="publish",
        run=record.key,
        attempt=record.attempt,
        at=record.verdicts[-1].at,
        verdicts=record.verdicts,
    )


def _fields(session: Session, verdict: "Verdict", *, reused: bool) -> Iterator[tuple[str, str]]:
    out = session.out
    if verdict.passed:
        word = out.style("passed", "green")
    else:
        outcome = "died" if verdict.died else "refused" if verdict.refuses else "warns"
        word = out.style(outcome, "red" if verdict.refuses else "yellow")
    again = ", judged before" if reused else ""
    yield "gate", f"{verdict.gate}: {word} in {verdict.seconds:.3f} s{again}"
    if verdict.reason:
        yield from (("", line) for line in verdict.reason.splitlines())
    facts = verdict.facts.items()
    if plain := [f"{name} {value}" for name, value in facts if not isinstance(value, Mapping)]:
        yield "", ", ".join(plain)
    yield from (("", row) for row in fact_rows(verdict))


@verb("gates list")
def _list(
    session: Session, *, limit: Annotated[int, {"min": 1}] = 20, refused: bool = False
) -> None:
    """List judgements, the latest first.

    Args:
        limit (-n): List at most N.
        refused: List refusals only.
    """
    out = session.out
    left = limit
    for judgement in session.repository.gates.judgements():
        if refused and not judgement.refused:
            continue
        if not left:
            return
        left -= 1
        word = "refused" if judgement.refused else "passed"
        names = ", ".join(verdict.gate for verdict in judgement.verdicts if verdict.refuses)
        names = names or f"{len(judgement.verdicts)} gates"
        run = f"  {judgement.run}" if judgement.run else ""
        out.show(
            _shape(judgement),
            f"{out.style(judgement.commit[:12], 'yellow')}  {_moment(judgement)}  "
            f"{out.style(f'{word:7}', 'red' if judgement.refused else 'green')}  "
            f"{judgement.action} into {judgement.into}{run}: {names}",
        )


@verb("gates try")
def _try(session: Session, gates: list[str], *, over: str = "", everything: bool = False) -> None:
    """Try gates on earlier commits: which hours would they have refused? Nothing moves.

    Args:
        gates (MODULE:NAME...): The gates: of a module that can be imported from here, or built-in
            checks.
        over (LEFT..RIGHT): The commits of RIGHT after LEFT; else the last 30 of the default branch.
        everything (--all, -a): List the commits that pass, too.
    """
    out, branch = session.out, session.default_branch
    repository = session.repository
    tried = repository.gates.trials(load_gates(gates), over, into=branch)
    for trial in tried:
        shape = {
            "commit": trial.commit.id,
            "run": trial.run.key,
            "hour": trial.run.metadata.get("hour"),
            "refused": trial.refused,
            "verdicts": [asdict(verdict) for verdict in trial.verdicts],
        }
        if out.as_json:
            out.show(shape)
        elif trial.refused or everything:
            word = out.style("refused", "red") if trial.refused else out.style("passed ", "green")
            out.line(f"{out.style(trial.commit.id[:12], 'yellow')}  {word}  {trial.name}")
            for verdict in trial.verdicts:
                out.tell(*(verdict_lines(verdict) if not verdict.passed else ()))
    refused = sum(trial.refused for trial in tried)
    dead = Counter(each.gate for trial in tried for each in trial.verdicts if each.died)
    told = (f"; {gate} died on {count} of them, without a verdict" for gate, count in dead.items())
    out.tell(f"{refused} of {len(tried)} commits would have been refused{''.join(told)}")
    if dead:
        raise typer.Exit(GATE)


@verb("gates require")
def _require(
    session: Session,
    pattern: str = "",
    check: str = "",
    *,
    parameter: list[str] | None = None,
    name: str = "",
    severity: str = "",
    timeout: str = "",
) -> None:
    """Add a required gate to branches, or list the required gates.

    Every operation that moves such a branch runs the gate.

    Args:
        pattern: Branches, as main or release-*; without it, list the required gates.
        check: A built-in check, or package.module:name of your own.
        parameter (--with NAME=VALUE): A parameter of the gate, as JSON or text; repeat for
            more.
        name: Name of the gate; else the default name.
        severity (LEVEL): error refuses; warn only reports.
        timeout (TIME): Time limit, as 30s or 5m.
    """
    gates = session.repository.gates
    if not pattern:
        for known, required in gates.settings().items():
            _show_required(session, known, required)
        return
    if not check:
        raise UsageError(
            f"gates require {pattern}: name a built-in check, or package.module:name of your own"
        )
    options: dict[str, Any] = {}
    if name:
        options["name"] = name
    if severity:
        options["severity"] = severity
    if timeout:
        options["timeout"] = read_duration("--timeout", timeout).total_seconds()
    gates.require_named(pattern, check, _parameters(parameter), **options)
    _show_required(session, pattern, gates.settings()[pattern])


@verb("gates drop")
def _drop(session: Session, pattern: _Pattern) -> None:
    """Remove all required gates of a pattern."""
    gates = session.repository.gates
    if pattern not in gates.settings():
        raise NotFoundError(
            f"no gates are required by pattern {pattern!r}: `graveler gates require` lists them"
        )
    gates.drop(pattern)
    session.out.show({"pattern": pattern}, f"removed all required gates from {pattern}")


def _show_required(session: Session, pattern: str, required: "tuple[NamedGate, ...]") -> None:
    out = session.out
    out.show(
        {"pattern": pattern, "gates": [gate.encode() for gate in required]},
        *(f"{out.style(f'{pattern:12}', bold=True)}  {_text(gate)}" for gate in required),
    )


def _text(gate: "NamedGate") -> str:
    options = dict(gate.options)
    if "timeout" in options:
        options["timeout"] = duration_text(options["timeout"])
    pairs = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in [*gate.parameters.items(), *options.items()]
    ]
    return " ".join([gate.check, *pairs])


def _parameters(texts: list[str] | None) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for text in texts or ():
        name, value = split_pair("--with", text)
        if name in parameters:
            raise UsageError(
                f"--with {text!r}: {name} is given twice; give several values as a list in JSON, "
                f'{name}=\'["a", "b"]\''
            )
        try:
            parameters[name] = json.loads(value)
        except (ValueError, RecursionError):
            parameters[name] = value
    return parameters


def _shape(judgement: "Judgement") -> dict[str, Any]:
    return {**asdict(judgement), "refused": judgement.refused}

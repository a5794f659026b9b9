"""``graveler gates``: verdicts, and the gates that branches require."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.arguments import duration_text, read_duration, split_pair
from graveler.cli.failure import UsageError
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.errors import NotFoundError, RunNotFoundError

if TYPE_CHECKING:
    from graveler.gates import Judgement, NamedGate, Verdict
    from graveler.runs.record import RunRecord


_gates = typer.Typer(help="Gates: verdicts and required gates.", no_args_is_help=True)

_Pattern = Annotated[str, typer.Argument(help="Branches, as main or release-*.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_gates, name="gates")


@verb(_gates, "show")
def _show(
    session: Session,
    what: Annotated[str, typer.Argument(help="A run, or a ref expression that names a commit.")],
) -> None:
    """Show the verdicts of a run or a commit."""
    judgement = _judgement(session, what)
    lines = [
        f"commit    {judgement.commit}",
        f"judged    {judgement.at[:19].replace('T', ' ')}, to {judgement.action} into {judgement.into}",
        *([f"run       {judgement.run}, attempt {judgement.attempt}"] if judgement.run else []),
    ]
    for verdict in judgement.verdicts:
        lines += _lines(session, verdict, reused=verdict.gate in judgement.reused)
    session.out.show(_shape(judgement), *lines)


def _judgement(session: Session, what: str) -> "Judgement":
    from graveler.gates import Judgement

    gates = session.repository.gates
    try:
        record = session.repository.runs.get(what)
    except RunNotFoundError:
        return gates.judgement(what)
    commit = record.candidate or _last_judged(record)
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


def _last_judged(record: "RunRecord") -> str:
    return max(
        ((verdict.at, verdict.commit) for verdict in record.verdicts if verdict.commit),
        default=("", ""),
    )[1]


def _lines(session: Session, verdict: "Verdict", *, reused: bool) -> list[str]:
    out = session.out
    if verdict.passed:
        word = out.style("passed", "green")
    else:
        outcome = "died" if verdict.died else "refused" if verdict.refuses else "warns"
        word = out.style(outcome, "red" if verdict.refuses else "yellow")
    again = ", judged before" if reused else ""
    lines = [f"gate      {verdict.gate}: {word} in {verdict.seconds:.3f} s{again}"]
    if verdict.reason:
        lines.append(f"          {verdict.reason}")
    facts = ", ".join(
        f"{name} {value}" for name, value in verdict.facts.items() if not isinstance(value, Mapping)
    )
    if facts:
        lines.append(f"          {facts}")
    lines += [f"          {row}" for row in fact_rows(verdict)]
    return lines


def fact_rows(verdict: "Verdict") -> Iterator[str]:
    """Yield the facts that are mappings: the name of each, then its rows."""
    for fact, rows in verdict.facts.items():
        if isinstance(rows, Mapping):
            yield f"{fact}:"
            yield from (f"  {f'{name}: {value}'}" for name, value in rows.items())


@verb(_gates, "list")
def _list(
    session: Session,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="List at most N.")] = 20,
    refused: Annotated[bool, typer.Option("--refused", help="List refusals only.")] = False,
) -> None:
    """List judgements, the latest first."""
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
            f"{out.style(judgement.commit[:12], 'yellow')}  {judgement.at[:19].replace('T', ' ')}  "
            f"{out.style(f'{word:7}', 'red' if judgement.refused else 'green')}  "
            f"{judgement.action} into {judgement.into}{run}: {names}",
        )


@verb(_gates, "require")
def _require(
    session: Session,
    pattern: Annotated[
        str,
        typer.Argument(help="Branches, as main or release-*; without it, list the required gates."),
    ] = "",
    check: Annotated[
        str, typer.Argument(help="A built-in check, or package.module:name of your own.")
    ] = "",
    *,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=VALUE",
            help="A parameter of the gate, as JSON or text; repeat for more.",
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the gate; else the default name.")] = "",
    severity: Annotated[
        str, typer.Option(metavar="LEVEL", help="error refuses; warn only reports.")
    ] = "",
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Time limit, as 30s or 5m.")] = "",
) -> None:
    """Add a required gate to branches, or list the required gates.

    Every operation that moves such a branch runs the gate.
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


@verb(_gates, "drop")
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

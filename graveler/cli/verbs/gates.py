"""``graveler gates``: verdicts, and the gates that branches require."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.arguments import duration_text, read_duration
from graveler.cli.failure import UsageError
from graveler.cli.output import printable
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.errors import NotFoundError, RunNotFoundError

if TYPE_CHECKING:
    from graveler.gates import Judgement, NamedGate, Verdict
    from graveler.runs import RunRecord


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
    found = _judgement(session, what)
    lines = [
        f"commit    {found.commit}",
        f"judged    {found.at[:19].replace('T', ' ')}, to {found.action} into {found.into}",
        *([f"run       {printable(found.run)}, attempt {found.attempt}"] if found.run else []),
    ]
    for verdict in found.verdicts:
        lines += _lines(session, verdict, reused=verdict.gate in found.reused)
    session.out.show(_shape(found), *lines)


def _judgement(session: Session, what: str) -> "Judgement":
    from graveler.gates import Judgement  # noqa: PLC0415 - only when a verb needs it

    gates = session.repository.gates
    try:
        record = session.repository.runs.get(what)
    except RunNotFoundError:
        return gates.judgement(what)
    commit = record.commit or record.candidate or _last_judged(record)
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
    lines = [f"gate      {printable(verdict.gate)}: {word} in {verdict.seconds:.3f} s{again}"]
    if verdict.reason:
        lines.append(f"          {printable(verdict.reason)}")
    facts = ", ".join(f"{name} {value}" for name, value in verdict.facts.items())
    if facts:
        lines.append(f"          {printable(facts)}")
    return lines


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
    for found in session.repository.gates.judgements():
        if refused and not found.refused:
            continue
        if not left:
            return
        left -= 1
        word = "refused" if found.refused else "passed"
        names = ", ".join(verdict.gate for verdict in found.verdicts if verdict.refuses)
        names = names or f"{len(found.verdicts)} gates"
        run = f"  {printable(found.run)}" if found.run else ""
        out.show(
            _shape(found),
            f"{out.style(found.commit[:12], 'yellow')}  {found.at[:19].replace('T', ' ')}  "
            f"{out.style(f'{word:7}', 'red' if found.refused else 'green')}  "
            f"{found.action} into {found.into}{run}: {printable(names)}",
        )


@verb(_gates, "require")
def _require(  # noqa: PLR0913 - the options of the verb
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
        for each, required in gates.settings().items():
            _tell(session, each, required)
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
    _tell(session, pattern, gates.settings()[pattern])


@verb(_gates, "drop")
def _drop(session: Session, pattern: _Pattern) -> None:
    """Remove all required gates of a pattern."""
    gates = session.repository.gates
    if pattern not in gates.settings():
        raise NotFoundError(
            f"no gates are required by pattern {pattern!r}: "
            "`graveler gates require` shows those there are"
        )
    gates.drop(pattern)
    session.out.show({"pattern": pattern}, f"removed all required gates from {pattern}")


def _tell(session: Session, pattern: str, required: "tuple[NamedGate, ...]") -> None:
    out = session.out
    out.show(
        {"pattern": pattern, "gates": [gate.encode() for gate in required]},
        *(
            f"{out.style(f'{pattern:12}', bold=True)}  {printable(_text(gate))}"
            for gate in required
        ),
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
    found: dict[str, Any] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not (name and separator):
            raise UsageError(f"--with {text!r}: give NAME=VALUE")
        if name in found:
            raise UsageError(
                f"--with {text!r}: {name} is given twice; give several values as a list in JSON, "
                f'{name}=\'["a", "b"]\''
            )
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _shape(found: "Judgement") -> dict[str, Any]:
    return {**asdict(found), "refused": found.refused}

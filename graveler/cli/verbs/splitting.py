"""``graveler splitting``: where ranges of the metadata end."""

from typing import Annotated, Any

import typer

from graveler.cli.arguments import read_number
from graveler.cli.failure import UsageError
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.cli.verbs import simulate

_splitting = typer.Typer(help="Where ranges of the metadata end.", no_args_is_help=True)
simulate.add_to(_splitting)

_Bytes = Annotated[str | None, typer.Option(metavar="BYTES", help="As 5242880 or 5MiB.")]
_Count = Annotated[str | None, typer.Option(metavar="N")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs of this group."""
    app.add_typer(_splitting, name="splitting")


@verb(_splitting, "show")
def _show(session: Session) -> None:
    """Show the policy of the repository and its parameters."""
    _show_policy(session, session.repository.splitting.show())


@verb(_splitting, "set")
def _set(
    session: Session,
    *,
    policy: Annotated[
        str, typer.Option(metavar="hash|directory", help="The policy; its parameters get defaults.")
    ] = "",
    max_bytes: _Bytes = None,
    min_bytes: _Bytes = None,
    table_bytes: _Bytes = None,
    part_bytes: _Bytes = None,
    directory_bytes: _Bytes = None,
    key_bytes: _Bytes = None,
    raggedness: _Count = None,
    hard: _Count = None,
    hard_directories: _Count = None,
) -> None:
    """Change the policy or its parameters; existing ranges do not change."""
    given = {
        "max_bytes": max_bytes,
        "min_bytes": min_bytes,
        "table_bytes": table_bytes,
        "part_bytes": part_bytes,
        "directory_bytes": directory_bytes,
        "key_bytes": key_bytes,
        "raggedness": raggedness,
        "hard": hard,
        "hard_directories": hard_directories,
    }
    parameters: dict[str, Any] = {
        name: read_number(f"--{name.replace('_', '-')}", text)
        for name, text in given.items()
        if text is not None
    }
    if policy:
        parameters["policy"] = policy
    if not parameters:
        raise UsageError("nothing to set: give --policy, --max-bytes or another parameter")
    _show_policy(session, session.repository.splitting.set(**parameters))


def _show_policy(session: Session, policy: dict[str, str | int]) -> None:
    width = max(map(len, policy))
    session.out.show(policy, *(f"{name:{width}}  {value}" for name, value in policy.items()))

"""``airflow graveler``: commands that make repositories, list runs, and reap expired runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace

    from graveler.lake import Lake, Repository


def commands() -> list[Any]:
    """Return the commands that the provider adds to ``airflow``."""
    # Airflow loads this module for each of its commands: import nothing heavy
    from airflow.cli.cli_config import (
        ARG_OUTPUT,
        ActionCommand,
        Arg,
        GroupCommand,
        lazy_load_command,
    )

    make: Callable[..., Any] = Arg
    connection = make(("--conn-id",), help="Connection of the lake", default="graveler_default")
    repository = make(("--repo",), help="Repository; the connection's if not given", default="")
    made = make(("repository",), help="Name of the repository")
    state = make(
        ("--state",), help="Only runs in this state: open, parked, published, …", default=""
    )
    apply = make(
        ("--apply",),
        help="Reap the runs; without it the command only lists them",
        action="store_true",
    )
    return [
        GroupCommand(
            name="graveler",
            help="Runs of graveler, each on a branch of its own",
            subcommands=(
                ActionCommand(
                    name="create",
                    help="Make a repository in the lake of a connection, if it does not exist",
                    func=lazy_load_command("graveler_airflow.cli.create"),
                    args=(made, connection),
                ),
                ActionCommand(
                    name="runs",
                    help="List the runs and their states",
                    func=lazy_load_command("graveler_airflow.cli.runs"),
                    args=(connection, repository, state, ARG_OUTPUT),
                ),
                ActionCommand(
                    name="reap",
                    help="Park runs whose lease is over, remove parked runs whose time to live "
                    "is over",
                    func=lazy_load_command("graveler_airflow.cli.reap"),
                    args=(connection, repository, apply, ARG_OUTPUT),
                ),
            ),
        )
    ]


def create(args: "Namespace") -> None:
    """Make a repository."""
    with _lake(args) as lake:
        print(f"repository {lake.create_repository(args.repository, exist_ok=True).name}")  # noqa: T201


def runs(args: "Namespace") -> None:
    """List the runs."""
    state = args.state.upper() or None
    with _repository(args) as repository:
        _check_state(state)
        rows = [
            {
                "key": record.key,
                "state": str(record.state),
                "attempt": record.attempt,
                "branch": record.branch if record.live else "",
                "changed": f"{record.updated:%Y-%m-%d %H:%M:%S}",
                "reason": record.reason,
            }
            for record in repository.runs.list(state)
        ]
    _print(rows, args.output)


def reap(args: "Namespace") -> None:
    """Reap runs, or list the runs that would be reaped."""
    from graveler_common.history import reaped_row

    with _repository(args) as repository:
        rows = [reaped_row(reaped) for reaped in repository.runs.reap(dry_run=not args.apply)]
    _print(rows, args.output)
    if rows and not args.apply and args.output == "table":
        raise SystemExit("Nothing was done: add --apply to do it")


@contextmanager
def _repository(args: "Namespace") -> Iterator["Repository"]:
    """Open the repository of the arguments; an error ends the command with one line."""
    from graveler_airflow.hook import GravelerHook

    with _one_line(args), GravelerHook(args.conn_id).opened(args.repo) as repository:
        yield repository


@contextmanager
def _lake(args: "Namespace") -> Iterator["Lake"]:
    """Open the lake of the arguments; an error ends the command with one line."""
    from graveler_airflow.hook import GravelerHook

    with _one_line(args), GravelerHook(args.conn_id).get_conn() as lake:
        yield lake


@contextmanager
def _one_line(args: "Namespace") -> Iterator[None]:
    from airflow.sdk.exceptions import AirflowNotFoundException

    from graveler.errors import GravelerError

    try:
        yield
    except GravelerError as error:
        raise SystemExit(f"{error.code}: {error}") from error
    except AirflowNotFoundException as error:
        raise SystemExit(f"--conn-id {args.conn_id}: {error}") from error


def _check_state(state: str | None) -> None:
    from graveler.lake import RunState

    states = [str(member) for member in RunState if member is not RunState.NONE]
    if state is not None and state not in states:
        raise SystemExit(f"--state {state.lower()}: give one of {', '.join(states).lower()}")


def _print(rows: list[dict[str, Any]], output: str) -> None:
    from airflow.cli.simple_table import AirflowConsole

    AirflowConsole().print_as(data=rows, output=output)

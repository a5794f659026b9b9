"""``airflow graveler``: commands that make repositories, list runs, and reap expired runs.

Airflow loads this module for each of its commands: it imports nothing heavy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace

    from graveler_airflow.hook import GravelerHook


def commands() -> list[Any]:
    """Return the commands that the provider adds to ``airflow``."""
    from airflow.cli.cli_config import (
        ARG_OUTPUT,
        ActionCommand,
        Arg,
        GroupCommand,
        lazy_load_command,
    )

    def command(name: str, text: str, *arguments: Any) -> ActionCommand:
        call = lazy_load_command(f"graveler_airflow.cli.{name}")
        return ActionCommand(name=name, help=text, func=call, args=(connection, *arguments))

    make: Any = Arg
    connection = make(("--conn-id",), help="Connection of the lake", default="graveler_default")
    repository = make(("--repo",), help="Repository; the connection's if not given", default="")
    made = make(("repository",), help="Name of the repository")
    states = "Only runs in this state: open, parked, published, …"
    state = make(("--state",), help=states, default="")
    only_listed = "Reap the runs; without it the command only lists them"
    apply = make(("--apply",), help=only_listed, action="store_true")
    creates = "Make a repository in the lake of a connection, if it does not exist"
    reaps = "Park runs whose lease is over, remove parked runs whose time to live is over"
    return [
        GroupCommand(
            name="graveler",
            help="Runs of graveler, each on a branch of its own",
            subcommands=(
                command("create", creates, made),
                command("runs", "List the runs and their states", repository, state, ARG_OUTPUT),
                command("reap", reaps, repository, apply, ARG_OUTPUT),
            ),
        )
    ]


def create(args: "Namespace") -> None:
    """Make a repository."""
    with _hook(args) as hook, hook.get_conn() as lake:
        print(f"repository {lake.create_repository(args.repository, exist_ok=True).name}")  # noqa: T201


def runs(args: "Namespace") -> None:
    """List the runs."""
    with _hook(args) as hook, hook.opened(args.repo) as repository:
        rows = [
            {
                "key": record.key,
                "state": str(record.state),
                "attempt": record.attempt,
                "branch": record.branch if record.live else "",
                "changed": f"{record.updated:%Y-%m-%d %H:%M:%S}",
                "reason": record.reason,
            }
            for record in repository.runs.list(args.state.upper() or None)
        ]
    _print(rows, args.output)


def reap(args: "Namespace") -> None:
    """Reap runs, or list the runs that would be reaped."""
    from graveler_common.history import reaped_row

    with _hook(args) as hook, hook.opened(args.repo) as repository:
        rows = [reaped_row(reaped) for reaped in repository.runs.reap(dry_run=not args.apply)]
    _print(rows, args.output)
    if rows and not args.apply and args.output == "table":
        raise SystemExit("Nothing was done: add --apply to do it")


@contextmanager
def _hook(args: "Namespace") -> Iterator["GravelerHook"]:
    """Return the connection; an error in the block ends the command with one line."""
    from airflow.sdk.exceptions import AirflowNotFoundException

    from graveler.errors import GravelerError
    from graveler_airflow.hook import GravelerHook

    try:
        yield GravelerHook(args.conn_id)
    except GravelerError as error:
        raise SystemExit(f"{error.code}: {error}") from error
    except AirflowNotFoundException as error:
        raise SystemExit(f"--conn-id {args.conn_id}: {error}") from error


def _print(rows: list[dict[str, Any]], output: str) -> None:
    from airflow.cli.simple_table import AirflowConsole

    AirflowConsole().print_as(data=rows, output=output)

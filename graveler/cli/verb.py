"""A verb: a function with the options that all verbs share, and with errors reported."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from graveler.cli.failure import DONE, report, report_interrupt
from graveler.cli.output import Output, ReaderGoneError
from graveler.cli.session import Options, Session

P = ParamSpec("P")

_PANEL = "Options of every verb"
LakeOption = Annotated[
    str,
    typer.Option(
        "--lake",
        "-C",
        metavar="FOLDER",
        help="The lake: its folder or its graveler.toml. Else GRAVELER_LAKE, "
        "else the nearest folder from here upwards that is a lake.",
        rich_help_panel=_PANEL,
    ),
]
RepoOption = Annotated[
    str,
    typer.Option(
        "--repo",
        "-R",
        metavar="NAME",
        help="The repository. Else GRAVELER_REPO, else the lake's only one.",
        rich_help_panel=_PANEL,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Write JSON for programs.", rich_help_panel=_PANEL)
]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", help="Show where an error came from.", rich_help_panel=_PANEL),
]

_SHARED = {
    "lake": (LakeOption, ""),
    "repo": (RepoOption, ""),
    "as_json": (JsonOption, False),
    "debug": (DebugOption, False),
}


def verb(
    group: typer.Typer, name: str
) -> Callable[[Callable[Concatenate[Session, P], None]], Callable[Concatenate[Session, P], None]]:
    """Make a function ``(session, arguments…)`` the verb `name` of `group`.

    Its arguments come from its signature, and the shared options are added to them. The shared
    options may also be given before the verb. Those after the verb win.
    """

    def register(
        body: Callable[Concatenate[Session, P], None],
    ) -> Callable[Concatenate[Session, P], None]:
        @wraps(body)
        def call(context: typer.Context, **given: Any) -> None:
            shared = {option: given.pop(option) for option in _SHARED}
            _run(body, Options(**shared).over(context.obj), given)

        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        parameters = [
            _parameter("context", typer.Context),
            *(item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own),
            *(_parameter(option, kind, default) for option, (kind, default) in _SHARED.items()),
        ]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        call.__annotations__ = {item.name: item.annotation for item in parameters}
        group.command(name)(call)
        return body

    return register


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _run(body: Callable[..., None], options: Options, arguments: dict[str, Any]) -> None:
    out = Output(as_json=options.as_json)
    code = DONE
    try:
        with Session(options, out) as session:
            body(session, **arguments)
        out.flush()
    except ReaderGoneError:
        pass
    except typer.Exit:
        out.flush()
        raise
    except KeyboardInterrupt as error:
        code = report_interrupt(error, as_json=options.as_json)
    except Exception as error:  # noqa: BLE001 - the top level: report it and exit
        code = report(error, as_json=options.as_json, debug=options.debug)
    if code != DONE:
        raise typer.Exit(code)

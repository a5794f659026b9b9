"""A verb: a function whose signature and docstring declare a command; its errors are reported.

A parameter after ``*`` is an option, every other one an argument. Its line below ``Args:`` is its
help. The text in parentheses before it has the option's names, if they are not ``--`` and the
parameter's name, and the word for its value: ``limit (-n N): List at most N.`` What several verbs have
is an annotated type with this text and with further arguments of typer.
"""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from textwrap import dedent
from typing import Annotated, Any, Concatenate, ParamSpec, get_args

import typer

from graveler.cli.arguments import completer
from graveler.cli.failure import DONE, report, report_interrupt
from graveler.cli.output import Output, ReaderGoneError
from graveler.cli.parser import Commands
from graveler.cli.session import Options, Session

if __doc__ is None:
    raise SystemExit("error: the options are declared in docstrings: run Python without -OO")

P = ParamSpec("P")
_Body = Callable[Concatenate[Session, P], None]

_PANEL = {"rich_help_panel": "Options of every verb"}
_SHARED: dict[str, tuple[Any, str | bool]] = {
    "lake": (
        Annotated[
            str,
            "(-C FOLDER): The lake: its folder or its graveler.toml. Else GRAVELER_LAKE, else the "
            "nearest folder from here upwards that is a lake.",
            _PANEL,
        ],
        "",
    ),
    "repo": (
        Annotated[
            str,
            "(-R NAME): The repository. Else GRAVELER_REPO, else the lake's only one.",
            _PANEL,
        ],
        "",
    ),
    "as_json": (Annotated[bool, "(--json): Write JSON for programs.", _PANEL], False),
    "debug": (Annotated[bool, "Show where an error came from.", _PANEL], False),
}
_GROUPS = {
    "repo": "Repositories: each one versioned tree of paths.",
    "links": "Links: the places outside of the storage that files may be linked from.",
    "branch": "Branches: make, list, protect, delete.",
    "tag": "Tags: names for commits that do not move.",
    "run": "Runs: each works on a branch of its own.",
    "gates": "Gates: verdicts and required gates.",
    "ingest": "Ingestion branches: written all the time, published hour by hour.",
    "iceberg": "Tables of Iceberg: list, register and export them, and expire their snapshots.",
    "refs": "Refs: dump them to one file, and restore them.",
    "gc": """Garbage collection.

`gc mark` condemns unreachable objects and deletes nothing. `gc sweep` deletes them once the undelete
window is over, if a second check still finds them unreachable. `gc undelete` undoes a mark. `gc run`
marks and sweeps, for a daily job.""",
    "splitting": "Where ranges of the metadata end.",
    "user": "Users: who may do what on everything that is served.",
    "group": "Groups of users.",
    "policy": "Policies: what is allowed and denied, to users and groups.",
    "token": "Tokens of users: printed once, stored as hashes.",
    "keep": "Keep: blocks on servers of your own.",
    "keep servers": "The servers of a system of Keep.",
    "keep collection": "Collections: named files in blocks, and for how long they are needed.",
    "packing": "Packing: the rule that decides when branches are packed.",
}
_NAMED = inspect.Parameter.KEYWORD_ONLY
_FORMS = re.compile(r"^(?:\((.*?)\): ?)?(.*)")
_NAMES = re.compile(r"((?:--?\w[\w-]*(?:/--[\w-]+)?(?:, |$| ))*)(.*)")


app = typer.Typer(
    name="graveler",
    cls=Commands,
    help="Git for a data lake: every run on its own branch, main moves in one atomic step.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_groups = {
    name: typer.Typer(name=name.rpartition(" ")[2], help=about, no_args_is_help=True)
    for name, about in _GROUPS.items()
}
for _name, _group in _groups.items():
    _groups.get(_name.rpartition(" ")[0], app).add_typer(_group)


def verb(name: str, of: typer.Typer = app) -> Callable[[_Body[P]], _Body[P]]:
    """Make a function ``(session, arguments…)`` the verb `name`, which may begin with its group.

    The shared options are added to its arguments. They may also be given before the verb. Those
    after the verb win.
    """
    group, _, word = name.rpartition(" ")

    def register(body: _Body[P]) -> _Body[P]:
        @wraps(body)
        def call(context: typer.Context, **given: Any) -> None:
            shared = {option: given.pop(option) for option in _SHARED}
            _run(body, Options(**shared).over(context.obj), given)

        sign(call, body)
        _groups.get(group, of).command(word)(call)
        return body

    return register


def sign(call: Callable[..., None], body: Callable[..., None]) -> None:
    """Give `call` what typer reads: the help and the parameters of `body`, and the shared options."""
    call.__doc__, _, told = inspect.cleandoc(body.__doc__ or "").partition("\n\nArgs:\n")
    texts = _texts(told)
    context, *own = inspect.signature(body, eval_str=True).parameters.values()
    shared = [
        context.replace(name=name, kind=_NAMED, default=default, annotation=kind)
        for name, (kind, default) in _SHARED.items()
    ]
    parameters = [
        context.replace(name="context", kind=_NAMED, annotation=typer.Context),
        *(
            _declared(item, texts.get(item.name, ""))
            for item in [*own, *shared]
            if item.kind is not inspect.Parameter.VAR_KEYWORD
        ),
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    call.__annotations__ = {item.name: item.annotation for item in parameters}


def _texts(told: str) -> dict[str, str]:
    items = re.split(r"\n(?=\S)", dedent(told).strip())
    pairs = (re.match(r"(\w+):? (.*)|$", re.sub(r"\n\s+", " ", item)) for item in items)
    return {match[1]: match[2] for match in pairs if match and match[1]}


def _declared(item: inspect.Parameter, text: str = "") -> inspect.Parameter:
    annotated = hasattr(item.annotation, "__metadata__")
    kind, *more = get_args(item.annotation) if annotated else (item.annotation,)
    options: dict[str, Any] = {}
    for each in more:
        if isinstance(each, str):
            text = each
        else:
            options |= each
    forms, about = _FORMS.findall(text)[0]
    options["help"] = about or None
    if (complete := completer(item.name, forms, about)) is not None:
        options.setdefault("autocompletion", complete)
    if item.kind is not _NAMED:
        shown = typer.Argument(metavar=forms or None, **options)
    else:
        listed, metavar = _NAMES.findall(forms)[0]
        names = [name.strip() for name in listed.split(",") if name.strip()]
        if (item.default is False or names) and not any(name.startswith("--") for name in names):
            names.insert(0, f"--{item.name.replace('_', '-')}")
        shown = typer.Option(*names, metavar=metavar or None, **options)
    return item.replace(kind=_NAMED, annotation=Annotated[kind, shown])


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

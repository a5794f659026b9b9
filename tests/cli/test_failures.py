"""Exit codes, and how errors are reported."""

import json

import pytest
import typer
from typer.testing import CliRunner

from graveler import __version__
from graveler.cli.session import Options
from graveler.cli.verb import verb
from graveler.errors import GateFailedError, MergeConflictError, NotFoundError
from graveler.gates import Verdict
from graveler.model import Conflict

VERDICTS = (Verdict("rows", True, "error"), Verdict("dups", False, "error", "2 flights twice"))


@pytest.fixture
def failing():
    """Calls a verb that raises."""
    app = typer.Typer()
    errors: dict[str, Exception] = {}

    @app.callback()
    def shared(context: typer.Context) -> None:
        context.obj = Options()

    @verb("fail", app)
    def fail(session):
        raise errors["now"]

    def call(error, *options):
        errors["now"] = error
        return CliRunner().invoke(app, ["fail", *options])

    return call


def test_all_conflicts_are_counted_and_the_first_are_shown(failing):
    said = failing(
        MergeConflictError("both changed it", (Conflict("a", None, None, None),), 2000), "--json"
    )
    error = json.loads(said.stderr)["error"]
    assert (said.exit_code, error["conflict_count"], len(error["conflicts"])) == (3, 2000, 1)


def test_a_gate_that_refused_exits_with_4_and_says_why(failing):
    said = failing(GateFailedError("refused", VERDICTS))
    assert said.exit_code == 4
    assert said.stderr == "error: refused\n  rows: passed\n  dups: 2 flights twice\n"
    said = failing(GateFailedError("refused", VERDICTS), "--json")
    error = json.loads(said.stderr)["error"]
    assert (said.exit_code, error["code"]) == (4, "gate-failed")
    assert [verdict["gate"] for verdict in error["verdicts"]] == ["rows", "dups"]


def test_an_error_is_one_line_and_debug_shows_where_it_came_from(failing):
    said = failing(NotFoundError("no such thing\nat all"))
    assert (said.exit_code, said.stderr) == (1, "error: no such thing at all\n")
    said = failing(NotFoundError("no such thing"), "--debug")
    assert said.stderr.startswith("Traceback")
    assert said.stderr.endswith("error: no such thing\n")


def test_a_defect_is_told_as_one(failing):
    said = failing(KeyError("x"), "--json")
    assert said.exit_code == 1
    assert json.loads(said.stderr)["error"]["code"] == "internal"
    assert "--debug" in json.loads(said.stderr)["error"]["message"]


@pytest.mark.parametrize("verb", ["init", "put", "branch reset", "run abandon", "gc mark"])
def test_a_verb_takes_the_shared_options(cli, verb):
    said = cli(*verb.split(), "--help")
    assert said.code == 0
    for option in ("--json", "--lake", "--repo", "--debug"):
        assert option in said.out


def test_the_version_is_told(cli):
    assert cli("--version").out == f"graveler {__version__}\n"

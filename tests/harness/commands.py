"""The command line, called in the process of a test."""

import json
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from graveler.cli.main import load

app = load()
_command = get_command(app)


def invoke(*arguments: object, stdin: Any = None) -> Any:
    """Call the command line. Its commands are made once: this takes longer than a verb."""
    with patch("typer.testing._get_command", lambda _: _command):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


@dataclass(frozen=True)
class Said:
    """The result of one call of the command line."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


@pytest.fixture
def cli():
    """A function that calls the command line in this process."""

    def call(*arguments, stdin=None) -> Said:
        result = invoke(*arguments, stdin=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    return call

"""The command line, called in the process of a test."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from graveler.cli.main import app


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
    runner = CliRunner()

    def call(*arguments, stdin=None) -> Said:
        result = runner.invoke(app, [str(argument) for argument in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    return call

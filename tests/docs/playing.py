"""Runs a page from top to bottom in a folder of its own."""

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from graveler.config import load_config
from tests.docs import interpreter
from tests.docs.output import bindings, matches
from tests.docs.pages import ROOT, Block, Page, Tier

LONGEST_S = 240
_BIN = Path(sys.executable).parent
_DBT_BIN = ROOT / ".venv-dbt/bin"  # second on the PATH: it has dbt and another graveler
_EXAMPLES = "docs/examples"
_END = "--- end of a command, with status"
_SETTINGS = {"agents", "kv", "storage", "s3", "cache", "gates", "splitting", "limits", "links"}


class BlockError(AssertionError):
    """A block of a page failed, or its output differs from the page."""


def play(page: Page, tier: Tier, folder: Path) -> None:
    """Run the blocks of a page that the tier runs, in order."""
    session = _Session(folder)
    if any(_EXAMPLES in block.text for block in page.blocks):
        session.bring_examples()
    try:
        for block in page.of(tier):
            session.run(block)
    finally:
        session.close()


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with its shown output."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*\n)", text, flags=re.MULTILINE)
    if parts[0].strip():
        message = f"a console block begins with {parts[0]!r}, which is no command"
        raise ValueError(message)
    yield from zip(parts[1::2], parts[2::2], strict=True)


class _Session:
    """The state that the blocks of one page share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "page"
        self._home = folder / "home"
        self._folder.mkdir()
        self._home.mkdir()
        self._shell: _Shell | None = None
        self._python: subprocess.Popen[str] | None = None
        self._ids: dict[str, str] = {}

    def bring_examples(self) -> None:
        """Link the examples to the path that the page uses."""
        link = self._folder / _EXAMPLES
        link.parent.mkdir()
        link.symlink_to(ROOT / _EXAMPLES)

    def run(self, block: Block) -> None:
        if block.file:
            path = self._folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(block.text)
        if block.language in {"toml", "yaml", "json"}:
            self._parse(block)
        elif not block.file:
            {"console": self._console, "sh": self._script, "python": self._execute}[block.language](
                block
            )

    def close(self) -> None:
        for process in (self._shell and self._shell.process, self._python):
            if process:
                process.communicate()

    def _parse(self, block: Block) -> None:
        try:
            if block.language == "json":
                json.loads(block.text)
            elif block.language == "yaml":
                yaml.safe_load(block.text)
            elif _SETTINGS & {*tomllib.loads(block.text)}:
                self._settings(block.text)
        except (ValueError, yaml.YAMLError) as error:
            raise BlockError(f"{block.place}: {error}") from error

    def _settings(self, text: str) -> None:
        """Load the tables of a `graveler.toml`, with a value for every variable and secret."""
        file = self._home / "graveler.toml"
        text = re.sub(r"(?<!\$)\$\{\w+\}", "secret", text)
        text = re.sub(r'command = "[^"]*"', 'command = "echo secret"', text)
        file.write_text(text if "format = " in text else f"format = 1\n{text}", "utf-8")
        load_config(file)

    def _console(self, block: Block) -> None:
        entries = list(commands(block.text))
        following = [command for command, _ in entries[1:]] + [""]
        for (written, shown), next_command in zip(entries, following, strict=True):
            command = self._with_ids(written)
            status, printed = self._bash(command, block)
            wanted = shown.lstrip().startswith("error:")
            if bool(status) != wanted and next_command.strip() != "echo $?":
                raise BlockError(f"{block.place}: $ {command}ends with {status}:\n{printed}")
            if shown.strip():
                _compare(block, f"$ {command}", shown, printed)
                self._ids |= bindings(shown, printed)

    def _with_ids(self, command: str) -> str:
        for page_id, actual_id in self._ids.items():
            command = command.replace(page_id, actual_id)
        return command

    def _script(self, block: Block) -> None:
        status, printed = self._bash(f"set -e\n{block.text}\nset +e", block)
        if status:
            raise BlockError(f"{block.place}: ends with {status}:\n{printed}")

    def _bash(self, command: str, block: Block) -> tuple[int, str]:
        if self._shell is None:
            self._shell = _Shell(self._folder, self._environment)
        with _bounded(self._shell.process, block):
            return self._shell.run(command)

    def _execute(self, block: Block) -> None:
        if self._python is None:
            self._python = _start(
                [sys.executable, interpreter.__file__], self._folder, self._environment
            )
        with _bounded(self._python, block):
            reply = _asked(self._python, block)
        if reply["failure"]:
            raise BlockError(f"{block.place}: {reply['printed']}\n{reply['failure']}")
        if block.output is not None:
            _compare(block, "the block", block.output, reply["printed"])

    @property
    def _environment(self) -> Mapping[str, str]:
        return {
            "PATH": f"{_BIN}:{_DBT_BIN}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self._home),
            "USER": "ann",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "200",
        }


class _Shell:
    """A bash that keeps its folder and its variables between commands."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.process = _start(["bash", "--norc"], folder, environment)
        self._status = 0

    def run(self, command: str) -> tuple[int, str]:
        """Return the status of a command and its output on both streams."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(
            f"(exit {self._status})\neval {shlex.quote(command)} </dev/null 2>&1\n"
            f"printf '\\n%s %d\\n' {shlex.quote(_END)} $?\n"
        )
        self.process.stdin.flush()
        lines: list[str] = []
        for line in self.process.stdout:
            if line.startswith(_END):
                self._status = int(line.removeprefix(_END))
                return self._status, "".join(lines)[:-1]
            lines.append(line)
        return self.process.wait(), "".join(lines)


def _start(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _asked(python: "subprocess.Popen[str]", block: Block) -> Any:
    assert python.stdin
    assert python.stdout
    request = {"file": str(ROOT / block.page), "line": block.line, "code": block.text}
    python.stdin.write(json.dumps(request) + "\n")
    python.stdin.flush()
    reply = python.stdout.readline()
    if not reply:
        raise BlockError(f"{block.place}: the interpreter ended with {python.wait()}")
    return json.loads(reply)


@contextmanager
def _bounded(process: "subprocess.Popen[str]", block: Block) -> Iterator[None]:
    """Kill the process if the block takes too long."""
    timer = threading.Timer(LONGEST_S, process.send_signal, [signal.SIGKILL])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _compare(block: Block, what: str, shown: str, printed: str) -> None:
    if not matches(shown, printed):
        raise BlockError(
            f"{block.place}: {what}\nis shown to print\n{shown}\nand printed\n{printed}"
        )

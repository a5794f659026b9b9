"""The context of a verb: the lake, the repository, the output."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from graveler.cli.failure import UsageError
from graveler.cli.output import Output
from graveler.config import CONFIG_NAME, environment, load_config
from graveler.display import printable
from graveler.errors import NotFoundError
from graveler.trust import check_owner, check_same_lake

if TYPE_CHECKING:
    from datetime import datetime

    from graveler.base.background import Progress
    from graveler.lake import Branch, Lake, Repository
    from graveler.reads.view import View
    from graveler.runs.steps.environment import OpenStep, StepEnvironment

_GARBAGE = gc.get_threshold()


@dataclass(frozen=True, slots=True)
class Options:
    """The options that every verb has."""

    lake: str = ""
    repo: str = ""
    as_json: bool = False
    debug: bool = False

    def over(self, other: "Options | None") -> "Options":
        """Return these options; those not given come from `other`."""
        if other is None:
            return self
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Options(*(mine or theirs for mine, theirs in pairs))


def find_lake(folder: Path) -> Path:
    """Return the lake of `folder`: itself or the nearest parent folder that is a lake."""
    for candidate in (folder, *folder.parents):
        if (candidate / CONFIG_NAME).is_file():
            check_owner(candidate / CONFIG_NAME)
            return candidate
    raise NotFoundError(
        f"no lake in {folder} or above it: name one with --lake or GRAVELER_LAKE, "
        "or make one with `graveler init`"
    )


@dataclass
class Session:
    """One call of the command line; a context manager that closes its lake."""

    options: Options
    out: Output
    _opened: "list[Lake]" = field(default_factory=list)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        opened = self.__dict__.get("step")
        if opened is not None and kind is None:
            opened.record_reads()
        for lake in self._opened:
            lake.close()

    @contextmanager
    def progress(self, name: str) -> "Iterator[Progress | None]":
        """Show a progress bar on a terminal; yield None without a terminal or with ``--json``."""
        if self.out.as_json or not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console
        from rich.progress import Progress as Bar

        with Bar(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name)

            def report(what: str, done: int, known: int) -> None:
                bar.update(
                    task, description=printable(f"{name}: {what}"), completed=done, total=known
                )

            yield report

    @cached_property
    def lake(self) -> "Lake":
        """The open lake; it is never created here."""
        from graveler.lake.factory import connect

        named = self.options.lake or environment("GRAVELER_LAKE")
        handed = self.environment.location if self._in_run else ""
        check_same_lake(named, handed)
        lake = connect(load_config(named or handed or find_lake(Path.cwd())))
        self._opened.append(lake)
        gc.set_threshold(
            *_GARBAGE
        )  # `main` raises it while modules are imported; a server lives long
        return lake

    @cached_property
    def repository(self) -> "Repository":
        """The named repository, or the lake's only one."""
        return self.lake.repository(self.repository_name)

    @cached_property
    def now(self) -> "datetime":
        """The time of the call."""
        return self.repository.stores.clock.now()

    @property
    def repository_name(self) -> str:
        """The name of that repository."""
        handed = self.environment.repository if self._in_run else ""
        named = self.options.repo or handed or environment("GRAVELER_REPO")
        if named:
            return named
        names = self.lake.repositories()
        if len(names) == 1:
            return names[0]
        if not names:
            raise NotFoundError(
                f"{self.lake.location} has no repository yet: "
                "make one with `graveler repo create NAME`"
            )
        raise UsageError(
            f"{self.lake.location} has several repositories ({', '.join(names)}): "
            "name one with --repo or GRAVELER_REPO"
        )

    @property
    def _in_run(self) -> bool:
        """Whether the environment names a run or a step; else their modules are not imported."""
        return bool(environment("GRAVELER_RUN") or environment("GRAVELER_STEP"))

    @cached_property
    def environment(self) -> "StepEnvironment":
        """The run and the step that the environment names."""
        from graveler.runs.steps.environment import StepEnvironment

        return StepEnvironment.of()

    @cached_property
    def step(self) -> "OpenStep | None":
        """The step that this program works in, opened by ``graveler run exec`` or a task."""
        if not self._in_run:
            return None
        given = self.environment
        if not given.is_open:
            raise UsageError(
                "GRAVELER_RUN is set, and no step of the run is open: start the command by "
                "`graveler run exec --step NAME -- COMMAND`, or name the branch"
            )
        return self.repository.runs.open_step(given)

    @property
    def default_branch(self) -> str:
        """The branch to use if none is named: the step's branch, else the repository's default."""
        return self.repository.stores.default_branch if self.step is None else self.step.name

    def _is_step(self, name: str) -> bool:
        return self._in_run and bool(name) and name == self.environment.branch

    def branch(self, name: str) -> "Branch":
        """Return a branch to write to; "" is the default branch."""
        name = name or self.default_branch
        if self._is_step(name) and self.step is not None:
            return self.step
        return self.repository.branch(name)

    def view(self, ref: str) -> "View":
        """Return a branch with its staged writes, or the commit of any other ref.

        In a step a commit is read as an input of the run.
        """
        name = ref or self.default_branch
        if self._in_run and self.environment.is_open and self.step is not None:
            return self.step if self._is_step(name) else self.step.view(name)
        return self.repository.view(name)

"""Environment variables with which a program works in a step of a run.

``GRAVELER_RUN`` names the run: the handle of an attempt as JSON, or a run's key. ``GRAVELER_STEP``
names the step: its name, or a `StepHandle` as JSON. A handle with a fence is an open step, which is
joined by the process that opened it. A name, or a handle without a fence, is a step to be opened.
"""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self

from graveler.base.names import step_branch
from graveler.base.records import Schema
from graveler.config import environment, lake_environment
from graveler.errors import CorruptionError, FencedError, InvalidInputError, RunStateError
from graveler.reads.view import observed
from graveler.repository.branch import Branch
from graveler.runs.attempt import Attempt, ObservedBranch, RunBranch
from graveler.runs.record import RunHandle
from graveler.runs.records import RunRecords
from graveler.runs.state import RunState

RUN = "GRAVELER_RUN"
STEP = "GRAVELER_STEP"
REPOSITORY = "GRAVELER_REPO"
URL = "GRAVELER_URL"
_IN_DBT = "DBT_ENV_CUSTOM_ENV_GRAVELER_RUN"
"""dbt records it in its artifacts, so that the check of dbt's results detects a stale file."""

_EXEC = "`graveler run exec --run KEY --step NAME -- COMMAND`"


@dataclass(frozen=True, slots=True)
class StepHandle:
    """A step of a run, for another process.

    Attributes:
        fence: Fence of the open try; "" if the step is to be opened.
    """

    name: str
    try_number: int = 1
    metadata: Mapping[str, str] = field(default_factory=dict)
    fence: str = ""
    owner: str = ""

    def to_json(self) -> str:
        """Return the handle as text."""
        return _HANDLE.encode(self).decode("utf-8", "surrogatepass")

    @classmethod
    def from_text(cls, text: str) -> "StepHandle":
        """Return the handle of its JSON text, or of a step's name."""
        if not text.startswith("{"):
            return cls(text)
        try:
            return _HANDLE.decode(text.encode("utf-8", "surrogatepass"))
        except CorruptionError as error:
            raise InvalidInputError(f"not a step handle ({error}): {text[:80]!r}") from error


_HANDLE = Schema(StepHandle, "step handle", added=("owner",))


@lru_cache(maxsize=16)  # a filesystem reads the environment for each file
def _run_of(text: str) -> RunHandle | str:
    return RunHandle.from_json(text) if text.startswith("{") else text


@lru_cache(maxsize=16)
def _step_of(text: str) -> StepHandle | None:
    return StepHandle.from_text(text) if text else None


@dataclass(frozen=True, slots=True)
class StepEnvironment:
    """The run and the step that environment variables name.

    Attributes:
        run: The handle of an attempt, or the key of a run, or "".
        step: The step; None if none is named.
    """

    run: RunHandle | str
    step: StepHandle | None

    @classmethod
    def of(
        cls, variables: Mapping[str, str] | None = None, *, run: str = "", step: str = ""
    ) -> Self:
        """Read the variables.

        Args:
            run: Replaces ``GRAVELER_RUN`` if it is given.
            step: Replaces ``GRAVELER_STEP`` if it is given.
        """
        read = environment if variables is None else variables.get
        given = cls(_run_of(run or read(RUN, "")), _step_of(read(STEP, "")))
        if not step or (given.step is not None and given.step.name == step):
            return given
        return cls(given.run, StepHandle(step))

    @property
    def is_open(self) -> bool:
        """Whether another process has opened the step, and will join it."""
        return self.step is not None and bool(self.step.fence)

    @property
    def repository(self) -> str:
        """Name of the run's repository, or ""."""
        return self.run.repository if isinstance(self.run, RunHandle) else ""

    @property
    def location(self) -> str:
        """The location of the run's lake, or ""."""
        return self.run.location if isinstance(self.run, RunHandle) else ""

    @property
    def branch(self) -> str:
        """Name of the branch of the open step, or ""."""
        if self.step is None or not self.is_open or not isinstance(self.run, RunHandle):
            return ""
        return step_branch(self.run.branch, self.step.name)

    def handle(
        self, records: RunRecords, states: Collection[RunState] = (RunState.OPEN,)
    ) -> RunHandle:
        """Return the handle of the run; for a key, that of the present attempt.

        Args:
            states: The allowed states of a run that is named by its key.
        """
        stores = records.stores
        if isinstance(self.run, RunHandle):
            if self.run.repository != stores.name:
                raise InvalidInputError(
                    f"{RUN} is a run of repository {self.run.repository!r}, not of {stores.name!r}: "
                    f"leave {REPOSITORY} and --repo out"
                )
            return replace(self.run, location=stores.location)
        if not self.run:
            raise InvalidInputError(
                f"no run in the environment: {RUN} is not set; start the program with {_EXEC}"
            )
        record = records.get(self.run)
        if record.state not in states:
            raise RunStateError(
                f"run {record.key!r} is {record.state}: open its next attempt first, with "
                f"`graveler run open {shlex.quote(record.key)}`"
            )
        return records.handle(record)


def step_variables(handle: RunHandle, step: StepHandle) -> dict[str, str]:
    """Return the variables with which another process works in a step of a run."""
    variables = {
        **(lake_environment(handle.location) if handle.location else {}),
        REPOSITORY: handle.repository,
        RUN: handle.to_json(),
        STEP: step.to_json(),
        _IN_DBT: handle.key,
    }
    if step.fence:
        variables[URL] = f"grav://{handle.repository}/{step_branch(handle.branch, step.name)}"
    return variables


class OpenStep(RunBranch):
    """A step that another process has opened, to read and write; that process joins it.

    Attributes:
        run: The handle of the run.
        step: Name of the step.
        try_number: The caller's count of tries.
    """

    def __init__(self, attempt: Attempt, step: StepHandle) -> None:
        super().__init__(attempt, step_branch(attempt.handle.branch, step.name), fence=step.fence)
        self.run = attempt.handle
        self.step = step.name
        self.try_number = step.try_number
        self._handle = step

    def environment(self) -> dict[str, str]:
        """Return the variables with which another process works in this step."""
        return step_variables(self.run, self._handle)

    def check(self) -> None:
        """Check that this try of the step is still open.

        Raises:
            FencedError: The try joined, failed, or was replaced by a newer try.
        """
        record = self.repository.refs.branches.find(self.name)
        if record is None or record.fence != self._fence:
            raise FencedError(
                f"step {self.step!r} of run {self.run.key!r} is not open any more: the process that "
                "opened it has ended, or a newer try has replaced it. The variables "
                f"{RUN} and {STEP} are stale: start the program again with {_EXEC}"
            )

    def source(self, branch: Branch) -> Branch:
        """Return a branch to read, with its staged writes; the reads are inputs of the run.

        Args:
            branch: The branch; a branch of the run records its reads itself, and is returned.
        """
        if isinstance(branch, RunBranch):
            return branch
        source = Branch(self.repository, branch.name)
        return observed(ObservedBranch, source, self._observer)


def open_step_of(records: RunRecords, given: StepEnvironment) -> OpenStep:
    """Return the open step that the environment names, after a check."""
    if given.step is None or not given.is_open or not isinstance(given.run, RunHandle):
        raise InvalidInputError(
            f"no step is open in the environment: start the program with {_EXEC}"
        )
    step = OpenStep(Attempt(records, given.handle(records), None), given.step)
    step.check()
    return step

"""``graveler run open``, ``exec`` and ``publish``: runs of programs in any language."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graveler.cli.arguments import MetaOption, StrategyOption, load_gates, read_pairs, read_strategy
from graveler.cli.failure import GATE, UsageError, verdict_lines
from graveler.cli.output import complain
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import program_environment
from graveler.lake.shapes import shape_of

if TYPE_CHECKING:
    from graveler.runs.run import Run
    from graveler.runs.steps.environment import StepEnvironment

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNALLED = 128

RunOption = Annotated[str, "(RUN): The run: its key, or its handle. Else GRAVELER_RUN."]


@verb("run open")
def _open(
    session: Session, key: str, *, into: str = "", meta: MetaOption = None, fresh: bool = False
) -> None:
    """Open a run, or the next attempt of one; print its handle, the value of GRAVELER_RUN.

    Args:
        key: Names the run by its output, as its hour.
        into (BRANCH): The branch that the run publishes to.
        fresh: Start from the target's head. A step deletes files whose earlier bytes expired.
    """
    repository = session.repository
    run = repository.runs.open(
        key, into=into or repository.stores.default_branch, metadata=read_pairs(meta), fresh=fresh
    )
    session.out.line(run.handle.to_json())


@verb("run publish")
def _publish(
    session: Session,
    *,
    run: RunOption = "",
    gate: list[str] | None = None,
    strategy: StrategyOption = None,
) -> None:
    """Publish a run: if the gates pass on the new tree, its target branch moves.

    Args:
        gate (MODULE:NAME): A gate to run; repeat for more.
    """
    work = _attached(session, run)
    result = work.publish(load_gates(gate), strategy=read_strategy(strategy))
    session.out.show(
        shape_of(result),
        f"run {work.key} is published into {work.into} by commit {result.commit.id}",
    )


@verb("run preview")
def _preview(session: Session, *, run: RunOption = "", gate: list[str] | None = None) -> None:
    """Judge a run without publishing it: what would the gates say now?

    Args:
        gate (--gate, --gates MODULE:NAME): A gate to ask; repeat for more.
    """
    work = _attached(session, run)
    verdicts = work.judge(load_gates(gate))
    refused = any(verdict.refuses for verdict in verdicts)
    told = "would be refused" if refused else "would be published"
    session.out.show(
        {"run": work.key, "into": work.into, "refused": refused, "verdicts": shape_of(verdicts)},
        f"run {work.key} {told}; nothing moved",
        *(line for verdict in verdicts for line in verdict_lines(verdict)),
    )
    if refused:
        raise typer.Exit(GATE)


def _attached(session: Session, named: str) -> "Run":
    from graveler.runs.steps.environment import StepEnvironment

    runs = session.repository.runs
    return runs.attach(runs.handle_of(StepEnvironment.of(run=named)))


@verb("run exec")
def _exec(
    session: Session,
    command: list[str],
    *,
    run: RunOption = "",
    step: str = "",
    try_number: Annotated[int, {"min": 0}] = 0,
    meta: MetaOption = None,
) -> None:
    """Run a program in a step of a run; the step joins the run if the program exits with 0.

    The environment of the program names the step: the verbs of graveler, graveler.attach() and
    grav:// addresses (GRAVELER_URL is that of the step) work on the branch of the step. Any other
    exit code, or a signal, drops the writes of the step and is the exit code of this command.

    Args:
        command (-- COMMAND...): The program and its arguments.
        step (NAME): Name of the step. Else GRAVELER_STEP.
        try_number (--try N): Count of tries, for the commit.
    """
    given = _step_to_open(session, run, step, try_number, read_pairs(meta))
    with session.repository.runs.working(given) as work:
        code = _run_program(command, program_environment(work.environment()))
        if code:
            complain(
                f"step {work.step} of run {work.run.key} is dropped: "
                f"{command[0]} ended with exit code {code}"
            )
            raise typer.Exit(code)
    complain(_summary(work))


def _step_to_open(
    session: Session, run: str, step: str, try_number: int, metadata: dict[str, str]
) -> "StepEnvironment":
    """Return the step that the options or the environment name."""
    from graveler.runs.steps.environment import StepEnvironment, StepHandle

    given = StepEnvironment.of(run=run, step=step)
    if not given.run:
        raise UsageError("no run is named: give --run KEY, or set GRAVELER_RUN")
    if given.step is None:
        raise UsageError("no step is named: give --step NAME, or set GRAVELER_STEP")
    if given.is_open:
        raise UsageError(
            f"this program works in step {given.step.name!r} already: give another --step, or "
            "start the command without `graveler run exec`"
        )
    named = given.step
    pairs = {**named.metadata, **metadata}
    return StepEnvironment(given.run, StepHandle(named.name, try_number or named.try_number, pairs))


def _summary(work: Any) -> str:
    what = f"step {work.step} of run {work.run.key}"
    if work.result is None:
        return f"{what} changed nothing"
    return f"{what} joined by commit {work.result.id}"


def _run_program(command: Sequence[str], variables: dict[str, str]) -> int:
    """Run a program to its end; return its exit code, or 128 plus the signal that ended it."""
    sys.stdout.flush()
    received: list[int] = []
    try:
        with _forwarding(received) as processes:
            process = subprocess.Popen(command, env=variables)
            processes.append(process)
            for number in received:  # signals that came before the program was started
                process.send_signal(number)
            code = process.wait()
    except FileNotFoundError:
        complain(f"error: no program {command[0]!r} on the PATH; nothing was written")
        return _NOT_FOUND
    except OSError as error:
        complain(f"error: cannot start {command[0]!r}: {error.strerror}")
        return _NOT_EXECUTABLE
    if code < 0:
        return _SIGNALLED - code
    # a program that exits with 0 after a signal to stop may have stopped halfway
    return _SIGNALLED + received[0] if received and not code else code


@contextmanager
def _forwarding(received: list[int]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Forward the signals that stop this command to the program, for a ``with`` block."""
    processes: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _: object) -> None:
        received.append(number)
        for process in processes:
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in _SIGNALS}
    try:
        yield processes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

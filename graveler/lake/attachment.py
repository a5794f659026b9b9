"""Attaching to a run's step that the environment names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from graveler.base.arguments import instance, optional, text
from graveler.config import ENVIRONMENT_LAKE, environment, set_environment
from graveler.errors import InvalidInputError
from graveler.lake.factory import open as open_lake
from graveler.lake.lake import Lake
from graveler.runs.steps.environment import OpenStep, StepEnvironment
from graveler.runs.steps.step import Step
from graveler.trust import check_same_lake

_LAKE = "GRAVELER_LAKE"


@contextmanager
def attach(
    variables: Mapping[str, str] | None = None, *, step: str = "", lake: str = ""
) -> Iterator[Step | OpenStep]:
    """Work in the step of a run that environment variables name, for a ``with`` block.

    ::

        with graveler.attach() as step:
            step.put("output/05:00/part-0.csv", rows)

    ``graveler run exec``, `Step.environment` and the integrations set the variables. If another
    process has opened the step, that process also joins it. Otherwise ``GRAVELER_RUN`` is the
    handle or the key of a run, and ``GRAVELER_STEP`` is the name of a step. The step is opened here
    and joins the run at the end of the block. An exception drops it.

    Args:
        variables: The variables, for a program that receives them as an argument; by default the
            environment of this process.
        step: Name of the step; by default ``GRAVELER_STEP``.
        lake: The lake's location; by default ``GRAVELER_LAKE``, or that of the run's handle.

    Raises:
        InvalidInputError: No run, no step or no lake is named.
        FencedError: The attempt or the try of the step is over.
        RunStateError: The run that the key names is not open.
    """
    optional(instance, variables, "variables", kind=Mapping, expected="a mapping")
    step, lake = text(step, "step", empty=True), text(lake, "lake", empty=True)
    given = StepEnvironment.of(variables, step=step)
    read = environment if variables is None else variables.get
    if not given.run:
        raise InvalidInputError(
            "no run in the environment: GRAVELER_RUN is not set; start the program with "
            "`graveler run exec --run KEY --step NAME -- COMMAND`, or pass what "
            "`step.environment()` returns"
        )
    named = lake or read(_LAKE, "")
    check_same_lake(named, given.location)
    location = named or given.location
    if not location:
        raise InvalidInputError(
            f"no lake in the environment: set {_LAKE} to its folder or its graveler.toml"
        )
    settings = location.removeprefix(ENVIRONMENT_LAKE)
    if settings != location and read(settings, ""):
        set_environment(settings, read(settings, ""))
    with open_lake(location) as opened:
        name = given.repository or read("GRAVELER_REPO", "") or _only_repository(opened)
        with opened.repository(name).runs.working(given) as work:
            yield work


def _only_repository(lake: Lake) -> str:
    names = lake.repositories()
    if len(names) != 1:
        raise InvalidInputError(
            f"{lake.location} has {len(names)} repositories: name one with GRAVELER_REPO"
        )
    return names[0]

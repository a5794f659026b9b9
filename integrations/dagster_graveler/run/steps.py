"""Steps of a graveler run: in one try of a Dagster step, each name has one `with` block."""

from collections.abc import Mapping

from graveler.errors import InvalidInputError
from graveler.lake import Run, Step


def start_step(run: Run, name: str, *, try_number: int, metadata: Mapping[str, str]) -> Step:
    """Return a step of the run; refuse a second step of the same name in one try.

    Raises:
        InvalidInputError: The same try has done a step of that name, which this one would undo.
        FencedError: A newer attempt owns the run.
    """
    step = run.step(name, try_number=try_number, metadata=metadata)
    if step.earlier is None:
        return step
    marks = {"graveler.try": str(try_number), "dagster.run_id": metadata.get("dagster.run_id")}
    if all(step.earlier.metadata.get(mark) == value for mark, value in marks.items()):
        step.discard()
        raise InvalidInputError(
            f"step {name!r} was done already in this try, and a second one would undo its work: "
            "write in one `with` block, or give each block a name of its own, as "
            "`graveler.step(context, name=...)` or `graveler.extras(context, name=...)`"
        )
    return step

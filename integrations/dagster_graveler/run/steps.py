"""Steps of a graveler run: one `with` block for each name in a try of a Dagster step."""

from collections.abc import Mapping

from graveler.errors import InvalidInputError
from graveler.lake import Run, Step

__all__ = ["start_step"]


def start_step(run: Run, name: str, *, try_number: int, metadata: Mapping[str, str]) -> Step:
    """Return a step of the run; one that this very try has done already is refused.

    Raises:
        InvalidInputError: A second step of that name in one try: it would take back the first.
        FencedError: A newer attempt owns the run.
    """
    step = run.step(name, try_number=try_number, metadata=metadata)
    if step.earlier is None:
        return step
    marks = {"graveler.try": str(try_number), "dagster.run_id": metadata.get("dagster.run_id")}
    if all(step.earlier.metadata.get(mark) == value for mark, value in marks.items()):
        step.discard()
        raise InvalidInputError(
            f"step {name!r} was done already in this try, and a second one would take back what "
            "it wrote: write in one `with` block, or give each a name of its own, as "
            "`graveler.step(context, name=...)` or `graveler.extras(context, name=...)`"
        )
    return step

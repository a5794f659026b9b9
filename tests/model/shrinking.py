"""Shrinks histories that fail."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from tests.model.drawing import Operation
from tests.model.driver import Checked

Fails = Callable[[Sequence[Operation]], Checked]


def shrunk(operations: Sequence[Operation], fails: Fails) -> tuple[list[Operation], str]:
    """Return a smaller history that fails, too, maybe otherwise, and how."""
    kept, violation = list(operations), fails(operations).violation
    before = len(kept) + 1
    while len(kept) < before:
        before = len(kept)
        kept, violation = _fewer(kept, violation, fails)
        for simpler in (_without_a_run, _in_one_write, _in_one_step, _on_other_branches):
            kept, violation = _first(kept, violation, fails, simpler)
    return _first(kept, violation, fails, _simpler)


def _fewer(kept: list[Operation], violation: str, fails: Fails) -> tuple[list[Operation], str]:
    """Leave out operations that the failure does not need."""
    size = max(len(kept) // 2, 1)
    while True:
        start, removed = 0, False
        while start < len(kept):
            some = kept[:start] + kept[start + size :]
            smaller = fails(some)
            if smaller.violation:
                kept, violation, removed = some[: smaller.at], smaller.violation, True
            else:
                start += size
        if size == 1 and not removed:
            return kept, violation
        size = max(size // 2, 1)


def _first(
    kept: list[Operation],
    violation: str,
    fails: Fails,
    simpler: Callable[[list[Operation]], Iterator[list[Operation]]],
) -> tuple[list[Operation], str]:
    """Take the first simpler history that fails, until none does."""
    rest = simpler(kept)
    while (some := next(rest, None)) is not None:
        smaller = fails(some)
        if smaller.violation:
            kept, violation = some[: smaller.at], smaller.violation
            rest = simpler(kept)
    return kept, violation


def _without_a_run(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Yield histories where a commit takes the place of a run that is published."""
    opened = {one.label: one for one in operations if one.name == "open"}
    for publish in operations:
        who = publish.arguments.get("who")
        if publish.name != "publish" or who not in opened:
            continue
        rest: list[Operation] = []
        writes: dict[str, str | None] = {}
        for one in operations:
            if one is publish:
                into = opened[who].arguments["into"]
                rest.append(Operation(one.label, "write", {"branch": into, "writes": writes}))
            elif one.arguments.get("who") == who:
                writes = {**writes, **one.arguments.get("writes", {})}
            elif one is not opened[who]:
                rest.append(one)
        yield rest


def _in_one_write(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Yield histories where one write takes the place of two."""
    writes = [one for one in operations if one.name in ("put", "stage", "write")]
    for one, other in combinations(writes, 2):
        places = [{**each.arguments, "writes": {}} for each in (one, other)]
        if one.name != other.name or places[0] != places[1]:
            continue
        both = {**one.arguments["writes"], **other.arguments["writes"]}
        for gone, kept in ((one, other), (other, one)):
            joined = replace(kept, arguments={**kept.arguments, "writes": both})
            yield [joined if each is kept else each for each in operations if each is not gone]


def _in_one_step(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Yield histories where a step takes the place of its beginning and its end."""
    begun = {one.label: one for one in operations if one.name == "begin"}
    for join in operations:
        begin = begun.get(join.arguments.get("attempt", 0))
        if begin is not None:
            step = Operation(
                join.label, "step", {**begin.arguments, "writes": join.arguments["writes"]}
            )
            yield [step if one is join else one for one in operations if one is not begin]


def _on_other_branches(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Yield histories where the branch "pr" takes the place of a fork."""
    for fork in operations:
        if fork.name == "fork":
            name = fork.arguments["branch"]
            yield [
                replace(
                    one,
                    arguments={
                        key: "pr" if value == name else value
                        for key, value in one.arguments.items()
                    },
                )
                for one in operations
                if one is not fork
            ]


def _simpler(operations: list[Operation]) -> Iterator[list[Operation]]:
    """Yield histories without a fault or a write."""
    for at, one in enumerate(operations):
        for simpler in one.simpler():
            yield [*operations[:at], simpler, *operations[at + 1 :]]

"""Runs histories, and compares each operation with the model."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from tests.model.adapter import Product, wrong
from tests.model.drawing import Operation, drawn
from tests.model.ingestion import Ingesting


class Subject(Protocol):
    """What carries out operations: a repository in this process or in others."""

    made: dict[int, str]

    def apply(self, operation: Operation) -> list[str]: ...

    def seen(self) -> object: ...

    def collect(self) -> None: ...

    def fault(self) -> str: ...

    def end(self) -> None: ...


@dataclass
class Checked:
    """The result of a history.

    Attributes:
        violation: What is wrong, or "".
        at: The number of operations until then.
        attempts: How often each kind of operation was tried.
        successes: How often it succeeded.
        seconds: How long it took.
    """

    violation: str = ""
    at: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    successes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class Expected:
    """What the model expects after the operations until now."""

    def __init__(self) -> None:
        self.lake = Ingesting()
        self._done: list[Operation] = []

    def chances(
        self, operation: Operation
    ) -> Iterator[tuple[Ingesting, list[str], list[Operation]]]:
        """Yield each lake that may result, the errors of the parts, and the parts in their order."""
        orders = operation.orders()
        for parts, told in orders:
            lake = self.lake
            if len(orders) > 1:
                lake = Ingesting()
                for earlier in self._done:
                    _apply(lake, earlier)
            errors = [_apply(lake, part) for part in parts]
            yield lake, [errors[number] for number in told], parts

    def settle(self, lake: Ingesting, parts: list[Operation]) -> None:
        """Note what has become of an operation."""
        self.lake = lake
        self._done += parts


def _apply(lake: Ingesting, operation: Operation) -> str:
    return lake.apply(operation.label, operation.name, operation.arguments)


def check(
    operations: Sequence[Operation],
    *,
    every_gc: bool = False,
    subject: Callable[[], Subject] = Product,
) -> Checked:
    """Carry out a history; stop at the first difference.

    Args:
        operations: The history.
        every_gc: Whether a collection follows each operation.
        subject: Makes the repository.
    """
    began = perf_counter()
    checked, product = Checked(), subject()
    try:
        _check(operations, checked, product, every_gc=every_gc)
    finally:
        product.end()
        checked.seconds = perf_counter() - began
    return checked


def _check(
    operations: Sequence[Operation], checked: Checked, product: Subject, *, every_gc: bool
) -> None:
    expected = Expected()
    for number, operation in enumerate(operations, 1):
        chances = list(expected.chances(operation))
        if any("skip" in errors for _, errors, _ in chances):
            continue
        found = product.apply(operation)
        seen = product.seen()
        for part, error in zip(operation.parts(), found, strict=False):
            checked.attempts[part.name] += 1
            checked.successes[part.name] += not error
        told = [_compared(errors, found) or wrong(seen, lake) for lake, errors, _ in chances]
        if all(told):
            checked.violation, checked.at = " / ".join(told), number
            return
        fitting = [chance for chance, fault in zip(chances, told, strict=True) if not fault]
        lake, _, parts = max(fitting, key=lambda chance: _known(chance[0], product, seen))
        expected.settle(lake, parts)
        if every_gc:
            product.collect()
            lake.gc()
            expected.settle(lake, [Operation(0, "gc")])
    checked.violation, checked.at = product.fault(), len(operations)


def _known(lake: Ingesting, product: Subject, seen: Any) -> int:
    """Return how many heads and labels mean the same commit in the repository and the model."""
    labels = {name: label for label, name in product.made.items()}
    heads = sum(
        lake.made.get(labels.get(head, 0)) is lake.branches[name].head
        for name, head in seen["heads"].items()
    )
    return heads + sum(
        lake.made.get(label) is lake.made.get(labels[name]) for label, name in product.made.items()
    )


def _compared(expected: Sequence[str], found: Sequence[str]) -> str:
    for wanted, had in zip(expected, found, strict=True):
        if wanted != had and set(wanted.split("|")).isdisjoint(had.split("|")):
            what = had.partition("|")[0] or "success"
            return f"the operation ends with {what}, expected {wanted or 'success'}"
    return ""


def check_seed(
    seed: int, *, every_gc: bool = False, subject: Callable[[], Subject] = Product
) -> tuple[Checked, list[Operation]]:
    """Carry out the history of a seed."""
    operations = drawn(seed)
    return check(operations, every_gc=every_gc, subject=subject), operations

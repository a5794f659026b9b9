"""What built-in checks have in common: a kind, parameters, and a text that is both."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.gate import Gate

__all__ = ["BuiltIn", "built_in", "known_kinds", "texts"]

_kinds: Final[dict[str, type["BuiltIn"]]] = {}


@dataclass(frozen=True)
class BuiltIn(ABC):
    """A check that graveler has; frozen, so that its text is what it does."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.kind:
            _kinds[cls.kind] = cls

    @abstractmethod
    def __call__(self, candidate: Candidate) -> str | None:
        """Return why the candidate is refused, or None."""

    @abstractmethod
    def gate(self) -> Gate:
        """Return the gate of this check, as it is where nothing else is said."""

    def parameters(self) -> dict[str, Any]:
        """Return what it was made with."""
        return asdict(self)


def texts(given: Any) -> tuple[str, ...]:
    """Return texts as a tuple, also where settings or a caller gave one alone."""
    return (given,) if isinstance(given, str) else tuple(given)


def known_kinds() -> list[str]:
    """Return the kinds of built-in checks, sorted."""
    return sorted(_kinds)


def built_in(kind: str, parameters: Mapping[str, Any]) -> BuiltIn:
    """Return a built-in check.

    Raises:
        InvalidInputError: There is none of that kind, or it takes no such parameters.
    """
    if kind not in known_kinds():
        raise InvalidInputError(
            f"no built-in check {kind!r}: there are {', '.join(known_kinds())}; a check of your "
            "own is named package.module:name"
        )
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in parameters.items()
    }
    try:
        return _kinds[kind](**given)
    except TypeError as error:
        raise InvalidInputError(f"check {kind} with {dict(parameters)}: {error}") from error

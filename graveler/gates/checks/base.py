"""The base of built-in checks: a kind, parameters and their validation."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from math import isnan
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, get_args, get_origin

from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.fingerprint import ByVersion
from graveler.gates.gate import Gate

_SHOWN: Final = 5

_kinds: Final[dict[str, type["BuiltIn"]]] = {}


@dataclass(frozen=True)
class BuiltIn(ByVersion):
    """A built-in check; frozen, so that its parameters identify it."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.kind:
            _kinds.setdefault(cls.kind, cls)  # a class derived from a check does not replace it

    @abstractmethod
    def __call__(self, candidate: Candidate) -> str | None:
        """Return why the candidate is refused, or None."""

    @abstractmethod
    def gate(self) -> Gate:
        """Return the gate of this check with default options."""

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the check."""
        return asdict(self)


def listed(problems: Iterable[str]) -> str | None:
    """Return problems as one text with the first five in full; None if there are none."""
    found = list(problems)
    if not found:
        return None
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def check_bounds(kind: str, least: Any, most: Any, *, counts: bool = False) -> None:
    """Refuse bounds that no value can satisfy.

    Args:
        kind: Kind of the check, for the message.
        least: Smallest allowed value, or None.
        most: Largest allowed value, or None.
        counts: Whether the bounds are counts, which are not negative.

    Raises:
        InvalidInputError: No value satisfies the bounds.
    """
    given = f"check {kind}: at_least {least!r} and at_most {most!r}"
    if counts and any(bound is not None and bound < 0 for bound in (least, most)):
        raise InvalidInputError(f"{given}: give numbers from 0 on")
    try:
        wrong = least is not None and most is not None and least > most
    except TypeError:
        raise InvalidInputError(f"{given}: give two of one type") from None
    if wrong:
        raise InvalidInputError(f"{given}: nothing lies between them: swap them")


def check_share(kind: str, name: str, share: float | None, most: float) -> None:
    """Refuse a share that was meant as a percentage.

    Raises:
        InvalidInputError: The share is below 0 or above `most`.
    """
    if share is not None and not 0 <= share <= most:
        percent = f", {share / 100:g} for {share:g} %" if share > most else ""
        raise InvalidInputError(
            f"check {kind}: {name} {share!r}: give a share from 0 to {most:g}{percent}"
        )


def check_types(kind: type[BuiltIn], given: Mapping[str, Any]) -> None:
    """Refuse parameters of a wrong type.

    Raises:
        InvalidInputError: A parameter has a wrong type; the message names the right one.
    """
    types = {field.name: field.type for field in fields(kind)}
    for name, value in given.items():
        wanted = types.get(name, Any)
        taken = get_args(wanted) if get_origin(wanted) is UnionType else (wanted,)
        if not any(_is_of(value, one) for one in taken):
            words = " or ".join(_WORDS.get(one, "a list of texts") for one in taken)
            raise InvalidInputError(f"check {kind.kind}: {name} {value!r}: give {words}")


_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
}


def _is_of(value: Any, wanted: Any) -> bool:
    """Return whether a value of Python or of JSON has a type."""
    if wanted is Any:
        return True
    if wanted in {int, float}:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and not isnan(value) and (wanted is float or value % 1 == 0)  # 1e6 is whole
    if isinstance(wanted, type):
        return isinstance(value, wanted)
    # a list of texts or of pairs of texts; one text means a list of one
    pairs = value.items() if isinstance(value, Mapping) else value
    return isinstance(value, str) or (
        isinstance(pairs, Iterable)
        and all(isinstance(text, str) for one in pairs for text in _each(one))
    )


def _each(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def texts(given: Any) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def known_kinds() -> list[str]:
    """Return the kinds of built-in checks, sorted."""
    return sorted(_kinds)


def built_in(kind: str, parameters: Mapping[str, Any]) -> BuiltIn:
    """Return a built-in check.

    Raises:
        InvalidInputError: The kind is unknown, or the parameters are not those of the kind.
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
    check_types(_kinds[kind], given)
    try:
        return _kinds[kind](**given)
    except TypeError as error:
        raise InvalidInputError(f"check {kind} with {dict(parameters)}: {error}") from error

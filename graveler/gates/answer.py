"""The answer of a check, and how its return value is interpreted."""

import dis
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import FunctionType
from typing import Any, Final

from graveler.gates.candidate import Candidate
from graveler.gates.facts import shortened
from graveler.gates.fingerprint import fingerprint
from graveler.gates.statistics import Seen
from graveler.process import judging

Check = Callable[[Candidate], bool | str | None]
"""Passes by returning None or True. False, a text (the reason), an AssertionError or any
other exception is a refusal."""

LONGEST_REASON: Final = 4000
_COMPARES: Final = frozenset({"COMPARE_OP", "CONTAINS_OP", "IS_OP"})


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one check on one candidate.

    Attributes:
        passed: Whether the candidate passed.
        reason: Why it did not pass.
        died: The check did not refuse but failed: by an error, a signal or its timeout.
        facts: The values that the check reported.
        seen: Statistics that the check computed, stored for later candidates.
        rule: Fingerprint of the check after it ran; None if it failed.
    """

    passed: bool
    reason: str = ""
    died: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    seen: Seen = field(default_factory=dict)
    rule: str | None = None


def died(reason: str) -> Answer:
    """Return the answer of a check that failed."""
    return Answer(False, shortened(reason, LONGEST_REASON), died=True)


def ask(name: str, check: Check, candidate: Candidate) -> Answer:
    """Run a check in this process; every exception becomes an answer."""
    try:
        with judging(name):
            said: Any = check(candidate)
            answer = _read(said, check)
    except AssertionError as refusal:
        answer = Answer(False, shortened(_assertion(refusal), LONGEST_REASON))
    except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - any failure is an answer
        answer = died(f"{type(error).__name__}: {error}")
    return replace(
        answer,
        facts=dict(candidate.facts),
        seen=dict(candidate.seen),
        rule=None if answer.died else fingerprint(check),
    )


def _assertion(refusal: AssertionError) -> str:
    said = str(refusal)
    if said:
        return said
    frames = traceback.extract_tb(refusal.__traceback__)
    line = frames[-1].line if frames else ""
    return f"assertion failed: {line}" if line else "assertion failed"


def _read(said: Any, check: Check) -> Answer:
    number = getattr(said, "item", None)
    if type(said).__name__ in {"bool", "bool_"} and callable(number):
        said = number()  # a boolean of numpy
    if said is None:
        if _drops_a_comparison(check):
            return died(
                "it compares, throws the result away and returns nothing, so that it can never "
                "refuse: return the comparison, or assert it"
            )
        return Answer(True)
    if said is True or said == "":
        return Answer(True)
    if said is False:
        return Answer(False, "it returned False")
    if isinstance(said, str):
        return Answer(False, shortened(said, LONGEST_REASON))
    return died(
        f"it returned {type(said).__name__} {shortened(repr(said), 80)}: return None or True to "
        "pass, False or a text that says why not to refuse"
    )


def _drops_a_comparison(check: Check) -> bool:
    """Return whether a function has a comparison as a statement whose result is dropped."""
    if not isinstance(check, FunctionType):
        return False
    steps = [step.opname for step in dis.get_instructions(check) if step.opname != "CACHE"]
    return any(first in _COMPARES and second == "POP_TOP" for first, second in pairwise(steps))

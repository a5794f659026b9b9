"""Gives damaged records to decoders and to reads, and counts the outcomes."""

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from graveler.errors import GravelerError
from tests.fuzz.mutations import damaged_bytes, damaged_json
from tests.fuzz.specimens import READS, build, opened
from tests.fuzz.targets import Target

READING = "reads of a damaged lake"


@dataclass
class Tally:
    """The outcomes of the inputs of one target.

    Attributes:
        name: The name of the target.
        covered: Whether no altered record may be accepted.
        tried: Inputs that differ from the sound record.
        refused: Inputs refused by an error that says what is damaged.
        equal: Inputs with the same meaning as the sound record.
        altered: Inputs accepted with another meaning.
        bare: Inputs that ended in an error that is not graveler's, or not an allowed one.
        failures: The first failures, each with the values that repeat it.
    """

    name: str
    covered: bool = False
    tried: int = 0
    refused: int = 0
    equal: int = 0
    altered: int = 0
    bare: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Return whether there was no failure."""
        return not self.bare and not (self.covered and self.altered)

    def fail(self, what: str) -> None:
        """Record a failure, up to a few."""
        if len(self.failures) < 3:
            self.failures.append(f"{self.name}: {what}")


def fuzz(target: Target, tally: Tally, random: Random) -> None:
    """Try one damaged record on a decoder."""
    key, raw = random.choice(target.seeds)
    if target.damages_keys and random.random() < 0.2:
        bad_key, bad = damaged_bytes(key, random) or b"x", raw
    else:
        bad_key, bad = key, target.damage(raw, random)
    if (bad_key, bad) == (key, raw):
        return
    tally.tried += 1
    try:
        found = target.decode(bad_key, bad)
    except target.refusals:
        tally.refused += 1
    except Exception:  # noqa: BLE001 - what is looked for
        tally.bare += 1
        tally.fail(f"key {bad_key!r}, record {bad[:2000]!r}\n{traceback.format_exc(limit=-6)}")
    else:
        if found == target.decode(key, raw):
            tally.equal += 1
            return
        tally.altered += 1
        if target.covered:
            tally.fail(f"taken altered: key {bad_key!r}, record {bad[:2000]!r}")


@cache
def _world() -> tuple[Any, Any, list[tuple[str, bytes]]]:
    world = build()
    snapshot = world.snapshot()
    places = [(name, key) for name, rows in snapshot[0].items() for key in rows]
    return world, snapshot, places


@cache
def _sound(number: int) -> str:
    world, snapshot, _ = _world()
    world.restore(snapshot)
    with world.open() as lake:
        return repr(list(READS[number](opened(lake))))


def read_damaged(tally: Tally, random: Random) -> None:
    """Damage one record of a lake, and read the lake by public calls."""
    world, snapshot, places = _world()
    number = random.randrange(len(READS))
    sound = _sound(number)
    world.restore(snapshot)
    partition, key = random.choice(places)
    raw = snapshot[0][partition][key]
    structured = raw.startswith((b"{", b"[")) and random.random() < 0.8
    bad = (damaged_json if structured else damaged_bytes)(raw, random)
    if bad == raw:
        return
    tally.tried += 1
    world.kv.set(partition, key, bad)
    try:
        with world.open() as lake:
            found = repr(list(READS[number](opened(lake))))
    except GravelerError:
        tally.refused += 1
    except Exception:  # noqa: BLE001 - what is looked for
        tally.bare += 1
        what = f"{READS[number].__name__} with {partition} {key!r} = {bad[:2000]!r}"
        tally.fail(f"{what}\n{traceback.format_exc(limit=-8)}")
    else:
        tally.equal += found == sound
        tally.altered += found != sound


def table(tallies: list[Tally]) -> Iterator[str]:
    """Yield the lines of the final table."""
    yield f"{'decoder':24}{'inputs':>9}{'refused':>9}{'equal':>9}{'altered':>9}{'bare':>6}  covered"
    for each in [*tallies, total(tallies)]:
        yield (
            f"{each.name:24}{each.tried:>9,}{each.refused:>9,}{each.equal:>9,}{each.altered:>9,}"
            f"{each.bare:>6,}  {'yes' if each.covered else ''}"
        ).rstrip()


def total(tallies: list[Tally]) -> Tally:
    """Return the sum of all tallies."""
    names = ("tried", "refused", "equal", "altered", "bare")
    return Tally("all", **{name: sum(getattr(one, name) for one in tallies) for name in names})

"""A Delta table is in quarantine, released or set aside as a whole.

The tables tell histories; `tests.ingest.histories` explains their words.
"""

import pytest


def version(number, text="v"):
    """The log and the data of a version."""
    return f"log{number}={text} t/part-{number}={text}"


V0, V1, V2, V3 = (version(number) for number in range(4))
THEIRS = f"{version(1, 'o')} {version(2, 'o')}"
FIRST = f"in {V0}; tick 4 PUBLISHED; "
TABLES = {
    "later hours of a refused table follow it": f"{FIRST} in {V1} b=bad; tick 5 HELD; in {V2} o=6; "
    f"tick 6 HELD; as quarantine; in m=7; tick 7 PUBLISHED; main {V0} m=7; ingest {V0} m=7; "
    f"shelves 5+6; mend -b; release; main {V0} {V1} {V2} m=7 o=6",
    "a version staged meanwhile joins its quarantine": f"as quarantine; {FIRST} in {V1} b=bad; "
    f"tick 5 QUARANTINED; in {V2} g=6; tick 6 QUARANTINED log2 t/part-2; main {V0} g=6; "
    f"shelf {V0} {V1} {V2}; mend -b; release; main {V0} {V1} {V2} g=6; hour 6 PUBLISHED; in {V3}; "
    f"tick 7 PUBLISHED; main {V0} {V1} {V2} {V3} g=6",
    "a later version of what is set aside joins it": f"{FIRST} in {V1}; A {version(1, 'o')}; "
    f"tick 5 HELD log1 t/part-1; in {V2}; tick 6 HELD log2 t/part-2; shelf {V0} {V1} {V2}; "
    f"release source-wins; main {V0} {V1} {V2}",
}
ASIDE = {
    f"{when} {strategy}": f"{FIRST} in {V1} g=5; {held} A {THEIRS}; tick 6; main {V0} {THEIRS} g=5; "
    f"release ! MergeConflictError _delta_log; release {strategy}; main {V0} {left} g=5"
    for when, held in (("staged", ""), ("committed", "gates no; tick 5 HELD; gates bad;"))
    for strategy, left in (("source-wins", V1), ("dest-wins", THEIRS))
}


@pytest.mark.parametrize("told", TABLES.values(), ids=TABLES)
def test_a_table_is_in_quarantine_as_a_whole(history, told):
    history.play(told)


@pytest.mark.parametrize("told", ASIDE.values(), ids=ASIDE)
def test_a_table_that_others_changed_is_set_aside_whole(history, told):
    history.play(told)

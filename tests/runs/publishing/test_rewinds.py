"""A target is rewound below an attempt, so a publish would restore what the target dropped."""

import pytest

REFUSED = "land A ! MergeConflictError next attempt starts from '{}' as it is now; state A PARKED; "
START = "it: user z=0; 04 bad=1; work A a=1; lost A; "
REWINDS = {
    "reset": f"{START} reset it; lost A work; {REFUSED.format('main')} main z=0; A a=1; main a=1 z=0",
    "undone": f"{START} undo; {REFUSED.format('main')} main z=0; A a=1; main a=1 z=0",
    "made again": f"branch pr; 04@pr bad=1; work A@pr a=1; delete pr; branch pr; "
    f"{REFUSED.format('pr')} pr; A@pr a=1; pr a=1",
    "put back and back again": f"{START} reset it; undo; land A; main z=0 bad=1 a=1",
}


@pytest.mark.parametrize("told", REWINDS.values(), ids=REWINDS)
def test_what_a_target_has_dropped_is_not_brought_back(history, told):
    history.play(told)


def test_a_parked_attempt_of_a_dropped_head_is_not_resumed(history, caplog):
    history.play(f"{START} park A; reset it; work A/")
    assert not history.open["A"].record.resumed
    assert "'main' was put back" in caplog.text
    history.play("work A b=1; land A; main b=1 z=0")

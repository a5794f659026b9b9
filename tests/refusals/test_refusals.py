"""Every refusal through every face of the library: its error, its message, and that nothing moved."""

from functools import cache

import pytest

from tests.refusals.checking import check_refused, rows_of
from tests.refusals.faces import FACES
from tests.refusals.scene import scene_in_memory


@cache
def scene_of(situation):
    """Return a scene that all rows of a situation share, because a refusal changes nothing."""
    return scene_in_memory()


@pytest.mark.parametrize(
    ("face", "row"),
    [
        pytest.param(face, row, id=f"{face.name}-{row.name[:60]}")
        for face in FACES
        for row in rows_of(face)
    ],
)
def test_a_refused_call_shows_its_error_and_changes_nothing(face, row):
    scene = scene_in_memory() if row.changes else scene_of(row.situation)
    check_refused(row, face, scene)

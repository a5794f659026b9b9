"""Checks of the rows of the table, for the adapters here and in other folders."""

from tests.refusals.faces import Face
from tests.refusals.scene import Scene
from tests.refusals.table import ROWS, Row


def rows_of(face: type[Face], *, struck: bool = True) -> list[Row]:
    """Return the rows whose call the face has, and refuses.

    Args:
        struck: Include situations in which the stores of the face's process fail, as only those of
            a scene in memory can.
    """
    return [
        row
        for row in ROWS
        if face.has(row.call.split()[0])
        and row.unlike.get(face.name, face) is not None
        and (struck or row.situation.__name__ not in {"unreachable", "moved"})
    ]


def check_refused(row: Row, face: type[Face], scene: Scene) -> None:
    """Check that the face shows the error of a row, and that nothing has changed then.

    Args:
        scene: A scene, new or prepared for the situation of the row.
    """
    scene.prepare(row.situation)
    before = scene.state(but=row.changes)
    call = tuple(word.format(**scene.names) for word in row.call.split())
    scene.strike()
    with scene.around():
        shown, message = face(scene).refusal(call)
    scene.heal()
    assert shown == row.unlike.get(face.name, face.shown(row.error)), message
    for value in row.says:
        assert value.format(**scene.names) in message, message
    assert scene.state(but=row.changes) == before

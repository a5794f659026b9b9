"""The refusals of a lake, each shown once, through every face that has the call.

`table.ROWS` is the table. The situation of a row prepares a `scene.Scene`: a lake with a little
history. An adapter, a `faces.Face`, makes the call of the row and tells what it shows. The check,
`checking.check_refused`, compares this with what the face shows for the error of the row, finds the
values of the row in the message, and looks at the lake with other eyes: nothing may have changed.

A test of another face is its adapter and::

    @pytest.mark.parametrize("row", rows_of(MyFace, struck=False), ids=lambda row: row.name)
    def test_a_call_is_refused(row, tmp_path):
        check_refused(row, MyFace, scene_in_folder(tmp_path / "lake"))
"""

"""The folder in which a session on one machine saves tables."""

import tempfile
from importlib import import_module
from pathlib import Path


def test_no_other_user_knows_the_name_of_the_warehouse(monkeypatch):
    module = import_module("graveler.frames.spark.session")
    monkeypatch.setattr(module, "_active", lambda: None)
    monkeypatch.setattr(module, "_prepare", lambda _: None)
    monkeypatch.setattr(module, "_build", lambda _, settings: settings)
    folders = {module.session(master="local[1]")["spark.sql.warehouse.dir"] for _ in range(3)}
    assert len(folders) == 3
    for folder in map(Path, folders):
        assert folder.parent == Path(tempfile.gettempdir())
        assert len(folder.name) == len("graveler-spark-") + 32
        assert not folder.exists()

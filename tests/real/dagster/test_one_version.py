"""An input of many files is read from one version of the branch."""

from io import BytesIO
from itertools import count

import pandas as pd
import pytest

import graveler
from graveler import frames


@pytest.fixture
def repo(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        yield lake.create_repository("flights")


def put_version(branch, version):
    body = BytesIO()
    pd.DataFrame({"version": [version]}).to_parquet(body)
    for part in range(5):
        branch.put(f"asset/{part}.parquet", body.getvalue())


def test_the_files_of_an_input_are_those_that_were_listed(repo, monkeypatch):
    main, versions = repo.branch("main"), count(1)
    put_version(main, 0)
    original = main.open

    def open_later(path):
        put_version(repo.branch("main"), next(versions))
        return original(path)

    monkeypatch.setattr(main, "open", open_later)
    rows = frames.read(main, "asset/", "pyarrow")
    assert rows.column("version").to_pylist() == [0] * 5

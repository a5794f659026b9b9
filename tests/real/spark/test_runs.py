"""Spark inside runs: the view of a retry, of a failure and of a gate."""

from dataclasses import replace
from datetime import UTC, datetime

import pandas as pd
import pytest

import graveler
from graveler.errors import InvalidInputError
from graveler.frames.spark.writer import settle
from graveler.objects.memory import MemoryStore
from graveler.objects.store import ObjectInfo


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        made = lake.create_repository("tables")
        made.protection.add("main")
        yield made


def test_a_step_reads_frames_of_other_libraries(repo, spark):
    with repo.run("hour") as run:
        with run.step("load") as step:
            step.write(pd.DataFrame({"id": [1, 2]}), "t/day=1/")
            step.write(spark.createDataFrame([(3,)], "id bigint"), "t/day=2/")
        with run.step("sum") as step:
            days = {row.id: int(row.day) for row in step.read("t/", spark=spark).collect()}
            assert days == {1: 1, 2: 1, 3: 2}
            assert step.read("t/", "polars").rows() == [(1, 1), (2, 1), (3, 2)]
            with pytest.raises(InvalidInputError, match="is not a frame of pandas, polars"):
                step.write(spark, "t/")


def test_in_an_object_store_no_file_is_read_again():
    bare = ObjectInfo("data/x/a", 4, "abc-2", datetime(2013, 1, 1, tzinfo=UTC))
    known = replace(bare, checksum="sha256:00")
    assert settle(MemoryStore(), [bare, known]) == ["", ""]

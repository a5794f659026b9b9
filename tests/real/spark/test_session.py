import sys

import pytest

from graveler import spark as gspark
from graveler.config import environment
from graveler.errors import InvalidInputError, MissingDependencyError
from graveler.frames.spark.loading import spark_uri
from graveler.objects.memory import MemoryStore


def test_a_session_counts_hours_in_utc(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.classic("a server of Spark Connect has its own settings, and no sparkContext")
def test_a_session_of_one_machine_listens_to_it_only(spark):
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert environment("PYSPARK_PYTHON") == sys.executable


def test_a_running_session_is_returned(spark):
    try:
        assert gspark.session(config={"graveler.test": "laid over"}) is spark
        assert spark.conf.get("graveler.test") == "laid over"
    finally:
        spark.conf.unset("graveler.test")


def test_without_pyspark_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "graveler\[spark\]"'):
        gspark.session()


def test_a_storage_that_spark_cannot_reach_is_refused():
    with pytest.raises(InvalidInputError, match="mem://lake/data/x"):
        spark_uri(MemoryStore("lake").uri("data/x"))


def test_s3_is_read_by_the_file_system_that_hadoop_has_for_it():
    assert spark_uri("s3://bucket/data/x y%20") == "s3a://bucket/data/x y%20"

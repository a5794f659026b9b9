"""The errors that name what a worker lacks."""

from graveler.spark.tasks.preflight import lacking

HERE = {
    "python": "3.11.7",
    "executable": "here",
    "host": "a",
    "graveler": "0.2",
    "xxhash": "4.1",
}


def test_an_equal_worker_lacks_nothing():
    assert lacking(HERE, HERE) == []
    assert (
        lacking(HERE, {**HERE, "python": "3.11.2", "xxhash": "4.0", "executable": "", "host": ""})
        == []
    )


def test_what_is_missing_or_of_another_version_is_named():
    there = {**HERE, "python": "3.12.1", "graveler": "0.1", "xxhash": ""}
    assert lacking(HERE, there) == [
        "Python 3.11.7 (it is 3.12.1)",
        "xxhash",
        "graveler 0.2 (it has 0.1)",
    ]

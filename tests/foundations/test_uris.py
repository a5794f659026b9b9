"""URIs in messages, and which texts are URIs."""

import pytest

from graveler.base.privacy import is_uri, shown_uri


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://ann:s3cret@db/lake", "postgresql://***@db/lake"),
        ("postgresql://ann@db/lake", "postgresql://***@db/lake"),
        ("postgresql://db/lake", "postgresql://db/lake"),
        ("postgresql://db/lake?password=s3cret", "postgresql://db/lake?***"),
        ("postgresql://db/lake#s3cret", "postgresql://db/lake?***"),
        ("postgresql://ann:s3@cret@db/lake", "postgresql://***@db/lake"),
        ("postgresql://ann:s3/cret@db/lake", "postgresql://***@db/lake"),
        ("postgresql://ann:s3?cret@db/lake", "postgresql://***"),
        ("postgresql://db/lake?password=s3@cret", "postgresql://***"),
        ("postgresql:/ann:s3cret@db/lake", "postgresql:/***@db/lake"),
        ("postgresql:ann:s3cret@db/lake", "postgresql:***@db/lake"),
        ("ann:s3cret@db/lake", "ann:***@db/lake"),
        ("postgresql//ann:s3cret@db/lake", "***@db/lake"),
        ("s3://key:s3cret@bucket/a", "s3://***@bucket/a"),
        ("file:///lakes/ann@there/a?b", "file:///lakes/ann@there/a?b"),
        ("", ""),
        ("host=db password=s3cret", "***"),
    ],
)
def test_a_uri_is_shown_without_secrets(uri, shown):
    assert shown_uri(uri) == shown


@pytest.mark.parametrize("text", ["s3://a", "s3:/a", "postgresql+psycopg://h/d", "file:///lake"])
def test_a_uri_is_told_from_a_path(text):
    assert is_uri(text)


@pytest.mark.parametrize("text", ["lake", "./s3:/a", "/s3://a", "a:b", "", "2013:/x"])
def test_a_path_is_no_uri(text):
    assert not is_uri(text)

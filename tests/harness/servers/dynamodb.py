"""DynamoDB for the tests: moto's server, which is the one that has S3, and a table of its own each."""

from itertools import count

import pytest

_numbers = count(1)


@pytest.fixture
def dynamodb_uri(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a table that is not there yet; programs started by the test reach it too."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return f"dynamodb://table-{next(_numbers)}?region=us-east-1&endpoint={s3_endpoint}"

"""DynamoDB for the tests: moto's server, which also has S3, and a separate table for each test."""

from itertools import count

import pytest
from moto.dynamodb.models.dynamo_type import DynamoType

_numbers = count(1)


@pytest.fixture
def dynamodb_uri(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a table that does not exist yet; programs of the test can use it too."""
    # moto counts the encoded bytes of a value, a third more than the value has
    encoded = DynamoType.size
    monkeypatch.setattr(
        DynamoType, "size", lambda held: encoded(held) * (3 if held.is_binary() else 4) // 4
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return f"dynamodb://table-{next(_numbers)}?region=us-east-1&endpoint={s3_endpoint}"

"""A real S3 server for the tests, one per session, and a new bucket for each test."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import boto3
import pytest

from tests.harness.servers.moto import S3Server

_numbers = count(1)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The server; its ``failing`` injects faults."""
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_endpoint(s3_server: S3Server) -> str:
    """Its URL, for ``endpoint_url``."""
    return s3_server.endpoint


@pytest.fixture(scope="session")
def s3_options(s3_endpoint: str) -> dict[str, str]:
    """The options with which ``open_store`` reaches it."""
    return {
        "endpoint_url": s3_endpoint,
        "region": "us-east-1",
        "access_key": "key",
        "secret_key": "secret",
    }


@pytest.fixture
def s3_client(s3_options: dict[str, str]) -> Iterator[Any]:
    """A client of boto3, beside the stores."""
    client = boto3.client(
        "s3",
        endpoint_url=s3_options["endpoint_url"],
        region_name=s3_options["region"],
        aws_access_key_id=s3_options["access_key"],
        aws_secret_access_key=s3_options["secret_key"],
    )
    yield client
    client.close()


@pytest.fixture
def s3_bucket(s3_client: Any) -> str:
    """Name of a new empty bucket."""
    name = f"bucket-{next(_numbers)}"
    s3_client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def s3_settings(s3_options: dict[str, str]) -> str:
    """The options as lines of a file of settings."""
    return "".join(f'{name} = "{value}"\n' for name, value in s3_options.items())

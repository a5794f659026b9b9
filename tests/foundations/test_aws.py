"""The shared code of the drivers for AWS."""

from threading import Event, Thread

import boto3
import pytest

from graveler.base.clock import RandomIds
from graveler.errors import InvalidInputError
from graveler.kv.drivers.dynamodb_client import DynamoDBClient, Table
from graveler.objects.s3_client import S3Client, S3Settings
from graveler.testing.clock import FakeClock


def test_two_drivers_do_not_make_clients_at_once(monkeypatch):
    """boto3 makes all clients from one session, which threads must not share."""
    inside, beside = Event(), []

    def client(service, **_):
        beside.append(inside.is_set())
        inside.set()
        Event().wait(0.3)  # long enough for the other thread to enter
        inside.clear()
        raise ValueError(service)

    monkeypatch.setattr(boto3, "client", client)

    def make(call):
        with pytest.raises(InvalidInputError):
            call()

    clock = FakeClock()
    table = DynamoDBClient(Table("table"), clock, RandomIds(clock))
    calls = [lambda: S3Client("bucket", S3Settings(), 1), lambda: table.call("get_item")]
    threads = [Thread(target=make, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert beside == [False, False]

"""DynamoDB through boto3: a service that needs no own server.

A partition of the store is a partition of the table. Its keys are the sort keys, which DynamoDB
orders as bytes. Reads are strongly consistent. The service checks conditions.
"""

# `KVStore` documents the methods.
# ruff: noqa: D102

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from graveler.base.background import batches
from graveler.base.clock import Clock, IdSource, RandomIds, SystemClock
from graveler.base.retries import NO_PROGRESS_S
from graveler.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StateError,
    ThrottledError,
)
from graveler.kv.driver import Driver
from graveler.kv.drivers.dynamodb_client import ConditionFailed, DynamoDBClient, Table, pause
from graveler.kv.store import ABSENT, MAX_KEY_BYTES, PRESENT, Predicate
from graveler.kv.turns import QueueTurns

_PARTITION, _KEY, _VALUE = "p", "k", "v"
_SCHEMA: dict[str, Any] = {
    "KeySchema": [
        {"AttributeName": _PARTITION, "KeyType": "HASH"},
        {"AttributeName": _KEY, "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": _PARTITION, "AttributeType": "S"},
        {"AttributeName": _KEY, "AttributeType": "B"},
    ],
}
_WRITE_AT_ONCE = 25
_ATTEMPTS = 10  # in a row in which the service handled no item of the rest of a batch
_TABLE_PATIENCE = 300  # approximate seconds


class DynamoDBKVStore(Driver):
    """A key-value store in a DynamoDB table, which is created if missing and billed per request.

    Args:
        uri: ``dynamodb://table?region=eu-central-1``. ``endpoint=`` names a service other than
            AWS. Credentials come from the usual AWS settings.
    """

    def __init__(
        self,
        uri: str,
        *,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        no_progress_s: float = NO_PROGRESS_S,
    ) -> None:
        self._table = Table.parse(uri)
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds(self._clock)
        self._turns = QueueTurns(self, self._clock, self._ids)
        self._closed = False
        self._client = DynamoDBClient(self._table, self._clock, self._ids, no_progress_s)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _get(self, partition: str, key: bytes) -> bytes | None:
        reply = self._call("get_item", Key=_name(partition, key), ConsistentRead=True)
        value: bytes | None = reply["Item"][_VALUE]["B"] if "Item" in reply else None
        return value

    def _get_many(self, keys: Sequence[tuple[str, bytes]]) -> Mapping[tuple[str, bytes], bytes]:
        # Not BatchGetItem, which reads the items at different moments.
        self._check_open()
        name = self._table.name
        wanted = [{"Get": {"TableName": name, "Key": _name(*key)}} for key in keys]
        reply = self._client.call("transact_get_items", TransactItems=wanted)
        items = zip(keys, reply["Responses"], strict=True)
        return {key: found["Item"][_VALUE]["B"] for key, found in items if found.get("Item")}

    def _set(self, partition: str, key: bytes, value: bytes) -> None:
        self._call("put_item", Item=_item(partition, key, value))

    def _set_chunk(self, partition: str, chunk: list[tuple[bytes, bytes]]) -> None:
        # A batch may contain a key only once.
        rows = [_item(partition, key, value) for key, value in dict(chunk).items()]
        self._write([{"PutRequest": {"Item": row}} for row in rows])

    def _set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> bool:
        if predicate is ABSENT:
            condition: dict[str, Any] = {"ConditionExpression": f"attribute_not_exists({_KEY})"}
        elif predicate is PRESENT:
            condition = {"ConditionExpression": f"attribute_exists({_KEY})"}
        else:
            condition = _equal(predicate)
        return self._call_if("put_item", Item=_item(partition, key, value), **condition)

    def _delete(self, partition: str, key: bytes) -> None:
        self._call("delete_item", Key=_name(partition, key))

    def _delete_chunk(self, partition: str, chunk: list[bytes]) -> None:
        self._write([{"DeleteRequest": {"Key": _name(partition, key)}} for key in chunk])

    def _delete_if(self, partition: str, key: bytes, value: bytes) -> bool:
        return self._call_if("delete_item", Key=_name(partition, key), **_equal(value))

    def _drop(self, partition: str) -> None:
        for reply in self._query(partition, b"", ProjectionExpression=f"{_PARTITION}, {_KEY}"):
            self._write([{"DeleteRequest": {"Key": name}} for name in reply["Items"]])

    def _page(self, partition: str, start: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        items: list[dict[str, Any]] = []
        # A reply also ends at one megabyte. Only a reply without a last key is the last one.
        for reply in self._query(partition, start, Limit=limit):
            items += reply["Items"]
            if len(items) >= limit:
                break
        return [(item[_KEY]["B"], item[_VALUE]["B"]) for item in items[:limit]]

    def partitions(self, prefix: str) -> Iterator[str]:
        self._check_open()
        seen: set[str] = set()
        for reply in self._paged("scan", ProjectionExpression=_PARTITION):
            names = {item[_PARTITION]["S"] for item in reply["Items"]} - seen
            seen |= names
            yield from (name for name in names if name.startswith(prefix))

    def close(self) -> None:
        self._closed = True
        self._client.close()

    def _prepare(self) -> None:
        waited = 0.0
        while (status := self._status()) != "ACTIVE":
            if waited > _TABLE_PATIENCE:
                raise ThrottledError(
                    f"DynamoDB table {self._table.name} is still {status} after {waited:.0f} "
                    "seconds: check its state and open it again"
                )
            if status is None:
                self._create()
            else:
                self._clock.sleep(0.5)
                waited += 0.5

    def _status(self) -> str | None:
        try:
            table = self._call("describe_table")["Table"]
        except NotFoundError:
            return None
        held = [*table["KeySchema"], *table["AttributeDefinitions"]]
        if not all(column in held for columns in _SCHEMA.values() for column in columns):
            raise InvalidInputError(
                f"DynamoDB table {self._table.name} has other keys than {_PARTITION} (text) and "
                f"{_KEY} (bytes): name a table of graveler's, or one that is not there yet"
            )
        return str(table["TableStatus"])

    def _create(self) -> None:
        with suppress(AlreadyExistsError):  # another process has just created it
            self._call("create_table", BillingMode="PAY_PER_REQUEST", **_SCHEMA)

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"the store in DynamoDB table {self._table.name} is closed: open it")

    def _call(self, operation: str, *, conditional: bool = False, **parameters: Any) -> Any:
        self._check_open()
        return self._client.call(
            operation, conditional=conditional, TableName=self._table.name, **parameters
        )

    def _call_if(self, operation: str, **parameters: Any) -> bool:
        """Send a write with a condition. Return whether the condition held."""
        try:
            self._call(operation, conditional=True, **parameters)
        except ConditionFailed:
            return False
        return True

    def _paged(self, operation: str, **parameters: Any) -> Iterator[Any]:
        while True:
            reply = self._call(operation, ConsistentRead=True, **parameters)
            yield reply
            if not reply.get("LastEvaluatedKey"):
                return
            parameters["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def _query(self, partition: str, start: bytes, **parameters: Any) -> Iterator[Any]:
        values: dict[str, Any] = {":partition": {"S": partition}}
        condition = f"{_PARTITION} = :partition"
        if start:
            # no stored key is longer than the maximum: start after the truncated key
            values[":start"] = {"B": start[:MAX_KEY_BYTES]}
            condition += f" AND {_KEY} {'>=' if len(start) <= MAX_KEY_BYTES else '>'} :start"
        return self._paged(
            "query",
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
            **parameters,
        )

    def _write(self, requests: list[dict[str, Any]]) -> None:
        name = self._table.name
        for wanted in batches(requests, _WRITE_AT_ONCE):
            attempt, left = 1, wanted
            while left:
                self._check_open()
                reply = self._client.call("batch_write_item", RequestItems={name: left})
                before, left = left, reply.get("UnprocessedItems", {}).get(name)
                if left and attempt == _ATTEMPTS:
                    raise ThrottledError(
                        f"batch_write_item on DynamoDB table {name} left something over {attempt} "
                        "times: wait, or give the table more capacity"
                    )
                if left:  # the service had no capacity for these
                    attempt = attempt + 1 if left == before else 1
                    pause(attempt, self._clock, self._ids)


def _name(partition: str, key: bytes) -> dict[str, Any]:
    return {_PARTITION: {"S": partition}, _KEY: {"B": key}}


def _item(partition: str, key: bytes, value: bytes) -> dict[str, Any]:
    return {**_name(partition, key), _VALUE: {"B": value}}


def _equal(predicate: bytes) -> dict[str, Any]:
    return {
        "ConditionExpression": f"{_VALUE} = :old",
        "ExpressionAttributeValues": {":old": {"B": predicate}},
    }

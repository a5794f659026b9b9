"""The sink of streaming queries: each micro-batch lands in one commit, once.

Spark repeats a batch whose end it has not recorded. The commit of a batch has the application, the number of
the batch and the id of the query from its checkpoint. A batch that the branch already has is skipped.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graveler.errors import (
    TRANSIENT,
    FencedError,
    GravelerError,
    InvalidInputError,
    MergeConflictError,
)
from graveler.frames.spark.loading import is_remote
from graveler.frames.spark.writer import WriteOptions
from graveler.spark.idempotence import Txn
from graveler.spark.transactions import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BatchWork = Callable[[Transaction, "DataFrame"], Any]
"""Writes a micro-batch by a transaction."""

_QUERY = "sql.streaming.queryId"
_PASSING = (*TRANSIENT, FencedError, MergeConflictError)
_RESTART = "A restart of the query helps: it runs the batch again, and skips it if it has landed after all."
_MEND = (
    "A restart alone does not help: it runs the batch again, and fails again. Fix the cause first; the "
    "query then continues with this batch."
)


@dataclass(frozen=True, slots=True, repr=False)
class BatchWriter:
    """The function that ``foreachBatch`` calls with each micro-batch; see `Tables.batch_writer`."""

    begin: Callable[..., AbstractContextManager[Transaction]]
    branch: str
    into: str | BatchWork
    app: str
    message: str
    metadata: Mapping[str, str]
    checkpoint: str
    options: WriteOptions

    def __repr__(self) -> str:
        return f"<BatchWriter of {self.app} on {self.branch}>"

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Land a micro-batch, unless the branch already has it."""
        try:
            self._land(batch, batch_id)
        except GravelerError as error:
            advice = _RESTART if isinstance(error, _PASSING) else _MEND
            error.add_note(f"Batch {batch_id} of {self.app!r} on {self.branch!r}: {advice}")
            raise

    def _land(self, batch: "DataFrame", batch_id: int) -> None:
        spark = batch.sparkSession
        message = self.message or f"{self.app}: batch {batch_id}"
        txn = Txn(self.app, batch_id, query_id(spark, self.checkpoint))
        with self.begin(self.branch, message, self.metadata, txn, spark) as tx:
            if tx.skipped:
                return
            if callable(self.into):
                self.into(tx, batch)
            else:
                tx.write(batch, self.into, **self.options)


def query_id(spark: "SparkSession", checkpoint: str) -> str:
    """Return the id of the streaming query that runs a batch; the query's checkpoint has it."""
    if checkpoint:
        return _stored_id(spark, checkpoint)
    if is_remote(spark):
        raise InvalidInputError(
            "Spark Connect does not tell which query runs a batch: give batch_writer(..., checkpoint=...) "
            "the checkpointLocation of the query"
        )
    found = spark.sparkContext.getLocalProperty(_QUERY)
    if not found:
        raise InvalidInputError(
            "no streaming query runs here: give the writer to writeStream.foreachBatch, and write other "
            "frames by lake.transaction(branch, txn=(app, version)); where PYSPARK_PIN_THREAD is false, give "
            "batch_writer(..., checkpoint=...) the checkpointLocation of the query"
        )
    return found


def _stored_id(spark: "SparkSession", checkpoint: str) -> str:
    from pyspark.errors import AnalysisException

    try:
        lines = spark.read.text(f"{checkpoint.rstrip('/')}/metadata").collect()
        return str(json.loads(lines[0].value)["id"])
    except (AnalysisException, LookupError, ValueError) as error:
        raise InvalidInputError(
            f"checkpoint={checkpoint!r}: it has no file 'metadata' with the id of a query: give what the "
            "query has as checkpointLocation"
        ) from error

"""Stores that answer late, or do less than they say."""

from typing import Any, cast

import psycopg
import pymysql
import pytest
from sqlalchemy.exc import DBAPIError, OperationalError

from graveler.base.background import Inline
from graveler.base.retries import Retrier
from graveler.config import LakeConfig
from graveler.errors import (
    BackendUnavailableError,
    GateFailedError,
    InvalidInputError,
    OutcomeUnknownError,
    PermissionDeniedError,
    ThrottledError,
)
from graveler.gates import Gate
from graveler.kv.drivers.memory import MemoryKVStore
from graveler.kv.drivers.mysql import MySQLKVStore
from graveler.kv.drivers.postgres import PostgresKVStore
from graveler.kv.store import ABSENT
from graveler.lake import Lake
from graveler.objects.memory import MemoryStore
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.faults import FaultyKVStore, Script
from tests.harness.worlds import ScriptedWorld

ITEM = 400 * 1024


class Losing(FaultyKVStore):
    """Loses the answer of the first write of a new branch, which is done at once, later or never."""

    def __init__(self, store, done):
        super().__init__(store, Script())
        self.done, self.late, self.lost = done, [], 0

    def set_if(self, partition, key, value, predicate):
        if predicate is not ABSENT or not key.startswith(b"branch/") or self.lost:
            for write in self.late:
                write()
            self.late.clear()
            return super().set_if(partition, key, value, predicate)
        self.lost += 1
        write = lambda: super(Losing, self).set_if(partition, key, value, predicate)  # noqa: E731
        if self.done == "at once":
            write()
        elif self.done == "later":
            self.late.append(write)
        raise OutcomeUnknownError("HTTP 500")


def losing_world(done):
    world = ScriptedWorld()
    repo = world.repo()
    branches = repo.stores.refs.branches
    branches._kv = losing = Losing(branches._kv, done)
    return world, repo, losing


@pytest.mark.parametrize("done", ["at once", "later", "never"])
@pytest.mark.parametrize("made", ["run", "step", "branch"])
def test_a_branch_is_made_whatever_the_first_write_did(done, made):
    _, repo, losing = losing_world(done)
    if made == "step":
        losing.lost = 1
        run = repo.runs.open("hour")
        losing.lost = 0
        written = run.step("s")
    else:
        written = repo.create_branch("dev") if made == "branch" else repo.runs.open("hour")
    written.put("a", b"1")
    assert losing.lost == 1
    assert written.get("a") == b"1"


class Careless(MemoryStore):
    """A store that ignores conditions, as behind a proxy that removes headers."""

    ignored = ()

    def put_if_absent(self, key, body):
        if "If-None-Match" not in self.ignored:
            return super().put_if_absent(key, body)
        self.put(key, body)
        return True

    def put_if_match(self, key, body, etag):
        return (
            super().put_if_match(key, body, etag)
            if "If-Match" not in self.ignored
            else self.put(key, body)
        )


def test_a_branch_that_another_deleted_is_not_made_again():
    """The first write is done late, and another process deletes the branch after it."""
    world, repo, losing = losing_world("later")
    kv, write = losing, type(losing).set_if
    other = world.repo(scripted=False)

    def late(*given):
        if losing.late:
            losing.late.pop()()
            other.delete_branch("dev")
        return write(kv, *given)

    losing.set_if = late
    with pytest.raises(OutcomeUnknownError):
        repo.create_branch("dev")
    assert not [branch for branch in other.branches() if branch.name == "dev"]


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_a_store_that_ignores_conditions_is_refused_by_name(monkeypatch, header):
    monkeypatch.setattr("graveler.lake.drivers.open_store", lambda *_, **__: Careless("x"))
    monkeypatch.setattr(Careless, "ignored", (header,))
    config = LakeConfig("x", "mem://", "mem://x", cache_folder=None)
    given: dict[str, Any] = {"clock": FakeClock(), "ids": SequenceIds(), "background": Inline()}
    with (
        Lake(config, MemoryKVStore(), **given, witnessed=True) as lake,
        pytest.raises(InvalidInputError, match=rf"mem://.* ignores the condition {header}"),
    ):
        lake.create_repository("flights")


class Narrow(MemoryKVStore):
    """A key-value store with DynamoDB's limit of an item."""

    def set(self, partition, key, value):
        assert len(key) + len(value) <= ITEM
        super().set(partition, key, value)

    def set_many(self, partition, items):
        for key, value in items:
            self.set(partition, key, value)

    def set_if(self, partition, key, value, predicate):
        assert len(key) + len(value) <= ITEM
        return super().set_if(partition, key, value, predicate)


def test_long_refusals_fit_into_an_item_and_are_whole():
    world = ScriptedWorld()
    repo = world.repo()
    world.kv.__class__ = Narrow
    reason = "\x01é" * 2_000

    def refuse(candidate):
        candidate.report(**{f"fact {number}": ["é" * 500] * 9 for number in range(9)})
        return reason

    gates = [Gate(f"gate {number}", refuse) for number in range(110)]
    for _ in range(2):
        with pytest.raises(GateFailedError), repo.run("hour", gates=gates) as run:
            run.put("a", b"1")
    (judgement, *_) = repo.gates.judgements()
    assert [verdict.reason for verdict in judgement.verdicts] == [reason] * 110
    record = repo.runs.get("hour")
    assert len(record.verdicts) == 110
    assert record.verdicts[0].reason.startswith("\x01é")


@pytest.mark.parametrize("error", [ThrottledError, BackendUnavailableError])
def test_calls_are_repeated_until_the_time_is_over(error):
    clock, began = FakeClock(), FakeClock().now()

    def fail():
        raise error("503")

    with pytest.raises(error):
        Retrier(clock, SequenceIds(seed=1)).run("put", fail)
    assert 30 * 0.5 < (clock.now() - began).total_seconds() <= 30


def failure_of(store, error):
    return cast("Any", store)._failure(None, error)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("connection failed: FATAL:  sorry, too many clients already", ThrottledError),
        ('FATAL:  too many connections for role "ann"', ThrottledError),
        ("FATAL:  no more connections allowed (max_client_conn)", ThrottledError),
        ('FATAL:  permission denied for database "lake"', PermissionDeniedError),
        ("FATAL:  SASL authentication failed", PermissionDeniedError),
        ("FATAL:  no such database: lake", InvalidInputError),
    ],
)
def test_a_refused_connection_says_why(message, kind):
    error = OperationalError("", {}, psycopg.OperationalError(message))
    failure = failure_of(PostgresKVStore, error)
    assert (failure.kind, failure.repeat) == (kind, kind is ThrottledError)


def ended(state):
    """psycopg 3.2 lacks 25P04."""
    kind = type("Ended", (psycopg.OperationalError,), {"sqlstate": state})
    return kind("query_wait_timeout")


MANGLED = pymysql.err.InternalError("Packet sequence number wrong - got 3 expected 2")


@pytest.mark.parametrize(
    ("store", "cause"),
    [(PostgresKVStore, ended(state)) for state in ("08P01", "08006", "25P03", "25P04")]
    + [(MySQLKVStore, MANGLED)],
    ids=["08P01", "08006", "25P03", "25P04", "mysql"],
)
def test_a_connection_ended_in_a_call_leaves_it_unknown(store, cause):
    failure = failure_of(store, DBAPIError("", {}, cause))
    assert (failure.kind, failure.lost) == (BackendUnavailableError, True)

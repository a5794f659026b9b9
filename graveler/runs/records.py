"""The run records of one repository, in its key-value store."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Final

from graveler.clock import Clock, IdSource, unix_us
from graveler.errors import (
    FencedError,
    GravelerError,
    InvalidInputError,
    RunNotFoundError,
)
from graveler.fields import Fields
from graveler.gates.verdicts import read_verdict
from graveler.kv.record_store import RecordStore
from graveler.kv.store import KVStore
from graveler.names import run_branch
from graveler.process import refuse_writes
from graveler.records import decode_json, encode_json
from graveler.runs.index import RunIndex, opened_key
from graveler.runs.inputs import read_inputs
from graveler.runs.record import Refusal, RunRecord
from graveler.runs.state import RunState

_RUN: Final = b"run/"
_STEP: Final = b"step/"
_MICROSECOND: Final = timedelta(microseconds=1)


def _encode(record: RunRecord) -> bytes:
    raw = {item.name: getattr(record, item.name) for item in fields(record)}
    for name in ("created", "opened", "updated", "lease_until"):
        raw[name] = unix_us(raw[name])
    for name in ("lease", "ttl"):
        raw[name] //= _MICROSECOND
    raw["verdicts"] = [asdict(verdict) for verdict in record.verdicts]
    raw["inputs"] = [[read.commit, read.prefix] for read in record.inputs]
    raw["refusals"] = [
        [unix_us(refusal.at), refusal.reason, list(refusal.gates)] for refusal in record.refusals
    ]
    raw["metadata"] = dict(record.metadata)
    return encode_json(raw)


def _decode(raw: bytes) -> RunRecord:
    what = "run record"
    fields = Fields(decode_json(raw, what), what)
    return RunRecord(
        key=fields.text("key"),
        state=fields.one_of("state", RunState),
        attempt=fields.number("attempt"),
        fence=fields.text("fence"),
        branch=fields.name("branch"),
        into=fields.name("into"),
        base=fields.digest("base"),
        created=fields.moment("created"),
        opened=fields.moment("opened"),
        updated=fields.moment("updated"),
        lease_until=fields.moment("lease_until"),
        head=fields.digest("head", ""),
        candidate=fields.digest("candidate", ""),
        commit=fields.digest("commit", ""),
        rounds=fields.digests("rounds"),
        reason=fields.text("reason"),
        verdicts=tuple(map(read_verdict, fields.records("verdicts"))),
        metadata=fields.pairs("metadata"),
        forked=fields.number("forked"),
        born=fields.text("born"),
        owner=fields.text("owner"),
        owners=fields.texts("owners"),
        lease=fields.duration("lease"),
        lapsed=fields.flag("lapsed"),
        ttl=fields.duration("ttl"),
        on_failure=fields.text("on_failure"),
        inputs=read_inputs(fields),
        refusals=tuple(
            Refusal(refusal.moment("at"), refusal.text("reason"), refusal.texts("gates"))
            for refusal in fields.rows("refusals", ("at", "reason", "gates"))
        ),
        rollback=fields.text("rollback"),
        nonce=fields.text("nonce"),
    )


@dataclass(frozen=True, slots=True)
class _Try:
    """The newest try of a step: the attempt of the run, the number of the try, and its fence."""

    attempt: int
    number: int
    fence: str


_NO_TRY: Final = _Try(0, 0, "")


def _decode_try(raw: bytes) -> _Try:
    fields = Fields(decode_json(raw, "step record"), "step record")
    return _Try(fields.number("attempt"), fields.number("number"), fields.text("fence"))


def _encode_try(last: _Try) -> bytes:
    return encode_json(asdict(last))


def _run_key(branch: str) -> bytes:
    return _RUN + branch.encode()


def _step_key(branch: str) -> bytes:
    return _STEP + branch.encode()


def _checked(key: str, record: RunRecord | None) -> RunRecord | None:
    if record is not None and record.key != key:
        raise InvalidInputError(
            f"run {key!r} and run {record.key!r} have one branch name ({record.branch}): "
            "change the key"
        )
    return record


class RunRecords:
    """The run records of one repository: key-value partition ``runs:<uid>``.

    ``run/<branch name>`` holds a record, ``step/<branch name>`` counts the tries of a step.
    `index` lists runs by time of opening and by due time.

    Attributes:
        index: The index of the records; `update` maintains it.
    """

    def __init__(self, kv: KVStore, uid: str, *, clock: Clock, ids: IdSource) -> None:
        self._kv = kv
        self._partition = f"runs:{uid}"
        self._clock = clock
        self._ids = ids
        self._runs: RecordStore[str, RunRecord] = RecordStore(
            kv, self._partition, key=_run_key, encode=_encode, decode=_decode
        )
        self._tries: RecordStore[str, _Try] = RecordStore(
            kv, self._partition, key=_step_key, encode=_encode_try, decode=_decode_try
        )
        self.index = RunIndex(kv, self._partition)

    def now(self) -> datetime:
        """Return the time, by the repository's clock."""
        return self._clock.now()

    def find(self, key: str) -> RunRecord | None:
        """Return the run of that key, or None."""
        return _checked(key, self._runs.get(run_branch(key)))

    def get(self, key: str) -> RunRecord:
        """Return the run of that key, or raise RunNotFoundError."""
        record = self.find(key)
        if record is None:
            raise RunNotFoundError(f"no run {key!r}: `graveler run list` shows those there are")
        return record

    def list(self) -> Iterator[RunRecord]:
        """Yield every run, by branch name."""
        for record in self.each():
            if isinstance(record, GravelerError):
                raise record
            yield record

    def each(self) -> Iterator[RunRecord | GravelerError]:
        """Yield every run, by branch name; for a record that cannot be read, the error."""
        for key, value in self._kv.scan(self._partition, _RUN):
            if not key.startswith(_RUN):
                return
            try:
                record = _decode(value)
            except GravelerError as error:
                yield error
            else:
                yield record

    def update(self, key: str, change: Callable[[RunRecord | None], RunRecord]) -> RunRecord:
        """Replace the record by ``change(record)`` in one atomic step and return it.

        `change` runs again after a lost race; an exception ends the update. If it returns the
        same record, nothing is written.
        """
        refuse_writes(f"run {key!r}")
        before: RunRecord | None = None

        def changed(record: RunRecord | None) -> RunRecord:
            nonlocal before
            before = _checked(key, record)
            new = change(before)
            if new is before:
                return new
            new = replace(new, updated=self._clock.now(), nonce=self._ids.unique())
            self.index.prepare(before, new)
            return new

        after = self._runs.update(
            run_branch(key), changed, what=f"run {key!r}", clock=self._clock, ids=self._ids
        )
        if after is not before:
            self.index.clear(before, after)
        return after

    def find_branch(self, branch: str) -> RunRecord | None:
        """Return the run that has the branch, or None."""
        return self._runs.get(branch)

    def owner_of(self, branch: str) -> RunRecord | None:
        """Return the run that owns the branch or the step of the branch, or None."""
        parts = branch.split(".")
        names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next((found for name in names if (found := self.find_branch(name))), None)

    def latest(self, after: RunRecord | None = None) -> Iterator[RunRecord]:
        """Yield every run, the latest opened first; reads no more than it yields.

        Args:
            after: Only runs after this one.
        """
        for row, branch in self.index.latest(after):
            record = self.find_branch(branch)
            if record is not None and opened_key(record) == row:
                yield record

    def live(self, after: RunRecord | None = None) -> Iterator[RunRecord]:
        """Yield the runs that are not over, the latest opened first; reads no others.

        Args:
            after: Only runs after this one.
        """
        found = (self.find_branch(branch) for branch in self.index.expected())
        ordered = sorted((opened_key(one), one) for one in found if one is not None and one.live)
        start = b"" if after is None else opened_key(after)
        return (record for key, record in ordered if key > start)

    def drop_outdated_rows(self, before: datetime) -> None:
        """Delete the rows that openers left before a time because they lost a race or died."""
        for row, branch in self.index.older(before):
            record = self.find_branch(branch)
            if record is None or opened_key(record) != row:
                self.index.drop(row)

    def next_try(self, step_branch: str, run_attempt: int) -> tuple[int, str]:
        """Count a try of a step; return its number and its fence, both unique to it.

        Raises:
            FencedError: A newer attempt of the run has started the step.
        """

        def counted(last: _Try | None) -> _Try:
            last = last or _NO_TRY
            if last.attempt > run_attempt:
                raise FencedError(
                    f"step {step_branch!r}: attempt {last.attempt} of the run has started it; "
                    f"this is attempt {run_attempt}"
                )
            return _Try(run_attempt, last.number + 1, self._ids.unique())

        what = f"step {step_branch!r}"
        new = self._tries.update(step_branch, counted, what=what, clock=self._clock, ids=self._ids)
        return new.number, new.fence

    def last_try_fence(self, step_branch: str) -> str:
        """Return the fence of the newest try of a step, or ""."""
        return (self._tries.get(step_branch) or _NO_TRY).fence

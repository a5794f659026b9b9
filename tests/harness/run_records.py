"""Histories of many hours, written as records: what thousands of publishes would leave."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from graveler.base.background import batches
from graveler.base.names import hour_text, run_branch
from graveler.gates import Judgement, Verdict, Verdicts
from graveler.lake import Repository
from graveler.model import Commit
from graveler.refs.commits import id_of
from graveler.runs.record import Refusal, RunRecord, encode_run
from graveler.runs.records import _due_key, opened_key
from graveler.runs.state import Publish, RunState

START = datetime(2013, 1, 1, tzinfo=UTC)
_PARKED_EVERY, _MISSING_EVERY = 97, 101
_DAY = timedelta(days=1)


def add_hours(repo: Repository, hours: int, pipelines: tuple[str, ...] = ("hourly",)) -> None:
    """Add a run of each pipeline for each hour, the latest opened last, with its judgement.

    The runs of the first pipeline move main, each by one commit. Every 97th run is parked by a gate, and
    every 101st hour is missing.
    """
    stores, kv = repo.stores, repo.stores.kv
    head = repo.commit("main")
    commits, records, judgements = [], [], []
    for number in range(hours):
        hour = START + timedelta(hours=number)
        if number % _MISSING_EVERY == _MISSING_EVERY - 1:
            continue
        key = f"{pipelines[0]} {hour_text(hour)}"
        work = _commit(key, hour, head, step="clean")
        merge = _commit(key, hour, head, work)
        commits += [work, merge]
        for key in (f"{name} {hour_text(hour)}" for name in pipelines):
            judgements.append(_judgement(key, number, merge, head.id))
            records.append(_record(key, hour, head, judgements[-1], work))
        head = merge
    for chunk in batches(commits, 1_000):
        stores.refs.commits.add_all(chunk)
    main, predicate = stores.refs.branches.get_for_update("main")
    stores.refs.branches.replace(replace(main, commit_id=head.id), predicate, action="publish")
    runs = f"runs:{stores.uid}"
    kv.set_many(runs, ((b"run/" + one.branch.encode(), encode_run(one)) for one in records))
    kv.set_many(runs, ((opened_key(one), b"1") for one in records))
    due = (one for one in records if one.live)
    kv.set_many(runs, ((_due_key(one.branch, one.lease_until), b"1") for one in due))
    keep = partial(Verdicts(stores).keep, verdicts={})
    for one in judgements:
        keep(one, datetime.fromisoformat(one.at))


def _commit(
    key: str, hour: datetime, head: Commit, work: Commit | None = None, step: str = ""
) -> Commit:
    """Return a commit of a run, or the one that publishes `work`; its tree is that of the head."""
    pairs = {"graveler.run": key, "graveler.attempt": "1", "hour": hour_text(hour)}
    pairs |= {"graveler.step": step} if step else {"graveler.published": "1"}
    made = replace(
        head,
        id="",
        parents=(head.id,) if work is None else (head.id, work.id),
        generation=head.generation + (1 if work is None else 2),
        message=f"publish {key}" if work else step,
        created=hour + timedelta(minutes=5),
        metadata={name: text for name, text in head.metadata.items() if name == "graveler.claims"}
        | pairs,
        spans=(),
    )
    return replace(made, id=id_of(made))


def _judgement(key: str, number: int, commit: Commit, target: str) -> Judgement:
    refused = number % _PARKED_EVERY == _PARKED_EVERY - 1
    at = (commit.created + timedelta(microseconds=number)).isoformat()
    verdicts = (
        Verdict(
            "row count",
            not refused,
            "error",
            f"{number} rows, 7 landed" if refused else "",
            commit.id,
            0.25,
            at,
            facts={"rows": 1000 + number % 24 * 10, "files": 2},
        ),
        Verdict("schema", passed=True, severity="error", commit=commit.id, seconds=0.01, at=at),
        Verdict(
            "weather known",
            number % 5 > 0,
            "warn",
            "" if number % 5 else "no weather at JFK",
            commit.id,
            0.05,
            at,
            facts={"airports": 3},
        ),
    )
    return Judgement(commit.id, target, "main", "publish", key, 1, at, verdicts)


def _record(key: str, hour: datetime, base: Commit, judged: Judgement, work: Commit) -> RunRecord:
    at = hour + timedelta(minutes=5)
    refused = judged.refused
    record = RunRecord(
        key=key,
        state=RunState.PARKED if refused else RunState.PUBLISHED,
        attempt=1,
        fence="f",
        branch=run_branch(key),
        into="main",
        base=base.id,
        head=work.id,
        created=hour,
        opened=hour,
        updated=at,
        lease_until=at,
        ttl=timedelta(days=36_000),
        metadata={"hour": hour_text(hour)},
        verdicts=judged.verdicts,
        nonce="n",
    )
    if refused:
        reason = f"run {key!r} was refused: row count: {judged.verdicts[0].reason}"
        return replace(record, reason=reason, refusals=(Refusal(at, reason, ("row count",)),))
    publish = Publish(judged.commit, work.id, "main", 1, at, verdicts=judged.verdicts)
    return replace(record, publishes=(publish,))

"""``graveler run`` and ``graveler why``: the runs of pipelines, and what they brought."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from graveler.cli.arguments import LimitOption, MetaOption, read_pairs
from graveler.cli.failure import UsageError, fact_rows
from graveler.cli.output import field_lines
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.errors import InvalidInputError, ObjectNotFoundError, RefNotFoundError
from graveler.lake.shapes import shape_of

if TYPE_CHECKING:
    from graveler.gates import Verdict
    from graveler.lake import Repository
    from graveler.runs.provenance import Why
    from graveler.runs.rollback import RollbackPlan
    from graveler.runs.state import Publish


_COLORS = {"PUBLISHED": "green", "PARKED": "red", "OPEN": "yellow", "PUBLISHING": "yellow"}
_ON_ITS_BRANCH = ("OPEN", "PUBLISHING", "PARKED")
_UNDONE = {"added": "removes", "changed": "restores", "removed": "brings back"}
_CHANGES = 20
_SHORT = 12

_Key = Annotated[str, "The run's key, as `run list` shows it."]

_Reason = Annotated[str, "(TEXT): Why, for the record."]


@verb("run list")
def _list(
    session: Session,
    *,
    state: str = "",
    live: bool = False,
    limit: LimitOption = None,
    after: str = "",
) -> None:
    """List the runs, the last opened first.

    Args:
        state (STATE): Only this state: open, publishing, published, parked, reaped,
            rolled_back.
        live: Only unfinished runs: open or parked.
        after (KEY): Only runs that come after this one.
    """
    from graveler.runs.state import RunState

    wanted = state.upper()
    states = [known for known in RunState if known is not RunState.NONE]
    if wanted and wanted not in states:
        raise UsageError(f"--state {state!r}: give one of {', '.join(states).lower()}")
    out, runs = session.out, session.repository.runs
    records = runs.list(wanted or None, live=live, limit=limit, after=after or None)
    for record in runs.on_targets(records):
        shown = out.style(f"{record.state:11}", _COLORS.get(record.state, ""))
        where = f"  on {record.branch}" if record.state in _ON_ITS_BRANCH else ""
        reason = f": {record.reason}" if where and record.reason else ""
        stands = record.published is not None or record.state is RunState.PUBLISHED
        published = f"  {record.on_target}" if stands else ""
        out.show(
            shape_of(record),
            f"{shown}  attempt {record.attempt}  {record.updated:%Y-%m-%d %H:%M:%S}  "
            f"{record.key}{published}{where}{reason}",
        )


@verb("run show")
def _show(session: Session, key: _Key) -> None:
    """Show a run: the state of its latest attempt, and what all attempts have published."""
    runs = session.repository.runs
    record, publishes = runs.get(key), runs.publishes(key)
    last = record.refusals[-1] if record.refusals else None
    refused = last is not None and last.reason == record.reason
    # the lines of the gates have the reasons
    shown = last if refused and any(verdict.refuses for verdict in record.verdicts) else None
    fields = [
        ("run", record.key),
        ("state", f"{record.state}, attempt {record.attempt}"),
        *(
            ("published", _publish_text(publish) + _gates_text(publish))
            for publish in publishes[::-1]
        ),
        *([] if publishes else [("published", "nothing yet")]),
        ("branch", f"{record.branch} → {record.into}"),
        ("opened", f"{record.created:%Y-%m-%d %H:%M:%S} UTC"),
        ("changed", f"{record.updated:%Y-%m-%d %H:%M:%S} UTC"),
        *([("until", f"{record.expires:%Y-%m-%d %H:%M:%S} UTC")] if record.expires else []),
        *([("reason", record.reason)] if record.reason and not refused else []),
        *sorted(record.metadata.items()),
        *(field for verdict in record.verdicts for field in _gate_fields(verdict)),
        *(("read", f"{source.commit[:12]}:{source.prefix}") for source in record.inputs),
        *(
            (
                "refused",
                f"{refusal.at:%Y-%m-%d %H:%M:%S}: "
                + (f"by {', '.join(refusal.gates)}" if refusal is shown else refusal.reason),
            )
            for refusal in record.refusals
        ),
    ]
    shape = {**shape_of(record), "publishes": shape_of(publishes)}
    session.out.show(shape, *field_lines(fields))


def _gate_fields(verdict: "Verdict") -> Iterator[tuple[str, str]]:
    outcome = "passed" if verdict.passed else f"{verdict.severity}: {verdict.reason}"
    yield "gate", f"{verdict.gate}: {outcome}"
    yield from (("", row) for row in fact_rows(verdict))


def _gates_text(publish: "Publish") -> str:
    words = [
        f"{verdict.gate} {'passed' if verdict.passed else 'warned'}" for verdict in publish.verdicts
    ]
    return f"; gates: {', '.join(words)}" if words else ""


def _publish_text(publish: "Publish") -> str:
    text = (
        f"attempt {publish.attempt} into {publish.into}, {publish.at:%Y-%m-%d %H:%M:%S} UTC, "
        f"commit {publish.commit}"
    )
    if publish.rollback:
        return f"{text}: rolled back by commit {publish.rollback}"
    if publish.lost:
        return f"{text}: {publish.into} has lost it"
    return text if publish.changed else f"{text}: changed nothing"


@verb("run park")
def _park(session: Session, key: _Key, *, reason: _Reason = "") -> None:
    """Park a run: staged writes are dropped, commits wait for the next attempt."""
    record = session.repository.runs.park(key, reason=reason)
    session.out.show(shape_of(record), f"run {key} is {record.state}")


@verb("run abandon")
def _abandon(session: Session, key: _Key, *, reason: _Reason = "") -> None:
    """Abandon a run: its branch is deleted, its record stays."""
    session.repository.runs.get(key)
    record = session.repository.runs.abandon(key, reason=reason)
    session.out.show(shape_of(record), f"abandoned run {key}")


@verb("run reap")
def _reap(
    session: Session,
    *,
    yes: bool = False,
    limit: Annotated[int | None, {"min": 0}] = None,
    everything: bool = False,
) -> None:
    """Park or delete runs whose lease has expired, or that are parked past their time to live.

    Args:
        yes (--yes, --no-dry-run): Reap. By default only show what would be done.
        limit (N): Reap at most N.
        everything (--all): Check every run and branch, not only those that are due.
    """
    out = session.out
    for reaped in session.repository.runs.reap(dry_run=not yes, limit=limit, everything=everything):
        out.show(
            {**shape_of(reaped), "dry_run": not yes},
            f"{reaped.from_state:10} -> {reaped.to_state:10}  {reaped.key}: {reaped.reason}",
        )
    if not yes:
        out.tell("dry run: nothing was changed; give --yes to do it")


@verb("run rollback")
def _rollback(
    session: Session,
    run: str,
    *,
    message: str = "",
    meta: MetaOption = None,
    dry_run: bool = False,
    into: str = "",
) -> None:
    """Roll back what a run published, in one commit. Its latest attempt may be in any state.

    The command first prints what is rolled back, and the runs that have read it.

    Args:
        run (RUN): A run's key, or the commit that published it.
        message (-m TEXT): Message of the commit.
        dry_run: Only show what would be rolled back.
        into (BRANCH): Only what was published to this branch.
    """
    runs, out = session.repository.runs, session.out
    pairs = read_pairs(meta)
    plan = runs.plan_rollback(run, into=into or None)
    shape: dict[str, Any] = {
        "commit": None,
        "run": None,
        "already": bool(plan.reverted),
        "dry_run": dry_run,
        "publish": shape_of(plan.publish),
        "rests": plan.rests,
        "readers": [reader.key for reader in plan.readers],
    }
    if not out.as_json:
        for line in _plan_lines(session, plan):
            out.line(line)
    if dry_run:
        out.show(shape, "dry run: nothing was changed")
        return
    done = runs.rollback(plan.publish.commit, message=message or None, metadata=pairs)
    was = "was rolled back before" if done.already else "is rolled back"
    shape |= {
        "commit": shape_of(done.commit),
        "run": shape_of(done.record),
        "already": done.already,
        "publish": shape_of(done.publish),
    }
    out.show(shape, f"run {done.record.key} {was}, by commit {done.commit.id}")


def _plan_lines(session: Session, plan: "RollbackPlan") -> Iterator[str]:
    record, publish, repository = plan.record, plan.publish, session.repository
    yield f"run {record.key}: attempt {record.attempt} is {record.state}"
    if plan.reverted:
        yield f"{_publish_text(replace(publish, rollback=plan.reverted))}"
        return
    yield f"rolls back {_publish_text(publish)}"
    parent = repository.commit(publish.commit).parents[0]
    changes = list(islice(repository.diff(parent, publish.commit), _CHANGES + 1))
    yield from (f"  {_UNDONE[change.kind]} {change.path}" for change in changes[:_CHANGES])
    if len(changes) > _CHANGES:
        yield f"  and more: graveler diff {parent[:_SHORT]} {publish.commit[:_SHORT]}"
    if plan.rests:
        yield (
            f"attempt {record.attempt} was forked from it and cannot be published; the next attempt "
            f"starts from {publish.into}"
        )
    for reader in plan.readers:
        yield f"has read what it wrote: {reader.key} ({reader.state})"


@verb("why")
def _why(session: Session, path: str) -> None:
    """Show the origin of a path: commit, run, step, gates and inputs.

    Args:
        path (PATH[:REF]): A path, as in output/05:00/a or output/05:00/a:v1.
    """
    why, ref = _find(session.repository, path)
    shape = {"path": why.path, "ref": ref, **shape_of(why)}
    session.out.show(shape, *field_lines(_fields(why, ref)))


def _find(repository: "Repository", text: str) -> tuple["Why", str]:
    """Return the provenance of the path, and its ref.

    A path may have colons. The whole text is first tried as a path. Then the part after the last
    colon, or before the first one, is tried as a ref.
    """
    default = repository.stores.default_branch
    path, _, ref = text.rpartition(":")
    first, _, rest = text.partition(":")
    missing: ObjectNotFoundError | None = None
    for candidate, at in ((text, default), (path, ref), (rest, first)):
        if not (candidate and at):
            continue
        try:
            return repository.why(candidate, at), at
        except ObjectNotFoundError as error:
            missing = missing or error
        except (RefNotFoundError, InvalidInputError):
            continue
    raise missing or ObjectNotFoundError(f"nothing at {text!r} in {default!r}")


def _now(why: "Why") -> str:
    """Return the fate of the attempt, and the state of the run's latest attempt."""
    if why.run is None:
        return "its record is gone"
    publish, state = why.publish, why.run.state
    fate = "" if publish is None or state == "ROLLED_BACK" else _fate(publish)
    if why.run.attempt == why.attempt:
        return f"now {state}{fate}"
    word = "" if publish is None else f"PUBLISHED{fate}; "
    return f"{word}attempt {why.run.attempt} is {state} now"


def _fate(publish: "Publish") -> str:
    if publish.lost:
        return f", {publish.into} has lost it"
    return f", rolled back by {publish.rollback[:12]}" if publish.rollback else ""


def _fields(why: "Why", ref: str) -> Iterator[tuple[str, str]]:
    kind = "  (folder)" if why.is_folder else "  (deleted)" if why.entry is None else ""
    yield "path", f"{ref}:{why.path}{kind}"
    title = next(iter(why.commit.message.splitlines()), "")
    yield "commit", f"{why.commit.id[:12]}  {title}"
    by = f"{why.commit.committer}, " if why.commit.committer else ""
    yield "at" if not by else "by", f"{by}{why.commit.created:%Y-%m-%d %H:%M:%S} UTC"
    if why.made.id != why.commit.id:
        yield "made in", why.made.id[:12]
    if why.key:
        yield "run", f"{why.key}, attempt {why.attempt} ({_now(why)})"
    if why.step:
        yield "step", f"{why.step}, try {why.try_number}"
    if why.origin is not None:
        yield from why.origin.metadata().items()
    verdicts = {verdict.gate: verdict for verdict in why.verdicts}
    for gate in why.gates:
        verdict = verdicts.get(gate)
        passed = verdict is None or verdict.passed
        yield "gate", gate + (": passed" if passed or verdict is None else f": {verdict.reason}")
    for read in why.inputs:
        yield "read", f"{read.commit[:12]}:{read.prefix}"
    if why.is_folder:
        yield "earlier", f"graveler log {ref} {why.path} --first-parent"

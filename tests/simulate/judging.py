"""Collect the evidence of a run that has ended, and judge it."""

from collections.abc import Iterable
from contextlib import suppress

from graveler.committed.metarange import EMPTY_METARANGE
from graveler.errors import ExpiredError, GravelerError
from graveler.lake.repository import Repository
from graveler.model import BranchRecord
from tests.simulate.checkers import verdict
from tests.simulate.evidence import CommitFacts, Evidence
from tests.simulate.scenarios.scenario import Scenario
from tests.simulate.scenarios.shared import OBJECTS
from tests.simulate.schedules.client import Client, contents
from tests.simulate.schedules.run import Run

_RECOVERY = 60


def judge(scenario: Scenario, run: Run) -> str:
    """Return what is wrong with a run that has ended, or "".

    Before the judgement, a new process lists and commits every branch, as the next user would.
    """
    for process in run.processes:
        if process.failure is not None:
            return f"{process.name} failed: {process.failure!r}"
    try:
        evidence = gather(scenario, run)
    except GravelerError as error:
        return f"what is left cannot be read: {error!r}"
    return verdict(evidence, scenario.checkers)


def gather(scenario: Scenario, run: Run) -> Evidence:
    """Return the evidence of the run."""
    run.world.later()
    process = run.world.process(_RECOVERY, "recovery")
    repository = run.world.open(process)
    client = Client(process, repository)
    scenario.finish(client)
    names = [record.name for record in repository.branches(hidden=True)]
    operations = run.world.history.operations
    for name in names:
        client.list(name)
        client.commit(name)
        if isinstance(
            operations[-1].error, ExpiredError
        ):  # the commit withdrew the writes that a dead borrower had staged
            client.list(name)
            client.commit(name)
    records = {record.name: record for record in repository.branches(hidden=True)}
    history = run.world.history
    told = [op.result for op in history.operations if op.kind in _MAKERS and op.ok]
    told += [op.head for op in history.operations if op.head]
    heads = {name: record.commit_id for name, record in records.items()}
    return Evidence(
        operations=history.operations,
        commits=_commits(repository, heads.values(), told),
        heads=heads,
        sealed={name: record.sealed_tokens for name, record in records.items()},
        orphans=_orphans(run, repository, records.values()),
        broken=[*run.watch.broken, *_missing(run, repository, heads)],
        struck=run.struck,
        allowed=scenario.errors,
    )


_MAKERS = frozenset({"commit", "commit_paths", "merge", "revert"})


def _missing(run: Run, repository: Repository, heads: Iterable[str]) -> list[str]:
    """Return the uploaded files that a branch names and that do not exist."""
    return [
        f"{name}: {entry.path} is at {entry.address}, and there is nothing"
        for name in heads
        for entry in repository.branch(name).entries()
        if entry.metadata and run.world.shared.find(OBJECTS, entry.address.encode()) is None
    ]


def _orphans(run: Run, repository: Repository, records: Iterable[BranchRecord]) -> list[str]:
    named = {token for r in records for token in (r.staging_token, *r.sealed_tokens)}
    named |= {token for r in records for dropped in r.dropped for token in dropped.tokens}
    lives = repository.stores.refs.moves.all_lives().values()
    named |= {token for each in lives for life in each for token in life.staged}
    staged = (name for name in run.world.shared.partitions if name.startswith("staging:"))
    return [token for name in staged if (token := name.rpartition(":")[2]) not in named]


def _commits(
    repository: Repository, heads: Iterable[str], told: Iterable[str]
) -> dict[str, CommitFacts]:
    """Return the facts of all reachable commits, and of returned commits that still exist."""
    found: dict[str, CommitFacts] = {}
    pending = list(heads)
    while pending:
        identifier = pending.pop()
        if identifier not in found:
            try:
                found[identifier] = _facts(repository, identifier)
            except ExpiredError:  # of an ancestor
                commit = repository.stores.refs.commits.get(identifier)
                found[identifier] = CommitFacts(commit.parents, {}, commit.message)
            pending += found[identifier].parents
    for identifier in told:
        if identifier not in found:
            with suppress(ExpiredError):
                found[identifier] = _facts(repository, identifier)
    return found


def _facts(repository: Repository, identifier: str) -> CommitFacts:
    commit = repository.stores.refs.commits.get(identifier)
    tree = {}
    if commit.metarange != EMPTY_METARANGE:
        tree = contents(repository.ref(identifier).entries())
    return CommitFacts(commit.parents, tree, commit.message)

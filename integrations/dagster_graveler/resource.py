"""The repository as a Dagster resource, which finds the graveler run of a Dagster context."""

import atexit
import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from threading import Lock
from typing import Any, Self, TypeGuard

import dagster as dg
from dagster import DagsterRun, OutputContext
from pydantic import ConfigDict, ModelWrapValidatorHandler, model_validator

from dagster_graveler.context import (
    MAIN,
    Identity,
    RunContext,
    StepContext,
    identity_of,
    makes_all,
    output_name,
    run_metadata,
    run_of,
    step_metadata,
    step_of,
    window_metadata,
)
from dagster_graveler.guards import check_resume, skips_steps
from dagster_graveler.materializations import check_dependencies, find_run, run_marks
from dagster_graveler.pipes import pack, start_step
from dagster_graveler.settings import NO_INPUT, Checks, check_settings
from graveler.base.arguments import choice, text
from graveler.base.names import check_branch, check_repository
from graveler.base.privacy import is_uri
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.lake import Ref, Repository, Run, RunRecord, RunState, Step
from graveler_common.lakes import shared_lake
from graveler_common.settings import kv_uri, lake_settings, settings_location

_MOST_RUNS = 64
_log = logging.getLogger(__name__)
_runs: dict[tuple[str, str], tuple[Run, ExitStack]] = {}
_lock = Lock()


class GravelerS3(dg.Config):
    """Settings of S3; empty ones come from the AWS settings of the process.

    Attributes:
        endpoint_url: Endpoint of a store other than AWS.
        region: Name of the region.
        access_key: Id of the key.
        secret_key: The key itself.
        session_token: Session token of temporary keys.
        role_arn: A role to assume, with these keys or those of the process.
        external_id: The external id that the role requires, if any.
        path_style: ``true`` puts the bucket into the path, ``false`` into the host name.
    """

    model_config = ConfigDict(extra="forbid", **NO_INPUT)

    endpoint_url: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = ""
    session_token: str = ""
    role_arn: str = ""
    external_id: str = ""
    path_style: str = ""


def _positive(value: Any, name: str) -> None:
    if isinstance(value, int | float) and value <= 0:
        raise InvalidInputError(f"{name}={value}: give a number above 0")


def _page_of_commit(value: str, name: str) -> None:
    if value and "{commit}" not in value:
        raise InvalidInputError(f"{name}={value!r}: write {{commit}} for the commit's id")
    _web(value, name)
    try:
        value.format(repository="flights", commit="0")
    except (LookupError, AttributeError, ValueError) as error:
        raise InvalidInputError(
            f"{name}={value!r} cannot be filled in ({error}): use {{repository}} and {{commit}}"
        ) from error


def _web(value: str, name: str) -> None:
    # Dagster's pages link to it, and a browser would run an address that begins with `javascript:`
    if value and not value.startswith(("http://", "https://")):
        raise InvalidInputError(f"{name}={value!r}: give what begins with http:// or https://")


_CHECKS: Checks = {
    "lake": text,
    "repository": lambda value, _: check_repository(value),
    "into": lambda value, name: check_branch(text(value, name)),
    "on_failure": lambda value, name: choice(value, name, ("park", "drop")),
    "lease_seconds": _positive,
    "ttl_days": _positive,
    "ui": _web,
    "commit_url": _page_of_commit,
}


class GravelerResource(dg.ConfigurableResource):  # type: ignore[type-arg] # it has no value but itself
    """A repository of a lake, for assets, checks and sensors.

    It has no state. The id of the Dagster run identifies its graveler run, so every step finds the
    same branch in any process.

    Attributes:
        lake: The lake's folder, or a ``graveler.toml``; or the URI of a key-value store
            (``postgresql://host/database``) without a password. The next six belong to such a URI.
        user: The user of the database.
        password: Its password, not encoded; give a ``dg.EnvVar``, which Dagster shows only by name.
        storage: The object store of new repositories: ``s3://bucket/prefix``.
        s3: Keys, region and endpoint of S3.
        cache: Folder for the cache; by default in the user's cache folder.
        no_progress_seconds: Seconds after which a call on a store without progress ends.
        repository: Name of the repository.
        into: The branch that runs publish to.
        ui: The address of Dagster's web server; commits then link to their runs.
        lease_seconds: How long a run may be silent before it counts as dead. A process that works
            in a run renews the lease.
        ttl_days: How long a parked run is kept.
        on_failure: ``park`` keeps the commits of a failed run for the next one, ``drop`` does not.
        commit_url: The address of a commit's page, with ``{repository}`` and ``{commit}``;
            Dagster's pages then link to it.
    """

    model_config = NO_INPUT

    lake: str
    repository: str
    into: str = MAIN
    lease_seconds: float = 900
    ttl_days: float = 14
    on_failure: str = "park"
    ui: str = ""
    commit_url: str = ""
    user: str = ""
    password: str = ""
    storage: str = ""
    s3: GravelerS3 = GravelerS3()
    cache: str = ""
    no_progress_seconds: float | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, given: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        made = make(check_settings(cls, given, _CHECKS))
        if not any(isinstance(given.get(name), dg.EnvVar) for name in ("lake", "user", "storage")):
            made._settings(dict.fromkeys(made._s3(), "known in the run"))
        return made

    @property
    def location(self) -> str:
        """The lake's location, for ``graveler.open`` in this process; it holds no secret.

        Raises:
            InvalidInputError: The settings contradict each other.
        """
        settings = self._settings(self._s3())
        return self.lake if settings is None else settings_location(settings)

    def _s3(self) -> Mapping[str, str]:
        return {name: value for name, value in self.s3.model_dump().items() if value}

    def _settings(self, s3: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the settings of a lake of servers; None for a folder or a ``graveler.toml``."""
        limit = self.no_progress_seconds
        cache, limits = {"folder": self.cache}, {"no_progress_seconds": limit}
        if is_uri(self.lake):
            return lake_settings(
                kv_uri(self.lake, self.user, self.password, what="the lake"),
                self.storage,
                s3=s3,
                cache=cache if self.cache else {},
                limits=limits if limit is not None else {},
                what=f"the resource of repository {self.repository!r}",
            )
        names = ("user", "password", "storage", "cache", "no_progress_seconds")
        if given := [*(name for name in names if getattr(self, name)), *s3]:
            raise InvalidInputError(
                f"{', '.join(given)} belong to a lake that is the URI of a key-value store; the "
                f"lake at {self.lake} has them in its graveler.toml"
            )
        return None

    def repo(self) -> Repository:
        """Return the repository.

        Raises:
            BackendUnavailableError: There is no lake, or it cannot be reached now.
            RepositoryNotFoundError: The lake has no such repository.
        """
        return shared_lake(self.location).repository(self.repository)

    def run_key(self, context: RunContext) -> str:
        """Return the key of the graveler run of a Dagster run: job, partition and target."""
        return identity_of(context, self.into).key

    def run(self, context: RunContext) -> Run:
        """Return the graveler run of the Dagster run of `context`.

        The first step opens it, the others attach to the same attempt. A Dagster run that executes
        all steps starts from the target's present head; a re-execution that skips some resumes from
        the commits of the earlier one.

        Raises:
            FencedError: The Dagster run is over, or a newer one has superseded it.
            RunStateError: The run belongs to another code location, or the Dagster run skips
                steps whose work is no longer on the branch.
        """
        dagster_run, identity = run_of(context), identity_of(context, self.into)
        try:
            run = self.repo().runs.open_or_attach(
                identity.key,
                owner=identity.owner,
                into=self.into,
                fresh=self._starts_afresh(context, identity),
                metadata={**run_metadata(context, ui=self.ui), **window_metadata(context)},
                on_failure=self.on_failure,
                lease=timedelta(seconds=self.lease_seconds),
                ttl=timedelta(days=self.ttl_days),
                accepts=lambda record: check_resume(record, context, identity),
            )
        except RefNotFoundError as error:
            raise self.explained(error) from error
        if isinstance(context, DagsterRun):
            return run  # a sensor does not work in the run
        return _shared_run(run, step_of(context).instance, dagster_run.run_id)

    def _starts_afresh(self, context: RunContext, identity: Identity) -> bool:
        """Return whether a new attempt starts from the target's head, not from earlier work."""
        run = run_of(context)
        if isinstance(context, DagsterRun) or not makes_all(run):
            return False
        if skips_steps(step_of(context).instance, run):
            return False
        record = find_run(self.repo(), identity.key) if identity.backfill else None
        return record is None or record.owner != identity.owner

    def step(self, context: StepContext | OutputContext, name: str = "") -> Step:
        """Return a step of the run, to write in; use it in a ``with`` block.

        Leaving the block commits; a retry replaces the work of the earlier try.

        Args:
            context: The context of the asset, op, check or output.
            name: The name of the step, for a function with several steps; all tries share it.

        Raises:
            InvalidInputError: The try already has a step of that name, which this one would undo.
        Failure: Only the branch of another run, or a later commit of the target, has an asset
            that this one names in `deps`.
        """
        run = self.run(context)
        run.renew()  # records the inputs
        if _is_in_asset(context):
            check_dependencies(self, context, run, loaded=False)
        if isinstance(context, dg.AssetExecutionContext) and context.has_assets_def:
            for key in context.selected_asset_keys:
                step_of(context).add_asset_metadata(run_marks(run), key)
        return start_step(
            run,
            _step_name(context, name),
            try_number=step_of(context).previous_attempt_count + 1,
            metadata=step_metadata(context, ui=self.ui),
        )

    def undo(self, context: OutputContext, folders: Iterable[str] = ()) -> None:
        """Undo the writes of an earlier try or run of the same key for an output.

        Args:
            context: The context of the output.
            folders: Folders of the output. What other runs have written there for it is removed.
        """
        identity = identity_of(context, self.into)
        record = find_run(self.repo(), identity.key)
        if record is None and not folders:
            return  # no step has written
        if (
            record is not None
            and record.state is RunState.PUBLISHED
            and record.owner == identity.owner
        ):
            return  # outputs after the publish wrote nothing
        mine = record is not None and record.owner == identity.owner and record.branch
        old = self.outputs(context, folders, mine or "")
        if record is None and not old:
            return
        step = self.step(context)
        if step.earlier is None and not old:
            step.discard()
            return
        with step:  # joining without changes undoes the earlier work
            step.delete_many(path for path in old if step.exists(path))

    def outputs(
        self, context: OutputContext, folders: Iterable[str], branch: str = ""
    ) -> list[str]:
        """Return the files of folders that an IO manager has written for the asset.

        Args:
            context: The context of the output.
            folders: The folders.
            branch: The branch; "" for the target.
        """
        view = self.repo().ref(branch or self.into)
        asset, output = context.asset_key.to_user_string(), f":{output_name(context)}"

        def is_own(path: str) -> bool:
            why = self.repo().runs.why(path, view.commit.id)
            return why.step.endswith(output) and why.made.metadata.get("dagster.asset") == asset

        entries = (entry for folder in folders for entry in view.entries(folder))
        return [entry.path for entry in entries if is_own(entry.path)]

    def extras(self, context: StepContext, name: str = "") -> dict[str, Any]:
        """Return the extras with which a Pipes program writes in a step of the run.

        The program opens the step with ``dagster_graveler.pipes.open_graveler_step``.

        Args:
            context: The context of the asset or op.
            name: The name of the step, for a function that starts several programs.
        """
        run = self.run(context)
        return pack(
            run.handle,
            _step_name(context, name),
            try_number=step_of(context).previous_attempt_count + 1,
            metadata=step_metadata(context, ui=self.ui),
            inputs=check_dependencies(self, context, run) if _is_in_asset(context) else {},
        )

    def view(self, context: RunContext) -> Run | Ref:
        """Return the view that steps of a Dagster run read: its branch, or its published commit."""
        run = self.run(context)
        record = run.record
        if record.state is RunState.PUBLISHED:
            return self.repo().ref(record.commit)
        if _is_in_asset(context):
            check_dependencies(self, context, run)
        return run

    def at(self, ref: str = "") -> Ref:
        """Return a view of the commit that a ref names now; it does not show later commits.

        Args:
            ref: A ref expression, such as ``main~1``; by default the target.
        """
        try:
            return self.repo().ref(ref or self.into)
        except RefNotFoundError as error:
            raise self.explained(error) from error

    def explained(self, error: RefNotFoundError) -> RefNotFoundError:
        """Return an error about a missing branch; for a missing target it says what to do."""
        try:
            self.repo().branch(self.into)
        except RefNotFoundError:
            return RefNotFoundError(
                f"repository {self.repository!r} has no branch {self.into!r}, which runs publish to: "
                f"`graveler undo {self.into}` brings it back if it was dropped, "
                f"`graveler branch create {self.into}` makes it"
            )
        return error

    def links(self, commit: str) -> Mapping[str, Any]:
        """Return the addresses of a commit, for Dagster's metadata."""
        links: dict[str, Any] = {
            "graveler/address": dg.MetadataValue.path(f"grav://{self.repository}/{commit}/")
        }
        if self.commit_url:
            page = self.commit_url.format(repository=self.repository, commit=commit)
            links["graveler/page"] = dg.MetadataValue.url(page)
        return links

    def record(self, context: RunContext) -> RunRecord | None:
        """Return the record of the Dagster run's attempt; None if it has none or is superseded."""
        identity = identity_of(context, self.into)
        record = find_run(self.repo(), identity.key)
        return record if record is not None and record.owner == identity.owner else None


def _is_in_asset(
    context: object,
) -> TypeGuard[dg.AssetExecutionContext | dg.OpExecutionContext]:
    """Return whether a context is that of an asset, or of an op in the graph of one."""
    kinds = dg.AssetExecutionContext | dg.OpExecutionContext
    return isinstance(context, kinds) and context.has_assets_def


def _step_name(context: StepContext | OutputContext, name: str) -> str:
    key = step_of(context).step.key
    full = f"{key}.{name}" if name else key
    return f"{full}:{output_name(context)}" if isinstance(context, OutputContext) else full


def _shared_run(run: Run, instance: dg.DagsterInstance, run_id: str) -> Run:
    """Return this process's object for the same attempt, and keep its lease renewed.

    Dagster calls IO managers and assets one after the other, each with its own context. The next
    write stores their inputs with the run, so all of them share one run object. Its lease is
    renewed until Dagster considers its own run finished, because an asset may compute for hours
    before it writes.
    """

    def is_finished() -> bool:
        try:
            dagster_run = instance.get_run_by_id(run_id)
        except Exception:  # noqa: BLE001 - a storage of Dagster may raise anything
            _log.exception("run %s: cannot read from Dagster whether its run is over", run.key)
            return True
        return dagster_run is None or dagster_run.is_finished

    key = run.handle.fence, run_id  # the Dagster runs of a backfill may share an attempt
    with _lock:
        if key not in _runs:
            while len(_runs) >= _MOST_RUNS:
                _runs.pop(next(iter(_runs)))[1].close()
            renewals = ExitStack()
            renewals.enter_context(run.renewing(until=is_finished))
            _runs[key] = run, renewals
        return _runs[key][0]


def forget_runs() -> None:
    """Stop renewing all leases."""
    with _lock:
        for _, renewals in _runs.values():
            renewals.close()
        _runs.clear()


atexit.register(forget_runs)

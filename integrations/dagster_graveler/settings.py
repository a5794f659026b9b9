"""The settings of a lake in Dagster, and the check of settings when a resource is made."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import dagster as dg
from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from dagster_graveler.context import MAIN
from graveler.base.arguments import choice, text
from graveler.base.names import check_branch, check_repository
from graveler.base.privacy import is_uri
from graveler.errors import InvalidInputError
from graveler_common.settings import kv_uri, lake_settings, settings_location

SETTINGS = ConfigDict(
    extra="forbid",
    hide_input_in_errors=True,  # Pydantic's errors would show all settings, passwords too
    use_attribute_docstrings=True,
)

Checks = Mapping[str, Callable[[Any, str], object]]
"""For each setting, a function of its value and name that may raise InvalidInputError."""


def check_settings(given: Any, checks: Checks) -> Any:
    """Return the given settings; the run checks those in a ``dg.EnvVar``, as it makes them again."""
    for name in checks.keys() & given.keys():
        if not isinstance(given[name], dg.EnvVar | Mapping):
            checks[name](given[name], name)
    return given


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
    "ui": _web,
    "commit_url": _page_of_commit,
}


class GravelerS3(dg.Config):
    """Settings of S3; empty ones come from the AWS settings of the process."""

    model_config = SETTINGS

    endpoint_url: str = ""
    """Endpoint of a store other than AWS."""
    region: str = ""
    """Name of the region."""
    access_key: str = ""
    """Id of the key."""
    secret_key: str = ""
    """The key itself."""
    session_token: str = ""
    """Session token of temporary keys."""
    role_arn: str = ""
    """A role to assume, with these keys or those of the process."""
    external_id: str = ""
    """The external id that the role requires, if any."""
    path_style: str = ""
    """``true`` puts the bucket into the path, ``false`` into the host name."""


class LakeSettings(dg.ConfigurableResource):  # type: ignore[type-arg] # it has no value but itself
    """The settings of a repository of a lake, and of the runs in it."""

    model_config = SETTINGS

    lake: str
    """The lake's folder, or a ``graveler.toml``; or the URI of a key-value store
    (``postgresql://host/database``) without a password."""
    repository: str
    """Name of the repository."""
    into: str = MAIN
    """The branch that runs publish to."""
    lease_seconds: float = Field(default=900, gt=0)
    """How long a run may be silent before it counts as dead. A process that works in a run renews
    the lease."""
    ttl_days: float = Field(default=14, gt=0)
    """How long a parked run is kept."""
    on_failure: str = "park"
    """``park`` keeps the commits of a failed run for the next one, ``drop`` does not."""
    ui: str = ""
    """The address of Dagster's web server; commits then link to their runs."""
    commit_url: str = ""
    """The address of a commit's page, with ``{repository}`` and ``{commit}``; Dagster's pages then
    link to it."""
    user: str = ""
    """The user of the database, if the lake is a URI."""
    password: str = ""
    """Its password, not encoded; give a ``dg.EnvVar``, which Dagster shows only by name."""
    storage: str = ""
    """The object store of new repositories, if the lake is a URI: ``s3://bucket/prefix``."""
    s3: GravelerS3 = GravelerS3()
    """Keys, region and endpoint of S3, if the lake is a URI."""
    cache: str = ""
    """Folder for the cache, if the lake is a URI; by default in the user's cache folder."""
    no_progress_seconds: float | None = None
    """Seconds after which a call on a store without progress ends, if the lake is a URI."""

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, given: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        made = make(check_settings(given, _CHECKS))
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
        if is_uri(self.lake):
            return lake_settings(
                kv_uri(self.lake, self.user, self.password, what="the lake"),
                self.storage,
                s3=s3,
                cache={"folder": self.cache} if self.cache else {},
                limits={} if limit is None else {"no_progress_seconds": limit},
                what=f"the resource of repository {self.repository!r}",
            )
        names = ("user", "password", "storage", "cache", "no_progress_seconds")
        if given := [*(name for name in names if getattr(self, name)), *s3]:
            raise InvalidInputError(
                f"{', '.join(given)} belong to a lake that is the URI of a key-value store; the "
                f"lake at {self.lake} has them in its graveler.toml"
            )
        return None

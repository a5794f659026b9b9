"""The check of the results of dbt models and tests in ``run_results.json``."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graveler.base.arguments import count
from graveler.base.bounded import check_json
from graveler.errors import InvalidInputError
from graveler.gates.candidate import Candidate
from graveler.gates.checks.base import Rule, built_in, of_files
from graveler.gates.declaration import shortened
from graveler.model import Entry

_FILE = "run_results.json"
_RUN = "GRAVELER_RUN"
"""The field of the run: dbt records each variable ``DBT_ENV_CUSTOM_ENV_<name>`` of its process."""

_PASSED = frozenset({"success", "pass", "warn", "no-op"})
_TESTS = frozenset({"test", "unit_test"})
_SHOWN = 64
_MESSAGE = 300
_NAME = 2
"""Position of the name in an id: ``test.<package>.<name>.<hash>``."""


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of one node of a dbt project."""

    id: str
    status: str
    message: str

    @property
    def is_test(self) -> bool:
        return self.id.partition(".")[0] in _TESTS

    @property
    def passed(self) -> bool:
        return self.status in _PASSED

    @property
    def name(self) -> str:
        parts = self.id.split(".")
        return parts[_NAME] if len(parts) > _NAME else self.id

    @property
    def text(self) -> str:
        message = " ".join(self.message.split()) if self.status != "success" else ""
        return f"{self.status}: {shortened(message, _MESSAGE)}" if message else self.status


@built_in
def dbt_results(
    prefix: str, *, tests_at_least: int = 1, missing: str = "refuse", **options: Any
) -> Rule:
    """Every dbt model and test succeeded, according to ``run_results.json`` on the branch.

    The step that runs dbt puts the file from dbt's target folder below the prefix. The check reads
    each such file that the run adds or replaces. A run without such a file is refused. A file that
    dbt wrote in a step of another run is stale and is refused, as is one of more than 32 MiB. A test
    of severity ``warn`` passes. The verdict lists at most 64 models and tests, the failed ones first.
    Cost: these files.

    Args:
        prefix: Start of the paths, such as ``dbt/``.
        tests_at_least: How many tests must have run.
        missing: ``refuse`` or ``allow``: what to do with a run that adds no such file.
    """
    count(tests_at_least, "tests_at_least")

    def check(candidate: Candidate, entries: list[Entry]) -> str | list[str] | None:
        files = [entry for entry in entries if entry.path.rpartition("/")[2] == _FILE]
        if not files:
            return None if missing == "allow" else nothing(candidate)
        results: list[_Result] = []
        problems: list[str] = []
        for entry in files:
            try:
                check_json(entry.size)
                results += _read(candidate.get(entry), candidate.run.key)
            except InvalidInputError as error:
                problems.append(f"{entry.path!r} {error}")
        tests = sum(result.is_test and result.status != "skipped" for result in results)
        candidate.report(tests=tests, results=_rows(results))
        problems += [
            f"{result.name}: {result.text}" for result in _sorted(results) if not result.passed
        ]
        if tests < tests_at_least:
            problems.append(
                f"{tests} tests ran: expected at least {tests_at_least}: use `dbt build`"
            )
        return problems

    def nothing(_: Candidate) -> str:
        return (
            f"the run brings no {_FILE} below {prefix!r}: let the step put the one of dbt's target "
            f"folder there, as `graveler put target/{_FILE} :{prefix}`"
        )

    reads = ("changes", "run")
    return of_files(check, prefix, "changes", missing, nothing=nothing, reads=reads)


def _read(raw: bytes, run: str) -> Iterator[_Result]:
    try:
        artifact = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"cannot be read as JSON: {error}") from error
    results = artifact.get("results") if isinstance(artifact, Mapping) else None
    if not isinstance(results, list):
        raise InvalidInputError("has no list of results: put the run_results.json that dbt writes")
    _check_fresh(artifact, run)
    for result in results:
        fields = result if isinstance(result, Mapping) else {}
        unique_id, status = fields.get("unique_id"), fields.get("status")
        if not isinstance(unique_id, str) or not isinstance(status, str):
            raise InvalidInputError(f"has a result without unique_id and status: {result!r:.80}")
        yield _Result(unique_id, status, str(fields.get("message") or ""))


def _check_fresh(artifact: Mapping[str, Any], run: str) -> None:
    """Refuse a file that an earlier run of dbt left in the target folder."""
    metadata = artifact.get("metadata")
    variables = metadata.get("env") if isinstance(metadata, Mapping) else None
    writer = variables.get(_RUN) if isinstance(variables, Mapping) else None
    if run and writer is not None and writer != run:
        raise InvalidInputError(
            f"is stale: dbt wrote it in run {writer!r:.200}, and has written none in this run: delete "
            "it before dbt starts, or give each run a DBT_TARGET_PATH of its own"
        )


def _sorted(results: Iterable[_Result]) -> list[_Result]:
    """Return results that failed, were skipped, warn, and passed, in this order; tests first."""
    return sorted(
        results,
        key=lambda result: (
            result.passed,
            result.status == "skipped",
            result.status != "warn",
            not result.is_test,
        ),
    )


def _rows(results: list[_Result]) -> dict[str, str]:
    names = [result.name for result in results]
    return {
        result.name if names.count(result.name) == 1 else result.id: result.text
        for result in _sorted(results)[:_SHOWN]
    }

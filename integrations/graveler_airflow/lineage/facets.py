"""The datasets and facets of OpenLineage for the reads and writes of a task."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    base_subset_dataset,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    tags_run,
)

from graveler.errors import GravelerError
from graveler.frames.footers import Footer, read_footer
from graveler.gates import Candidate
from graveler.lake import Ref, Repository
from graveler.model import ChangeKind, Entry
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lineage.naming import (
    dataset_name,
    external,
    folder_of,
    namespace,
    unpublished,
)
from graveler_airflow.lineage.work import Part, TaskWork
from graveler_common.lakes import open_lake

_log = logging.getLogger(__name__)

_MOST_FILES = 20_000
"""Airflow ends the process that sends an event after ten seconds."""
_MOST_FOOTERS = 32
_FACETS: dict[str, tuple[Any, Any]] = {
    "input": (
        base_subset_dataset.InputSubsetInputDatasetFacet,
        input_statistics_input_dataset.InputStatisticsInputDatasetFacet,
    ),
    "output": (
        base_subset_dataset.OutputSubsetOutputDatasetFacet,
        output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    ),
}


@dataclass(slots=True)
class _Dataset:
    """A dataset of one event: the files of some folders of a commit, without deleted ones."""

    namespace: str
    name: str
    version: str
    folders: set[str] = field(default_factory=set)
    entries: dict[str, Entry] = field(default_factory=dict)
    footers: dict[str, Footer] = field(default_factory=dict)
    complete: bool = True

    def facets(self) -> dict[str, Any]:
        """Return the version, and the schema of Parquet files."""
        version = dataset_version_dataset.DatasetVersionDatasetFacet(self.version)
        if not self.footers:
            return {"version": version}
        *_, latest = self.footers.values()
        fields = [
            schema_dataset.SchemaDatasetFacetFields(name, kind)
            for name, kind in latest.fields.items()
        ]
        return {"version": version, "schema": schema_dataset.SchemaDatasetFacet(fields)}

    def use(self, kind: str) -> dict[str, Any]:
        """Return which folders were read or written, and how many rows, bytes and files, if known."""
        subset, counts = _FACETS[kind]
        tree = f"{self.namespace}/{self.version}"
        folders = [f"{tree}/{folder}" for folder in sorted(self.folders)]
        facets = {"subset": subset(base_subset_dataset.LocationSubsetCondition(folders))}
        if self.complete:
            rows = [footer.rows for footer in self.footers.values()]
            facets[f"{kind}Statistics"] = counts(
                rowCount=None if len(rows) < len(self.entries) else sum(rows),
                size=sum(entry.size for entry in self.entries.values()),
                fileCount=len(self.entries),
            )
        return facets


def lineage_of(work: TaskWork) -> OperatorLineage[Any, Any]:
    """Return the lineage of a task: datasets with commits as versions, and tags of its run."""
    tags = [
        tags_run.TagsRunFacetFields(key, value, "GRAVELER")
        for key, value in sorted(work.tags.items())
    ]
    return OperatorLineage(
        inputs=[
            *(InputDataset(*external(uri)) for uri in work.links),
            *(_input(dataset, work) for dataset in _datasets(work.inputs)),
        ],
        outputs=[
            OutputDataset(made.namespace, made.name, made.use("output"), facets=made.facets())
            for made in _datasets(work.outputs)
        ],
        run_facets={"tags": tags_run.TagsRunFacet(tags)} if tags else {},
    )


def _input(dataset: _Dataset, work: TaskWork) -> InputDataset:
    facets = dataset.use("input")
    assertions = [
        data_quality_assertions_dataset.Assertion(
            assertion=verdict.gate,
            success=verdict.passed,
            severity=verdict.severity,
            description=verdict.reason or None,
        )
        for verdict, prefix in work.judgements
        if any(folder.startswith(prefix) for folder in dataset.folders)
    ]
    if assertions:
        facets["dataQualityAssertions"] = (
            data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions)
        )
    return InputDataset(dataset.namespace, dataset.name, facets, facets=dataset.facets())


def _datasets(parts: Iterable[Part]) -> list[_Dataset]:
    datasets: dict[tuple[str, str, str], _Dataset] = {}
    for part in dict.fromkeys(parts):
        try:
            with open_lake(part.location or GravelerHook(part.conn_id).location) as lake:
                _add(datasets, part, lake.repository(part.repo))
        except GravelerError as error:
            _log.warning(
                "The event has no datasets of commit %s of %r: %s", part.version, part.repo, error
            )
    return [dataset for _, dataset in sorted(datasets.items())]


def _add(
    datasets: dict[tuple[str, str, str], _Dataset], part: Part, repository: Repository
) -> None:
    ref, version, tree = _resolved(part, repository)
    files = list(islice(_files(part, repository, tree), _MOST_FILES + 1))
    touched: dict[tuple[str, str, str], _Dataset] = {}
    for folder, entry in files[:_MOST_FILES]:
        key = (namespace(part.conn_id, part.repo), dataset_name(ref, folder), version)
        dataset = datasets.setdefault(key, _Dataset(*key))
        dataset.folders.add(folder)
        if entry is not None:
            dataset.entries[entry.path] = entry
        touched[key] = dataset
    for dataset in touched.values():
        dataset.complete &= len(files) <= _MOST_FILES
        left = _MOST_FOOTERS - sum(len(other.footers) for other in datasets.values())
        _read_footers(dataset, tree, left)


def _resolved(part: Part, repository: Repository) -> tuple[str, str, Ref]:
    """Return the name for the branch of a part, its version, and the tree with its files."""
    changed = part.in_run and repository.diff(part.version, part.in_run, prefix=part.prefix)
    if changed and next(changed, None) is not None:
        return unpublished(part.ref), part.in_run, repository.ref(part.in_run)
    return part.ref, part.version, repository.ref(part.changes[1] if part.changes else part.version)


def _files(part: Part, repository: Repository, tree: Ref) -> Iterator[tuple[str, Entry | None]]:
    if part.changes is None:
        folder = folder_of(part.prefix)
        for entry in tree.entries(part.prefix):
            yield folder, entry
        return
    for change in repository.diff(*part.changes, prefix=part.prefix):
        gone = change.kind is ChangeKind.REMOVED
        yield folder_of(change.path), None if gone else change.after


def _read_footers(dataset: _Dataset, tree: Ref, most: int) -> None:
    paths = [path for path in dataset.entries if path.endswith(".parquet")]
    new = [path for path in paths if path not in dataset.footers]
    files = Candidate(tree.repository, tree.commit, target=tree.commit, into=tree.name)
    for path in new if len(new) <= most else new[: min(most, 1)]:
        with suppress(GravelerError):  # pyarrow is missing, or the file is not Parquet
            dataset.footers[path] = read_footer(files, dataset.entries[path])

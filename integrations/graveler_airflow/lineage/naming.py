"""Names of OpenLineage datasets: a repository is a namespace, a folder of a branch is a dataset."""

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

DEFAULT_CONNECTION = "graveler_default"
_PARTITION = re.compile(r"[^=]+=.*|\d{1,4}|\d{2}:\d{2}|\d{4}-\d{2}(-\d{2}([T ].*)?)?")
"""Folders of one partition: ``airline=AA``, ``2013``, ``05:00``, ``2013-01-01``."""


def namespace(conn_id: str, repo: str) -> str:
    """Return the namespace of the datasets and assets of a repository, without the default connection."""
    return f"grav://{repo}" if conn_id in ("", DEFAULT_CONNECTION) else f"grav://{conn_id}@{repo}"


def unpublished(into: str) -> str:
    """Return the name for the branch in the names of datasets that a run has not published.

    The branch of a run has another name in each run, but a dataset keeps its name.
    """
    return f"run:{into}"


def dataset_name(ref: str, folder: str) -> str:
    """Return the name of a folder's dataset: folders of one partition are not part of it."""
    return f"{ref}/{without_partitions(folder)}".rstrip("/")


def without_partitions(folder: str) -> str:
    """Return a folder without the folders of one partition at its end."""
    parts = folder.strip("/").split("/")
    while parts and _PARTITION.fullmatch(parts[-1]):
        parts.pop()
    return "/".join(parts)


def folder_of(path: str) -> str:
    """Return the folder of a file, with a slash at its end; for a file at the top, its own path."""
    folder, slash, _ = path.rpartition("/")
    return folder + slash or path


def external(uri: str) -> tuple[str, str]:
    """Return namespace and name of the dataset of a folder in a store, by OpenLineage's naming."""
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return "file", str(PurePosixPath(parts.path))
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"

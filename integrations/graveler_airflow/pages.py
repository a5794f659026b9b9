"""Addresses of pages: Airflow's own, for the metadata of commits, and the plugin's, for tasks."""

from typing import Any
from urllib.parse import quote, urlencode


def _base() -> str:
    """Return the setting ``[api] base_url``, or "" if it is not set: a guess would be wrong."""
    from airflow.sdk.configuration import conf  # noqa: PLC0415 - heavy: only where it is used

    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")


def dag_run_page(dag_id: str, run_id: str) -> str:
    """Return the address of a DAG run in Airflow, or ""."""
    base = _base()
    return f"{base}/dags/{quote(dag_id)}/runs/{quote(run_id)}" if base else ""


def task_page(ti: Any) -> str:
    """Return the address of a task's try in Airflow, or ""."""
    return str(ti.log_url) if _base() else ""


def run_page(dag_id: str, run_id: str) -> str:
    """Return the address of the plugin's page on the graveler runs of a DAG run, or ""."""
    return _plugin("runs", dag_id=dag_id, run_id=run_id)


def commit_page(conn_id: str, repo: str, ref: str) -> str:
    """Return the address of the plugin's page on a commit, or ""."""
    return _plugin("commit", conn=conn_id, repo=repo, ref=ref)


def diff_page(conn_id: str, repo: str, left: str, right: str) -> str:
    """Return the address of the plugin's page on the changes between two refs, or ""."""
    return _plugin("diff", conn=conn_id, repo=repo, left=left, right=right)


def _plugin(page: str, **query: str) -> str:
    base = _base()
    return f"{base}/graveler/{page}?{urlencode(query)}" if base else ""

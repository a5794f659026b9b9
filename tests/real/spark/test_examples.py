"""The code that the pages show runs as it stands."""

import logging
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def logging_as_it_was():
    """Airflow, which a page imports, takes over the root logger with streams of the test's own."""
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("logging_as_it_was")
@pytest.mark.parametrize(
    "page", ["README.md", "docs/guides/getting-started.md", "docs/guides/gates.md"]
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, spark):
    """`spark` is asked for so that the page gets the session of the test run."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    try:
        exec("\n".join(blocks), names)  # noqa: S102 - our own pages
        repo = names["repo"]
        assert repo.runs.list("PUBLISHED")  # type: ignore[attr-defined]
        paths = [entry.path for entry in repo.ref("main").list()]  # type: ignore[attr-defined]
        assert any(path.startswith("output/") for path in paths)
    finally:
        names["lake"].close()  # type: ignore[attr-defined]

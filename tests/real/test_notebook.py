"""The notebook of the examples runs in a kernel, and shows what is stored in it."""

import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/examples/notebook/first-look.ipynb"
KERNEL = {
    "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": "Python 3",
    "language": "python",
}


def shown(notebook):
    """Return the kinds of what each cell shows, and the parts of it that are equal in every lake."""
    return [
        (
            output["output_type"],
            sorted(output.get("data", ())),
            re.findall(r">([a-z ✓✕_]+)<", output.get("data", {}).get("text/html", "")),
            output.get("traceback"),
        )
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """The name of a kernel of this interpreter; what Jupyter keeps is in a temporary folder."""
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("LOGNAME", "ada")  # the committer that is stored
    folder = tmp_path / "JUPYTER_DATA_DIR" / "kernels" / "python3"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(KERNEL))
    return "python3"


@pytest.mark.slow
def test_the_notebook_shows_what_is_stored(kernel, tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = shown(notebook)
    assert sum("text/html" in media for _, media, *_ in stored) > 10
    assert sum("image/svg+xml" in media for _, media, *_ in stored) == 2
    assert [len(lines) <= 10 for _, _, _, lines in stored if lines] == [True]
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name=kernel, timeout=120, resources=place).execute()
    assert shown(notebook) == stored

"""The guide's code runs as it stands."""

import contextlib
import io
import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "fsspec.md"


def test_the_python_of_the_guide_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    outputs = re.findall(r"```\n\n```\n(.*?)```", text, re.DOTALL)
    names: dict[str, object] = {}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec("\n".join(blocks), names)  # noqa: S102 - our own page
    finally:
        names["lake"].close()  # type: ignore[attr-defined]
    assert len(outputs) == 2
    assert printed.getvalue() == "".join(outputs)

"""The Python of the guide runs as it stands."""

import re
from pathlib import Path

from tests.harness.gc_lakes import commit
from tests.harness.worlds import ScriptedWorld

ROOT = Path(__file__).resolve().parents[2]


def test_the_python_of_the_guide_runs():
    repo = ScriptedWorld().repo(scripted=False)
    commit(repo, "main", a="1")
    page = (ROOT / "docs/guides/garbage-collection.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"repo": repo, "print": lambda *_: None}
    exec(block, names)  # noqa: S102 - our own page
    assert [mark.state for mark in repo.gc.marks()] == ["undeleted", "condemned"]

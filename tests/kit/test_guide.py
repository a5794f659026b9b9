"""The guide's tests pass as they stand."""

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "testing.md"


def test_the_tests_of_the_guide_pass(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "test_guide.py").write_text(
        "\n".join(blocks).replace("prepare=yesterday)", "prepare=yesterday, most=20)")
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "5 passed" in done.stdout, done.stdout + done.stderr

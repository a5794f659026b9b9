"""Reads and writes through a real server of Spark Connect."""

import json
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).with_name("connect_client.py")


def test_a_client_of_spark_connect_reads_what_it_writes(tmp_path):
    done = subprocess.run(
        [sys.executable, _CLIENT, tmp_path / "lake"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    plain = [[1, "a"], [2, "b"]]
    assert json.loads(done.stdout) == {
        "in the step": plain,
        "of pandas": plain,
        "published": plain,
        "by the active session": plain,
        "a transaction": [[5, "01"], [6, "01"]],
        "skipped": True,
        "a view": [[5, "01"]],
        "files": [2, 1],
        "the worker has": ["executable", "host", "pyarrow", "python"],
        "days": ["string", [3, "01"], [4, "02"]],
        "mixed": ["string", ["1", "1"], ["2", "one"]],
        "bulk": [500, True],
        "metadata": [True, True, True],
        "streams": [[1], [2], [1, "added"], [2, "added"]],
        "collection": True,
    }

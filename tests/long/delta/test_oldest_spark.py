"""PySpark 4.1 is the oldest version that graveler supports."""

import json


def test_tables_metadata_and_imports_on_pyspark_4_1(program, tmp_path):
    seen = json.loads(program("smoke.py", str(tmp_path / "lake")))
    assert "gateway" in seen.pop("refused")
    assert seen == {
        "pyspark": "4.1.1",
        "rows": [10, 10],
        "odd": 5,
        "entries": True,
        "imported": 10,
    }

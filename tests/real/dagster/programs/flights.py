"""The examples, loaded from their files as Dagster does."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
DAG = ROOT / "dags" / "flights_dagster.py"
ICEBERG = ROOT / "dags" / "iceberg_dagster.py"
WEATHER = ROOT / "dags" / "weather_dagster.py"


def load(path):
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""The demo: real flights from New York in 2013, published hour by hour.

Plain Python, Airflow and Dagster use the same pipeline: ``ingest`` and ``transform`` are
functions of a step, and ``GATES`` are the checks of the tree that main would get.
"""

from graveler.demo.flights import hour_prefix
from graveler.demo.gates import GATES
from graveler.demo.pipeline import ingest, run_hour, run_key, transform
from graveler.demo.story import DemoResult, HourResult, run_demo

__all__ = [
    "GATES",
    "DemoResult",
    "HourResult",
    "hour_prefix",
    "ingest",
    "run_demo",
    "run_hour",
    "run_key",
    "transform",
]

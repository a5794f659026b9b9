"""The demo: real flights out of New York in 2013, published hour by hour.

One pipeline serves plain Python, Airflow and Dagster: ``ingest`` and ``transform`` are
functions of a step, ``GATES`` are the checks on what main would become.
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

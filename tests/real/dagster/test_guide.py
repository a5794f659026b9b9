"""What the guide shows is run as it stands there."""

import re

import dagster as dg

from graveler.spark import read
from tests.real.dagster.flights import ROOT


def test_the_first_example_publishes_an_hour(spark, lake, repo):
    guide = (ROOT / "docs" / "guides" / "dagster.md").read_text("utf-8")
    code = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0].replace("/lakes/flights", lake)
    scope = {"fetch": lambda hour: b"UA,1545\nAA,1141\n"}
    exec(code, scope)  # noqa: S102 - our own page
    job = scope["defs"].resolve_job_def("flights_job")  # type: ignore[attr-defined]
    with dg.DagsterInstance.ephemeral() as instance:
        assert job.execute_in_process(instance=instance, partition_key="2013-01-01-05:00").success
    assert [row[0] for row in read(repo.ref("main"), "totals/", spark=spark).collect()] == [2]
    assert repo.ref("main").exists("input/2013/01/01/05:00/flights.csv")

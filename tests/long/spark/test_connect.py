"""A program whose environment names a Spark Connect server; ``make test-connect`` tests on one."""

import subprocess
import sys

from graveler.config import program_environment
from tests.harness.servers.spark import local_connect_server

PROGRAM = """
import graveler.spark as gs

spark = gs.session(config={"spark.sql.shuffle.partitions": "3"})
assert gs.session() is spark
names = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")
print(type(spark).__module__, *map(spark.conf.get, names), spark.range(5).count())
spark.stop()
"""


def test_a_session_is_of_the_server_that_the_environment_names(tmp_path):
    with local_connect_server(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=program_environment({"SPARK_REMOTE": address}),
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["pyspark.sql.connect.session", "UTC", "3", "5"]

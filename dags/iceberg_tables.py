# The Iceberg tables of iceberg_airflow.py and iceberg_dagster.py. Once: python dags/iceberg_tables.py LAKE
import sys

import pyarrow as pa

import graveler
from graveler.iceberg import GravelerCatalog

HOUR, NAME = pa.timestamp("us", "UTC"), pa.string()
FLIGHTS = {"time_hour": HOUR, "origin": NAME, "carrier": NAME, "flight": pa.int64()}
TABLES = {
    "db.flights": FLIGHTS | {"dest": NAME, "dep_delay": pa.float64()},
    "db.delays": {"time_hour": HOUR, "origin": NAME, "dep_delay_mean": pa.float64()},
}

if __name__ == "__main__":
    with graveler.open(sys.argv[1]) as lake, lake.repository("flights").run("tables") as run:
        catalog = GravelerCatalog.of(run)
        catalog.create_namespace("db")
        for name, columns in TABLES.items():
            # runs of different hours append at once; two runs of one hour are a conflict
            apart = {"graveler.merge": "partition"}
            table = catalog.create_table(name, pa.schema(columns), properties=apart)
            with table.update_spec() as spec:
                spec.add_identity("time_hour")

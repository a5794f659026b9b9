"""Runs SQL in the environment of ``make test-delta``: one statement per line in, JSON out.

The first line of stdin holds the settings of the session. Rows go to stdout. A list is the rows of a
statement, a folder to save them to as a Delta table, and the condition of ``replaceWhere``, if any.
"""

import json
import sys

from pyspark.errors import PySparkException

from graveler import spark as gs


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    with gs.session(master="local[2]", config=settings) as spark:
        for line in sys.stdin:
            try:
                statement, *save = asked if isinstance(asked := json.loads(line), list) else [asked]
                frame = spark.sql(statement)
                if save:
                    folder, where = save
                    writer = frame.write.format("delta").mode("overwrite" if where else "append")
                    (writer.option("replaceWhere", where) if where else writer).save(folder)
                rows = [] if save else frame.collect()
                answer: dict[str, list[object]] = {"rows": [list(row) for row in rows]}
            except PySparkException as error:
                answer = {"error": [str(error)]}
            sys.stdout.write(json.dumps(answer, default=str) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Runs SQL in the environment of ``make test-delta``: one statement per line in, JSON out.

The first line of stdin holds the settings of the session. Rows go to stdout.
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
                answer: dict[str, list[object]] = {
                    "rows": [list(row) for row in spark.sql(json.loads(line)).collect()]
                }
            except PySparkException as error:
                answer = {"error": [str(error)]}
            sys.stdout.write(json.dumps(answer, default=str) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

# mypy: ignore-errors
"""Added to the DAG file: SIGKILL ends the first try of one hour's transform.

The kill comes between the two tables, when the files of the first are written and staged.
"""

import os
import pathlib
import signal

from airflow.sdk import Variable

from graveler.lake import Step


def _dying(write):
    def dies(step, df, path, **options):
        written = write(step, df, path, **options)
        mark = pathlib.Path(Variable.get("marks"), "killed in transform")
        if path == "output/flights/2013/01/01/12:00/" and not mark.exists():
            mark.write_text(written[0].address)
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    return dies


Step.write = _dying(Step.write)

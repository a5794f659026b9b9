"""Takes all pictures of the documentation: ``python -m tests.screenshots [airflow] [dagster] [ui]``."""

import sys

from tests.screenshots import of_airflow, of_dagster, of_pages

_ALL = {"airflow": of_airflow.main, "dagster": of_dagster.main, "ui": of_pages.main}

for name in sys.argv[1:] or _ALL:
    _ALL[name]()

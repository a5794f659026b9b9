"""Imports the package and prints which modules of drivers that loads."""

import sys

import graveler.kv  # noqa: F401 - what it loads is printed

DRIVERS = {"sqlite3", "rocksdict", "sqlalchemy", "psycopg", "pymysql", "boto3"}
print(sorted(DRIVERS & set(sys.modules)))

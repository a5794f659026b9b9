"""Imports the package, and prints which driver modules are loaded."""

import sys

import graveler.kv  # noqa: F401 - the loaded modules are printed

DRIVERS = {"sqlite3", "rocksdict", "sqlalchemy", "psycopg", "pymysql", "boto3"}
print(sorted(DRIVERS & set(sys.modules)))
